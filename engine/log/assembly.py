"""
Which bytes come next in a log: records chained, segments begun and sealed.  No I/O.

All of it follows from what was appended, so it is known before anything is written: the
footer of a segment and the header of the next one are pieces in the queue like any frame.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from jumar.engine.log.frame import frame
from jumar.engine.log.merkle import Tree
from jumar.engine.log.record import Entry, Head, Pack, packer, stored
from jumar.engine.log.segment import (
    FORMAT,
    Footer,
    Header,
    Pred,
    footer_bytes,
    header_bytes,
    name_of,
)

SEAL_BYTES: Final = 8 * 1024 * 1024
SEAL_RECORDS: Final = 65_536
"""A segment that holds this much is sealed before the next records."""


@attrs.frozen
class Begin:
    """The pieces before this one end a segment; those behind it stand in a new one."""

    name: str
    header: bytes


Piece = bytes | Begin


@attrs.define
class Assembly:
    """
    The growing end of a log in one epoch.

    Attributes:
        size: records so far, those that are not yet written included.
        last: hash of the last one.
        tree: Merkle tree over all of them, once `_settle` has seen them.
        pieces: what was not taken yet, in the order in which it is to be written.
    """

    log_id: str
    epoch: int
    writer: Mapping[str, Any]
    size: int
    last: bytes
    tree: Tree
    seal_bytes: int = SEAL_BYTES
    seal_records: int = SEAL_RECORDS
    pieces: list[Piece] = attrs.field(factory=list)
    _name: str = ""
    _bytes: int = 0
    _count: int = 0
    _digest: Any = attrs.field(factory=hashlib.sha256)
    _unhashed: list[tuple[bytes, bytes]] = attrs.field(factory=list)
    _batch: int = 0
    _pack: Pack = attrs.field(factory=packer)

    def begin(self, pred: Pred | None) -> str:
        """A segment that continues `pred`; returns the digest of its header, hex."""
        self._settle()
        header = header_bytes(
            Header(
                format=FORMAT,
                log_id=self.log_id,
                epoch=self.epoch,
                first_seq=self.size,
                prev=self.last.hex(),
                peaks=list(self.tree.peaks),
                pred=pred,
                writer=dict(self.writer),
            )
        )
        self._name, self._count, self._batch = name_of(self.epoch, self.size), 0, self.size
        self._bytes, self._digest = len(header), hashlib.sha256(header)
        self.pieces.append(Begin(self._name, header))
        return hashlib.sha256(header).hexdigest()

    def add(self, entries: Sequence[Entry], wall_ns: int, mono_ns: int) -> list[int]:
        """
        Chain these records; returns their sequence numbers.

        Raises:
            SchemaError: one that no reader would take; none of them was added.
        """
        if self._bytes >= self.seal_bytes or self._count >= self.seal_records:
            self._roll(wall_ns, mono_ns)
        return self._add(entries, wall_ns, mono_ns)

    def _add(self, entries: Sequence[Entry], wall_ns: int, mono_ns: int) -> list[int]:
        if not self.pieces:
            self._batch = self.size
        seq, last, bodies = self.size, self.last, []
        for entry in entries:
            fields = (
                *(seq, self.epoch, entry.type, entry.v, wall_ns, mono_ns, 0),
                *(entry.op_id, entry.cause, last, seq - self._batch, entry.payload),
            )
            body, last = stored(fields, self._pack)
            bodies.append(body)
            seq += 1
        for body in bodies:
            framed = frame(body)
            self._put(framed)
            self._unhashed.append((body, framed))
        seqs = list(range(self.size, seq))
        self.size, self.last = seq, last
        self._count += len(bodies)
        return seqs

    def _put(self, framed: bytes) -> None:
        self.pieces.append(framed)
        self._bytes += len(framed)

    def _settle(self) -> None:
        """Tree and digest of what was added: whoever writes pays, not whoever appends."""
        records, self._unhashed = self._unhashed, []
        for body, framed in records:
            self._digest.update(framed)
            self.tree.add(body)

    def seal(self) -> Pred:
        """End the segment with its footer; returns it as a predecessor."""
        self._settle()
        footer = Footer(
            count=self._count,
            size=self.size,
            last_hash=self.last.hex(),
            root=self.tree.root().hex(),
            sha256=self._digest.hexdigest(),
        )
        end = footer_bytes(footer)
        self._put(end)
        self._digest.update(end)
        return Pred(self._name, self._bytes, self._digest.hexdigest(), 0)

    def _roll(self, wall_ns: int, mono_ns: int) -> None:
        header = self.begin(self.seal())
        self._add([Entry("segment.opened?", 1, {"header": header})], wall_ns, mono_ns)

    def head(self) -> Head:
        """What is durable once all pieces are."""
        self._settle()
        return Head(self.size, self.last.hex(), tuple(self.tree.peaks))

    def take(self) -> list[Piece]:
        """The pieces so far; they will be written as one batch a segment."""
        taken, self.pieces = self.pieces, []
        return taken
