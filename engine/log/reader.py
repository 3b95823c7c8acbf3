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
from typing import Literal

import attrs

from jumar.engine.disk import Disk
from jumar.engine.log.claims import path_of
from jumar.engine.log.damage import acknowledged_behind, damaged, sha256_of
from jumar.engine.log.frame import Scan, frames_behind, scan
from jumar.engine.log.identity import Identity
from jumar.engine.log.links import Finding, Link, links
from jumar.engine.log.record import BadRecord, Record, canonical, decode
from jumar.engine.log.segment import Footer, read_footer

Mode = Literal["strict", "tail", "salvage", "audit"]
End = Literal["end", "not_yet_visible", "corrupt"]


@attrs.define
class LogReader:
    """
    Iterate over the records of a log, chain verified over the stored bytes.

    One segment is in memory at a time.  While a record is handed out `segment`, `offset`
    and `body` tell where it stands; after the iteration `end` and `findings` tell how it
    went.

    Attributes:
        mode: `strict` raises LogDamaged at the first corruption and checks that each body
            is canonical; `tail` stops there; `salvage` goes on with whatever is readable;
            `audit` does so and checks that each body is canonical.
        size: records read.
        last: hash of the last one.
        sealed: segments that end in a footer.
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
    sealed: int = 0
    footer: Footer | None = None
    offset: int = 0
    body: bytes = b""
    tail_end: int = 0
    tail_size: int = 0
    tail_sha256: str = ""
    _at: int = -1

    def __attrs_post_init__(self) -> None:
        self.identity = Identity.read(self.disk, self.root)
        self.last = self.identity.digest

    @property
    def link(self) -> Link:
        """The segment that is being read."""
        return self.chain[self._at]

    @property
    def segment(self) -> str:
        """Its name."""
        return self.chain[self._at].name

    @property
    def blame(self) -> Finding:
        """The last finding that makes it corrupt."""
        return [one for one in self.findings if one.severity == "error"][-1]

    @property
    def _goes_on(self) -> bool:
        """Whether damage is passed by."""
        return self.mode in ("salvage", "audit")

    @property
    def _checks_form(self) -> bool:
        return self.mode in ("strict", "audit")

    def begin(self) -> list[Link]:
        """The segments that count; what is wrong with others is in `findings`."""
        self.chain, self.findings = links(self.disk, self.root, self.identity)
        if any(finding.severity == "error" for finding in self.findings):
            self._corrupt(self.findings.pop())
        return self.chain

    def __iter__(self) -> Iterator[Record]:
        for at, link in enumerate(self.begin()):
            self._at = at
            yield from self._segment(link)
            if self.end == "corrupt" and not self._goes_on:
                return

    def part(self, at: int) -> Iterator[Record]:
        """
        The records of one segment of `chain` alone.

        What its header says of those before it is believed, for the caller to compare.
        """
        self._at, self.findings, self.end = at, [], "end"
        header = self.chain[at].header
        self.size, self.last = header.first_seq, bytes.fromhex(header.prev)
        yield from self._segment(self.chain[at])

    def _segment(self, link: Link) -> Iterator[Record]:
        # In this order: a writer that closes in between must not make its tail damage.
        closed = link.limit is None and self._was_closed(link)
        data = self.disk.read(f"{self.root}/seg/{link.name}")
        self.tail_size = len(data)
        data = data[: link.durable]
        limit = len(data) if link.limit is None else link.limit
        self._check_frozen(link, data, limit)
        found = scan(data, link.first, min(limit, len(data)))
        footer = read_footer(found.bodies[-1]) if found.bodies else None
        if footer is not None:
            found.bodies.pop()
        if found.bodies:
            self._check_header(link, data[: link.first], found.bodies[0])
        self.tail_end = found.end
        if self.end == "corrupt" and not self._goes_on:
            return
        yield from self._records(link, found)
        if self.end == "corrupt" and not self._goes_on:
            return
        if footer is not None and self._is_sealed(link, footer, data, found):
            return
        if footer is None and closed and link.header.peaks is not None:
            self._corrupt(
                Finding(link.name, found.end, "closed cleanly, and has no footer")
            )
        damage = self._tail(link, data, found.end, closed, found.why)
        if damage and self._goes_on:
            yield from self._behind(link, data[:limit], found.end)

    def _records(self, link: Link, found: Scan) -> Iterator[Record]:
        epoch, plain = link.header.epoch, not self._checks_form
        for body, offset in zip(found.bodies, found.offsets, strict=False):
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
                if not self._goes_on:
                    return
                continue
            self.size, self.last = record.seq + 1, record.hash
            self.offset, self.body = offset, body
            yield record

    def _is_sealed(self, link: Link, footer: Footer, data: bytes, found: Scan) -> bool:
        """Whether the segment ends here; what its footer counted must have been read."""
        at, tip = found.offsets[-1], link.limit is None
        seen = {
            "count": len(found.bodies),
            "size": self.size,
            "last_hash": self.last.hex(),
        }
        if tip or self._checks_form:  # else the successor's digest holds it as well
            seen["sha256"] = sha256_of(data, at)
        odd = [name for name, value in seen.items() if getattr(footer, name) != value]
        if odd:
            what = f"the footer's {', '.join(odd)} is not that of the segment"
            self._corrupt(Finding(link.name, at, what))
            return False
        self.sealed, self.footer = self.sealed + 1, footer
        if tip:
            self.tail_sha256 = sha256_of(data, found.end)
            if found.end < len(data):
                what = f"{len(data) - found.end} bytes behind the footer"
                self.findings.append(Finding(link.name, found.end, what, "warning"))
        return tip or found.why == "end"

    def _behind(self, link: Link, data: bytes, at: int) -> Iterator[Record]:
        """The records that are whole behind damage; a gap before one is a finding."""
        for offset, body in frames_behind(data, at):
            record = None if read_footer(body) else self._record(link, body, offset)
            if record is not None:
                self.size, self.last = record.seq + 1, record.hash
                self.offset, self.body = offset, body
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
        elif sha256_of(data, limit) != successor.sha256:
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
            if not self._goes_on:
                return None
        return record

    def _problem(self, record: Record, link: Link, body: bytes) -> str | None:
        if record.prev != self.last or record.seq != self.size:
            return f"record {record.seq} does not follow record {self.size - 1}"
        if record.epoch != link.header.epoch:
            return f"record {record.seq} is of epoch {record.epoch}"
        if self._checks_form and not canonical(record, body):
            return f"record {record.seq} is not in canonical form"
        return None

    def _tail(self, link: Link, data: bytes, at: int, closed: bool, why: str) -> bool:
        """How the segment ends; True when what stands at `at` is damage."""
        if link.limit is None:
            self.tail_sha256 = sha256_of(data, at)
        if why == "end":
            return False
        if link.limit is not None:
            self._corrupt(Finding(link.name, at, f"unreadable ({why}) and counted valid"))
        elif closed:
            self._corrupt(Finding(link.name, at, f"unreadable ({why}) and closed cleanly"))
        elif (
            later := acknowledged_behind(data, at, self.size, link.header.epoch)
        ) is not None:
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

    def _corrupt(self, finding: Finding) -> None:
        """Note it; in strict mode raise."""
        self.end = "corrupt"
        self.findings.append(finding)
        if self.mode == "strict":
            raise damaged(finding)
