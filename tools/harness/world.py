"""What simulated ranks bring: clock, guard and payload, all small and deterministic."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import attrs

from jumar.engine.log.claims import Writer
from jumar.engine.payload import Declaration, PartFile, Plan
from jumar.reducers.ballot import Reading, StepFacts
from jumar.reducers.guard import WATCHED

START_NS: Final = 1_700_000_000 * 10**9
TICK_NS: Final = 1_000_000


@attrs.define
class SimClock:
    """Moves by a millisecond at each look, and by what a scenario adds."""

    now_ns: int = START_NS

    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""
        self.now_ns += TICK_NS
        return self.now_ns

    def mono_ns(self) -> int:
        """The same line: it never goes back."""
        return self.now_ns

    def add(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ns += int(seconds * 10**9)


@attrs.define
class SimGuard:
    """A guard that is told what was bad; every component watches every step."""

    since: int
    done: int = 0
    bad: dict[str, int] = attrs.field(factory=dict)

    def flag(self, component: str, step: int) -> None:
        """A non-finite value at this step (completed steps)."""
        self.bad[component] = min(step, self.bad.get(component, step))

    def read(self) -> StepFacts:
        """One reading per component."""
        fed = max(0, self.done - self.since)
        readings = tuple(
            Reading(
                name=name,
                fed=fed,
                first_bad=self.bad.get(name, -1),
                bad=int(name in self.bad),
                where=(),
            )
            for name in WATCHED
        )
        return StepFacts(readings=readings, skipped=0, replica="")

    def clear(self) -> None:
        """The verdict was agreed on."""
        self.since, self.bad = self.done, {}


@attrs.frozen
class SimPayload:
    """Each rank writes one small part that names its checkpoint."""

    rank: int

    def declare(self, family: str) -> Declaration:
        """One part a rank."""
        return Declaration({f"part{self.rank:05d}.bin": 1})

    def stage(self, plan: Plan, open_part: Callable[[str], PartFile]) -> None:
        """The records as they would go into the bytes, in two writes."""
        file = open_part(f"part{self.rank:05d}.bin")
        file.write(f"{plan.ckpt_id} of rank {self.rank}\n".encode())
        file.write(json.dumps(plan.records, sort_keys=True).encode())


def sim_writer() -> Writer:
    """A process on a simulated host: whoever was there before it is gone."""
    return Writer(host="sim", pid=1, boot_id="", started=0, alive=lambda claim: False)
