"""What a boundary came to, in words for the trainer: outcomes and errors from events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from jumar.engine import effects as fx
from jumar.engine.errors import RankMismatch, TrainingPoisoned
from jumar.reducers import events as ev
from jumar.reducers.values import parse_ckpt_id


def outcomes(events: Iterable[ev.Event], families: Sequence[str]) -> tuple[fx.Outcome, ...]:
    """One outcome per family, in the order they were asked for; the last event counts."""
    told = {}
    for event in events:
        teller = _TELLS.get(type(event))
        if teller is not None:
            outcome = teller(event)
            told[outcome.family] = outcome
    return tuple(told[family] for family in families)


def mismatch(event: ev.CollMismatch) -> RankMismatch:
    """The error that names the odd ranks."""
    said = ", ".join(f"rank {rank}: {word[:16]}" for rank, word in enumerate(event.said))
    names = ", ".join(str(rank) for rank in event.odd)
    return RankMismatch(
        f"rank {names} said another {event.field} than its peers",
        why=f"a boundary needs one {event.field} on all ranks ({said[:500]})",
        instead="call save() on every rank at the same completed step and with the same "
        "arguments; nothing was saved and no guard flag was cleared",
        value=list(event.odd),
    )


def poisoned(outcomes: Sequence[fx.Outcome], done: int) -> TrainingPoisoned:
    """The error after too many refusals in a row."""
    return TrainingPoisoned(
        "training cannot be saved any more",
        why="; ".join(outcome.reason for outcome in outcomes if outcome.reason),
        instead="restart: restart='auto' begins from the last good checkpoint",
        value=done,
    )


def _rejection(event: ev.CkptRejected) -> str:
    if event.cause == "sticky":
        return (
            f"rejected earlier and not restored since (refusal {event.refusals} in a row)"
        )
    ranks = ", ".join(str(rank) for rank in event.ranks)
    if event.components == ("replica",):
        return f"the parameters of rank {ranks} differ from those of its replicas"
    return (
        f"{' and '.join(event.components)} not finite on rank {ranks}, "
        f"first at step {event.first_bad}"
    )


def _family(ckpt_id: str) -> str:
    return parse_ckpt_id(ckpt_id)[0]


_TELLS: Final[Mapping[type, Callable[[Any], fx.Outcome]]] = {
    ev.CkptMerged: lambda e: fx.Outcome("merged", e.ckpt_id, "", _family(e.ckpt_id)),
    ev.CkptRejected: lambda e: fx.Outcome("rejected", None, _rejection(e), e.family),
    ev.CkptAborted: lambda e: fx.Outcome("aborted", None, e.error, e.family),
    ev.CkptCommitted: lambda e: fx.Outcome("committed", e.ckpt_id, "", _family(e.ckpt_id)),
}
