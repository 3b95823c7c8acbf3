"""Which segments of a log count, and in which order."""

from __future__ import annotations

from typing import Final, Literal

import attrs

from jumar.engine.disk import Disk
from jumar.engine.log.claims import durable_bytes
from jumar.engine.log.frame import frames_behind
from jumar.engine.log.identity import Identity
from jumar.engine.log.record import is_record
from jumar.engine.log.segment import (
    HEADER_MAX,
    Header,
    NewerFormat,
    epoch_of,
    is_segment,
    read_header,
)

SEGMENT_MAX: Final = 1 << 30
"""Bytes; one is sealed at 8 MiB and a batch, and is read as a whole."""

ALONE_MAX: Final = HEADER_MAX + 64
"""Bytes of a segment that holds nothing but its header, at most."""

DAMAGE: Final = (
    "`jumar verify RUN` shows what is readable; nothing was written.  Restore the segment "
    "from a copy, or begin in another directory"
)
NEWER: Final = (
    "use the version of jumar that wrote it; this one shows what it can read and writes "
    "nothing"
)


@attrs.frozen
class Finding:
    """Something about the bytes that a reader should know, and what to do about it."""

    segment: str
    offset: int
    what: str
    severity: Literal["error", "warning"] = "error"
    instead: str = DAMAGE


@attrs.frozen
class Link:
    """
    One segment of the chain.

    Attributes:
        first: offset of its first record.
        limit: bytes that its successor counted valid; None for the last one.
        durable: bytes that count although there is no successor, when its writer died
            and could still say so.
    """

    name: str
    header: Header
    first: int
    limit: int | None
    durable: int | None = None


def links(disk: Disk, root: str, identity: Identity) -> tuple[list[Link], list[Finding]]:
    """
    The segments that count, oldest first, and findings about those that do not.

    The newest epoch whose ancestry reaches the beginning wins; a segment whose header is
    torn (a writer that died while it began) hides nobody.  One of a newer format is an
    error: what it holds cannot be known, so nothing may be written behind it.
    """
    headers, findings = _headers(disk, f"{root}/seg", identity)
    chain: list[Link] = []
    cut_off: list[Link] = []
    seen: set[str] = set()
    for tip in sorted(headers, key=epoch_of, reverse=True):
        durable = durable_bytes(disk, root, headers[tip][0].epoch, tip)
        if durable is not None and durable < headers[tip][1]:
            what = "orphan segment: its writer could not make its header durable"
            findings.append(Finding(tip, 0, what, "warning"))
            del headers[tip]
            continue
        if tip in seen:
            continue
        back, problem = _ancestry(tip, headers, identity)
        if problem is None:
            chain = [*back[:-1], attrs.evolve(back[-1], durable=durable)]
            break
        findings.append(problem)
        cut_off = [*(link for link in back if link.name not in seen), *cut_off]
        seen |= {link.name for link in back}
    used = {link.name for link in (*chain, *cut_off)}
    findings += [
        _off_chain(name, headers[name][0], chain) for name in sorted(headers.keys() - used)
    ]
    # What is cut off from the beginning is damage, and is shown to whoever salvages.
    return [*chain, *cut_off], sorted(findings, key=lambda one: one.severity == "error")


def _headers(
    disk: Disk, folder: str, identity: Identity
) -> tuple[dict[str, tuple[Header, int]], list[Finding]]:
    headers, findings = {}, []
    names = disk.listdir(folder) if disk.stat(folder) is not None else []
    for name in filter(is_segment, names):
        stat = disk.stat(f"{folder}/{name}")
        if stat is None:
            continue  # a client of a network file system may know a name too early
        if stat.kind != "file" or stat.size > SEGMENT_MAX:
            what = f"no file, or of more than {SEGMENT_MAX} bytes, which nobody writes"
            findings.append(Finding(name, 0, what))
            continue
        try:
            data = disk.read(f"{folder}/{name}", 0, HEADER_MAX)
            found = read_header(data)
            if found is None:  # judge one reading: a live writer may be making it
                data = disk.read(f"{folder}/{name}")
                found = read_header(data)
        except NewerFormat as error:
            findings.append(Finding(name, 0, f"of {error}", instead=NEWER))
            continue
        if found is None and (len(data) > ALONE_MAX or _holds_records(data)):
            findings.append(Finding(name, 0, "its header is damaged: more follows it"))
        elif found is None or not _belongs(found[0], name, identity):
            what = "orphan segment: its header is torn, or of another log or name"
            findings.append(Finding(name, 0, what, "warning"))
        else:
            headers[name] = found
    return headers, findings


def _holds_records(data: bytes) -> bool:
    """A header is durable before the first record is written: so it was whole once."""
    return any(is_record(body) for _, body in frames_behind(data, 0))


def _off_chain(name: str, header: Header, chain: list[Link]) -> Finding:
    """A segment that the chain passes by; a fork when both continue the same one."""
    before = None if header.pred is None else header.pred.name
    for link in chain:
        pred = link.header.pred
        if (None if pred is None else pred.name) == before:
            what = (
                f"fork: epoch {header.epoch} here and epoch {link.header.epoch} in "
                f"{link.name} both continue {before or 'the beginning'}; the newest counts"
            )
            return Finding(name, 0, what, "warning")
    return Finding(name, 0, "segment is not on the chain", "warning")


def _belongs(header: Header, name: str, identity: Identity) -> bool:
    """A segment of another log, or a copy under another name, must not hide ours."""
    here = (header.epoch, header.first_seq) == epoch_of(name)
    return here and header.log_id == identity.log_id


def _ancestry(
    tip: str, headers: dict[str, tuple[Header, int]], identity: Identity
) -> tuple[list[Link], Finding | None]:
    """The way back from a segment, oldest first, and why it does not reach the start."""
    chain: list[Link] = []
    name, limit = tip, None
    while name in headers:
        header, first = headers[name]
        chain.insert(0, Link(name, header, first, limit))
        if header.pred is None:
            if header.first_seq == 0 and header.prev == identity.digest.hex():
                return chain, None
            return chain, Finding(name, 0, "it follows nothing, and is not the beginning")
        if epoch_of(header.pred.name) >= epoch_of(name):
            return chain, Finding(name, 0, "its header names its own future")
        name, limit = header.pred.name, header.pred.valid_bytes
    what = f"missing, or its header cannot be read, and {chain[0].name} follows it"
    return chain, Finding(name, 0, what)
