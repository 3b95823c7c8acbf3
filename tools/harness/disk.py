"""
`SimDisk`: a file system in memory that can lose exactly what a power loss would lose.

Every file and directory has a durable side and a volatile side.  `DiskFile.sync` copies a
file's bytes to its durable side, `sync_dir` a directory's entries; `power_loss` throws
away the volatile side of everything, or lets each unsynced write and name survive or not
on its own.  A name is durable only when the entry in its own directory is, and that
directory's in its parent's, and so on.

A rename is one transaction of a journaling file system: both halves survive or neither
does, and it is durable when either directory was synced, with the earlier renames that
it builds on (one that moved the same entry, or made room for it).
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import attrs

from jumar.engine.disk import Stat
from jumar.tools.harness.inode import (
    Crash,
    Node,
    Rename,
    ShortWrite,
    check_replace,
    error,
    forget,
    settle_some,
    walk,
)
from jumar.tools.harness.tree import Tree


@attrs.define
class SimFile:
    """An open file of a `SimDisk`."""

    _disk: SimDisk
    _node: Node
    _path: str
    _open: bool = True

    def _call(self, name: str) -> None:
        self._disk.call(name, self._path)
        if not self._open:
            raise error(errno.EBADF, self._path)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append; not durable."""
        view = memoryview(data).cast("B")
        try:
            self._call("write")
            self._disk.must_fit(view, self._path)
        except ShortWrite as short:
            self._append(view[: short.kept])
            raise
        self._append(view)
        return view.nbytes

    def _append(self, data: memoryview) -> None:
        start = len(self._node.data)
        self._node.data += data
        self._node.pending.append((start, len(self._node.data)))
        self._node.mtime_ns = self._disk.tick()

    def sync(self) -> None:
        """Make the bytes durable."""
        try:
            self._call("sync")
        except OSError:
            self._node.fail()
            raise
        self._disk.file_syncs += 1
        self._node.settle()

    def close(self) -> None:
        """Nothing is buffered; closing twice is harmless."""
        self._disk.call("close", self._path)
        self._open = False


@attrs.define
class SimDisk(Tree):
    """
    The simulated file system.

    Attributes:
        before: called with (call, path) before each call; it may raise `OSError` to fail
            the call or `Crash` to end the machine there.
        fs: the type of file system that it says it is.
        capacity: bytes of file data that it holds; what does not fit raises ENOSPC after
            the part that did.  None: any number.
        calls: calls so far.
        file_syncs: how many files were synced.
        dir_syncs: how many directories were synced.
    """

    before: Callable[[str, str], None] | None = None
    fs: str = "sim"
    capacity: int | None = None
    calls: int = 0
    file_syncs: int = 0
    dir_syncs: int = 0
    _renames: list[Rename] = attrs.field(factory=list)

    def call(self, name: str, path: str) -> None:
        """Count a call, and let a test fail or crash here."""
        self.calls += 1
        if self.before is not None:
            self.before(name, path)

    def must_fit(self, data: memoryview, path: str) -> None:
        """ShortWrite when the disk is full."""
        if self.capacity is None:
            return
        files = {
            id(node): len(node.data) for node in walk(self._root) if node.kind == "file"
        }
        left = max(0, self.capacity - sum(files.values()))
        if data.nbytes > left:
            raise ShortWrite(errno.ENOSPC, path, left)

    # --- the protocol ---

    def create(self, path: str) -> SimFile:
        """Create exclusively."""
        self.call("create", path)
        node = Node("file")
        self._add(path, node)
        return SimFile(self, node, path)

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file; a link is not followed."""
        self.call("read", path)
        node = self._node(path)
        if node.kind == "link":
            raise error(errno.ELOOP, path)
        if node.kind == "dir":
            raise error(errno.EISDIR, path)
        end = None if size is None else start + size
        return bytes(node.data[start:end])

    def stat(self, path: str) -> Stat | None:
        """lstat."""
        self.call("stat", path)
        try:
            node = self._node(path)
        except OSError:
            return None
        names = self._split(path)[0].entries.values() if node.kind == "file" else ()
        links = sum(one is node for one in names)  # in its directory: nobody links farther
        return Stat(node.kind, len(node.data), node.mtime_ns, max(1, links))

    def listdir(self, path: str) -> list[str]:
        """Sorted names."""
        self.call("listdir", path)
        node = self._node(path)
        if node.kind != "dir":
            raise error(errno.ENOTDIR, path)
        return sorted(node.entries)

    def mkdir(self, path: str) -> None:
        """One directory."""
        self.call("mkdir", path)
        self._add(path, Node("dir"))

    def rename(self, src: str, dst: str) -> None:
        """rename(2)."""
        self.call("rename", src)
        source, old = self._split(src)
        target, new = self._split(dst)
        node = self._node(src)
        if node.kind == "dir" and f"{dst}/".startswith(f"{src}/") and src != dst:
            raise error(errno.EINVAL, src)  # into itself
        if src != dst and f"{src}/".startswith(f"{dst}/"):
            raise error(errno.ENOTEMPTY, dst)  # onto a directory that holds it
        held = target.entries.get(new)
        if held is node:
            return
        if held is not None:
            check_replace(node, held, dst)
        self._renames.append(Rename(source, old, target, new, node))
        del source.entries[old]
        target.entries[new] = node
        source.mtime_ns = target.mtime_ns = self.tick()

    def link(self, src: str, dst: str) -> None:
        """A second name of a file."""
        self.call("link", src)
        node = self._node(src)
        parent, name = self._split(dst)
        if node.kind == "dir" and name not in parent.entries:
            raise error(errno.EPERM, src)
        self._add(dst, node)

    def unlink(self, path: str) -> None:
        """Remove a file or a link."""
        self.call("unlink", path)
        node = self._node(path)
        if node.kind == "dir":
            raise error(errno.EISDIR, path)
        self._remove(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self.call("rmdir", path)
        node = self._node(path)
        if node.kind != "dir":
            raise error(errno.ENOTDIR, path)
        if node.entries:
            raise error(errno.ENOTEMPTY, path)
        self._remove(path)

    def _remove(self, path: str) -> None:
        parent, name = self._split(path)
        del parent.entries[name]
        parent.mtime_ns = self.tick()

    def symlink(self, target: str, path: str) -> None:
        """A link; its target is durable with its name."""
        self.call("symlink", path)
        self._add(
            path, Node("link", data=bytearray(target.encode()), synced=target.encode())
        )

    def readlink(self, path: str) -> str:
        """The target text."""
        self.call("readlink", path)
        node = self._node(path)
        if node.kind != "link":
            raise error(errno.EINVAL, path)
        return node.data.decode()

    def make_readonly(self, path: str) -> None:
        """Nobody's rights are simulated; the name must be there."""
        self.call("make_readonly", path)
        self._node(path)

    def fs_kind(self, path: str) -> str:
        """What the scenario says."""
        self.call("fs_kind", path)
        return self.fs

    def sync_file(self, path: str) -> None:
        """Make an existing file's bytes durable."""
        try:
            self.call("sync_file", path)
        except OSError:
            self._node(path).fail()
            raise
        self.file_syncs += 1
        self._node(path).settle()

    def sync_dir(self, path: str) -> None:
        """Make a directory's entries durable, with the other halves of its renames."""
        self.call("sync_dir", path)
        self.dir_syncs += 1
        node = self._node(path)
        if node.kind != "dir":
            raise error(errno.ENOTDIR, path)
        due = self._due(node)
        for one in due:
            one.settle()
        self._renames = [one for one in self._renames if one not in due]
        node.durable = dict(node.entries)

    def _due(self, folder: Node) -> list[Rename]:
        """The renames in and out of a directory, and the earlier ones they build on."""
        due: list[Rename] = []
        places: set[tuple[int, str]] = set()
        for one in reversed(self._renames):
            both = {(id(one.source), one.old), (id(one.target), one.new)}
            if folder in (one.source, one.target) or both & places:
                places |= both
                due.append(one)
        return due[::-1]

    def power_loss(self, chance: random.Random | None = None) -> None:
        """
        Drop every unsynced byte and name, or let chance decide over each of them.

        With `chance` a write may survive, be torn at any byte, come back as zeros or be
        lost; a changed name is as before or as now; a rename survives as a whole or not.
        """
        decided = set() if chance is None else settle_some(self._renames, chance)
        self._renames.clear()
        forget(self._root, set(), chance, decided)


__all__ = ["Crash", "ShortWrite", "SimDisk"]
