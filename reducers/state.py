"""
What a log means: the state that every rank folds and every decision is made from.

It holds decisions and payloads only, nothing of an envelope (no sequence numbers, no
times but those that a decision looked at), so that every rank reaches the same digest
from the payloads that it was told.  Checkpoints that are gone leave only a count behind,
so the state is as large as the run directory and not as long as the log.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import attrs

from jumar.reducers.fields import Plain
from jumar.reducers.lifecycle import COMMITTED, NO_ATTEMPT, PRUNING
from jumar.reducers.policy import Policy
from jumar.reducers.rules import Schedule
from jumar.reducers.values import Declared, Metric, Part


@attrs.define
class Ckpt:
    """
    One checkpoint that was accepted and is not gone.

    Attributes:
        index: place in the order of commits of the run; None until committed.
        observed: `missing` or `damaged` when somebody saw that; it then holds no place.
        because: the commit for which a started prune removes it.
    """

    ckpt_id: str
    family: str
    done: int
    revision: int
    attempt: int
    epoch: int
    parent: str | None
    verified: bool
    clock_ns: int
    status: str
    declared: tuple[Declared, ...]
    parts: tuple[Part, ...] = ()
    manifest_sha256: str = ""
    index: int | None = None
    observed: str = ""
    pinned: bool = False
    because: str = ""

    @property
    def committed(self) -> bool:
        """Committed and no prune has started."""
        return self.status == COMMITTED

    @property
    def on_disk(self) -> bool:
        """Committed once and its removal is not known to be done."""
        return self.status in (COMMITTED, PRUNING)

    def to_plain(self) -> Plain:
        """Dicts, lists and scalars only."""
        plain = {f.name: getattr(self, f.name) for f in attrs.fields(Ckpt)}
        plain["declared"] = [one.to_plain() for one in self.declared]
        plain["parts"] = [part.to_plain() for part in self.parts]
        return plain

    @classmethod
    def from_plain(cls, plain: Plain) -> Ckpt:
        """The inverse of `to_plain`."""
        declared = tuple(Declared.from_plain(one) for one in plain["declared"])
        parts = tuple(Part.from_plain(part) for part in plain["parts"])
        return cls(**{**plain, "declared": declared, "parts": parts})


@attrs.define
class State:
    """
    Mutable inside the fold; treat it as frozen everywhere else.

    Attributes:
        attempt: number of the current attempt, -1 before the first.
        phase: where the attempt stands in its table (`lifecycle.ATTEMPT`).
        source: the checkpoint that the attempt began from, None: from nothing.
        start_done: completed steps that the attempt began with.
        forks: attempt -> (attempt it continues, completed steps up to which), or None
            for one that began from nothing.
        verdict_done: completed steps at the last agreed verdict of the attempt.
        covered: whether that verdict rested on steps that every rank watched.
        commits: how many checkpoints were ever committed.
        revisions: family -> completed steps (as text) -> accepted proposals.
        metrics: "<attempt>@<done>" -> "<family or nothing>:<name>" -> first finite value.
        refusals: family -> refusals in a row; a family with any is sticky.
    """

    run_id: str = ""
    policy: Policy | None = None
    schedule: Schedule | None = None
    attempt: int = -1
    world: int = 0
    phase: str = NO_ATTEMPT
    source: str | None = None
    start_done: int = 0
    forks: dict[int, tuple[int, int] | None] = attrs.field(factory=dict)
    verdict_done: int = 0
    covered: bool = False
    commits: int = 0
    ckpts: dict[str, Ckpt] = attrs.field(factory=dict)
    revisions: dict[str, dict[str, int]] = attrs.field(factory=dict)
    metrics: dict[str, dict[str, Metric]] = attrs.field(factory=dict)
    refusals: dict[str, int] = attrs.field(factory=dict)
    finished: bool = False

    def to_plain(self) -> Plain:
        """Dicts with text keys, lists and scalars only."""
        plain: Plain = {
            f.name: getattr(self, f.name)
            for f in attrs.fields(State)
            if f.name not in _NESTED
        }
        plain["policy"] = None if self.policy is None else self.policy.to_plain()
        plain["schedule"] = None if self.schedule is None else self.schedule.to_plain()
        plain["forks"] = [[k, *(v or ())] for k, v in sorted(self.forks.items())]
        plain["ckpts"] = [ckpt.to_plain() for _, ckpt in sorted(self.ckpts.items())]
        plain["metrics"] = {
            at: {name: m.to_plain() for name, m in values.items()}
            for at, values in self.metrics.items()
        }
        return plain

    @classmethod
    def from_plain(cls, plain: Plain) -> State:
        """The inverse of `to_plain`."""
        ckpts = [Ckpt.from_plain(one) for one in plain["ckpts"]]
        nested: dict[str, Any] = {
            "policy": plain["policy"] and Policy.from_plain(plain["policy"]),
            "schedule": plain["schedule"] and Schedule.from_plain(plain["schedule"]),
            "forks": {k: (tuple(v) or None) for k, *v in plain["forks"]},
            "ckpts": {ckpt.ckpt_id: ckpt for ckpt in ckpts},
            "metrics": {
                at: {name: Metric.from_plain(m) for name, m in values.items()}
                for at, values in plain["metrics"].items()
            },
        }
        return cls(**{**plain, **nested})

    def digest(self) -> str:
        """sha256 over the sorted plain form: equal for equal meaning, on every machine."""
        text = json.dumps(self.to_plain(), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def copy(self) -> State:
        """An independent state with the same meaning."""
        return State.from_plain(self.to_plain())


_NESTED = frozenset({"policy", "schedule", "forks", "ckpts", "metrics"})
