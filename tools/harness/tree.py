"""A tree of inodes: finding names, and what other people do to it, durably at once."""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Iterator, Mapping

import attrs

from jumar.tools.harness.inode import Node, error, walk


@attrs.define
class Tree:
    """The names and bytes below `SimDisk`'s root."""

    _root: Node = attrs.field(factory=lambda: Node("dir"))
    _time: Iterator[int] = attrs.field(factory=lambda: itertools.count(10**18, 1000))

    def tick(self) -> int:
        """The next mtime, nanoseconds."""
        return next(self._time)

    def _split(self, path: str) -> tuple[Node, str]:
        """(parent directory, last name)."""
        *parents, name = [part for part in path.split("/") if part and part != "."]
        node = self._root
        for part in parents:
            if node.kind != "dir":
                raise error(errno.ENOTDIR, path)
            if part not in node.entries:
                raise error(errno.ENOENT, path)
            node = node.entries[part]
        if node.kind != "dir":
            raise error(errno.ENOTDIR, path)
        return node, name

    def _node(self, path: str) -> Node:
        if not path.strip("/.") and ".." not in path:
            return self._root
        parent, name = self._split(path)
        if name not in parent.entries:
            raise error(errno.ENOENT, path)
        return parent.entries[name]

    def _add(self, path: str, node: Node) -> None:
        parent, name = self._split(path)
        if name in parent.entries:
            raise error(errno.EEXIST, path)
        parent.entries[name] = node
        node.mtime_ns = node.mtime_ns or self.tick()
        parent.mtime_ns = self.tick()

    # --- other people ---

    def set_mtimes(self, order: str, seed: int = 0) -> None:
        """`equal`, `reversed` or `random` modification times of everything."""
        nodes = list(walk(self._root))
        times = sorted(node.mtime_ns for node in nodes)
        by_age = sorted(range(len(nodes)), key=lambda i: nodes[i].mtime_ns)
        shuffled = times[:]
        random.Random(seed).shuffle(shuffled)
        given = {
            "equal": [times[0]] * len(times),
            "reversed": times[::-1],
            "random": shuffled,
        }
        for index, mtime_ns in zip(by_age, given[order], strict=True):
            nodes[index].mtime_ns = mtime_ns

    def remove_tree(self, path: str) -> None:
        """Somebody removes a tree, durably."""
        parent, name = self._split(path)
        del parent.entries[name]
        parent.durable.pop(name, None)

    def flip_byte(self, path: str) -> None:
        """Somebody (or a cosmic ray) changes one byte, same size, durably."""
        node = self._node(path)
        at = len(node.data) // 2
        node.data[at] = (node.data[at] + 1) % 256  # twice is not a repair
        node.synced, node.pending = bytes(node.data), []

    def truncate(self, path: str) -> None:
        """Somebody cuts a file in half, durably."""
        node = self._node(path)
        del node.data[len(node.data) // 2 :]
        node.synced, node.pending = bytes(node.data), []

    def foreign_tree(self, path: str, files: Mapping[str, bytes]) -> None:
        """Somebody makes a directory with these files, durably, and its parents."""
        node = self._root
        for part in path.strip("/").split("/"):
            child = node.entries.get(part) or Node("dir", mtime_ns=self.tick())
            node.entries[part] = node.durable[part] = child
            node = child
        for name, data in files.items():
            file = Node("file", self.tick(), bytearray(data), data)
            node.entries[name] = node.durable[name] = file
