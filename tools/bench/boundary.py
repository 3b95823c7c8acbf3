"""Row 5: syncs and exchanges of one boundary with two ranks, counted."""

from __future__ import annotations

from collections import Counter
from functools import partial

from jumar.engine import effects as fx
from jumar.engine.exchange import Steps
from jumar.engine.opening import Setup, open_steps
from jumar.engine.run import Run
from jumar.reducers.policy import Policy
from jumar.reducers.rules import KeepLast
from jumar.tools.bench.pairs import Row
from jumar.tools.harness.cluster import Exchange, SimCoordinator
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.world import SimClock, SimGuard, SimPayload, sim_writer

WORLD = 2


def counted(steps: Steps[object], phases: list[str]) -> Steps[object]:
    """The same steps, with the phases of rank 0's exchanges noted."""
    reply = None
    while True:
        try:
            wish = steps.send(reply)
        except StopIteration as stop:
            return stop.value
        if isinstance(wish, fx.Gather):
            phases.append(wish.phase)
        reply = yield wish


def syncs() -> Row:
    """The third save under keep_last=2, so that one checkpoint is pruned."""
    disk, clock = SimDisk(), SimClock()
    guards = [SimGuard(since=0) for _ in range(WORLD)]
    setups = [
        Setup(
            directory="run", policy=Policy(keep=[KeepLast(2)]), payload=SimPayload(rank),
            guard=guards[rank], coordinator=SimCoordinator(rank, WORLD), disk=disk,
            clock=clock, who=sim_writer(), background=False,
        )
        for rank in range(WORLD)
    ]  # fmt: skip
    opened = Exchange(
        {r: partial(open_steps, setups[r]) for r in range(WORLD)}, WORLD
    ).run()
    runs = {rank: one.value for rank, one in opened.items()}
    for done in (10, 20):
        _save(runs, guards, done, [])
    seen: Counter[str] = Counter()
    disk.before = lambda call, path: seen.update(
        [_kind(call, path)] if "sync" in call else []
    )
    phases: list[str] = []
    _save(runs, guards, 30, phases)
    names = seen["manifest"] + seen["names"]
    text = (
        f"log {seen['log']}, manifest and names {names}, parts {seen['part']} "
        f"({WORLD} ranks), {len(phases)} exchanges"
    )
    holds = seen["log"] <= 3 and names <= 5 and seen["part"] <= WORLD and len(phases) == 3
    bar = "log 3, names 3 + 2 off the path, 1 a part, 3 exchanges"
    return Row("boundary, 2 ranks, one prune", bar, "counted", text, holds)


def _save(
    runs: dict[int, Run], guards: list[SimGuard], done: int, phases: list[str]
) -> None:
    for guard in guards:
        guard.done = done
    steps = {
        rank: partial(_steps, run, done, phases if rank == 0 else [])
        for rank, run in runs.items()
    }
    ended = Exchange(steps, WORLD).run()
    assert ended[0].value.outcomes[0].status == "committed"


def _steps(run: Run, done: int, phases: list[str]) -> Steps[object]:
    request = run.request(done, families=("live",), reason=None, revise=False)
    return counted(run.save_steps(request), phases)


def _kind(call: str, path: str) -> str:
    if path.endswith(".seg"):
        return "log"
    if path.endswith("jumar.json"):
        return "manifest"
    return "names" if call == "sync_dir" else "part"
