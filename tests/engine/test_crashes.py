"""
Power fails at every file-system call of a whole life: open, saves, prunes, recovery.

Method: two ranks in one process over a simulated disk; the machine stops at the n-th
call, with or without the loss of everything unsynced; then the run is opened again.
"""

from __future__ import annotations

import errno
import os
import random
from functools import partial

import pytest

from jumar.engine.errors import LogFailed
from jumar.reducers.checkpoints import branch
from jumar.tools.harness.cluster import Exchange
from jumar.tools.harness.life import (
    ROOT,
    STEPS,
    WORLD,
    Life,
    boundary,
    calls_of,
    check,
    check_pointer,
    crash_at,
)

SOAK = bool(os.environ.get("JUMAR_SOAK"))
STRIDE = 1 if SOAK else 2
TOTAL = calls_of(lambda life: life.play())


POWER = pytest.mark.parametrize("power", ["kill", "power", "torn"])
"""What is left: everything, nothing unsynced, or whatever chance leaves of it."""


@POWER
def test_a_crash_at_any_call_loses_nothing_and_leaves_nothing(power: str) -> None:
    crashed = 0
    for n in range(1, TOTAL + 1, STRIDE):
        life = Life()
        crashed += crash_at(life, n, life.play, power=power)
        check_pointer(life)
        life.runs = {}
        life.open()
        check(life)
        done = max([life.runs[0].done, *STEPS]) + 100
        assert life.save(done) == "committed", n

    assert crashed == len(range(1, TOTAL + 1, STRIDE)), "the script was cut short each time"


@POWER
def test_a_crash_inside_the_recovery_is_recovered_too(power: str) -> None:
    """The second crash comes at any call of the open that follows the first."""
    depth = 0
    for n in range(TOTAL // 3, TOTAL + 1, 1 if SOAK else 17):
        m = 1
        while True:
            life = Life()
            crash_at(life, n, life.play, power=power)
            life.runs = {}
            again = crash_at(life, m, life.open, power=power)
            life.runs = {}
            life.open()
            check(life)
            depth += again
            if not again:
                break
            m += 1 if SOAK else 7
    assert depth > 50, "recoveries really were interrupted"


def test_what_an_open_recovered_survives_the_next_power_loss() -> None:
    """A kill keeps unsynced bytes; the open that relies on them syncs them first."""
    recovered = 0
    for n in range(1, TOTAL + 1, STRIDE):
        life = Life()
        crash_at(life, n, life.play, power="kill")
        life.runs = {}
        life.open()
        known = {ckpt.done for ckpt in branch(life.runs[0].current())}
        recovered += len(known - set(life.acked))
        life.acked = sorted(known | set(life.acked))
        life.disk.power_loss(random.Random(n) if n % 2 else None)
        check_pointer(life)
        life.runs = {}
        life.open()
        check(life)
    assert recovered > 10, "some opens did finish a commit"


def test_what_follows_a_killed_open_survives_the_next_power_loss() -> None:
    """A name that a killed process made, but did not sync, is synced by who finds it."""

    def begin(life: Life) -> None:
        life.open()
        life.save(STEPS[0])

    for n in range(1, calls_of(begin) + 1):
        life = Life()
        crash_at(life, n, partial(begin, life), power="kill")
        life.runs = {}
        life.open()
        assert life.save(STEPS[1]) == "committed", n
        life.disk.power_loss()
        life.runs = {}
        life.open()
        check(life)


def told(life: Life, done: int) -> list[tuple[str, ...]]:
    """What one boundary came to on each rank: its status, or the kind of its error."""
    calls = {rank: partial(boundary, run, done) for rank, run in life.runs.items()}
    found: list[tuple[str, ...]] = []
    for _, one in sorted(Exchange(calls, WORLD).run().items()):
        assert one.error is None, one.error
        conclude = one.value
        if conclude.error is not None:
            found.append((type(conclude.error).__name__,))
        else:
            found.append(tuple(outcome.status for outcome in conclude.outcomes))
    return found


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_any_one_call_that_fails_gives_one_outcome_on_all_ranks_and_loses_nothing(
    code: int,
) -> None:
    """
    Goal: no error of the disk parts the ranks or costs a commit.

    Method: the n-th call of the third save fails once, for every n; it prunes, too.
    """
    seen, n = set(), 0
    while True:
        n += 1
        life = Life()
        life.open()
        for done in STEPS[:2]:
            life.save(done)
        failed = fail_at(life, n, code)
        outcomes = told(life, STEPS[2])
        life.disk.before = None
        if not failed:
            break
        seen |= set(outcomes)
        assert len(set(outcomes)) == 1, (n, failed, outcomes)
        if outcomes[0] == ("committed",):
            life.acked.append(STEPS[2])
        if not life.runs[0].over:
            assert life.save(STEPS[3]) == "committed", (n, failed)
            for run in life.runs.values():
                run.close()
        life.runs = {}
        life.open()
        check(life)

    assert {("committed",), ("aborted",), ("LogFailed",)} == seen


def fail_at(life: Life, n: int, code: int) -> list[tuple[str, str]]:
    """Let the n-th call from now fail, once; the list tells which it was."""
    at, failed = life.disk.calls + n, []

    def failing(name: str, path: str) -> None:
        if life.disk.calls == at:
            failed.append((name, path))
            raise OSError(code, os.strerror(code), path)

    life.disk.before = failing
    return failed


def test_when_a_save_returns_the_names_are_those_that_the_log_keeps() -> None:
    """A pruned checkpoint's files are gone, and no working name is left."""
    life = Life()
    life.open()
    for done in STEPS:
        life.save(done)
        kept = {str(ckpt.done) for ckpt in branch(life.runs[0].current())}
        assert {*kept, "latest"} == set(life.disk.listdir(f"{ROOT}/live")), done


@pytest.mark.parametrize("point", ["write", "commit", "rename"])
def test_what_was_told_as_aborted_is_never_committed_by_a_later_open(point: str) -> None:
    """The abort is durable before anybody hears of it, whatever else the power leaves."""
    for seed in range(40):
        life = Life()
        life.open()
        life.save(STEPS[0])

        def failing(name: str) -> None:
            if name == point:
                raise OSError(errno.EIO, "planned")

        life.runs[0].probe = failing
        assert life.save(STEPS[1]) == "aborted"
        life.disk.power_loss(random.Random(seed) if seed else None)
        life.runs = {}
        life.open()
        check(life)
        assert [STEPS[0]] == [ckpt.done for ckpt in branch(life.runs[0].current())], seed


def test_a_log_that_dies_between_boundaries_ends_the_attempt_on_all_ranks_at_the_next() -> (
    None
):
    """Rank 0 does not leave its peers without a word."""
    life = Life()
    life.open()
    life.save(STEPS[0])

    def full(name: str, path: str) -> None:
        if name == "write" and path.endswith(".seg"):
            raise OSError(errno.ENOSPC, "planned")

    ledger = life.runs[0].ledger
    assert ledger is not None
    life.disk.before = full
    life.runs[0].report(150, {"loss": 1.0})
    with pytest.raises(LogFailed):
        ledger.writer.flush()
    life.runs[0].report(150, {"loss": 2.0})

    assert told(life, STEPS[1]) == [("LogFailed",), ("LogFailed",)]
    life.disk.before = None
    life.runs = {}
    life.open()
    check(life)
