"""
Running a scenario through the real engine, and judging what is left.

The script plays on a simulated cluster and disk; afterwards a reader that writes nothing
folds the log and looks at every file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from jumar.engine.errors import AttemptOver, RestoreError
from jumar.engine.layout import Layout
from jumar.engine.opening import Setup, open_steps
from jumar.engine.restart import wanted
from jumar.engine.run import Run
from jumar.reducers.checkpoints import at_step, committed, floor
from jumar.reducers.state import Ckpt
from jumar.tools.harness.armed import Armed
from jumar.tools.harness.cluster import Ended, Exchange, SimCoordinator
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.judge import Judge
from jumar.tools.harness.scenario import (
    Scenario,
)
from jumar.tools.harness.shapes import OF_RANK_0, Op, metric_value, refuse
from jumar.tools.harness.touch import touch
from jumar.tools.harness.world import SimClock, SimGuard, SimPayload, sim_writer

ROOT: Final = "run"


@attrs.define
class Simulation:
    """
    One scenario as it plays.

    Attributes:
        runs: rank -> its open attempt; empty when no attempt is open.
        last: completed steps of the attempt's last save.
    """

    scenario: Scenario
    disk: SimDisk = attrs.field(factory=SimDisk)
    clock: SimClock = attrs.field(factory=SimClock)
    runs: dict[int, Run] = attrs.field(factory=dict)
    guards: dict[int, SimGuard] = attrs.field(factory=dict)
    armed: Armed = attrs.field(factory=Armed)
    world: int = 1
    last: int = 0

    def play(self) -> dict[str, Any]:
        """Run the script; returns the final state in the words of `expect`."""
        self._open("auto", self.scenario.world)
        ops = self.scenario.do
        i = 0
        while i < len(ops):
            kind, op = ops[i]
            if not self.runs and kind not in ("restart", "disk"):
                refuse(
                    f"{kind} after the attempt ended", op, "only restart and disk are legal"
                )
            size = self._boundary_size(i) if kind == "save" else 1
            if kind == "save":
                self._save([one for _, one in ops[i : i + size]])
            else:
                _PLAY[kind](self, op)
            i += size
        for run in self.runs.values():
            if run.ledger is not None:
                run.ledger.writer.flush()  # what a living writer's thread would do
        return Judge(self.disk, Layout(ROOT)).final()

    def _boundary_size(self, i: int) -> int:
        """Saves in a row with one step and different families are one boundary."""
        first, families, size = self.scenario.do[i][1], set(), 0
        for kind, op in self.scenario.do[i:]:
            family = op.get("family", "live")
            same = kind == "save" and op["save"] == first["save"] and family not in families
            if not same or op.get("revise", False) != first.get("revise", False):
                break
            families.add(family)
            size += 1
        return size

    # --- attempts ---

    def _open(self, restart: Any, world: int) -> None:
        self.world, self.armed = world, Armed()
        steps = {
            rank: (lambda r=rank: open_steps(self._setup(r, restart)))
            for rank in range(world)
        }
        ended = Exchange(steps, world).run()
        if all(isinstance(one.value, Run) for one in ended.values()):
            self.runs = {rank: one.value for rank, one in ended.items()}
            self.last = self.runs[0].done
            for rank, run in self.runs.items():
                self.guards[rank].since = run.done
        elif not isinstance(ended[0].error, RestoreError):
            raise ended[0].error or AssertionError("an open that nobody survived")

    def _setup(self, rank: int, restart: Any) -> Setup:
        self.guards[rank] = SimGuard(since=0)
        return Setup(
            directory=ROOT,
            policy=self.scenario.policy,
            schedule=self.scenario.schedule,
            payload=SimPayload(rank),
            guard=self.guards[rank],
            coordinator=SimCoordinator(rank, self.world),
            disk=self.disk,
            clock=self.clock,
            who=sim_writer(),
            restart=restart,
            background=False,
            probe=lambda point: self.armed.at(rank, point),
        )

    def _restart(self, op: Op) -> None:
        for run in self.runs.values():
            run.close()
        self.runs = {}
        source = op["from"]
        if type(source) is int:
            self._known(source)
        self._open(source, op.get("world", self.world))

    def _known(self, done: int) -> None:
        """Restarting from a checkpoint that is not there is a mistake of the script."""
        try:
            ckpt = wanted(Judge(self.disk, Layout(ROOT)).state, done)
        except RestoreError as error:
            refuse(f"restart from {done} was refused", done, str(error))
            return
        if Judge(self.disk, Layout(ROOT)).damage(ckpt) is not None:
            refuse(f"restart from {done} was refused", done, "it is damaged or missing")

    def _over(self) -> None:
        self.runs = {}

    # --- saves ---

    def _save(self, ops: list[Op]) -> None:
        done = ops[0]["save"]
        self._check_step(done)
        lead = self.runs[0]
        for op in ops:
            values = {k: metric_value(v) for k, v in op.get("metrics", {}).items()}
            family = op.get("family")
            lead.report(done, values, family=None if family in (None, "live") else family)
        families = tuple(op.get("family", "live") for op in ops)
        reasons = [op["reason"] for op in ops if "reason" in op]
        revise = ops[0].get("revise", False)

        def request(run: Run, at: int) -> Any:
            made = run.request(at, families=families, reason=None, revise=revise)
            told = tuple(dict.fromkeys([*reasons, *made.reasons]))
            return attrs.evolve(made, reasons=told if reasons else made.reasons)

        self._boundary(done, lambda run, at: run.save_steps(request(run, at)))

    def _check_step(self, done: int) -> None:
        if done < self.last:
            refuse(f"save {done} was refused", done, f"the attempt's last was {self.last}")
        if self.armed.bad_step > done:
            refuse(
                f"save {done} was refused",
                done,
                f"something bad was to happen at {self.armed.bad_step}, before it",
            )
        self.last = done

    def _boundary(self, done: int, steps: Callable[[Run, int], Any]) -> None:
        """One call of all ranks, with everything that the script armed for it."""
        for guard in self.guards.values():
            guard.done = done
        said = {rank: self.armed.odd.get(rank, done) for rank in self.runs}
        coming = {
            rank: (lambda run=run, at=said[rank]: steps(run, at))
            for rank, run in self.runs.items()
            if said[rank] is not None
        }
        ended = Exchange(coming, self.world).run()
        armed, self.armed = self.armed, Armed()
        if armed.ends_attempt or any(_fatal(one) for one in ended.values()):
            self._end_attempt(armed.crash)

    def _end_attempt(self, crash: Op | None) -> None:
        self._over()
        if crash is not None and crash.get("power", False):
            self.disk.power_loss()

    # --- the other operations ---

    def _metric(self, op: Op) -> None:
        self.runs[0].report(op["step"], {op["name"]: metric_value(op["value"])})

    def _bad(self, op: Op) -> None:
        if not op["step"] > self.last:
            refuse("bad was refused", op, f"its step lies after the last save, {self.last}")
        for rank in op["ranks"]:
            self._has_rank(rank)
            self.guards[rank].flag(op["component"], op["step"])
        self.armed.bad_step = max(self.armed.bad_step, op["step"])

    def _has_rank(self, rank: int) -> None:
        if rank >= self.world:
            refuse(f"rank {rank} was refused", rank, f"the world has {self.world} ranks")

    def _fail(self, op: Op) -> None:
        self._has_rank(op["rank"])
        if op["rank"] != 0 and op["phase"] in OF_RANK_0:
            refuse("fail was refused", op, "only rank 0 does something in that phase")
        self.armed.fails[op["rank"], op["phase"]] = op["error"]

    def _odd(self, op: Op) -> None:
        self._has_rank(op["rank"])
        self.armed.odd[op["rank"]] = op["done"]

    def _crash(self, op: Op) -> None:
        for rank in op.get("ranks", "all") if op.get("ranks", "all") != "all" else []:
            self._has_rank(rank)
        self.armed.crash = op

    def _clock(self, op: Op) -> None:
        self.clock.add(op["add_s"])

    def _pin(self, op: Op) -> None:
        self.runs[0].pin(self._named(op["pin"]).ckpt_id, who="scenario", why="pin")

    def _unpin(self, op: Op) -> None:
        self.runs[0].unpin(self._named(op["unpin"]).ckpt_id, who="scenario")

    def _named(self, done: int) -> Ckpt:
        state = self.runs[0].current()
        here = at_step(state, "live", done)
        found = [c for c in committed(state) if c.done == done and c.family == "live"]
        if here is None and not found:
            refuse(f"there is no checkpoint {done}", done)
        return here or found[-1]

    def _end(self, op: Op) -> None:
        done = op["end"]
        if done < floor(self.runs[0].current()):
            refuse(f"end {done} was refused", done, "the live branch is beyond it")
        self._check_step(done)
        self._boundary(done, lambda run, at: run.finish_steps(at))
        for run in self.runs.values():
            run.close()
        self._over()

    def _disk(self, op: Op) -> None:
        touch(self.disk, f"{ROOT}/live", op)


def _fatal(ended: Ended) -> bool:
    if ended.killed:
        return True
    error = ended.error or getattr(ended.value, "error", None)
    return isinstance(error, AttemptOver | OSError)


_PLAY: Final[Mapping[str, Callable[[Simulation, Op], None]]] = {
    "metric": Simulation._metric,
    "bad": Simulation._bad,
    "fail": Simulation._fail,
    "odd": Simulation._odd,
    "crash": Simulation._crash,
    "restart": Simulation._restart,
    "clock": Simulation._clock,
    "pin": Simulation._pin,
    "unpin": Simulation._unpin,
    "end": Simulation._end,
    "disk": Simulation._disk,
}
