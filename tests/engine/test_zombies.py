"""
A process that is paused, taken for dead, replaced, and wakes up: it commits nothing.

Method: at each crash point of a save the ranks sleep; another job opens the run and saves;
then the first one goes on from where it stood.
"""

from __future__ import annotations

from functools import partial

import pytest

from jumar.engine.errors import AttemptOver, LogFailed
from jumar.engine.recover import Recovery
from jumar.reducers import events as ev
from jumar.reducers.checkpoints import branch
from jumar.reducers.values import parse_ckpt_id
from jumar.tools.harness.cluster import Exchange
from jumar.tools.harness.life import ROOT, STEPS, WORLD, Life, boundary, check
from jumar.tools.views.story import Story

POINTS = ("ballot", "agree", "write", "outcome", "commit", "rename", "append", "publish",
          "prune", "unlink")  # fmt: skip


def slept(point: str, fs: str, later: int) -> tuple[Life, list[object]]:
    """Rank 0 of the first job sleeps at a point of its last save; the second job acts."""
    first = Life()
    first.disk.fs = fs
    first.open()
    for done in STEPS[:3]:
        first.save(done)
    second = Life(disk=first.disk, clock=first.clock, acked=first.acked)
    woken: list[str] = []

    def sleep(name: str) -> None:
        if name == point and not woken:
            woken.append(name)
            second.open()
            for done in range(1, later + 1):
                second.save(second.runs[0].done + 50 * done)

    first.runs[0].probe = sleep
    first.runs[0].report(STEPS[3], {"loss": float(STEPS[3] % 300)})
    calls = {rank: partial(boundary, run, STEPS[3]) for rank, run in first.runs.items()}
    ended = Exchange(calls, WORLD).run()
    assert woken, f"nobody came by {point}"
    told: list[object] = []
    for rank in range(WORLD):
        one = ended[rank]
        told.append(one.error or one.value.error or one.value.outcomes[0].status)
    return second, told


@pytest.mark.parametrize("fs", ["ext4", "nfs4"])
@pytest.mark.parametrize("later", [0, 1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_job_that_wakes_up_after_it_was_replaced_can_neither_commit_nor_prune(
    point: str, later: int, fs: str
) -> None:
    second, told = slept(point, fs, later)
    committed_before = point in ("publish", "prune", "unlink")

    for one in told:
        assert (one == "committed") is committed_before, told
        assert one == "committed" or isinstance(one, AttemptOver), told
    state = second.runs[0].current()
    known = {ckpt.done for ckpt in branch(state)}
    assert second.save(max(known) + 100) == "committed"

    second.runs = {}
    second.open()
    check(second)
    story = Story.read(second.disk, ROOT)
    assert not story.problems
    assert known <= {ckpt.done for ckpt in branch(second.runs[0].current())} | gone(story)


def gone(story: Story) -> set[int]:
    """Steps whose prune the log tells of."""
    return {
        parse_ckpt_id(event.ckpt_id)[1]
        for _, event in story.told
        if isinstance(event, ev.PruneStarted)
    }


def test_an_opener_that_sleeps_before_it_sweeps_removes_nothing_of_its_successor() -> None:
    """It does not know what was saved since it read the log."""
    first = Life()
    first.open()
    first.save(STEPS[0])
    first.runs = {}
    second = Life(disk=first.disk, clock=first.clock, acked=first.acked)
    woken: list[str] = []
    right = Recovery._sweep

    def sleepy(self: Recovery, family: str) -> None:
        if not woken:
            woken.append(family)
            second.open()
            for done in (700, 800):
                assert second.save(done) == "committed"
        right(self, family)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recovery, "_sweep", sleepy)
        with pytest.raises(LogFailed):
            first.open()
    assert woken
    second.runs = {}
    second.open()
    check(second)
    assert {700, 800} <= {ckpt.done for ckpt in branch(second.runs[0].current())}
