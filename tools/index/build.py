"""How an index grows: in a draft that is renamed over the old file, else in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from jumar.engine.log.reader import LogReader
from jumar.tools.index.draft import Draft
from jumar.tools.index.rows import Cells, Mark, cells
from jumar.tools.index.store import Store, Unusable

BATCH: Final = 4096
"""Rows of one transaction."""

Batches = Iterator[tuple[list[Cells], Mark]]


def news(reader: LogReader, known: Mark, kinds: set[tuple[str, int]]) -> Batches:
    """
    The rows behind a head, in batches, each with the head that it leads to.

    Args:
        kinds: receives (type, version) of every record of the log.

    Raises:
        Unusable: the log does not contain that head.
    """
    rows: list[Cells] = []
    size, last = 0, b""
    for record in reader:
        size, last = record.seq + 1, record.hash
        kinds.add((record.type, record.v))
        if size > known.size:
            rows.append(cells(record, reader.segment, reader.offset))
            if len(rows) == BATCH:
                yield rows, Mark(size, last.hex())
                rows = []
        elif size == known.size and last.hex() != known.last_hash:
            raise Unusable(f"record {record.seq} is not the one that was indexed")
    if size < known.size:
        raise Unusable(f"the log ends at {size}, the index at {known.size}")
    if rows:
        yield rows, Mark(size, last.hex())


def extended(base: Store, place: Path | None, batches: Batches) -> Store:
    """
    A store with these rows too; the file at `place` then holds it, if one can be made.

    `base` is closed when another one is returned.

    Raises:
        Unusable: `base` or the disk fails on the way; the file is what it was.
    """
    first = next(batches, None)
    if first is None:
        return base
    batches = chain([first], batches)
    draft = None
    if place is not None:
        with contextlib.suppress(OSError):  # nobody may write there, or somebody does
            draft = Draft.begin(place)
    made = _in_memory(base, batches) if draft is None else _on_disk(base, draft, batches)
    if made is not base:
        base.close()
    return made


def _in_memory(base: Store, batches: Batches) -> Store:
    store = base if base.in_memory else base.copied(None)
    for rows, head in batches:
        store.add(rows, head)
    return store


def _on_disk(base: Store, draft: Draft, batches: Batches) -> Store:
    try:
        with contextlib.closing(base.copied(draft.path)) as store:
            for rows, head in batches:
                store.add(rows, head)
        # Opened before it has its name: somebody else may publish an older one just after.
        made = Store.opened(draft.path, base.log_id)
        with contextlib.suppress(OSError):  # without a name it serves this process
            draft.publish()
        return made
    finally:
        draft.end()
