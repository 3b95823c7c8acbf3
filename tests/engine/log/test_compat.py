"""Logs of other versions: each format that was ever written, and those yet to come."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import msgpack
import pytest

from jumar.engine.errors import LogDamaged
from jumar.engine.history import History
from jumar.engine.log.audit import audit
from jumar.engine.log.frame import frame
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Entry
from jumar.engine.log.segment import FORMAT, LIFTS, MAGIC, read_header
from jumar.engine.log.writer import LogWriter
from jumar.engine.real_disk import RealDisk
from jumar.reducers import schema
from jumar.reducers.checkpoints import branch, latest
from jumar.reducers.ranking import best
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.life import ROOT, STEPS, Life
from jumar.tools.harness.tamper import files_of
from jumar.tools.harness.world import SimClock, sim_writer
from jumar.tools.views.story import Story

GOLDEN = Path(__file__).parents[2] / "golden"
LOG = f"{ROOT}/.jumar"


def golden(version: int) -> SimDisk:
    """A disk with the log that was kept of a format."""
    disk = SimDisk()
    folder = GOLDEN / f"format-{version}"
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            below = f"{LOG}/{path.relative_to(folder).as_posix()}".rpartition("/")[0]
            disk.foreign_tree(below, {path.name: path.read_bytes()})
    return disk


def test_there_is_a_log_of_each_format_and_a_lift_from_each_older_one() -> None:
    kept = sorted(path.name for path in GOLDEN.iterdir())
    assert kept == [f"format-{n}" for n in range(1, FORMAT + 1)]
    assert sorted(LIFTS) == list(range(1, FORMAT))
    assert schema.missing_upcasters() == []


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_a_log_of_a_format_reads_as_it_did_byte_by_byte(
    version: int,
) -> None:
    disk = golden(version)
    history = History()
    history.catch_up(disk, LOG)
    state = history.state

    reader = LogReader(disk, LOG, mode="strict")  # checks the canonical form as well
    records = list(reader)
    newest = latest(state, "live")
    found = {
        "records": len(records),
        "last_hash": reader.last.hex(),
        "end": reader.end,
        "latest": newest and newest.done,
        "best": [ckpt.done for ckpt in best(state, "live")],
        "kept": sorted(ckpt.done for ckpt in branch(state)),
        "attempt": state.attempt,
    }
    told = json.loads((GOLDEN / f"format-{version}/expected.json").read_text())
    assert found == told


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_a_log_of_a_format_is_continued_and_not_touched(
    version: int,
) -> None:
    disk = golden(version)
    before = files_of(disk, ROOT)
    log = LogWriter.open(disk, LOG, run_id="0" * 32, who=sim_writer(), clock=SimClock(),
                         background=False)  # fmt: skip
    log.append(Entry("test.note", 1, {"n": 1}), durable=True)
    log.close()

    after = files_of(disk, ROOT)
    assert {path: after[path] for path in before} == before
    said = audit(disk, LOG, [])
    assert said.findings == () and said.root == log.head.root


# --- the made-up past ---


def test_a_made_up_old_version_is_lifted_through_every_version_between(
    monkeypatch: pytest.MonkeyPatch, logs: Any
) -> None:
    """Version -1 had one text, version 0 split it, version 1 is what we know."""
    steps: dict[tuple[str, int], Callable[[Any], Any]] = {
        ("ckpt.pinned", -1): lambda old: {"ckpt": old["what"], "note": "somebody: why"},
        ("ckpt.pinned", 0): lambda old: {
            "ckpt_id": old["ckpt"],
            "who": old["note"].split(": ")[0],
            "why": old["note"].split(": ")[1],
        },
    }
    for key, step in steps.items():
        monkeypatch.setitem(schema.UPCASTERS, key, step)
    log = logs.open()
    log.append(Entry("ckpt.pinned", -1, {"what": "live@100r0"}), durable=True)

    record = logs.records()[-1]
    event: Any = schema.decode(record.type, record.v, record.payload)
    assert (event.ckpt_id, event.who, event.why) == ("live@100r0", "somebody", "why")
    assert record.payload == {"what": "live@100r0"}, "what is stored stays"


# --- the future ---


def run_with(*entries: Entry) -> SimDisk:
    """A run that a newer version wrote the end of."""
    life = Life()
    life.open()
    for done in STEPS[:2]:
        life.save(done)
    ledger = life.runs[0].ledger
    assert ledger is not None
    ledger.writer.append_all(entries, durable=True)
    ledger.writer.close()
    return life.disk


@pytest.mark.parametrize(
    "entry",
    [Entry("ckpt.committed", 99, {"x": 1}), Entry("ckpt.unheard_of", 1, {"x": 1})],
    ids=["newer version", "unknown type"],
)
def test_what_a_newer_version_wrote_is_shown_and_nobody_writes_behind(
    entry: Entry,
) -> None:
    disk = run_with(entry)
    before = files_of(disk, ROOT)
    story = Story.read(disk, ROOT)

    assert not story.trusted and entry.type in story.problems[0][2]
    assert {100, 200} == {ckpt.done for ckpt in branch(story.state)}
    life = Life(disk=disk)
    with pytest.raises(LogDamaged, match="unknown critical type"):
        life.open()
    assert before == files_of(disk, ROOT)


def test_an_unknown_ignorable_type_is_counted_and_stops_nobody() -> None:
    disk = run_with(Entry("news.today?", 1, {"x": 1}), Entry("news.today?", 7, {}))
    story = Story.read(disk, ROOT)

    assert story.trusted and len(story.unknown) == 2
    life = Life(disk=disk)
    life.open()
    assert life.save(300) == "committed"


def test_a_segment_of_a_newer_format_is_no_orphan_and_nobody_writes_behind_it() -> None:
    disk = run_with()
    name = disk.listdir(f"{LOG}/seg")[-1]
    found = read_header(disk.read(f"{LOG}/seg/{name}"))
    assert found is not None
    plain = {**attrs.asdict(found[0]), "format": FORMAT + 1, "epoch": 2, "more": [1, 2]}
    data = MAGIC + frame(msgpack.packb(plain)) + b"what only a newer one can read"
    disk.foreign_tree(f"{LOG}/seg", {"000002-000000000099.seg": data})
    before = files_of(disk, ROOT)

    story = Story.read(disk, ROOT)
    assert not story.trusted and f"format {FORMAT + 1}" in story.problems[0][2]
    assert len(story.told) >= 20, "what is readable is shown"
    with pytest.raises(LogDamaged, match="use the version of jumar that wrote it"):
        Life(disk=disk).open()
    assert before == files_of(disk, ROOT)


def test_the_real_disk_reads_the_golden_logs_too(tmp_path: Path) -> None:
    for version in range(1, FORMAT + 1):
        reader = LogReader(RealDisk(), str(GOLDEN / f"format-{version}"), mode="strict")
        assert len(list(reader)) > 40
