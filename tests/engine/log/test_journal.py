"""Evidence journals: whole, bounded, and in nobody's way."""

from __future__ import annotations

import errno
import hashlib
import os

import pytest

from jumar.engine.log.journal import FILES, Journal, folder_of, journals, read_journal
from jumar.reducers import events as ev
from jumar.reducers.schema import decode
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.life import ROOT, STEPS, Life
from jumar.tools.harness.world import SimClock
from jumar.tools.views.story import Story

LOG = f"{ROOT}/.jumar"


def left(n: int) -> ev.RankLeft:
    return ev.RankLeft(attempt=0, done=n, reason="x" * 50)


def journal(disk: SimDisk) -> Journal:
    if disk.stat(ROOT) is None:
        disk.mkdir(ROOT)
        disk.mkdir(LOG)
    return Journal(disk, LOG, attempt=0, rank=1, clock=SimClock(), file_bytes=1000)


def all_of(disk: SimDisk) -> list[tuple[list[int], str]]:
    folder = f"{folder_of(LOG, 0)}/00001"
    found = []
    for name in disk.listdir(folder):
        records, why = read_journal(disk.read(f"{folder}/{name}"))
        found.append(([r.payload["done"] for r in records], why))
    return found


def test_every_rank_says_which_process_it_is_and_when_it_left() -> None:
    life = Life()
    life.open()
    life.save(STEPS[0])
    for run in life.runs.values():
        run.close()

    for rank in (0, 1):
        path = f"{folder_of(LOG, 0)}/{rank:05d}/00000000.seg"
        records, why = read_journal(life.disk.read(path))
        assert [r.type for r in records] == ["rank.joined?", "rank.left?"]
        assert {r.rank for r in records} == {rank} and why == "end"
        assert all(decode(r.type, r.v, r.payload) for r in records)


def test_what_was_sealed_is_what_the_files_hold() -> None:
    life = Life()
    life.open()
    for run in life.runs.values():
        run.close()

    sealed = Story.read(life.disk, ROOT).of(ev.EvidenceSealed)
    event = sealed[-1][1]
    assert isinstance(event, ev.EvidenceSealed)
    assert [one.rank for one in event.journals] == [0, 1]
    for one in event.journals:
        data = life.disk.read(f"{folder_of(LOG, event.attempt)}/{one.rank:05d}/{one.name}")
        assert hashlib.sha256(data[: one.size]).hexdigest() == one.sha256


def test_the_next_open_seals_what_a_killed_attempt_left() -> None:
    life = Life()
    life.open()
    life.save(STEPS[0])
    life.runs = {}
    life.open()

    events = [e for _, e in Story.read(life.disk, ROOT).of(ev.EvidenceSealed)]
    assert [(e.attempt, len(e.journals)) for e in events] == [(0, 2)]  # type: ignore[attr-defined]


def test_a_journal_is_bounded_and_the_oldest_file_goes_first() -> None:
    disk = SimDisk()
    one = journal(disk)
    for n in range(200):
        one.note(left(n))

    found = all_of(disk)
    numbers = [n for file, _ in found for n in file]
    assert len(found) == FILES and one.pruned > 0 and one.missed == 0
    assert numbers == list(range(200 - len(numbers), 200)), "no gap, and the newest"
    assert {why for _, why in found} == {"end"}


def test_a_second_writer_of_one_attempt_takes_the_next_file() -> None:
    """An open that died before its attempt was durable leaves the number to the next."""
    disk = SimDisk()
    journal(disk).note(left(1))
    journal(disk).note(left(2))

    assert all_of(disk) == [([1], "end"), ([2], "end")]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_no_error_of_a_journal_reaches_training(code: int) -> None:
    """Whichever of its calls fails, the run saves, and the journal says what it missed."""
    for n in range(1, 12):
        life = Life()
        calls = 0

        def failing(name: str, path: str, n: int = n) -> None:
            nonlocal calls
            if "/rank" in path:
                calls += 1
                if calls == n:
                    raise OSError(code, os.strerror(code), path)

        life.disk.before = failing
        life.open()
        assert life.save(STEPS[0]) == "committed"
        for run in life.runs.values():
            run.close()
        assert calls >= n
        silent = [run.journal for run in life.runs.values() if run.journal.silent]
        assert all(one.missed for one in silent)


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_a_torn_journal_shows_what_is_whole(cut: int) -> None:
    disk = SimDisk()
    one = journal(disk)
    for n in range(3):
        one.note(left(n))
    data = disk.read(f"{folder_of(LOG, 0)}/00001/00000000.seg")

    records, _ = read_journal(data[:cut])
    assert [r.payload["done"] for r in records] == list(range(len(records)))
    flipped = bytearray(data)
    flipped[min(cut, len(data) - 1)] ^= 0x40
    assert len(read_journal(bytes(flipped))[0]) < 3


def test_the_digests_are_of_every_file_of_every_rank() -> None:
    disk = SimDisk()
    one = journal(disk)
    for n in range(60):
        one.note(left(n))
    assert len(list(journals(disk, LOG, 0))) == FILES
    assert list(journals(disk, LOG, 5)) == []
