"""
A run of two ranks over one simulated disk, through crashes; and what must hold after each.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from jumar.engine import effects as fx
from jumar.engine.exchange import Steps
from jumar.engine.layout import Layout, parse
from jumar.engine.opening import Setup, open_steps
from jumar.engine.run import Run
from jumar.reducers import events as ev
from jumar.reducers.checkpoints import branch, latest
from jumar.reducers.policy import Policy
from jumar.reducers.rules import KeepBest, KeepLast
from jumar.reducers.values import parse_ckpt_id
from jumar.tools.harness.cluster import Exchange, SimCoordinator
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.faults import dies_at
from jumar.tools.harness.judge import Judge
from jumar.tools.harness.world import SimClock, SimGuard, SimPayload, sim_writer
from jumar.tools.views.story import Story

ROOT, WORLD = "run", 2
STEPS = (100, 200, 300, 400)
POLICY: Final = Policy(keep=[KeepLast(2), KeepBest(1, metric="loss", direction="min")])


@attrs.define
class Life:
    """One run over a disk, through crashes; `acked` is what `save` said was committed."""

    disk: SimDisk = attrs.field(factory=SimDisk)
    clock: SimClock = attrs.field(factory=SimClock)
    acked: list[int] = attrs.field(factory=list)
    runs: dict[int, Run] = attrs.field(factory=dict)

    def open(self) -> None:
        """Open on both ranks."""
        guards = [SimGuard(since=0) for _ in range(WORLD)]
        steps = {r: partial(open_steps, self._setup(r, guards[r])) for r in range(WORLD)}
        ended = Exchange(steps, WORLD).run()
        for rank, one in ended.items():
            if one.error is not None:
                raise one.error
            self.runs[rank] = one.value
            guards[rank].since = one.value.done

    def _setup(self, rank: int, guard: SimGuard) -> Setup:
        return Setup(
            directory=ROOT,
            policy=POLICY,
            payload=SimPayload(rank),
            guard=guard,
            coordinator=SimCoordinator(rank, WORLD),
            disk=self.disk,
            clock=self.clock,
            who=sim_writer(),
            background=False,
        )

    def save(self, done: int) -> str:
        """One boundary; returns rank 0's status."""
        self.runs[0].report(done, {"loss": float(done % 300)})

        calls = {rank: partial(boundary, run, done) for rank, run in self.runs.items()}
        ended = Exchange(calls, WORLD).run()
        status: str = ended[0].value.outcomes[0].status
        if status == "committed":
            self.acked.append(done)
        return status

    def play(self) -> None:
        """The whole script."""
        self.open()
        for done in STEPS:
            self.save(done)
        for run in self.runs.values():
            run.close()


def boundary(run: Run, done: int) -> Steps[fx.Conclude]:
    """One rank's save."""
    assert isinstance(run.guard, SimGuard)
    run.guard.done = done
    return run.save_steps(run.request(done, families=("live",), reason=None, revise=False))


def lose(life: Life, power: str, seed: int) -> None:
    """What the power does to the disk."""
    if power != "kill":
        life.disk.power_loss(random.Random(seed) if power == "torn" else None)


def crash_at(life: Life, n: int, play: Callable[[], None], *, power: str) -> bool:
    """Stop the machine at the n-th call from now; False when the script ended before."""
    if not dies_at(life.disk, n, play):
        return False
    lose(life, power, n)
    return True


def calls_of(play: Callable[[Life], None]) -> int:
    """How many file-system calls a script makes."""
    life = Life()
    play(life)
    return life.disk.calls


def check(life: Life) -> None:
    """After an open: nothing acknowledged is lost, and nothing is left half done."""
    story = Story.read(life.disk, ROOT)
    assert story.trusted and story.reader.end == "end", story.problems
    state = life.runs[0].current()
    started = {
        parse_ckpt_id(e.ckpt_id)[1]
        for _, e in story.of(ev.PruneStarted)
        if isinstance(e, ev.PruneStarted)
    }
    present = {ckpt.done for ckpt in branch(state)}
    for done in life.acked:
        assert done in present or done in started, (done, life.acked)
    newest = latest(state, "live")
    if life.acked:
        assert newest is not None and newest.done >= max(life.acked)
    assert (newest.done if newest else 0) == life.runs[0].done
    final = Judge(life.disk, Layout(ROOT)).final()
    assert not final["missing"] and not final["damaged"] and not final["foreign"], final
    _nothing_left_over(life, newest.done if newest else None)


def check_pointer(life: Life) -> None:
    """At any moment, even before an open, the pointer names something that is there."""
    folder = f"{ROOT}/live"
    if life.disk.stat(f"{folder}/latest") is not None:
        target = life.disk.readlink(f"{folder}/latest")
        assert life.disk.stat(f"{folder}/{target}") is not None, target


def _nothing_left_over(life: Life, newest: int | None) -> None:
    folder = f"{ROOT}/live"
    names = life.disk.listdir(folder) if life.disk.stat(folder) else []
    kinds = [name.kind for entry in names if (name := parse(entry))]
    assert {"staging", "trash", "link"}.isdisjoint(kinds), names
    if newest is not None:
        assert str(newest) == life.disk.readlink(f"{folder}/latest").split("r")[0]
