"""
`TrainingRun`: the trainer's surface over `Run`, for plain PyTorch and DDP.

Every rank makes the same calls in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from torch import nn, optim

from jumar.adapters.torch.exchange import of_job
from jumar.adapters.torch.guard import Guard
from jumar.adapters.torch.payload import Stateful, TrainerPayload
from jumar.adapters.torch.restore import Restorer
from jumar.engine.effects import Outcome
from jumar.engine.opening import open_run
from jumar.engine.restart import Restart
from jumar.engine.run import Run
from jumar.reducers.errors import ProtocolMisuse
from jumar.reducers.policy import Policy
from jumar.reducers.rules import Schedule


class TrainingRun:
    """
    One attempt of a training run, on one rank.  Made by `open`; a context manager.

    Attributes:
        guard: watches gradients and loss between boundaries, without host reads.
        run: the engine's side, for everything that needs no torch.
    """

    def __init__(self, run: Run, guard: Guard, restorer: Restorer) -> None:
        self.run = run
        self.guard = guard
        self._restorer = restorer
        self._begun = False

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        policy: Policy,
        schedule: Schedule | None = None,
        restart: Restart = "auto",
        timeout_s: float = 60.0,
    ) -> Self:
        """
        Open a run directory on every rank of the job.

        Args:
            directory: the run directory; made when absent.
            policy: what to keep.
            schedule: length and cadence, in completed steps.
            restart: `auto` (newest that verifies, or from nothing), `fresh` (from nothing
                in the same run), `new` (a directory without a run), or completed steps.
            timeout_s: seconds without a sign of life after which a rank is lost.  A rank
                that waits counts from its own arrival, so it must exceed how far apart the
                ranks may come to a save (a validation on one rank, say).

        Raises:
            RunBusy: another process writes this run.
            LogDamaged: its log cannot be trusted.
            RestoreError: nothing can be restarted from, or the directory is not ours.
            RankMismatch, RankLost: the ranks do not agree, or did not come.
        """
        coordinator = of_job(timeout_s)
        payload, guard = TrainerPayload(coordinator.rank), Guard()
        run = open_run(
            os.fspath(directory),
            policy=policy,
            schedule=schedule,
            restart=restart,
            payload=payload,
            guard=guard,
            coordinator=coordinator,
        )
        guard.done = run.done
        world = len(run.source.parts) if run.source else 0
        return cls(run, guard, Restorer.load(payload, run.source_folder, world))

    @property
    def done(self) -> int:
        """Completed steps that this attempt begins with; known from `open` on."""
        return self.run.done

    @property
    def rank(self) -> int:
        """This process, 0 .. world-1."""
        return self.run.rank

    def restore(
        self,
        *,
        model: nn.Module | None = None,
        optimizer: optim.Optimizer | None = None,
        scheduler: Any = None,
        data: Stateful | None = None,
    ) -> None:
        """
        Register parts to be saved, and load their state on a restart.

        Any subset, in several calls, in the order model, optimizer, scheduler, data.
        Whole tensors: restore the model before it is distributed.  The optimizer's
        `initial_lr` becomes the configured learning rate, so a scheduler built with
        `last_epoch = run.done - 1` gives schedule(done).

        Raises:
            RestoreError: out of order, or the checkpoint does not hold the part.
        """
        self._restorer.restore(
            {"model": model, "optimizer": optimizer, "scheduler": scheduler, "data": data}
        )

    def begin(self, *, skip: tuple[str, ...] = ()) -> int:
        """
        Close the ledger of the restart, restore random numbers, and start.

        Args:
            skip: stored components that are left out on purpose.

        Returns:
            completed steps; the first update of this attempt is the next one.
        """
        self._restorer.begin(skip)
        self.run.components(self._restorer.ledger)
        self._begun = True
        return self.done

    def due(self, done: int) -> bool:
        """Whether a save is due after this many updates."""
        return bool(self.run.schedule and self.run.schedule.triggers(done))

    def validate_due(self, done: int) -> bool:
        """Whether a validation is due after this many updates."""
        every = self.run.schedule.validate_every if self.run.schedule else None
        return bool(every and done > 0 and done % every == 0)

    def report(
        self, done: int, metrics: Mapping[str, float | None], *, data: str = ""
    ) -> None:
        """Record metrics of the state after `done` updates; rank 0's values count."""
        self.run.report(done, metrics, data=data)

    def save(
        self,
        done: int,
        *,
        metrics: Mapping[str, float | None] | None = None,
        reason: str | None = None,
        revise: bool = False,
    ) -> Outcome:
        """
        Save the state after `done` updates; called by every rank, the same on all.

        Returns:
            status `committed`, `merged`, `aborted`, or (policy `skip`) `rejected`.

        Raises:
            SaveRejected, RankMismatch, RankLost, TrainingPoisoned, LogFailed.
        """
        self._must_have_begun("save")
        self.guard.done = done  # the trainer's count is the one that counts
        return self.run.save(done, metrics=metrics, reason=reason, revise=revise)

    def finish(self, done: int) -> Outcome:
        """Commit the final state unless it is there already, and end the run."""
        self._must_have_begun("finish")
        return self.run.finish(done)

    def close(self) -> None:
        """Stop between steps; a later open goes on from the newest checkpoint."""
        self.run.close()

    def _must_have_begun(self, what: str) -> None:
        if not self._begun:
            raise ProtocolMisuse(
                f"{what}() before begin()",
                why="the restart's ledger is not closed: parts may be missing",
                instead="call restore(...) for each part, then begin()",
                value=self.done,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run.__exit__(kind, error, trace)
