"""
`Run`: one attempt of a run, as one rank sees it.  The shell around the pure core.

Every rank opens, saves and finishes with the same calls in the same order; rank 0 alone
reads and writes the log and owns every name in the run directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import attrs

from jumar.engine import effects as fx
from jumar.engine.boundary import Request
from jumar.engine.errors import AttemptOver, SaveRejected
from jumar.engine.exchange import Steps, drive
from jumar.engine.inbox import must_be_committed
from jumar.engine.saving import Saving, tail
from jumar.engine.session import Session
from jumar.reducers import events as ev
from jumar.reducers.ballot import PartWish
from jumar.reducers.checkpoints import at_step
from jumar.reducers.rules import Schedule
from jumar.reducers.state import Ckpt
from jumar.reducers.values import Metric


@attrs.define
class Run(Session):
    """One rank's open attempt: report, save, finish."""

    # --- what is known ---

    @property
    def done(self) -> int:
        """Completed steps that this attempt began with."""
        return self.state.start_done

    @property
    def schedule(self) -> Schedule | None:
        """The schedule in force."""
        return self.state.schedule

    @property
    def source(self) -> Ckpt | None:
        """The checkpoint that this attempt began from."""
        return self.state.ckpts.get(self.state.source or "")

    @property
    def source_folder(self) -> str | None:
        """Where its parts lie."""
        return None if self.source is None else self.publisher.where(self.source)

    # --- what happens ---

    def report(
        self, done: int, metrics: Mapping[str, float | None], *, data: str = "",
        family: str | None = None,
    ) -> None:  # fmt: skip
        """
        Record measured values of the state after `done` updates (rank 0's count).

        Args:
            done: completed steps that were measured; only its checkpoint is ranked by it.
            metrics: name -> value; NaN, infinities and None (not measured) are recorded.
            data: the data set that was measured.
            family: the family that was measured; None: whichever has none of its own.
        """
        self._must_go_on()
        if self.ledger is None:
            return
        self.ledger.remark(
            *(
                ev.MetricReported(
                    attempt=self.state.attempt,
                    done=done,
                    name=name,
                    metric=Metric.of(value),
                    data=data,
                    family=family,
                )
                for name, value in metrics.items()
            )
        )

    def save(
        self,
        done: int,
        *,
        metrics: Mapping[str, float | None] | None = None,
        reason: str | None = None,
        families: Sequence[str] = ("live",),
        revise: bool = False,
    ) -> fx.Outcome:
        """
        Save a checkpoint of the state after `done` updates; called by every rank.

        Returns:
            the same outcome on all ranks; of `families[0]`, with the others inside.

        Raises:
            SaveRejected: vetoed, and the policy says `raise` (or `stop`).
            RankMismatch: the ranks did not say the same.
            AttemptOver: a rank was lost, the log failed, or training is poisoned.
        """
        if metrics:
            self.report(done, metrics)
        request = self.request(done, families=families, reason=reason, revise=revise)
        return self.judge(drive(self.save_steps(request), self.coordinator))

    def request(
        self, done: int, *, families: Sequence[str], reason: str | None, revise: bool
    ) -> Request:
        """A boundary's request with this rank's declared parts and all its reasons."""
        due = self.schedule.triggers(done) if self.schedule else ()
        reasons = tuple(dict.fromkeys([*([reason] if reason else []), *due])) or ("manual",)
        asked = Request(done, tuple(families), reasons, revise)
        try:
            declared = [(family, self.payload.declare(family)) for family in families]
        except Exception as error:  # becomes this rank's vote: every rank aborts
            return attrs.evolve(asked, error=tail(error))
        wishes = [
            PartWish(family=family, name=name, size_min=size)
            for family, told in declared
            for name, size in told.parts.items()
        ]
        order = " ".join(told.order for _, told in declared if told.order)
        return attrs.evolve(asked, parts=tuple(wishes), order=order)

    def save_steps(self, request: Request) -> Steps[fx.Conclude]:
        """`save` as steps: the simulated cluster answers the exchanges itself."""
        self._must_go_on()
        conclude = yield from Saving(self).steps(request)
        if isinstance(conclude.error, AttemptOver):
            self.end(_REASONS.get(type(conclude.error).__name__, "error"), request.done,
                     str(conclude.error))  # fmt: skip
        return conclude

    def judge(self, conclude: fx.Conclude) -> fx.Outcome:
        """Return or raise what a boundary came to, as the policy says."""
        if conclude.error is not None:
            raise conclude.error
        first = attrs.evolve(conclude.outcomes[0], others=conclude.outcomes[1:])
        rejected = [one for one in conclude.outcomes if one.status == "rejected"]
        for one in rejected:
            assert self.state.policy is not None
            on_reject = self.state.policy.of(one.family).on_reject
            if on_reject == "stop":
                self.end("rejected", self.state.verdict_done, one.reason)
            if on_reject != "skip":
                raise SaveRejected(
                    f"{one.family} at step {self.state.verdict_done} was rejected",
                    why=one.reason,
                    instead="restart from the last good checkpoint (restart='auto'); or "
                    "on_reject='skip' to go on without saving",
                    value=self.state.verdict_done,
                )
        return first

    def pin(self, ckpt_id: str, *, who: str, why: str) -> None:
        """Hold a checkpoint against every rule, from the next boundary on."""
        self._note_of(ckpt_id, ev.CkptPinned(ckpt_id=ckpt_id, who=who, why=why))

    def unpin(self, ckpt_id: str, *, who: str) -> None:
        """Hold it no longer."""
        self._note_of(ckpt_id, ev.CkptUnpinned(ckpt_id=ckpt_id, who=who))

    def _note_of(self, ckpt_id: str, event: ev.Event) -> None:
        self._must_go_on()
        must_be_committed(self.current(), ckpt_id, ckpt_id)
        if self.ledger is not None:
            self.ledger.remark(event)

    def components(self, restored: Iterable[tuple[str, str, str]]) -> None:
        """
        Close the restart's ledger: training begins.

        Args:
            restored: (component, `restored` | `skipped` | `registered`, one line).
        """
        if self.ledger is None:
            return
        attempt = self.state.attempt
        self.ledger.remark(
            *(
                ev.RestartComponent(
                    attempt=attempt, name=name, action=action, detail=detail
                )
                for name, action, detail in restored
            ),
            ev.RestartCompleted(attempt=attempt, done=self.done),
        )

    # --- how it ends ---

    def finish(self, done: int) -> fx.Outcome:
        """Commit the final state unless the live branch has it, and end the run."""
        outcome = self.judge(drive(self.finish_steps(done), self.coordinator))
        self.coordinator.close()
        return outcome

    def finish_steps(self, done: int) -> Steps[fx.Conclude]:
        """`finish` as steps."""
        request = self.request(done, families=("live",), reason="final", revise=False)
        conclude = yield from self.save_steps(request)
        if self.over or at_step(self.state, "live", done) is None:
            return conclude
        self.over = "the run is finished"
        self._leave(done)
        if self.ledger is not None:
            self.ledger.end(ev.RunFinished(attempt=self.state.attempt, done=done))
        return conclude

    def end(self, reason: str, done: int, detail: str = "") -> None:
        """Write down why the attempt ends and let go of the log; nothing after it."""
        if self.over:
            return
        self.over = f"the attempt ended: {reason}"
        self._leave(done)
        if self.ledger is None:
            return
        ended = ev.AttemptEnded(
            attempt=self.state.attempt, reason=reason, done=done, detail=detail[:4096]
        )
        self.ledger.end(ended)

    def _leave(self, done: int) -> None:
        """The end of this rank's own evidence."""
        self.journal.note(
            ev.RankLeft(attempt=self.state.attempt, done=done, reason=self.over[:4096])
        )
        self.journal.close()

    def close(self) -> None:
        """Stop between steps; a later open goes on from the newest checkpoint."""
        self.end("stopped", self.state.verdict_done)
        self.coordinator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.end("error", self.state.verdict_done, f"{type(error).__name__}: {error}")
        self.close()

    def _must_go_on(self) -> None:
        if self.over:
            raise AttemptOver(
                "nothing more can be saved in this attempt",
                why=self.over,
                instead="restart the job: restart='auto' begins from the newest checkpoint",
                value=self.state.attempt,
            )


_REASONS: Mapping[str, str] = {"RankLost": "rank_lost", "TrainingPoisoned": "poisoned"}
