"""A reader beside a writer that rolls, closes and reopens all the time, on a real disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jumar.engine.log.audit import audit
from jumar.engine.log.reader import LogReader
from jumar.engine.real_disk import RealDisk

WRITER = """
import sys
from jumar.engine.clock import SystemClock
from jumar.engine.log.claims import this_process
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.engine.real_disk import RealDisk

n = 0
for epoch in range(12):
    log = LogWriter.open(RealDisk(), sys.argv[1], run_id="0" * 32, who=this_process(),
                         clock=SystemClock(), seal_records=9)
    for _ in range(60):
        log.append(Entry("t", 1, {"n": n, "fill": "x" * (n % 50)}), durable=n % 7 == 0)
        n += 1
    log.close()
print(n)
"""


def test_a_reader_beside_a_writer_in_a_hurry_never_sees_damage(tmp_path: Path) -> None:
    root = str(tmp_path / ".jumar")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, root], stdout=subprocess.PIPE, text=True
    )
    ends, seen = set(), [0]
    while writer.poll() is None:
        if not (tmp_path / ".jumar/IDENTITY").exists():
            continue
        for mode in ("tail", "salvage"):
            reader = LogReader(RealDisk(), root, mode=mode)
            numbers = [r.payload["n"] for r in reader if r.type == "t"]
            assert reader.end != "corrupt", reader.findings
            assert numbers == list(range(len(numbers)))
            ends.add(reader.end)
            seen.append(len(numbers))
    out, _ = writer.communicate(timeout=30)

    assert writer.returncode == 0 and out.strip() == "720"
    assert seen == sorted(seen) and len(set(seen)) > 3, "what was seen stays"
    assert "end" in ends
    said = audit(RealDisk(), root, [])
    assert said.findings == () and said.sealed == said.segments > 80
