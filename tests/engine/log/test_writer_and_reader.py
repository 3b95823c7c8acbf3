"""The log against crashes, full disks, second writers and damaged bytes."""

from __future__ import annotations

import errno
import os
import threading
from typing import Any

import pytest

from jumar.engine.clock import SystemClock
from jumar.engine.errors import LogDamaged, LogFailed, RunBusy
from jumar.engine.log.claims import this_process
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Entry
from jumar.engine.log.segment import read_header
from jumar.engine.log.writer import LogWriter
from jumar.engine.real_disk import RealDisk
from jumar.reducers.errors import SchemaError
from jumar.tools.harness.disk import Crash

ROOT = "run/.jumar"


def test_a_new_log_begins_with_its_claim_and_ends_at_its_end(logs: Any, noted: Any) -> None:
    log = logs.open()
    assert [log.append(noted(1)), log.append(noted(2), durable=True)] == [1, 2]

    reader = logs.reader("strict")
    records = list(reader)

    assert [r.type for r in records] == ["writer.claimed?", "test.note", "test.note"]
    assert [r.seq for r in records] == [0, 1, 2]
    assert (reader.end, reader.findings) == ("end", [])
    assert (reader.size, reader.last.hex()) == (log.head.size, log.head.last_hash)


def test_an_acknowledged_record_survives_a_power_loss(logs: Any, noted: Any) -> None:
    log = logs.open()
    for n in range(5):
        log.append(noted(n), durable=n == 3)
    logs.disk.power_loss()

    assert logs.notes() == [0, 1, 2, 3]


def test_everything_appended_before_a_barrier_is_durable_with_it(
    logs: Any, noted: Any
) -> None:
    log = logs.open()
    for n in range(10):
        log.append(noted(n))
    syncs = log.syncs
    log.flush()
    logs.disk.power_loss()

    assert list(range(10)) == logs.notes()
    assert log.syncs - syncs == 1


def test_sequence_numbers_go_on_over_epochs_and_nothing_is_rewritten(
    logs: Any, noted: Any
) -> None:
    for epoch in range(4):
        before = logs.segments() if epoch else {}
        log = logs.open()
        log.append(noted(epoch), durable=True)
        log.close()
        after = logs.segments()
        assert before == {name: after[name] for name in before}

    records = logs.records("strict")

    assert list(range(len(records))) == [r.seq for r in records]
    assert sorted({r.epoch for r in records}) == [1, 2, 3, 4]


@pytest.mark.parametrize("keep", range(0, 60))
def test_a_tail_torn_at_any_byte_keeps_all_acknowledged_records(
    logs: Any, noted: Any, keep: int
) -> None:
    """The last record loses its end; the next writer goes on behind the one before it."""
    log = logs.open()
    log.append_all([noted(0), noted(1)], durable=True)
    whole = len(logs.segments()["000001-000000000000.seg"])
    log.append(noted(2), durable=True)
    logs.damage(
        "000001-000000000000.seg", lambda data: data.__delitem__(slice(whole + keep, None))
    )
    torn = logs.segments()["000001-000000000000.seg"]
    reader = logs.reader()
    assert [r.payload["n"] for r in reader if r.type == "test.note"] == [0, 1]
    assert ("end" if keep == 0 else "not_yet_visible") == reader.end

    again = logs.open()
    again.append(noted(3), durable=True)

    assert logs.notes() == [0, 1, 3]
    assert torn == logs.segments()["000001-000000000000.seg"], "nothing was cut"
    recovered = [r.payload for r in logs.records() if r.type == "writer.recovered?"]
    assert ([] if keep == 0 else [keep]) == [p["discarded_bytes"] for p in recovered]


@pytest.mark.parametrize("zeros", [1, 12, 100, 4096])
def test_zeros_at_the_tail_are_not_yet_visible(logs: Any, noted: Any, zeros: int) -> None:
    logs.open().append(noted(0), durable=True)
    logs.damage("000001-000000000000.seg", lambda data: data.extend(bytes(zeros)))

    reader = logs.reader("strict")

    assert len(list(reader)) == 2
    assert reader.end == "not_yet_visible"


def _offsets(data: bytes) -> range:
    found = read_header(data)
    assert found is not None
    return range(found[1], len(data))


NAME = "000001-000000000000.seg"


def flip(logs: Any, at: int) -> None:
    """One byte of the first segment."""
    logs.damage(NAME, lambda data: data.__setitem__(at, data[at] ^ 0xFF))


def test_damage_before_a_later_batch_is_corrupt_and_nobody_writes_behind_it(
    logs: Any, noted: Any
) -> None:
    """What a later batch stands behind was acknowledged: it is no torn tail."""
    log = logs.open()
    for n in range(3):
        log.append(noted(n, 50), durable=True)
    flip(logs, _offsets(logs.segments()[NAME])[250])

    reader = logs.reader()
    readable = list(reader)

    assert reader.end == "corrupt" and 1 <= len(readable) < 4
    assert reader.findings[-1].segment == NAME
    with pytest.raises(LogDamaged, match=NAME):
        list(logs.reader("strict"))
    with pytest.raises(LogDamaged):
        logs.open()
    assert len(list(logs.reader("salvage"))) >= len(readable)


def test_damage_inside_the_last_batch_of_a_writer_that_died_is_a_torn_tail(
    logs: Any, noted: Any
) -> None:
    """A power loss may keep the last page of a write and lose the first."""
    log = logs.open()
    log.append(noted(0), durable=True)
    whole = len(logs.segments()[NAME])
    log.append_all([noted(n, 50) for n in (1, 2, 3)], durable=True)
    flip(logs, whole + 30)

    again = logs.open()
    again.append(noted(4), durable=True)

    assert logs.notes() == [0, 4]


def test_damage_anywhere_in_a_log_that_was_closed_is_corrupt(logs: Any, noted: Any) -> None:
    log = logs.open()
    log.append_all([noted(n) for n in range(3)], durable=True)
    log.close()
    for at in _offsets(logs.segments()[NAME])[::7]:
        flip(logs, at)
        reader = logs.reader()
        list(reader)
        assert (reader.end, reader.findings[-1].segment) == ("corrupt", NAME), at
        flip(logs, at)
    assert _end(logs) == "end"


def test_one_flipped_byte_anywhere_in_a_frozen_segment_is_reported_there(
    logs: Any, noted: Any
) -> None:
    for n in range(2):
        log = logs.open()
        log.append(noted(n), durable=True)
        log.close()
    name = "000001-000000000000.seg"
    size = len(logs.segments()[name])
    for at in range(0, size, 3):
        logs.damage(name, lambda data, at=at: data.__setitem__(at, data[at] ^ 0x10))
        reader = logs.reader()
        list(reader)
        assert reader.end == "corrupt", at
        assert any(name in f.segment or "leads back" in f.what for f in reader.findings), at
        logs.damage(name, lambda data, at=at: data.__setitem__(at, data[at] ^ 0x10))
    assert _end(logs) == "end"


def _end(logs: Any) -> str:
    reader: LogReader = logs.reader("strict")
    list(reader)
    return reader.end


@pytest.mark.parametrize("call", ["write", "sync"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_failed_write_or_sync_kills_the_writer_for_good(
    logs: Any, noted: Any, call: str, code: int
) -> None:
    log = logs.open()
    log.append(noted(0), durable=True)

    def failing(name: str, path: str) -> None:
        if name == call and path.endswith(".seg"):
            raise OSError(code, os.strerror(code))

    logs.disk.before = failing
    with pytest.raises(LogFailed, match=os.strerror(code)):
        log.append(noted(1), durable=True)
    logs.disk.before = None

    for use in (lambda: log.append(noted(2)), log.flush):
        with pytest.raises(LogFailed):
            use()
    assert not log.alive
    log.close()
    assert 0 in logs.notes()
    assert logs.disk.stat(f"{ROOT}/claims/000001.given-up"), "this process may open again"


def test_a_record_above_the_limit_is_refused_and_nothing_was_queued(
    logs: Any, noted: Any
) -> None:
    log = logs.open()
    with pytest.raises(SchemaError, match="too large"):
        log.append_all([noted(0), noted(1, 1 << 20)])

    assert log.append(noted(2), durable=True) == 1
    assert logs.notes() == [2]


def test_a_writer_that_was_replaced_acknowledges_nothing_more(
    logs: Any, noted: Any
) -> None:
    sleeper = logs.open()
    sleeper.append(noted(0), durable=True)
    logs.open().append(noted(1), durable=True)

    with pytest.raises(LogFailed, match="took over with epoch 2"):
        sleeper.append(noted(666), durable=True)

    reader = logs.reader()
    assert [r.payload["n"] for r in reader if r.type == "test.note"] == [0, 1]
    assert reader.end == "end"
    assert any("1 whole frames" in finding.what for finding in reader.findings)


def test_a_segment_whose_header_is_torn_hides_nobody(logs: Any, noted: Any) -> None:
    logs.open().append(noted(0), durable=True)
    armed = [True]

    def dying(name: str, path: str) -> None:
        if armed[0] and name == "sync" and path.endswith(".seg"):
            raise Crash

    logs.disk.before = dying
    with pytest.raises(Crash):
        logs.open()
    logs.disk.power_loss()
    armed[0] = False

    logs.open().append(noted(1), durable=True)

    assert logs.notes() == [0, 1]


def test_the_thread_writes_what_nobody_waits_for(tmp_path: Any) -> None:
    """Real disk, real thread: closing joins it and loses nothing."""
    disk, root = RealDisk(), str(tmp_path / ".jumar")
    log = LogWriter.open(
        disk, root, run_id="1" * 32, who=this_process(), clock=SystemClock()
    )
    threads = [
        threading.Thread(
            target=lambda k=k: [
                log.append(Entry("t", 1, {"k": k, "n": n})) for n in range(200)
            ]
        )
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()

    told = [r.payload for r in LogReader(disk, root, mode="strict") if r.type == "t"]

    assert len(told) == 800
    for k in range(4):
        assert list(range(200)) == [p["n"] for p in told if p["k"] == k]


def test_a_second_writer_on_this_host_is_told_who_holds_the_run(tmp_path: Any) -> None:
    disk, root = RealDisk(), str(tmp_path / ".jumar")

    def open_() -> LogWriter:
        return LogWriter.open(disk, root, run_id="1" * 32, who=this_process(),
                              clock=SystemClock())  # fmt: skip

    log = open_()
    with pytest.raises(RunBusy, match=f"process {os.getpid()} on") as busy:
        open_()
    assert os.getpid() == busy.value.value
    log.close()

    open_().close()


def test_a_log_without_identity_says_so(logs: Any) -> None:
    with pytest.raises(LogDamaged, match="IDENTITY"):
        logs.reader()
