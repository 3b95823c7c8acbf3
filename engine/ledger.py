"""Rank 0's hand on the authoritative log: events in, durable records out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import structlog

from jumar.engine.errors import LogFailed
from jumar.engine.log import reserve
from jumar.engine.log.journal import journals
from jumar.engine.log.record import Entry, Head
from jumar.engine.log.writer import LogWriter
from jumar.reducers.errors import JumarError
from jumar.reducers.events import (
    AttemptEnded,
    CkptCommitted,
    Event,
    EvidenceSealed,
    RunFailed,
    RunFinished,
)

WITNESSED: Final = (CkptCommitted, RunFinished, RunFailed)
"""Events after which a head is left beside the log."""

SEALED: Final = 2000
"""Journal files that one event names: it stays far below the limit of a record."""

logger = structlog.get_logger("jumar")


@attrs.define
class Ledger:
    """
    Attributes:
        writer: the one writer of this epoch.
        reopen: claims the next epoch after a dead one, for last words on a full disk.
        facts: logged here and not yet told to the other ranks.
    """

    writer: LogWriter
    reopen: Callable[[int], LogWriter]
    facts: list[Event] = attrs.field(factory=list)

    @property
    def epoch(self) -> int:
        """The writer epoch, part of every staging name."""
        return self.writer.epoch

    @property
    def head(self) -> Head:
        """What is durable."""
        return self.writer.head

    def log(self, events: Sequence[Event], op_id: str | None = None) -> None:
        """
        Append in order; durable on return when any of them is a barrier.

        Args:
            op_id: names the request that they answer, so that nobody answers it twice.

        Raises:
            LogFailed: the writer is dead, the attempt is over.
        """
        if events:
            self.writer.append_all(
                [Entry.of(event, op_id) for event in events],
                durable=any(event.barrier for event in events),
                witness=any(isinstance(event, WITNESSED) for event in events),
            )

    def note(self, *events: Event, op_id: str | None = None) -> None:
        """Append what the other ranks will be told with rank 0's next message."""
        self.log(events, op_id)
        self.facts.extend(events)

    def remark(self, *events: Event, op_id: str | None = None) -> None:
        """
        As `note`, between boundaries, where rank 0 is alone.

        A dead log does not raise here, or rank 0 would leave its peers without a word:
        the next boundary finds it dead and raises on every rank.
        """
        try:
            self.note(*events, op_id=op_id)
        except LogFailed as error:
            logger.error("an event could not be logged", why=str(error))

    def take_facts(self) -> tuple[Event, ...]:
        """What is to be told now; each fact is told once."""
        facts, self.facts = tuple(self.facts), []
        return facts

    def seal_evidence(self, attempt: int) -> None:
        """Put the digests of an attempt's journals under the chain, as they are now."""
        try:
            found = list(journals(self.writer.disk, self.writer.root, attempt))
        except OSError as error:
            logger.warning("evidence journals could not be read", why=str(error))
            return
        self.log(
            [
                EvidenceSealed(attempt=attempt, journals=tuple(found[at : at + SEALED]))
                for at in range(0, len(found), SEALED)
            ]
        )

    def end(self, ended: AttemptEnded | RunFinished) -> None:
        """
        Write down how the attempt ended, and let go of the log.

        That a log is dead is told to the operator: what was committed stands, and the
        next open goes on.

        A writer that died for want of space is past writing; a new epoch, paid for by
        the reserve, says `run.failed` in its place.
        """
        try:
            self.seal_evidence(ended.attempt)
            self.log([ended])
        except LogFailed as error:
            logger.error("the end could not be logged", why=error.why)
            if self.writer.full:
                self._last_words(ended, error)
        self.let_go()

    def _last_words(self, ended: AttemptEnded | RunFinished, error: LogFailed) -> None:
        failed = RunFailed(attempt=ended.attempt, done=ended.done, error=error.why[:4096])
        try:
            reserve.spend(self.writer.disk, self.writer.root)  # letting go takes space too
            self.let_go()
            self.writer = self.reopen(self.epoch)
            self.log([failed])
        except (OSError, JumarError) as worse:
            logger.error("the full disk took no last words", why=str(worse))

    def let_go(self) -> None:
        """Close the log; what cannot be written any more is told to the operator."""
        try:
            self.writer.close()
        except LogFailed as error:
            logger.error("the end of the attempt could not be logged", why=str(error))
