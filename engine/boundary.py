"""
The publication protocol of one boundary, without I/O: inputs in, effects out.

    ballot -> agree (exchange 1) -> write -> outcome (exchange 2) -> commit
           -> return (exchange 3) -> tidy

Rank 0 gathers, decides, makes the decision durable and only then answers; every rank
runs the same `decide` on the same ballots and folds the same payloads.  Nothing that a
reader trusts moves before commit, so there is nothing to roll back.

Longer than 300 lines, since the protocol is read, and checked, as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from jumar.engine import effects as fx
from jumar.engine import tellings
from jumar.engine.errors import LogFailed
from jumar.reducers import events as ev
from jumar.reducers.ballot import NOTHING_WATCHED, Ballot, Lead, PartWish
from jumar.reducers.decide import Decision, below_floor, decide, saves
from jumar.reducers.errors import ProtocolMisuse
from jumar.reducers.fold import fold_all
from jumar.reducers.schema import Unknown, decode, encode
from jumar.reducers.state import State
from jumar.reducers.values import Part, RankOutcome


@attrs.frozen
class Request:
    """
    What the trainer asked for, the same on every rank that is in step.

    Attributes:
        parts: what this rank will write.
        order: digests of the collectives that writing will need.
        error: why this rank cannot say what it will write.
    """

    done: int
    families: tuple[str, ...]
    reasons: tuple[str, ...]
    revise: bool
    parts: tuple[PartWish, ...] = ()
    order: str = ""
    error: str | None = None


@attrs.define
class Boundary:
    """
    One rank's side of one boundary.

    Attributes:
        state: mutated by folding; equal on all ranks when the boundary is over.
        facts: rank 0 only: what it logged since the last boundary, for all to fold.
        lead: rank 0 only: clock and epoch.
        expects: the next input, by the table below; empty when over.
    """

    state: State
    rank: int
    request: Request
    facts: tuple[ev.Event, ...] = ()
    lead: Lead | None = None
    expects: str = "start"
    _ballots: tuple[Ballot, ...] = ()
    _decision: Decision = attrs.field(factory=lambda: Decision(events=()))
    _outcomes: Sequence[fx.Plain] = ()
    _failed: str | None = None
    _parts: dict[str, tuple[Part, ...]] = attrs.field(factory=dict)
    _final: tuple[ev.Event, ...] = ()
    _before: str = ""

    def start(self) -> list[fx.Effect]:
        """Begin: read the guard when something will really be saved."""
        self._before = self.state.digest()
        request = self.request
        if any(
            saves(self.state, f, request.done, request.revise) for f in request.families
        ):
            return self._next("ballot", fx.ReadGuard())
        return self._on_guard(fx.GuardRead(NOTHING_WATCHED))

    def receive(self, given: fx.Input) -> list[fx.Effect]:
        """The effects that follow from one input; ProtocolMisuse when none was due."""
        if isinstance(given, fx.Lost):
            return self._on_lost(given)
        handler = _STEPS.get((self.expects, type(given)))
        if handler is None:
            raise ProtocolMisuse(
                f"{type(given).__name__} was not expected",
                why=f"the boundary waits in '{self.expects}'",
                instead="carry out each effect and hand back its one input",
                value=given,
            )
        return handler(self, given)

    def _next(self, expects: str, *effects: fx.Effect) -> list[fx.Effect]:
        self.expects = expects
        return list(effects)

    # --- phase 0 and exchange 1: ballot, agree ---

    def _on_guard(self, given: fx.GuardRead) -> list[fx.Effect]:
        ballot = self._ballot(given).to_plain()
        if self.rank == 0:
            return self._next("ballots", fx.Gather("agree", ballot))
        return self._next("decision", fx.Ask("agree", ballot))

    def _ballot(self, given: fx.GuardRead) -> Ballot:
        assert self.state.policy is not None
        request = self.request
        least = below_floor(self.state, request.done)
        back = f"done={request.done} is below {least}, the newest commit of the live branch"
        return Ballot(
            attempt=self.state.attempt,
            done=request.done,
            families=request.families,
            revise=request.revise,
            reasons=request.reasons,
            policy=self.state.policy.digest(),
            state=self._before,
            order=request.order,
            facts=given.facts,
            parts=request.parts,
            error=(request.error or given.error) if least is None else back,
        )

    def _on_ballots(self, given: fx.Gathered) -> list[fx.Effect]:
        self._decide([Ballot.from_plain(dict(message)) for message in given.messages])
        return self._next("decided", fx.Log(self._decision.events))

    def _decide(self, ballots: Sequence[Ballot]) -> None:
        assert self.lead is not None
        fold_all(self.state, self.facts)
        self._ballots = tuple(ballots)
        self._decision = decide(self.state, ballots, self.lead)
        fold_all(self.state, self._decision.events)

    def _on_decided(self, given: fx.Logged) -> list[fx.Effect]:
        assert self.lead is not None
        message = {
            "ballots": [ballot.to_plain() for ballot in self._ballots],
            "facts": pack(self.facts),
            "lead": self.lead.to_plain(),
            "error": given.error,
        }
        return [fx.Answer("agree", message), *self._after_decision(given.error)]

    def _on_decision(self, given: fx.Answered) -> list[fx.Effect]:
        message = given.message
        if message["error"] is not None:
            return self._log_failed(message["error"])
        self.facts = unpack(message["facts"])
        self.lead = Lead.from_plain(message["lead"])
        self._decide([Ballot.from_plain(plain) for plain in message["ballots"]])
        return self._after_decision(None)

    def _after_decision(self, error: str | None) -> list[fx.Effect]:
        if error is not None:
            return self._log_failed(error)
        decision = self._decision
        clear = [fx.ClearGuard()] if decision.clears_guard else []
        if decision.accepted:
            return [*clear, *self._next("staged", fx.Stage(decision.accepted))]
        return [*clear, self._conclude()]

    # --- phases 2 and 3, exchange 2: write, outcome ---

    def _on_staged(self, given: fx.Staged) -> list[fx.Effect]:
        parts = {name: [p.to_plain() for p in parts] for name, parts in given.parts.items()}
        message = {"parts": parts, "error": given.error}
        if self.rank == 0:
            return self._next("outcomes", fx.Gather("outcome", message))
        return self._next("outcome", fx.Ask("outcome", message))

    def _on_outcomes(self, given: fx.Gathered) -> list[fx.Effect]:
        self._final = self._judge_outcomes(given.messages)
        fold_all(self.state, self._final)
        self._outcomes = given.messages
        return self._next("outcomes logged", fx.Log(self._final))

    def _judge_outcomes(self, outcomes: Sequence[fx.Plain]) -> tuple[ev.Event, ...]:
        """`ckpt.written` of each checkpoint, and `ckpt.aborted` if any rank failed."""
        errors = {rank: one["error"] for rank, one in enumerate(outcomes) if one["error"]}
        events: list[ev.Event] = []
        for accepted in self._decision.accepted:
            ranks = tuple(_rank_outcome(one, accepted.ckpt_id) for one in outcomes)
            self._parts[accepted.ckpt_id] = tuple(p for one in ranks for p in one.parts)
            events.append(ev.CkptWritten(ckpt_id=accepted.ckpt_id, ranks=ranks))
            if errors:
                text = "; ".join(f"rank {rank}: {error}" for rank, error in errors.items())
                events.append(aborted(accepted, "write", tuple(errors), text))
        return tuple(events)

    def _on_outcomes_logged(self, given: fx.Logged) -> list[fx.Effect]:
        message = {"outcomes": list(self._outcomes), "error": given.error}
        answer = fx.Answer("outcome", message)
        if given.error is not None:
            return [answer, *self._log_failed(given.error)]
        if self._was_aborted():
            discard = fx.Discard(self._decision.accepted)
            return [answer, discard, self._conclude()]
        place = fx.Place(self._decision.accepted, self._parts)
        return [answer, *self._next("placed", place)]

    def _on_outcome(self, given: fx.Answered) -> list[fx.Effect]:
        if given.message["error"] is not None:
            return self._log_failed(given.message["error"])
        self._final = self._judge_outcomes(given.message["outcomes"])
        fold_all(self.state, self._final)
        if self._was_aborted():
            return [self._conclude()]
        return self._next("result", fx.Ask("return", {}))

    def _was_aborted(self) -> bool:
        return any(isinstance(event, ev.CkptAborted) for event in self._final)

    # --- phase 4 and exchange 3: commit, return ---

    def _on_placed(self, given: fx.Placed) -> list[fx.Effect]:
        events: list[ev.Event] = []
        for accepted in self._decision.accepted:
            result = given.results[accepted.ckpt_id]
            if result.error is not None:
                events.append(aborted(accepted, result.phase, (0,), result.error))
                continue
            events.append(
                ev.CkptCommitted(
                    ckpt_id=accepted.ckpt_id,
                    manifest_sha256=result.manifest_sha256,
                    parts=self._parts[accepted.ckpt_id],
                    recovered=False,
                )
            )
        self._final = tuple(events)
        return self._next("committed", fx.Log(self._final))

    def _on_committed(self, given: fx.Logged) -> list[fx.Effect]:
        if given.error is None:
            fold_all(self.state, self._final)
        self._failed = given.error
        return self._next("returning", fx.Gather("return", {}))

    def _on_returning(self, given: fx.Gathered) -> list[fx.Effect]:
        message = {"events": pack(self._final), "error": self._failed}
        answer = fx.Answer("return", message)
        if self._failed is not None:
            return [answer, *self._log_failed(self._failed)]
        gone = [e.ckpt_id for e in self._final if isinstance(e, ev.CkptAborted)]
        lost = tuple(one for one in self._decision.accepted if one.ckpt_id in gone)
        made = tuple(e.ckpt_id for e in self._final if isinstance(e, ev.CkptCommitted))
        tidy: list[fx.Effect] = [fx.Discard(lost)] if lost else []
        return [answer, *tidy, *([fx.Tidy(made)] if made else []), self._conclude()]

    def _on_result(self, given: fx.Answered) -> list[fx.Effect]:
        if given.message["error"] is not None:
            return self._log_failed(given.message["error"])
        self._final = unpack(given.message["events"])
        fold_all(self.state, self._final)
        return [self._conclude()]

    # --- endings ---

    def _on_lost(self, given: fx.Lost) -> list[fx.Effect]:
        """The attempt is over; rank 0 writes down who was missing, and from what."""
        conclude = fx.Conclude(error=given.error)
        if self.rank != 0:
            return self._next("", conclude)
        lost = given.error
        waiting = ev.CollWaiting(
            attempt=self.state.attempt,
            phase=lost.phase,
            late=lost.ranks,
            waited_ms=int(lost.waited_s * 1000),
        )
        events: list[ev.Event] = [waiting]
        if self.expects == "outcomes":
            accepted = self._decision.accepted
            events += [aborted(one, "outcome", lost.ranks, str(lost)) for one in accepted]
        fold_all(self.state, events)
        return self._next("", fx.Log(tuple(events)), conclude)

    def _log_failed(self, error: str) -> list[fx.Effect]:
        failed = LogFailed(
            "the log could not be made durable",
            why=error,
            instead="restart the job: what was committed stands, and the next open "
            "finishes or removes what was under way",
            value=self.request.done,
        )
        return self._next("", fx.Conclude(error=failed))

    def _conclude(self) -> fx.Conclude:
        self.expects = ""
        decision = self._decision
        if decision.mismatch is not None:
            return fx.Conclude(error=tellings.mismatch(decision.mismatch))
        outcomes = tellings.outcomes(
            (*decision.events, *self._final), self.request.families
        )
        if not decision.escalated:
            return fx.Conclude(outcomes=outcomes)
        return fx.Conclude(outcomes, tellings.poisoned(outcomes, self.request.done))


def _rank_outcome(message: fx.Plain, ckpt_id: str) -> RankOutcome:
    parts = tuple(Part.from_plain(plain) for plain in message["parts"].get(ckpt_id, ()))
    return RankOutcome(parts=parts, error=message["error"])


def aborted(
    accepted: ev.CkptAccepted, phase: str, ranks: tuple[int, ...], error: str
) -> ev.CkptAborted:
    """The abort of an accepted checkpoint."""
    return ev.CkptAborted(
        family=accepted.family,
        done=accepted.done,
        attempt=accepted.attempt,
        ckpt_id=accepted.ckpt_id,
        phase=phase,
        ranks=ranks,
        error=error[:8192],
    )


def pack(events: Sequence[ev.Event]) -> list[list[Any]]:
    """Events as plain values for a message."""
    return [list(encode(event)) for event in events]


def unpack(plain: Sequence[Sequence[Any]]) -> tuple[ev.Event, ...]:
    """The inverse of `pack`; ranks of one job run one version, so nothing is unknown."""
    events = [decode(*one) for one in plain]
    known = [event for event in events if not isinstance(event, Unknown)]
    assert len(known) == len(events), "ranks run different versions"
    return tuple(known)


_STEPS: Final[Mapping[tuple[str, type], Callable[[Boundary, Any], list[fx.Effect]]]] = {
    ("ballot", fx.GuardRead): Boundary._on_guard,
    ("ballots", fx.Gathered): Boundary._on_ballots,
    ("decided", fx.Logged): Boundary._on_decided,
    ("decision", fx.Answered): Boundary._on_decision,
    ("staged", fx.Staged): Boundary._on_staged,
    ("outcomes", fx.Gathered): Boundary._on_outcomes,
    ("outcomes logged", fx.Logged): Boundary._on_outcomes_logged,
    ("outcome", fx.Answered): Boundary._on_outcome,
    ("placed", fx.Placed): Boundary._on_placed,
    ("committed", fx.Logged): Boundary._on_committed,
    ("returning", fx.Gathered): Boundary._on_returning,
    ("result", fx.Answered): Boundary._on_result,
}
