"""
One SQLite file, or memory, with the rows of a log up to a head.

A file is written once, as a draft, and then only read, with `immutable=1`: nobody's lock
hinders that, and no journal is ever made beside it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import attrs
from sqlite_utils import Database

from jumar.tools.index.rows import COLUMNS, INT_MAX, INT_MIN, Cells, Mark, Row, small

APPLICATION_ID: Final = 0x4A4D5258
"""`JMRX`: tells the file of an index from any other SQLite file."""

SCHEMA: Final = 1
"""Of the two tables; another one is not read but replaced."""

_HEAD: Final[dict[str, type]] = {
    "log_id": str,
    "size": int,
    "last_hash": str,
    "schema": int,
}
_INSERT: Final = f"INSERT INTO event VALUES ({', '.join('?' * len(COLUMNS))})"
_INDEXED: Final = ("type", "step", "ckpt_id")
_COUNTED: Final = "SELECT count(*), min(seq), max(seq) FROM event"
_SELECT: Final = 'SELECT seq, segment, "offset" FROM event'

Allowed = Mapping[str, Sequence[str] | Sequence[int]]
"""Column -> the values that are looked for there."""


class Unusable(Exception):
    """SQLite or the file system under it refuses, or the file is not what it should be."""


@contextlib.contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise Unusable(str(error)) from error


@attrs.define
class Store:
    """
    Attributes:
        head: what the rows were built to.
        in_memory: whether it may be added to; a file may not.
    """

    log_id: str
    head: Mark
    in_memory: bool
    _db: Database

    @classmethod
    def empty(cls, log_id: str) -> Self:
        """No rows, in memory."""
        db = _connect(":memory:")
        db.table("event").create(
            COLUMNS, pk="seq", not_null={"type", "segment", "offset"}, strict=True
        )
        db.table("head").create(_HEAD, pk="log_id", not_null=set(_HEAD), strict=True)
        for column in _INDEXED:
            db.table("event").create_index([column])
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        return cls(log_id, Mark(0, ""), True, db)

    @classmethod
    def opened(cls, place: Path, log_id: str) -> Self:
        """
        The rows of a file, for reading.

        Raises:
            Unusable: there is none, or not one of this log and this version.
        """
        with _usable():
            if not place.is_file():  # a pipe would be waited for
                raise Unusable(f"{place} is no file")
            db = _connect(f"{place.absolute().as_uri()}?mode=ro&immutable=1")
            try:
                return cls(log_id, _checked(db, log_id), False, db)
            except BaseException:
                db.close()
                raise

    def copied(self, to: Path | None) -> Store:
        """The same rows where they can be added to: a file that exists, or memory."""
        with _usable():
            where = ":memory:" if to is None else f"{to.absolute().as_uri()}?mode=rw"
            db = _connect(where)
            try:
                self._db.conn.backup(db.conn)
                # A draft is worthless until it is published, which syncs it.
                db.execute("PRAGMA synchronous = OFF")
                if db.execute("PRAGMA journal_mode = MEMORY").fetchone()[0] != "memory":
                    raise Unusable("the journal cannot be kept off the disk")
            except BaseException:
                db.close()
                raise
            return Store(self.log_id, self.head, True, db)

    def add(self, rows: Sequence[Cells], head: Mark) -> None:
        """More rows and the head they lead to, both or none; Unusable."""
        with _usable(), self._db.atomic():
            self._db.conn.executemany(_INSERT, rows)
            self._db.execute("DELETE FROM head")
            said = (self.log_id, head.size, head.last_hash, SCHEMA)
            self._db.execute("INSERT INTO head VALUES (?, ?, ?, ?)", said)
        self.head = head

    def find(self, allowed: Allowed, since: int, limit: int | None) -> list[Row]:
        """Rows in order, from `since` on, `limit` of them at most; Unusable."""
        terms = ["seq >= ?"]
        values: list[str | int] = [_clamped(since)]
        for column, wanted in allowed.items():
            fit = [one for one in wanted if _storable(one)]
            terms.append(f'"{column}" IN ({", ".join("?" * len(fit))})')
            values += fit
        values.append(-1 if limit is None else _clamped(limit))
        asked = f"{_SELECT} WHERE {' AND '.join(terms)} ORDER BY seq LIMIT ?"
        with _usable():
            return [Row(*found) for found in self._db.execute(asked, values)]

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def _connect(where: str) -> Database:
    return Database(sqlite3.connect(where, uri=True), execute_plugins=False)


def _checked(db: Database, log_id: str) -> Mark:
    """The head of a file that is what this version would have made; else Unusable."""
    said = [
        db.execute(f"PRAGMA {one}").fetchone()[0]
        for one in ("application_id", "user_version")
    ]
    if said != [APPLICATION_ID, SCHEMA] or _shape(db) != _shape(Store.empty(log_id)._db):
        raise Unusable("it is of another program or version")
    heads = db.execute("SELECT * FROM head").fetchall()
    if len(heads) != 1 or (heads[0][0], heads[0][3]) != (log_id, SCHEMA):
        raise Unusable("it is of another log")
    _, size, last_hash, _ = heads[0]
    if db.execute(_COUNTED).fetchone() != (size, 0, size - 1):
        raise Unusable("its rows are not those that its head counts")
    # An entry that one of its indexes lacks would be missing from answers, unseen.
    if db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise Unusable("its pages contradict each other")
    return Mark(size, last_hash)


def _shape(db: Database) -> list[Any]:
    """Every table and index as it was declared, and nothing else."""
    return db.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 2"
    ).fetchall()


def _storable(value: str | int) -> bool:
    """A value that no column can hold equals none; SQLite would refuse to be asked."""
    if isinstance(value, int):
        return small(value) is not None
    return value.isascii() or value.encode(errors="replace").decode() == value


def _clamped(value: int) -> int:
    return max(INT_MIN, min(INT_MAX, value))
