"""Single cases that searches do not meet: threads, interrupts, wiped and odd files."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from jumar.engine.clock import SystemClock
from jumar.engine.errors import LogDamaged, LogFailed
from jumar.engine.log import claims
from jumar.engine.log.audit import audit
from jumar.engine.log.frame import frames_behind
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.engine.real_disk import RealDisk

ROOT = "run/.jumar"


def test_what_is_appended_beside_a_close_is_refused_or_read(tmp_path: Path) -> None:
    for n in range(12):
        root = str(tmp_path / f"{n}/.jumar")
        log = LogWriter.open(RealDisk(), root, run_id="0" * 32, who=claims.this_process(),
                             clock=SystemClock())  # fmt: skip
        acked: list[int] = []

        def busy(log: LogWriter = log, acked: list[int] = acked) -> None:
            for k in range(10_000):
                try:
                    log.append(Entry("t", 1, {"n": k}), durable=True)
                except LogFailed:
                    return
                acked.append(k)

        thread = threading.Thread(target=busy)
        thread.start()
        while len(acked) < 5:
            pass
        log.close()
        thread.join()
        reader = LogReader(RealDisk(), root, mode="strict")
        assert [r.payload["n"] for r in reader if r.type == "t"] == acked
        assert reader.end == "end" and reader.sealed == 1


def test_an_interrupt_while_a_record_is_chained_ends_the_writer(
    logs: Any, noted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open()
    log.append(noted(1), durable=True)
    plan = type(log._plan)
    right = plan._put

    def broken_off(self: Any, framed: bytes) -> None:
        right(self, framed)
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "_put", broken_off)
    with pytest.raises(KeyboardInterrupt):
        log.append(noted(2))
    monkeypatch.setattr(plan, "_put", right)
    with pytest.raises(LogFailed, match="broken off"):
        log.append(noted(3), durable=True)
    log.close()
    logs.open().append(noted(4), durable=True)
    assert logs.notes() == [1, 4]


def test_a_log_whose_claims_were_lost_is_not_written(logs: Any, noted: Any) -> None:
    for n in range(3):
        log = logs.open()
        log.append(noted(n), durable=True)
        log.close()
    logs.disk.remove_tree(f"{ROOT}/claims")
    with pytest.raises(LogDamaged, match="does not name every epoch"):
        logs.open()
    assert logs.notes() == [0, 1, 2]


@pytest.mark.parametrize("size", [100_000, 8 << 20])
def test_a_tip_whose_bytes_were_wiped_is_no_orphan(
    logs: Any, noted: Any, size: int
) -> None:
    for n in range(2):
        logs.open().append(noted(n), durable=True)
    tip = max(logs.segments())
    logs.damage(tip, lambda data: data.__setitem__(slice(None), bytes(size)))
    with pytest.raises(LogDamaged, match="header is damaged"):
        logs.open()
    assert audit(logs.disk, ROOT, []).findings[0].segment == tip


def test_a_torn_newest_head_does_not_hide_what_was_cut_off(logs: Any, noted: Any) -> None:
    log = logs.open()
    log.append(noted(1), durable=True)
    name = max(logs.segments())
    short = len(logs.segments()[name])
    log.append_all([noted(2)], durable=True, witness=True)
    logs.damage(name, lambda data: data.__delitem__(slice(short, None)))
    logs.disk.create(f"{ROOT}/heads/000000000002.head").close()
    with pytest.raises(LogDamaged, match="acknowledged records were cut off"):
        logs.open()


def test_the_last_epoch_that_a_name_can_hold_is_an_error(logs: Any, noted: Any) -> None:
    logs.open().append(noted(1), durable=True)
    logs.disk.create(f"{ROOT}/claims/999999").close()
    with pytest.raises(LogDamaged, match="last that a name can hold"):
        logs.open()


def test_bytes_that_look_like_lengths_everywhere_end_the_search() -> None:
    data = (0x0FFF00).to_bytes(4, "little") * (1 << 18)
    assert list(frames_behind(data, 0)) == []
    assert list(frames_behind(bytes(8 << 20), 0)) == []


def test_a_pipe_or_a_link_in_the_log_is_no_trap(tmp_path: Path) -> None:
    root = str(tmp_path / ".jumar")

    def opened() -> LogWriter:
        return LogWriter.open(RealDisk(), root, run_id="0" * 32, who=claims.this_process(),
                              clock=SystemClock(), background=False)  # fmt: skip

    log = opened()
    log.close()
    os.mkfifo(f"{root}/heads/000000000009.head")
    os.mkfifo(f"{root}/claims/000001.given-up")
    opened().close()
    os.rename(f"{root}/seg", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", f"{root}/seg")
    before = sorted(os.listdir(tmp_path / "elsewhere"))
    with pytest.raises(LogDamaged, match="is no directory"):
        opened()
    assert before == sorted(os.listdir(tmp_path / "elsewhere"))
