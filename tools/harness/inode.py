"""The inodes of `SimDisk`: a durable and a volatile side of everything."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterable, Iterator

import attrs

from jumar.engine.disk import Kind


class Crash(BaseException):
    """The machine is gone: nothing after this call happens."""


class ShortWrite(OSError):
    """A write that failed after its first `kept` bytes."""

    def __init__(self, code: int, path: str, kept: int) -> None:
        super().__init__(code, os.strerror(code), path)
        self.kept = kept


def error(code: int, path: str) -> OSError:
    """The error that the operating system would raise."""
    return OSError(code, os.strerror(code), path)


@attrs.define(eq=False)
class Node:
    """
    An inode.

    Attributes:
        data: a file's bytes, or a link's target, as readers see them.
        synced: what a power loss leaves of `data`.
        entries: a directory's names, as readers see them.
        durable: what a power loss leaves of `entries`.
        pending: (start, end) of each write since the last sync.
        lost: writes whose sync failed: readers see them, and no later sync keeps them.
    """

    kind: Kind
    mtime_ns: int = 0
    data: bytearray = attrs.field(factory=bytearray)
    synced: bytes = b""
    entries: dict[str, Node] = attrs.field(factory=dict)
    durable: dict[str, Node] = attrs.field(factory=dict)
    pending: list[tuple[int, int]] = attrs.field(factory=list)
    lost: list[tuple[int, int]] = attrs.field(factory=list)

    def settle(self) -> None:
        """A sync: the bytes are durable, except those that an earlier one failed on."""
        kept = bytearray(self.data)
        for start, end in self.lost:
            kept[start:end] = bytes(end - start)
        self.synced, self.pending = bytes(kept), []

    def fail(self) -> None:
        """A sync that failed: the kernel takes the pages for clean and forgets them."""
        self.lost, self.pending = [*self.lost, *self.pending], []


def check_replace(node: Node, held: Node, path: str) -> None:
    """What rename(2) says when the target exists."""
    if held.kind == "dir" and node.kind != "dir":
        raise error(errno.EISDIR, path)
    if held.kind != "dir" and node.kind == "dir":
        raise error(errno.ENOTDIR, path)
    if held.entries:
        raise error(errno.ENOTEMPTY, path)


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it, by name."""
    yield node
    for _, child in sorted(node.entries.items()):
        yield from walk(child)


Place = tuple[int, str]
"""A name in a directory: (id of the directory's node, name)."""


@attrs.frozen
class Rename:
    """One rename that no sync has made durable yet."""

    source: Node
    old: str
    target: Node
    new: str
    node: Node

    def settle(self) -> None:
        """Both halves become durable."""
        if self.source.durable.get(self.old) is self.node:
            del self.source.durable[self.old]
        self.target.durable[self.new] = self.node


def settle_some(renames: Iterable[Rename], chance: random.Random) -> set[Place]:
    """Let each rename survive as a whole or not at all; the names that are decided so."""
    decided: set[Place] = set()
    lost: set[Place] = set()
    for one in renames:
        came_from, goes_to = (id(one.source), one.old), (id(one.target), one.new)
        decided |= {came_from, goes_to}
        if {came_from, goes_to} & lost or chance.random() < 0.5:
            lost |= {came_from, goes_to}  # what builds on it is lost with it
        else:
            one.settle()
    return decided


def forget(
    node: Node, seen: set[int], chance: random.Random | None, decided: set[Place]
) -> None:
    """
    What a power loss leaves of a tree.

    Args:
        chance: None: nothing unsynced survives.  Otherwise each write since the last sync
            and each changed name survives, or not, on its own; a write may be torn at any
            byte or come back as zeros.
        decided: names whose durable side says already what survived.
    """
    if id(node) in seen:
        return
    seen.add(id(node))
    if chance is None:
        node.data, node.entries = bytearray(node.synced), dict(node.durable)
    elif node.kind == "file":
        node.data = _torn(node, chance)
    else:
        node.entries = _some_names(node, chance, decided)
    node.synced, node.durable = bytes(node.data), dict(node.entries)
    node.pending, node.lost = [], []
    for child in node.entries.values():
        forget(child, seen, chance, decided)


def _torn(node: Node, chance: random.Random) -> bytearray:
    """The synced bytes, and of each later write: all, none, a part, zeros, or a hole."""
    kept = bytearray(node.synced)
    for start, end in sorted([*node.lost, *node.pending]):
        how = chance.choice(("all", "none", "part", "zeros", "hole"))
        stop = chance.randint(start, end) if how == "part" else end
        if how == "none":
            continue
        kept.extend(bytes(max(0, stop - len(kept))))  # a hole reads as zeros
        if how != "zeros":
            kept[start:stop] = node.data[start:stop]
        if how == "hole":  # a page in the middle did not make it
            first = chance.randint(start, end)
            last = chance.randint(first, end)
            kept[first:last] = bytes(last - first)
    return kept


def _some_names(node: Node, chance: random.Random, decided: set[Place]) -> dict[str, Node]:
    """Each name that differs between the two sides: as before, or as now."""
    kept = {}
    for name in sorted({*node.durable, *node.entries}):
        now = chance.random() < 0.5 and (id(node), name) not in decided
        child = (node.entries if now else node.durable).get(name)
        if child is not None:
            kept[name] = child
    return kept
