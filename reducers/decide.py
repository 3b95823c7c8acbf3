"""
The one function that every rank runs: `decide(state, ballots, lead) -> Decision`.

Pure, so that all ranks reach the same events from the same ballots, and so that a replay
can compute any decision again from the log and compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from jumar.reducers import events as ev
from jumar.reducers import guard
from jumar.reducers.ballot import Ballot, Lead
from jumar.reducers.checkpoints import at_step, floor, tip
from jumar.reducers.ranking import rankings
from jumar.reducers.state import Ckpt, State
from jumar.reducers.values import ComponentVector, Declared, ckpt_id


@attrs.frozen
class Decision:
    """
    What a boundary comes to.

    Attributes:
        events: in the order in which they are logged and folded.
        accepted: the checkpoints to write, in proposal order.
        clears_guard: the flags were agreed on, so each rank clears its own.
        mismatch: the ranks did not say the same; nothing was decided.
        escalated: refusals in a row reached the limit.
    """

    events: tuple[ev.Event, ...]
    accepted: tuple[ev.CkptAccepted, ...] = ()
    clears_guard: bool = False
    mismatch: ev.CollMismatch | None = None
    escalated: bool = False


def decide(state: State, ballots: Sequence[Ballot], lead: Lead) -> Decision:
    """
    Decide one boundary.

    Args:
        state: with rank 0's facts folded.
        ballots: one a rank, in rank order.
        lead: rank 0's clock and epoch.
    """
    odd = _mismatch(state, ballots)
    if odd is not None:
        return Decision(events=(odd,), mismatch=odd)
    if any(ballot.error for ballot in ballots):
        return Decision(events=_aborted(state, ballots))
    return _vote(state, ballots, lead)


def saves(state: State, family: str, done: int, revise: bool) -> bool:
    """Whether a save writes anything: the live branch has no commit of that step yet."""
    return revise or at_step(state, family, done) is None


_COMPARED: Final[Mapping[str, Callable[[Ballot], object]]] = {
    "attempt": lambda b: b.attempt,
    "done": lambda b: b.done,
    "families": lambda b: (b.families, b.revise),
    "policy": lambda b: b.policy,
    "state": lambda b: b.state,
    "order": lambda b: b.order,
}


def _mismatch(state: State, ballots: Sequence[Ballot]) -> ev.CollMismatch | None:
    for field, said_by in _COMPARED.items():
        said = [said_by(ballot) for ballot in ballots]
        if field == "order" and any(ballot.error for ballot in ballots):
            continue  # who failed may not know an order; nothing will be collected
        if len(set(said)) > 1:
            counts = Counter(said)
            # Without a majority rank 0 counts as right: it holds the log.
            usual = max(counts, key=lambda word: (counts[word], word == said[0]))
            odd = tuple(rank for rank, word in enumerate(said) if word != usual)
            words = tuple(str(word)[:255] for word in said)
            return ev.CollMismatch(attempt=state.attempt, field=field, odd=odd, said=words)
    return None


def _aborted(state: State, ballots: Sequence[Ballot]) -> tuple[ev.Event, ...]:
    errors = {rank: b.error for rank, b in enumerate(ballots) if b.error}
    text = "; ".join(f"rank {rank}: {error}" for rank, error in errors.items())
    return tuple(
        ev.CkptAborted(
            family=family,
            done=ballots[0].done,
            attempt=state.attempt,
            ckpt_id=None,
            phase="ballot",
            ranks=tuple(errors),
            error=text[:8192],
        )
        for family in ballots[0].families
    )


def _vote(state: State, ballots: Sequence[Ballot], lead: Lead) -> Decision:
    first = ballots[0]
    writing = [f for f in first.families if saves(state, f, first.done, first.revise)]
    events: list[ev.Event] = [
        ev.CkptMerged(
            ckpt_id=_at(state, family, first.done).ckpt_id,
            attempt=state.attempt,
            reasons=first.reasons,
        )
        for family in first.families
        if family not in writing
    ]
    if not writing:
        return Decision(events=tuple(events))
    facts = [ballot.facts for ballot in ballots]
    agreed = guard.verdict(state, first.done, facts)
    events += [agreed, *guard.found(agreed, facts)]
    accepted: list[ev.CkptAccepted] = []
    for family in writing:
        judged = _judge(state, family, ballots, agreed, lead)
        events += judged
        accepted += [event for event in judged if isinstance(event, ev.CkptAccepted)]
    escalated = any(
        isinstance(e, ev.GuardAction) and e.action == "escalate" for e in events
    )
    return Decision(tuple(events), tuple(accepted), True, None, escalated)


def _at(state: State, family: str, done: int) -> Ckpt:
    found = at_step(state, family, done)
    assert found is not None  # `saves` said so
    return found


def _judge(
    state: State,
    family: str,
    ballots: Sequence[Ballot],
    agreed: ev.GuardVerdict,
    lead: Lead,
) -> list[ev.Event]:
    first = ballots[0]
    proposed = ev.CkptProposed(
        family=family, done=first.done, attempt=state.attempt, reasons=first.reasons
    )
    culprits = guard.culprits(agreed, family)
    if culprits or state.refusals.get(family):
        return [proposed, *_refuse(state, family, first.done, culprits)]
    return [proposed, _accept(state, family, ballots, guard.covered(state, agreed), lead)]


def _refuse(
    state: State, family: str, done: int, culprits: Sequence[ComponentVector]
) -> list[ev.Event]:
    assert state.policy is not None
    policy = state.policy.of(family)
    refusals = state.refusals.get(family, 0) + 1
    rejected = ev.CkptRejected(
        family=family,
        done=done,
        attempt=state.attempt,
        cause="verdict" if culprits else "sticky",
        components=tuple(vector.name for vector in culprits),
        ranks=guard.bad_ranks(culprits),
        first_bad=guard.first_bad(culprits),
        refusals=refusals,
    )
    limit = policy.escalate_after or 10
    action = "escalate" if refusals >= limit else _ACTIONS.get(policy.on_reject or "")
    if action is None:
        return [rejected]
    acted = ev.GuardAction(
        attempt=state.attempt, action=action, family=family, done=done, refusals=refusals
    )
    return [rejected, acted]


_ACTIONS: Final = {"skip": "skip", "stop": "stop"}


def _accept(
    state: State, family: str, ballots: Sequence[Ballot], verified: bool, lead: Lead
) -> ev.CkptAccepted:
    assert state.policy is not None
    first = ballots[0]
    revision = state.revisions.get(family, {}).get(str(first.done), 0)
    declared = tuple(
        Declared(name=wish.name, rank=rank, size_min=wish.size_min)
        for rank, ballot in enumerate(ballots)
        for wish in ballot.parts
        if wish.family == family
    )
    joining = Ckpt(
        ckpt_id=ckpt_id(family, first.done, revision),
        family=family,
        done=first.done,
        revision=revision,
        attempt=state.attempt,
        epoch=lead.epoch,
        parent=tip(state),
        verified=verified,
        clock_ns=lead.clock_ns,
        status="accepted",
        declared=declared,
    )
    return ev.CkptAccepted(
        ckpt_id=joining.ckpt_id,
        family=family,
        done=first.done,
        revision=revision,
        attempt=state.attempt,
        epoch=lead.epoch,
        parent=joining.parent,
        verified=verified,
        clock_ns=lead.clock_ns,
        reasons=first.reasons,
        declared=declared,
        rankings=rankings(state, state.policy.of(family), family, joining),
    )


def below_floor(state: State, done: int) -> int | None:
    """The step that a save may not go below, when `done` does; else None."""
    least = floor(state)
    return least if done < least else None
