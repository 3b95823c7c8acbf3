"""Several processes, and one that is killed, over one index file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from jumar.engine.real_disk import RealDisk
from jumar.tools.index.index import Index

OPENING = """
import os, sys
from pathlib import Path
from jumar.engine.real_disk import RealDisk
from jumar.tools.index import build
from jumar.tools.index.index import Index
from jumar.tools.index.store import Store
build.BATCH = 64
root, place = sys.argv[1], Path(sys.argv[2])
"""

REFRESHING = """
for turn in range(25):
    if turn % 5 == 0:
        place.unlink(missing_ok=True)
    index = Index.open(RealDisk(), root, place)
    index.refresh()
    found = index.read(index.find("test.saved"))
    assert [r.payload["done"] for r in found] == list(range(1000)), turn
    index.close()
"""

KILLED = """
add = Store.add
def last(self, rows, head):
    add(self, rows, head)
    if head.size > 500:
        os._exit(9)
Store.add = last
Index.open(RealDisk(), root, place).refresh()
"""


def begun(lab: Any, code: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", OPENING + code, lab.root, str(lab.place)]
    return subprocess.Popen(arguments)


def ended(processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    return [process.wait(timeout=100) for process in processes]


@pytest.fixture
def real(lab: Any, tmp_path: Path) -> Any:
    """A log of a thousand checkpoints in a real directory."""
    real = attrs.evolve(lab, disk=RealDisk(), root=str(tmp_path / "run/.jumar"))
    real.write(*range(1000))
    return real


def test_two_processes_that_refresh_at_once_both_answer_and_leave_one_whole_file(
    real: Any, kit: Any
) -> None:
    assert ended([begun(real, REFRESHING) for _ in range(2)]) == [0, 0]

    assert not [name for name in os.listdir(real.place.parent) if "draft" in name]
    assert Index.open(real.disk, real.root, real.place)._store is not None
    once = attrs.evolve(real, place=real.place.with_name("once.sqlite"))
    once.index()
    assert kit.content(real.place) == kit.content(once.place)


def test_a_process_that_is_killed_at_work_leaves_the_older_file(
    real: Any, kit: Any
) -> None:
    """Its draft stays behind, and the next one takes its place."""
    assert ended([begun(real, KILLED)]) == [9]
    assert not real.place.exists()
    real.index()
    before = kit.content(real.place)
    real.write(1000, 1001)

    assert ended([begun(real, KILLED)]) == [9]
    assert kit.content(real.place) == before
    assert real.place.with_name("index.sqlite.draft").exists()
    assert real.steps(real.index()) == list(range(1002))
    assert not real.place.with_name("index.sqlite.draft").exists()
