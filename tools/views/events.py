"""`log`: the events that are wished for, out of the story of a run or through an index."""

from __future__ import annotations

import contextlib
import re
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from jumar.engine.disk import Disk
from jumar.engine.errors import LogDamaged
from jumar.engine.log.identity import Identity
from jumar.engine.log.record import Record
from jumar.reducers.errors import SchemaError
from jumar.reducers.events import TYPES
from jumar.reducers.schema import Unknown, decode
from jumar.reducers.values import CKPT_ID
from jumar.tools.index.place import place_for
from jumar.tools.index.rows import bare, ckpt_of, step_of
from jumar.tools.views import refs
from jumar.tools.views.story import Story, Told

if TYPE_CHECKING:
    from jumar.tools.index.index import Index


@attrs.frozen
class Wish:
    """
    What `log` was asked for; everything, when nothing is set.

    Attributes:
        types: any of these; empty: every type.
        since: from this sequence number on.
        limit: at most so many, the first ones.
        ref: a checkpoint, as people name it.
    """

    types: tuple[str, ...] = ()
    step: int | None = None
    since: int = 0
    limit: int | None = None
    ref: str | None = None

    def fits(self, record: Record, ckpt_id: str | None) -> bool:
        """Whether a record is one of those; `ckpt_id` is what `ref` names."""
        return (
            record.seq >= self.since
            and (not self.types or bare(record.type) in self.types)
            and (self.step is None or step_of(record.payload) == self.step)
            and (self.ref is None or ckpt_of(record.payload) == ckpt_id)
        )


def told(story: Story, wish: Wish) -> list[Told]:
    """The events of a story that were wished for; UnknownReference."""
    named = None if wish.ref is None else refs.resolve(story, wish.ref).ckpt_id
    if wish.ref is not None and named is None:
        return []  # a step at which nothing was accepted
    return list(islice((one for one in story.told if wish.fits(one[0], named)), wish.limit))


def looked_up(disk: Disk, log_root: str, fs_kind: str, wish: Wish) -> list[Told] | None:
    """
    The same events through the index; None where only the story can tell.

    That is so for no wish at all, a reference that needs the state, a damaged log, and
    types that this version does not know.  The life cycle is not judged.

    Args:
        fs_kind: the type of the file system that holds the log; see `place_for`.
    """
    by_name = wish.ref is None or re.fullmatch(CKPT_ID, wish.ref)
    if wish == Wish() or not by_name:
        return None
    from jumar.tools.index.index import (
        Index,
    )  # a quarter of a second that others do not pay

    place = place_for(log_root, fs_kind, Identity.read(disk, log_root).log_id)
    with contextlib.closing(Index.open(disk, log_root, place)) as index:
        index.refresh()
        try:
            return _found(index, wish)
        except (LogDamaged, SchemaError):
            return None


def _found(index: Index, wish: Wish) -> list[Told] | None:
    ref = wish.ref
    if ref is not None and not index.find("ckpt.accepted", ref, limit=1):
        return None
    rows = index.find(wish.types or None, ref, wish.step, wish.since, wish.limit)
    records = index.read(rows)
    # Asked last: to look something up may mean to read the log anew.
    if not index.complete or not all(_known(*kind) for kind in index.kinds):
        return None
    found: list[Told] = []
    for record in records:
        event = decode(record.type, record.v, record.payload)
        if not isinstance(event, Unknown) and wish.fits(record, ref):
            found.append((record, event))
    return found


def _known(name: str, v: int) -> bool:
    known = TYPES.get(bare(name))
    return known is not None and v <= known.v
