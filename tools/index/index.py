"""
The index of one log: found again or rebuilt, extended, asked; deletable at any time.

What SQLite or the disk under it refuses never gets out of here: it leads to a rebuild from
the log, and if that is refused too, to an index in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

import attrs

from jumar.engine.disk import Disk
from jumar.engine.errors import LogDamaged
from jumar.engine.log.identity import Identity
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Record
from jumar.tools.index.build import extended, news
from jumar.tools.index.fetch import Stale, fetch
from jumar.tools.index.rows import Row
from jumar.tools.index.store import Store, Unusable

T = TypeVar("T")


@attrs.define
class Index:
    """
    Where the records of a log are, by type, checkpoint and step.

    Attributes:
        place: the file, or None for memory.
        complete: False when the last refresh found damage: only what stands before it is
            indexed.
        kinds: every (type, version) that was met in the log, as stored.
    """

    disk: Disk
    log_root: str
    place: Path | None
    log_id: str
    complete: bool = True
    kinds: set[tuple[str, int]] = attrs.field(factory=set)
    _store: Store | None = None

    @classmethod
    def open(cls, disk: Disk, log_root: str, place: Path | None) -> Self:
        """
        The index as it was left; one that does not fit this log is not taken up.

        Args:
            log_root: the log's folder, `<run>/.jumar`.
            place: see `place_for`; None: in memory.

        Raises:
            LogDamaged: there is no log.
        """
        index = cls(disk, log_root, place, Identity.read(disk, log_root).log_id)
        if place is not None:
            with contextlib.suppress(Unusable):
                index._store = Store.opened(place, index.log_id)
        return index

    def refresh(self) -> None:
        """Read the log and index what is new; from zero when the two disagree."""
        self._insist(self._catch_up)

    def find(
        self,
        type: str | Sequence[str] | None = None,
        ckpt_id: str | None = None,
        step: int | None = None,
        since: int | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """
        Where the records are that fit all of what is given, in order.

        Args:
            type: one or several, without the mark of ignorable types.
            since: from this sequence number on.
            limit: at most so many, the first ones.
        """
        types = [type] if isinstance(type, str) else type
        wishes: dict[str, Sequence[str] | Sequence[int] | None] = {
            "type": types,
            "ckpt_id": None if ckpt_id is None else [ckpt_id],
            "step": None if step is None else [step],
        }
        allowed = {column: one for column, one in wishes.items() if one is not None}
        return self._insist(lambda: self._ready().find(allowed, since or 0, limit))

    def read(self, rows: Sequence[Row]) -> list[Record]:
        """
        The records, from the segments; a row that leads to no such record costs a rebuild.

        Raises:
            LogDamaged: the log, read anew, does not hold one of these records either.
        """
        try:
            return [fetch(self.disk, self.log_root, row) for row in rows]
        except Stale:
            self._drop()
        try:
            return [fetch(self.disk, self.log_root, self._again(row)) for row in rows]
        except Stale as error:
            raise LogDamaged(
                "the log does not hold a record that was looked up",
                why=str(error),
                instead="`jumar verify RUN` shows what is readable",
                value=self.log_root,
            ) from error

    def close(self) -> None:
        """Let go of the file."""
        self._drop()

    def _again(self, row: Row) -> Row:
        found = self.find(since=row.seq, limit=1)
        if not found:  # numbers have no gaps
            raise Stale(f"record {row.seq} is not in the log any more")
        return found[0]

    # --- building ---

    def _insist(self, act: Callable[[], T]) -> T:
        """The act; after a refusal from zero, after another one in memory."""
        for ease in (self._drop, self._leave):
            try:
                return act()
            except Unusable:
                ease()
        return act()

    def _drop(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _leave(self) -> None:
        self._drop()
        self.place = None

    def _ready(self) -> Store:
        if self._store is None:
            self._catch_up()
        assert self._store is not None
        return self._store

    def _catch_up(self) -> None:
        """One pass over the log; Unusable when it does not contain the indexed head."""
        self._store = self._store or Store.empty(self.log_id)
        reader = LogReader(self.disk, self.log_root, mode="tail")
        found = news(reader, self._store.head, self.kinds)
        self._store = extended(self._store, self.place, found)
        self.complete = reader.end != "corrupt"
