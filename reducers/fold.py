"""
The fold: one handler per event type, in a table; `fold(state, event)` mutates the state.

An event that the tables of `lifecycle` do not allow raises `ProtocolMisuse` and changes
nothing.  Types without a handler carry no decision and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from jumar.reducers import events as ev
from jumar.reducers.guard import covered
from jumar.reducers.lifecycle import ABSENT, ATTEMPT, CHECKPOINT, GONE, column, refuse
from jumar.reducers.lineage import owner
from jumar.reducers.state import Ckpt, State


def fold(state: State, event: ev.Event) -> None:
    """
    Apply one event.

    Raises:
        ProtocolMisuse: the event is illegal here; the state is unchanged.
    """
    handler, phases, moves = _STEPS[event.type]
    phase = state.phase
    if phases:
        of = state.attempt
        phase = phases.get(phase) or refuse(ATTEMPT, phase, event.type, f"attempt {of}")
    ckpt_id = getattr(event, "ckpt_id", None) if moves else None
    if ckpt_id is None:
        handler(state, event)
    else:
        status = _status(state, ckpt_id)
        after = moves.get(status) or refuse(CHECKPOINT, status, event.type, ckpt_id)
        handler(state, event)
        _settle(state, ckpt_id, after, event)
    state.phase = phase


def fold_all(state: State, events: Iterable[ev.Event]) -> State:
    """Apply events in order; returns the same, mutated state."""
    for event in events:
        fold(state, event)
    return state


def _status(state: State, ckpt_id: str) -> str:
    ckpt = state.ckpts.get(ckpt_id)
    return ABSENT if ckpt is None else ckpt.status


def _settle(state: State, ckpt_id: str, after: str, event: ev.Event) -> None:
    if after == GONE:
        _forget(state, state.ckpts.pop(ckpt_id))
        return
    called_back = isinstance(event, ev.PruneFailed) and event.whole
    state.ckpts[ckpt_id].status = "committed" if called_back else after


def _nothing(state: State, event: Any) -> None:
    """This type carries no decision."""


def _run_started(state: State, event: ev.RunStarted) -> None:
    state.run_id = event.run_id


def _policy(state: State, event: ev.PolicyResolved) -> None:
    state.policy = event.policy


def _schedule(state: State, event: ev.ScheduleResolved) -> None:
    state.schedule = event.schedule


def _attempt_started(state: State, event: ev.AttemptStarted) -> None:
    """The branch moves with `restart.selected`: a crash between the two changes nothing."""
    before = state.attempt
    state.attempt, state.world = event.attempt, event.world
    if before >= 0:
        # Until a source is chosen the new attempt stands where the last one stood.
        state.forks[event.attempt] = (before, 2**63 - 1)
    state.finished = False


def _restart_selected(state: State, event: ev.RestartSelected) -> None:
    state.source, state.start_done = event.ckpt_id, event.done
    source = state.ckpts.get(event.ckpt_id or "")
    state.forks[event.attempt] = None if source is None else (source.attempt, source.done)
    state.verdict_done = event.done
    state.covered = source is not None and source.verified
    state.refusals.clear()
    held = _metric_keys(state)
    state.metrics = {at: values for at, values in state.metrics.items() if at in held}


def _verdict(state: State, event: ev.GuardVerdict) -> None:
    state.covered = covered(state, event)
    state.verdict_done = event.to_done


def _action(state: State, event: ev.GuardAction) -> None:
    if event.action == "repair":
        state.refusals.pop(event.family, None)


def _metric(state: State, event: ev.MetricReported) -> None:
    """The first finite value of a (step, metric) stands; a later one is only recorded."""
    at = f"{owner(state, event.attempt, event.done)}@{event.done}"
    values = state.metrics.setdefault(at, {})
    name = f"{event.family or ''}:{event.name}"
    held = values.get(name)
    if held is None or not held.finite:
        values[name] = event.metric


def _rejected(state: State, event: ev.CkptRejected) -> None:
    state.refusals[event.family] = event.refusals


def _accepted(state: State, event: ev.CkptAccepted) -> None:
    steps = state.revisions.setdefault(event.family, {})
    steps[str(event.done)] = steps.get(str(event.done), 0) + 1
    state.refusals.pop(event.family, None)
    fields = {name: getattr(event, name) for name in _SHARED}
    state.ckpts[event.ckpt_id] = Ckpt(status="accepted", **fields)


_SHARED: Final = {f.name for f in attrs.fields(Ckpt)} & set(ev.CkptAccepted.__slots__)


def _committed(state: State, event: ev.CkptCommitted) -> None:
    ckpt = state.ckpts[event.ckpt_id]
    ckpt.parts, ckpt.manifest_sha256 = event.parts, event.manifest_sha256
    ckpt.index = state.commits
    state.commits += 1
    _drop_stale_metrics(state, ckpt)


def _observed(state: State, event: ev.CkptObserved) -> None:
    seen = {"missing": "missing", "damaged": "damaged", "whole": ""}
    if event.ckpt_id is not None:
        state.ckpts[event.ckpt_id].observed = seen[event.finding]


def _pinned(state: State, event: ev.CkptPinned) -> None:
    state.ckpts[event.ckpt_id].pinned = True


def _unpinned(state: State, event: ev.CkptUnpinned) -> None:
    state.ckpts[event.ckpt_id].pinned = False


def _prune_started(state: State, event: ev.PruneStarted) -> None:
    state.ckpts[event.ckpt_id].because = event.because


def _finished(state: State, event: ev.RunFinished) -> None:
    state.finished = True


def _forget(state: State, gone: Ckpt) -> None:
    """Metrics leave with the last checkpoint of their step."""
    at = f"{owner(state, gone.attempt, gone.done)}@{gone.done}"
    if at not in _metric_keys(state) and gone.status == "pruning":
        state.metrics.pop(at, None)


def _drop_stale_metrics(state: State, ckpt: Ckpt) -> None:
    """Steps below a commit of the same attempt that were not saved never will be."""
    held = _metric_keys(state)
    mine = f"{ckpt.attempt}@"
    for at in [at for at in state.metrics if at.startswith(mine) and at not in held]:
        if int(at[len(mine) :]) < ckpt.done:
            del state.metrics[at]


def _metric_keys(state: State) -> set[str]:
    return {f"{owner(state, c.attempt, c.done)}@{c.done}" for c in state.ckpts.values()}


_Handler = Callable[[State, Any], None]

_HANDLERS: Final[Mapping[str, _Handler]] = {
    "run.started": _run_started,
    "policy.resolved": _policy,
    "schedule.resolved": _schedule,
    "attempt.started": _attempt_started,
    "restart.selected": _restart_selected,
    "guard.verdict": _verdict,
    "guard.action": _action,
    "metric.reported": _metric,
    "ckpt.rejected": _rejected,
    "ckpt.accepted": _accepted,
    "ckpt.committed": _committed,
    "ckpt.observed": _observed,
    "ckpt.pinned": _pinned,
    "ckpt.unpinned": _unpinned,
    "prune.started": _prune_started,
    "run.finished": _finished,
}

_STEPS: Final[Mapping[str, tuple[_Handler, Mapping[str, str], Mapping[str, str]]]] = {
    name: (_HANDLERS.get(name, _nothing), column(ATTEMPT, name), column(CHECKPOINT, name))
    for name in ev.TYPES
}
"""event type -> its handler, and what it leads an attempt and a checkpoint from and to."""
