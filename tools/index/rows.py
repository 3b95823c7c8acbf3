"""What the index keeps of a record: a few columns, and where the record begins."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from jumar.engine.log.record import Record
from jumar.reducers.schema import IGNORABLE

COLUMNS: Final[dict[str, type]] = {
    "seq": int,
    "type": str,
    "step": int,
    "rank": int,
    "epoch": int,
    "ckpt_id": str,
    "segment": str,
    "offset": int,
}

INT_MAX: Final = (1 << 63) - 1
INT_MIN: Final = -(1 << 63)
"""The bounds of an SQLite integer; a log may hold larger ones."""

Cells = tuple[int, str, int | None, int | None, int | None, str | None, str, int]


class Row(NamedTuple):
    """Where one record is: its number, its segment's name, the first byte of its frame."""

    seq: int
    segment: str
    offset: int


class Mark(NamedTuple):
    """How far an index goes: records, and the hash of the last one, hex."""

    size: int
    last_hash: str


def cells(record: Record, segment: str, offset: int) -> Cells:
    """The columns of a record, in the order of `COLUMNS`."""
    return (
        record.seq,
        bare(record.type),
        step_of(record.payload),
        small(record.rank),
        small(record.epoch),
        ckpt_of(record.payload),
        segment,
        offset,
    )


def bare(name: str) -> str:
    """A stored type as people name it: without the mark of the ignorable ones."""
    return name.removesuffix(IGNORABLE)


def step_of(payload: dict[str, Any]) -> int | None:
    """The completed steps that a payload speaks of: its `done`, else its `to_done`."""
    return small(payload.get("done", payload.get("to_done")))


def ckpt_of(payload: dict[str, Any]) -> str | None:
    """The checkpoint that a payload names as its subject."""
    named = payload.get("ckpt_id")
    return named if isinstance(named, str) else None


def small(value: Any) -> int | None:
    """The value if it is an integer that SQLite can hold, else None."""
    return value if type(value) is int and INT_MIN <= value <= INT_MAX else None
