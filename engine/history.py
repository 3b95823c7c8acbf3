"""From a log on the disk to a state: read, decode, fold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from jumar.engine.disk import Disk
from jumar.engine.errors import LogDamaged
from jumar.engine.log.damage import damaged
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Record
from jumar.reducers.errors import JumarError
from jumar.reducers.events import Event
from jumar.reducers.fold import fold
from jumar.reducers.schema import Unknown, decode
from jumar.reducers.state import State

MODE: Final = "tail"


@attrs.define
class History:
    """
    A log that was read once, and what it means so far.

    Attributes:
        state: the fold of every record up to `size`.
        size: records read.
        ignored: how many records of unknown ignorable types were passed over.
        last: hash of the last of them.
        answered: the requests that records say they answer.
    """

    state: State = attrs.field(factory=State)
    size: int = 0
    ignored: int = 0
    last: bytes = b""
    answered: set[str] = attrs.field(factory=set)

    def catch_up(self, disk: Disk, log: str) -> None:
        """
        Fold the records that were not yet read, or all of them when those that were are
        not there any more: a takeover leaves behind what was never acknowledged.

        Raises:
            LogDamaged: a record that cannot be trusted, understood or folded.
        """
        reader = LogReader(disk, log, mode=MODE)
        known, held = self.size, self.size == 0
        for record in reader:
            if record.seq < known:
                held = record.seq == known - 1 and record.hash == self.last
            elif not held:
                break
            else:
                self._fold(record, event_of(record))
                self.size, self.last = record.seq + 1, record.hash
                if record.op_id is not None:
                    self.answered.add(record.op_id)
        if reader.end == "corrupt":
            raise damaged(reader.blame)
        if not held:
            self.state, self.size, self.last = State(), 0, b""
            self.ignored, self.answered = 0, set()
            self.catch_up(disk, log)

    def _fold(self, record: Record, event: Event | Unknown) -> None:
        if isinstance(event, Event):
            try:
                fold(self.state, event)
            except JumarError as error:
                raise LogDamaged(
                    f"record {record.seq} ({record.type}) cannot be folded",
                    why=str(error),
                    instead="`jumar verify RUN` shows it in its surroundings",
                    value=record.seq,
                ) from error
        elif event.critical:
            raise LogDamaged(
                f"record {record.seq} is of an unknown critical type",
                why=f"{event.name} version {event.v} is not known to this version of jumar",
                instead="use the version that wrote it; `jumar log RUN` still shows it",
                value=event.name,
            )
        else:
            self.ignored += 1


def decoded(reader: LogReader) -> Iterator[tuple[Record, Event | Unknown]]:
    """
    Each record with its event.

    Raises:
        LogDamaged: a known type whose fields do not fit.
    """
    for record in reader:
        yield record, event_of(record)


def event_of(record: Record) -> Event | Unknown:
    """LogDamaged for a known type whose fields do not fit."""
    try:
        return decode(record.type, record.v, record.payload)
    except JumarError as error:
        raise LogDamaged(
            f"record {record.seq} ({record.type}) cannot be decoded",
            why=str(error),
            instead="`jumar verify RUN` shows which; nothing derives state from it",
            value=record.seq,
        ) from error
