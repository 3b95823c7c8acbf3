"""One record read from its segment: what an index says is a place to look, no more."""

from __future__ import annotations

from typing import Final

from jumar.engine.disk import Disk
from jumar.engine.log.frame import BODY_MAX, OVERHEAD, scan
from jumar.engine.log.record import BadRecord, Record, decode
from jumar.engine.log.segment import is_segment
from jumar.tools.index.rows import Row

FIRST: Final = 1024
"""Bytes that are read at once; few records are longer, and those take a second read."""


class Stale(Exception):
    """A row that does not lead to its record."""


def fetch(disk: Disk, log_root: str, row: Row) -> Record:
    """
    The record that a row points to: a whole frame there, with that sequence number.

    Raises:
        Stale: something else is there, or nothing that can be read.
    """
    if not is_segment(row.segment):
        raise Stale(f"{row.segment!r} is no segment")
    path = f"{log_root}/seg/{row.segment}"
    try:
        data = disk.read(path, row.offset, FIRST)
        size = int.from_bytes(data[:4], "little") + OVERHEAD
        if FIRST < size <= BODY_MAX + OVERHEAD:
            data = disk.read(path, row.offset, size)
        record = decode(b"".join(scan(data, 0, min(size, len(data))).bodies))
    except (OSError, BadRecord) as error:
        raise Stale(f"{row.segment} at byte {row.offset}: {error}") from error
    if record.seq != row.seq:
        what = f"record {record.seq} and not record {row.seq}"
        raise Stale(f"{row.segment} at byte {row.offset}: there is {what}")
    return record
