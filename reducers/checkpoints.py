"""Which checkpoints are authoritative: live, latest, superseded, restartable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jumar.reducers.lineage import on_branch, owner, reach
from jumar.reducers.state import Ckpt, State
from jumar.reducers.values import Metric

RESTARTABLE: Final = ("live",)
"""Families that hold a whole training state; an EMA file is never a restart source."""

MISSING: Final = Metric.of(None)


def committed(state: State) -> list[Ckpt]:
    """All that are committed and not on their way out, in commit order."""
    found = [ckpt for ckpt in state.ckpts.values() if ckpt.committed]
    return sorted(found, key=lambda ckpt: ckpt.index or 0)


def branch(state: State) -> list[Ckpt]:
    """Those of the live branch, all families, whole or not, in commit order."""
    reached = reach(state)
    return [ckpt for ckpt in committed(state) if on_branch(ckpt, reached)]


def live(state: State, family: str) -> list[Ckpt]:
    """One family's commits on the live branch that nobody saw missing or damaged."""
    return [c for c in branch(state) if c.family == family and not c.observed]


def latest(state: State, family: str) -> Ckpt | None:
    """The newest commit of a family on the live branch."""
    found = live(state, family)
    return found[-1] if found else None


def superseded(state: State) -> list[Ckpt]:
    """Committed, not pruned, and left behind by a restart."""
    reached = reach(state)
    return [ckpt for ckpt in committed(state) if not on_branch(ckpt, reached)]


def tip(state: State) -> str | None:
    """What a commit made now follows: the attempt's newest commit, else its source."""
    own = [ckpt for ckpt in branch(state) if ckpt.attempt == state.attempt]
    return own[-1].ckpt_id if own else state.source


def at_step(state: State, family: str, done: int) -> Ckpt | None:
    """The newest revision of a step on the live branch, whole."""
    found = [ckpt for ckpt in live(state, family) if ckpt.done == done]
    return max(found, key=lambda ckpt: ckpt.revision, default=None)


def floor(state: State) -> int:
    """`done` never goes below this: the newest commit of the live branch, or the start."""
    return max(
        [state.start_done, *(ckpt.done for ckpt in branch(state) if not ckpt.observed)]
    )


def in_flight(state: State) -> list[Ckpt]:
    """Accepted, and neither committed nor aborted."""
    return [ckpt for ckpt in state.ckpts.values() if not ckpt.on_disk]


def metric_of(state: State, ckpt: Ckpt, name: str) -> Metric:
    """A metric of this step: the family's own value, else the step's."""
    at = f"{owner(state, ckpt.attempt, ckpt.done)}@{ckpt.done}"
    values: Mapping[str, Metric] = state.metrics.get(at, {})
    return values.get(f"{ckpt.family}:{name}") or values.get(f":{name}") or MISSING
