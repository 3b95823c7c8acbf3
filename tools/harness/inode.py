"""The inodes of `SimDisk`: a durable and a volatile side of everything."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import attrs

from jumar.engine.disk import Kind


class Crash(BaseException):
    """The machine is gone: nothing after this call happens."""


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
    """

    kind: Kind
    mtime_ns: int = 0
    data: bytearray = attrs.field(factory=bytearray)
    synced: bytes = b""
    entries: dict[str, Node] = attrs.field(factory=dict)
    durable: dict[str, Node] = attrs.field(factory=dict)


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


def forget(node: Node, seen: set[int]) -> None:
    """Throw the volatile side of a tree away."""
    if id(node) in seen:
        return
    seen.add(id(node))
    node.data = bytearray(node.synced)
    node.entries = dict(node.durable)
    for child in node.entries.values():
        forget(child, seen)
