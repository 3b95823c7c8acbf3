"""
Reading a log: which segments count, which records are whole, and how it ends.

    end              every byte was understood
    not_yet_visible  the last segment ends in zeros, a short frame or a bad checksum: a
                     write that is under way, or was cut by a crash
    corrupt          bytes that a successor counted valid, or that stand before valid
                     ones, cannot be read; or the chain is broken
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, Literal

import attrs

from jumar.engine.disk import Disk
from jumar.engine.errors import LogDamaged
from jumar.engine.log.claims import path_of
from jumar.engine.log.frame import frames_behind, scan
from jumar.engine.log.identity import Identity
from jumar.engine.log.links import Finding, Link, links
from jumar.engine.log.record import BadRecord, Head, Record, canonical, decode

Mode = Literal["strict", "tail", "salvage"]
End = Literal["end", "not_yet_visible", "corrupt"]
TORN: Final = frozenset({"zeros", "short", "length", "crc"})


@attrs.define
class LogReader:
    """
    Iterate over the records of a log, chain verified over the stored bytes.

    After the iteration `end`, `findings` and `head` tell how it went.

    Attributes:
        mode: `strict` raises LogDamaged at the first corruption and checks that each body
            is canonical; `tail` stops there; `salvage` goes on with whatever is readable.
        segment: while iterating, the name of the segment of the record just yielded.
        offset: where its frame begins there, in bytes.
    """

    disk: Disk
    root: str
    mode: Mode = "tail"
    end: End = "end"
    findings: list[Finding] = attrs.field(factory=list)
    identity: Identity = attrs.field(init=False)
    size: int = 0
    last: bytes = b""
    chain: list[Link] = attrs.field(factory=list)
    tail_end: int = 0
    tail_size: int = 0
    tail_sha256: str = ""
    segment: str = ""
    offset: int = 0

    def __attrs_post_init__(self) -> None:
        self.identity = Identity.read(self.disk, self.root)
        self.last = self.identity.digest

    @property
    def head(self) -> Head:
        """Records read and the hash of the last."""
        return Head(self.size, self.last.hex())

    def __iter__(self) -> Iterator[Record]:
        self.chain, self.findings = links(self.disk, self.root, self.identity)
        if any(finding.severity == "error" for finding in self.findings):
            self._corrupt(self.findings.pop())
        for link in self.chain:
            yield from self._segment(link)
            if self.end == "corrupt" and self.mode != "salvage":
                return

    def _segment(self, link: Link) -> Iterator[Record]:
        # In this order: a writer that closes in between must not make its tail damage.
        closed = link.limit is None and self._was_closed(link)
        data = self.disk.read(f"{self.root}/seg/{link.name}")
        limit = len(data) if link.limit is None else link.limit
        self._check_frozen(link, data, limit)
        found = scan(data, link.first, min(limit, len(data)))
        if found.bodies:
            self._check_header(link, data[: link.first], found.bodies[0])
        self.tail_end, self.tail_size = found.end, len(data)
        if self.mode != "salvage" and self.end == "corrupt":
            return
        epoch, plain = link.header.epoch, self.mode != "strict"
        for body, offset in zip(found.bodies, found.offsets, strict=True):
            # The common case inline; whatever is odd about a record is told by `_record`.
            try:
                record: Record | None = decode(body)
            except BadRecord:
                record = None
            follows = (
                record is not None
                and record.prev == self.last
                and record.seq == self.size
                and record.epoch == epoch
            )
            if not (follows and plain):
                record = self._record(link, body, offset)
            if record is None:
                if self.mode != "salvage":
                    return
                continue
            self.size, self.last = record.seq + 1, record.hash
            self.segment, self.offset = link.name, offset
            yield record
        damage = self._tail(link, data, found.end, closed, found.why)
        if damage and self.mode == "salvage":
            yield from self._behind(link, data[:limit], found.end)

    def _behind(self, link: Link, data: bytes, at: int) -> Iterator[Record]:
        """The records that are whole behind damage; a gap before one is a finding."""
        for offset, body in frames_behind(data, at):
            record = self._record(link, body, offset)
            if record is not None:
                self.size, self.last = record.seq + 1, record.hash
                self.segment, self.offset = link.name, offset
                yield record

    def _check_header(self, link: Link, header: bytes, first: bytes) -> None:
        """A header is under the chain through the first record behind it."""
        try:
            told = decode(first).payload.get("header")
        except BadRecord:
            return  # told where it is read
        if told != hashlib.sha256(header).hexdigest():
            what = "the header is not the one that the first record names"
            self._corrupt(Finding(link.name, 0, what))

    def _check_frozen(self, link: Link, data: bytes, limit: int) -> None:
        """What the successor counted must be there, with the digest it saw."""
        if link.limit is None:
            return
        successor = self.chain[self.chain.index(link) + 1].header.pred
        assert successor is not None
        if len(data) < limit:
            self._corrupt(
                Finding(link.name, len(data), f"{limit - len(data)} bytes are missing")
            )
        elif hashlib.sha256(data[:limit]).hexdigest() != successor.sha256:
            self._blame(link, data, limit)
        if len(data) > limit:
            behind = len(scan(data, limit).bodies)
            what = (
                f"{len(data) - limit} bytes behind the valid count ({behind} whole frames)"
            )
            self.findings.append(Finding(link.name, limit, what, "warning"))

    def _blame(self, link: Link, data: bytes, limit: int) -> None:
        """Name the first frame that is broken, when one is."""
        found = scan(data, link.first, limit)
        offset = found.end if found.why != "end" else 0
        self._corrupt(
            Finding(link.name, offset, "bytes differ from what the successor saw")
        )

    def _record(self, link: Link, body: bytes, offset: int) -> Record | None:
        """The record of a body that follows the one before; else a finding and None."""
        try:
            record = decode(body)
        except BadRecord as error:
            self._corrupt(Finding(link.name, offset, f"not a record: {error}"))
            return None
        problem = self._problem(record, link, body)
        if problem is not None:
            self._corrupt(Finding(link.name, offset, problem))
            if self.mode != "salvage":
                return None
        return record

    def _problem(self, record: Record, link: Link, body: bytes) -> str | None:
        if record.prev != self.last or record.seq != self.size:
            return f"record {record.seq} does not follow record {self.size - 1}"
        if record.epoch != link.header.epoch:
            return f"record {record.seq} is of epoch {record.epoch}"
        if self.mode == "strict" and not canonical(body):
            return f"record {record.seq} is not in canonical form"
        return None

    def _tail(self, link: Link, data: bytes, at: int, closed: bool, why: str) -> bool:
        """How the segment ends; True when what stands at `at` is damage."""
        self.tail_sha256 = hashlib.sha256(data[:at]).hexdigest()
        if why == "end":
            return False
        if link.limit is not None:
            self._corrupt(Finding(link.name, at, f"unreadable ({why}) and counted valid"))
        elif closed:
            self._corrupt(Finding(link.name, at, f"unreadable ({why}) and closed cleanly"))
        elif (later := self._acknowledged_behind(data, at)) is not None:
            what = f"unreadable ({why}) and acknowledged: a later batch stands at {later}"
            self._corrupt(Finding(link.name, at, what))
        else:
            if self.end == "end":
                self.end = "not_yet_visible"
            what = f"{len(data) - at} bytes at the tail are no whole frame ({why})"
            self.findings.append(Finding(link.name, at, what, "warning"))
            return False
        return True

    def _was_closed(self, link: Link) -> bool:
        """A writer that released its claim had synced everything: nothing is torn."""
        claim = path_of(self.root, link.header.epoch)
        return self.disk.stat(f"{claim}.released") is not None

    def _acknowledged_behind(self, data: bytes, at: int) -> int | None:
        """
        The offset of a frame that proves the damaged bytes were acknowledged, or None.

        Only the last batch may be torn, in any of its pages; damage that begins before
        the last batch does is damage of bytes that a sync had made durable.
        """
        for offset, body in frames_behind(data, at):
            try:
                record = decode(body)
            except BadRecord:
                continue
            if record.seq - record.back > self.size:
                return offset
        return None

    def _corrupt(self, finding: Finding) -> None:
        """Note it; in strict mode raise."""
        self.end = "corrupt"
        self.findings.append(finding)
        if self.mode == "strict":
            raise damaged(finding)


def damaged(finding: Finding) -> LogDamaged:
    """The error of a finding."""
    return LogDamaged(
        "the log is damaged",
        why=f"{finding.segment} at byte {finding.offset}: {finding.what}",
        instead="`jumar verify RUN` shows what is readable; nothing was written.  Restore "
        "the segment from a copy, or begin in another directory",
        value=finding.segment,
    )
