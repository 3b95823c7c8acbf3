"""The errors of the engine, by whose fault they are; see `JumarError` for their parts."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.reducers.errors import JumarError


class SaveRejected(JumarError):
    """The agreed guard verdict, or an earlier rejection, vetoes the save."""


class RankMismatch(JumarError):
    """The ranks did not say the same (done, policy, attempt, state); names the odd ones."""


class AttemptOver(JumarError):
    """The attempt cannot go on; training continues by a restart."""


class RankLost(AttemptOver):
    """
    Ranks that did not come to an exchange in time.

    Args:
        ranks: the late ranks, ascending.
        phase: the exchange they were missing from.
        waited_s: seconds without a sign of life.
    """

    def __init__(self, ranks: Sequence[int], phase: str, waited_s: float) -> None:
        self.ranks = tuple(ranks)
        self.phase = phase
        self.waited_s = waited_s
        names = ", ".join(str(rank) for rank in self.ranks)
        super().__init__(
            f"rank {names} did not come to the exchange '{phase}'",
            why=f"no sign of life for {waited_s:.1f} s"
            if waited_s
            else "its connection broke",
            instead="look at that rank's own output, then restart the job: what was "
            "committed stands, and the next open tells what became of this save",
            value=list(self.ranks),
        )


class TrainingPoisoned(AttemptOver):
    """Too many refusals in a row: the state in memory cannot be saved any more."""


class LogFailed(AttemptOver):
    """The log could not be made durable (full disk, I/O error); the writer is dead."""


class RunBusy(JumarError):
    """Another process writes this run."""


class LogDamaged(JumarError):
    """The log cannot be trusted or understood; what is readable can still be shown."""


class RestoreError(JumarError):
    """A restart that cannot be carried out as asked."""
