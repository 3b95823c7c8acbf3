"""A writer that is interrupted, refused, or not as dead as its successor thinks."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from jumar.engine.errors import LogFailed, RunBusy
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.reducers.errors import SchemaError
from jumar.tools.harness.disk import Crash, SimDisk
from jumar.tools.harness.world import SimClock, sim_writer

ROOT = "run/.jumar"
NAME = "000001-000000000000.seg"


def failing(disk: SimDisk, call: str, end: str, error: Callable[[], BaseException]) -> None:
    """From now on this call fails on paths with this end."""

    def before(name: str, path: str) -> None:
        if name == call and path.endswith(end):
            raise error()

    disk.before = before


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def open_beside_the_living(logs: Any) -> LogWriter:
    """Every process that still holds a claim counts as alive, this one too."""
    who = attrs.evolve(sim_writer(), alive=lambda claim: True)
    return LogWriter.open(logs.disk, ROOT, run_id="0" * 32, who=who, clock=SimClock(),
                          background=False)  # fmt: skip


def test_a_write_that_ctrl_c_broke_off_leaves_no_hole_in_the_log(
    logs: Any, noted: Any
) -> None:
    """A later record behind a missing one would make the log unreadable for ever."""
    log = logs.open()
    log.append(noted(0), durable=True)
    failing(logs.disk, "write", ".seg", KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        log.append(noted(1), durable=True)
    logs.disk.before = None

    with pytest.raises(LogFailed, match="KeyboardInterrupt"):
        log.append(noted(2), durable=True)

    logs.open().append(noted(3), durable=True)
    assert logs.notes() == [0, 3]


@pytest.mark.parametrize("call", ["write", "sync", "close"])
def test_a_close_that_fails_lets_this_process_open_again(
    logs: Any, noted: Any, call: str
) -> None:
    log = open_beside_the_living(logs)
    log.append(noted(0))
    failing(logs.disk, call, ".seg", full)
    with pytest.raises(LogFailed, match="No space"):
        log.close()
    logs.disk.before = None

    with pytest.raises(LogFailed, match="No space"):
        log.append(noted(1))
    open_beside_the_living(logs).close()


@pytest.mark.parametrize("error", [full, KeyboardInterrupt])
def test_an_open_that_fails_lets_this_process_try_again(
    logs: Any, error: Callable[[], BaseException]
) -> None:
    failing(logs.disk, "create", ".seg", error)
    with pytest.raises((OSError, KeyboardInterrupt)):
        open_beside_the_living(logs)
    logs.disk.before = None

    log = open_beside_the_living(logs)

    assert log.epoch == 2
    with pytest.raises(RunBusy):
        open_beside_the_living(logs)


def test_the_faster_of_two_claims_wins_and_the_other_names_it(logs: Any) -> None:
    """Both looked before either had claimed; host and pid are the same in both."""
    raced: list[LogWriter] = []

    def rival(name: str, path: str) -> None:
        if name == "link" and "/claims/" in path:
            logs.disk.before = None
            raced.append(logs.open())

    logs.disk.before = rival
    with pytest.raises(RunBusy, match="process 1 on sim has held it since 2023"):
        logs.open()

    assert raced[0].epoch == 1
    assert logs.disk.listdir(f"{ROOT}/claims") == ["000001"], "no draft is left behind"


def test_bytes_of_a_writer_that_is_still_awake_count_only_when_they_are_durable(
    logs: Any, noted: Any
) -> None:
    """It writes, unsynced, whenever its successor looks; then the power fails."""
    awake = logs.open()
    awake.append(noted(0), durable=True)
    syncs = logs.disk.file_syncs
    written = []

    def beside(name: str, path: str) -> None:
        if path.endswith(NAME) and name in ("read", "sync_file"):
            logs.disk.before = None
            awake.append(noted(66))
            awake._output._file.write(b"".join(awake._plan.take()))
            written.append(name)
            logs.disk.before = beside

    logs.disk.before = beside
    successor = logs.open()
    logs.disk.before = None
    successor.append(noted(1), durable=True)
    seen = logs.notes()
    logs.disk.power_loss()

    assert {"read", "sync_file"} == set(written) and logs.disk.file_syncs > syncs
    assert seen == logs.notes() and (seen[0], seen[-1]) == (0, 1)
    logs.open()


def test_names_left_unsynced_by_a_killed_open_are_made_durable_by_the_next(
    logs: Any, noted: Any
) -> None:
    """A kill at each call of the first open, then an acknowledged record, then no power."""
    logs.disk.mkdir("run")
    logs.disk.sync_dir(".")
    before = logs.disk.calls
    logs.open()
    for kill_at in range(1, logs.disk.calls - before + 1):
        disk = SimDisk()
        disk.mkdir("run")
        disk.sync_dir(".")
        logs.disk, last = disk, disk.calls + kill_at
        disk.before = _stop_at(disk, last)
        with pytest.raises(Crash):
            logs.open()
        disk.before = None
        logs.open().append(noted(kill_at), durable=True)
        disk.power_loss()

        assert logs.notes() == [kill_at], kill_at


def _stop_at(disk: SimDisk, last: int) -> Callable[[str, str], None]:
    def before(name: str, path: str) -> None:
        if disk.calls >= last:
            raise Crash

    return before


@pytest.mark.parametrize(
    "entry",
    [
        Entry("t", 1, {1: 2}),  # type: ignore[dict-item]
        Entry("t", True, {}),
        Entry("t", 1, {"deep": ({"b": 1, "a": 2},)}),
        Entry("t", 1, {"big": 1 << 64}),
        Entry("t", 1, {"what": object()}),
        Entry("t", 1, {"half": "\ud800"}),
        Entry("t", 1, [1]),  # type: ignore[arg-type]
    ],
    ids=["int key", "bool version", "tuple", "65 bits", "object", "surrogate", "no map"],
)
def test_what_no_reader_would_take_is_refused_and_nothing_is_queued(
    logs: Any, noted: Any, entry: Entry
) -> None:
    log = logs.open()
    with pytest.raises(SchemaError, match="a t record cannot be stored"):
        log.append_all([noted(0), entry])

    assert log.append(noted(1), durable=True) == 1
    assert logs.notes() == [1] and logs.reader("strict").end == "end"


def test_a_barrier_without_records_flushes_what_is_queued(logs: Any, noted: Any) -> None:
    log = logs.open()
    log.append(noted(0))
    assert log.append_all([], durable=True) == []
    logs.disk.power_loss()

    assert logs.notes() == [0]
