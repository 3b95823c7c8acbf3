"""
Checking a whole log: every segment on its own, then how they join, then every head.

A header tells what stood before its segment (hash, peaks), so segments need not wait for
each other; what they told is compared afterwards.  A head is compared by root, not by
size: a suffix that was rewritten to the same length has another root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from jumar.engine.disk import Disk
from jumar.engine.log.links import Finding, Link
from jumar.engine.log.merkle import Tree
from jumar.engine.log.reader import LogReader

Apply = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or that of a pool of processes."""

BESIDE: Final = "beside the log"
MANIFEST: Final = "manifest"
OUTSIDE: Final = "outside"


@attrs.frozen
class Anchor:
    """
    What somebody else knows of the log.

    Attributes:
        where: `beside the log`, `manifest` or `outside`.
        name: of the file it was read from.
        size: records.
        root: Merkle root over them, hex; None when only the last hash is known.
        last_hash: hash of record `size - 1`, hex; None when only the root is known.
        log_id: None when it does not say.
        signers: names of keys, not checked.
    """

    where: str
    name: str
    size: int
    root: str | None = None
    last_hash: str | None = None
    log_id: str | None = None
    signers: tuple[str, ...] = ()


@attrs.frozen
class Task:
    """One segment to check, with the one that follows it; `peaks` are those before it."""

    disk: Disk
    root: str
    links: tuple[Link, ...]
    peaks: tuple[bytes, ...]
    wanted: frozenset[int]


@attrs.frozen
class Checked:
    """What one segment turned out to be; `known` holds (root, last hash) at sizes."""

    size: int
    last: bytes
    peaks: tuple[bytes, ...]
    known: dict[int, tuple[str, str]]
    findings: tuple[Finding, ...]
    sealed: bool


@attrs.frozen
class Audit:
    """
    The whole of it.

    Attributes:
        known: (root, last hash) of the log at each size that was asked for.
        matching: the anchors that the log agrees with.
    """

    size: int
    root: str
    last_hash: str
    segments: int
    sealed: int
    findings: tuple[Finding, ...]
    matching: tuple[Anchor, ...]


def check_segment(task: Task) -> Checked:
    """Frames, chain, canonical form, footer and frozen digest of one segment."""
    reader = LogReader(task.disk, task.root, mode="audit")
    reader.chain = list(task.links)
    tree = Tree(task.links[0].header.first_seq, list(task.peaks))
    known = {}
    for record in reader.part(0):
        tree.add(reader.body)
        if tree.size in task.wanted:
            known[tree.size] = (tree.root().hex(), record.hash.hex())
    told = reader.footer
    if told is not None and told.root != tree.root().hex():
        what = "the footer's root is not that of the records"
        reader.findings.append(Finding(reader.segment, reader.offset, what))
    return Checked(
        size=reader.size,
        last=reader.last,
        peaks=tuple(tree.peaks),
        known=known,
        findings=tuple(reader.findings),
        sealed=reader.sealed > 0,
    )


def audit(disk: Disk, root: str, anchors: Sequence[Anchor], apply: Apply = map) -> Audit:
    """
    Check a log against itself and against what others know of it.

    Args:
        apply: maps a function over tasks; with one of several processes the disk must be
            one that they can use too.

    Raises:
        LogDamaged: there is no log.
    """
    reader = LogReader(disk, root, mode="audit")
    chain = reader.begin()
    findings = list(reader.findings)
    wanted = frozenset(anchor.size for anchor in anchors)
    told = [link.header.peaks for link in chain]
    parts: list[Checked] = []
    if None not in told:
        tasks = [
            Task(disk, root, tuple(chain[at : at + 2]), tuple(peaks or ()), wanted)
            for at, peaks in enumerate(told)
        ]
        parts = list(apply(check_segment, tasks))
    else:  # headers of format 1: each segment needs the peaks of the one before
        for at in range(len(chain)):
            peaks = parts[-1].peaks if parts else ()
            first = chain[at].header.first_seq
            if len(peaks) != first.bit_count():  # a gap: told by `_join`
                peaks = (bytes(32),) * first.bit_count()
            two = tuple(chain[at : at + 2])
            parts.append(check_segment(Task(disk, root, two, peaks, wanted)))
    known = {0: (Tree().root().hex(), reader.identity.digest.hex())}
    for before, after, link in zip(parts, parts[1:], chain[1:], strict=False):
        findings += _join(before, after, link.name, link.header)
    for part in parts:
        findings += part.findings
        known.update(part.known)
    end = parts[-1] if parts else None
    size = end.size if end else 0
    odd, matching = _compare(anchors, known, size, reader.identity.log_id)
    return Audit(
        size=size,
        root=Tree(size, list(end.peaks)).root().hex() if end else known[0][0],
        last_hash=(end.last if end else reader.identity.digest).hex(),
        segments=len(chain),
        sealed=sum(part.sealed for part in parts),
        findings=(*findings, *odd),
        matching=tuple(matching),
    )


def _join(before: Checked, after: Checked, name: str, header: Any) -> list[Finding]:
    """What the header of a segment says of those before it."""
    said = {
        "first record": (header.first_seq, before.size),
        "last hash": (header.prev, before.last.hex()),
        "Merkle peaks": (header.peaks and tuple(header.peaks), before.peaks),
    }
    return [
        Finding(name, 0, f"the header's {what} is not that of the segment before")
        for what, (told, seen) in said.items()
        if told is not None and told != seen
    ]


def _compare(
    anchors: Sequence[Anchor], known: dict[int, tuple[str, str]], size: int, log_id: str
) -> tuple[list[Finding], list[Anchor]]:
    findings, matching = [], []
    for anchor in anchors:
        what = _differs(anchor, known, size, log_id)
        if what is None:
            matching.append(anchor)
        else:
            findings.append(Finding(anchor.name, 0, f"head {anchor.where}: {what}"))
    return findings, matching


def _differs(
    anchor: Anchor, known: dict[int, tuple[str, str]], size: int, log_id: str
) -> str | None:
    if anchor.log_id is not None and anchor.log_id != log_id:
        return f"it is of another log, {anchor.log_id[:12]}"
    if anchor.size > size:
        return (
            f"it tells of {anchor.size} records, and {size} are here: the end was cut off"
        )
    if anchor.size not in known:
        return f"record {anchor.size - 1} cannot be read"
    root, last = known[anchor.size]
    if anchor.root not in (None, root) or anchor.last_hash not in (None, last):
        return f"the first {anchor.size} records are not those that it tells of"
    return None
