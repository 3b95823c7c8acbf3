"""Rank 0's hand on the authoritative log: events in, durable records out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import structlog

from jumar.engine.errors import LogFailed
from jumar.engine.log.record import Entry, Head
from jumar.engine.log.writer import LogWriter
from jumar.reducers.events import CkptCommitted, Event, RunFailed, RunFinished

WITNESSED: Final = (CkptCommitted, RunFinished, RunFailed)
"""Events after which a head is left beside the log."""

logger = structlog.get_logger("jumar")


@attrs.define
class Ledger:
    """
    Attributes:
        writer: the one writer of this epoch.
        facts: logged here and not yet told to the other ranks.
    """

    writer: LogWriter
    facts: list[Event] = attrs.field(factory=list)

    @property
    def epoch(self) -> int:
        """The writer epoch, part of every staging name."""
        return self.writer.epoch

    @property
    def head(self) -> Head:
        """What is durable."""
        return self.writer.head

    def log(self, events: Sequence[Event]) -> None:
        """
        Append in order; durable on return when any of them is a barrier.

        Raises:
            LogFailed: the writer is dead, the attempt is over.
        """
        if events:
            self.writer.append_all(
                [Entry.of(event) for event in events],
                durable=any(event.barrier for event in events),
                witness=any(isinstance(event, WITNESSED) for event in events),
            )

    def note(self, *events: Event) -> None:
        """Append what the other ranks will be told with rank 0's next message."""
        self.log(events)
        self.facts.extend(events)

    def remark(self, *events: Event) -> None:
        """
        As `note`, between boundaries, where rank 0 is alone.

        A dead log does not raise here, or rank 0 would leave its peers without a word:
        the next boundary finds it dead and raises on every rank.
        """
        try:
            self.note(*events)
        except LogFailed as error:
            logger.error("an event could not be logged", why=str(error))

    def take_facts(self) -> tuple[Event, ...]:
        """What is to be told now; each fact is told once."""
        facts, self.facts = tuple(self.facts), []
        return facts

    def let_go(self) -> None:
        """Close the log; what cannot be written any more is told to the operator."""
        try:
            self.writer.close()
        except LogFailed as error:
            logger.error("the end of the attempt could not be logged", why=str(error))
