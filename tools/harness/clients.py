"""
`Client`: one host's view of a disk that several hosts share, as NFS and Lustre give it.

What this host does is done by the server at once: an exclusive create, a link, a rename
and a mkdir are never decided by an old name.  What *others* did may be seen late:

    size      the bytes that were there before, and no more (both)
    zeros     the new size, with zeros where the new bytes are not there yet (both)
    listing   names as they were; a name that this host just made is among them (NFS)
    absent    no such name, where another host made one (NFS: a cached negative lookup)

A view grows old for at most `bound` calls, and `refresh` (a wait) ends it.  The bytes of a
file that was closed, or synced by somebody who opened it, are seen by every later open.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Final

import attrs

from jumar.engine.disk import Disk, DiskFile, Stat

MAY: Final[dict[str, frozenset[str]]] = {
    "nfs": frozenset({"size", "zeros", "listing", "absent"}),
    "lustre": frozenset({"size", "zeros"}),
}
"""Kind of file system -> what a client of it may see late."""


@attrs.define
class ClientFile:
    """A file that this host writes; others see all of it once it is closed."""

    file: DiskFile
    path: str
    settled: set[str]

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append."""
        return self.file.write(data)

    def sync(self) -> None:
        """To the server's disk."""
        self.file.sync()

    def close(self) -> None:
        """Close-to-open: whoever opens it from here on sees everything."""
        self.file.close()
        self.settled.add(self.path)


@attrs.define
class Client:
    """
    A `Disk` beside others over one server.

    Attributes:
        server: the disk that all clients share.
        fs: `nfs` or `lustre`.
        chance: decides whether a look is late, and how.
        settled: files that were closed or synced as a whole; all clients share this set.
        bound: calls after which a view is fresh again.
        late: how often each kind of late view was given.
    """

    server: Disk
    fs: str
    chance: random.Random
    settled: set[str] = attrs.field(factory=set)
    bound: int = 40
    late: Counter[str] = attrs.field(factory=Counter)
    _calls: int = 0
    _own: set[str] = attrs.field(factory=set)
    _sizes: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    _names: dict[str, tuple[int, list[str]]] = attrs.field(factory=dict)
    _absent: dict[str, int] = attrs.field(factory=dict)

    def refresh(self) -> None:
        """From here on what others did before is seen."""
        self._sizes.clear()
        self._names.clear()
        self._absent.clear()

    def _is_late(self, kind: str, since: int) -> bool:
        old = self._calls - since
        late = kind in MAY[self.fs] and old <= self.bound and self.chance.random() < 0.5
        self.late[kind] += late
        return late

    # --- looking ---

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes; of another host's file perhaps fewer, or zeros at its end."""
        self._calls += 1
        data = self.server.read(path)
        since, known = self._sizes.get(path, (self._calls, len(data)))
        if path not in self._own | self.settled and known < len(data):
            if self._is_late("zeros", since):
                data = data[:known] + bytes(len(data) - known)
            elif self._is_late("size", since):
                data = data[:known]
            else:
                since, known = self._calls, len(data)
        self._sizes[path] = since, known
        return data[start : None if size is None else start + size]

    def stat(self, path: str) -> Stat | None:
        """`lstat`; None perhaps for a name that another host made."""
        self._calls += 1
        found = self.server.stat(path)
        if found is None:
            self._absent[path] = self._calls
        elif path in self._absent and path not in self._own:
            if self._is_late("absent", self._absent[path]):
                return None
            del self._absent[path]
        return found

    def listdir(self, path: str) -> list[str]:
        """The names; perhaps those of before, and what this host made since."""
        self._calls += 1
        names = self.server.listdir(path)
        since, known = self._names.get(path, (self._calls, names))
        if known != names and self._is_late("listing", since):
            mine = {own.rpartition("/")[2] for own in self._own if own.startswith(path)}
            return sorted(name for name in names if name in known or name in mine)
        self._names[path] = self._calls, names
        return names

    def readlink(self, path: str) -> str:
        """The target."""
        return self.server.readlink(path)

    def fs_kind(self, path: str) -> str:
        """This kind."""
        return self.fs

    # --- doing: the server decides ---

    def _did(self, path: str) -> str:
        self._calls += 1
        self._own.add(path)
        self._absent.pop(path, None)
        return path

    def create(self, path: str) -> ClientFile:
        """Exclusive, whatever this host believes."""
        file = self.server.create(path)
        self._did(path)
        return ClientFile(file, path, self.settled)

    def mkdir(self, path: str) -> None:
        """Exclusive as well."""
        self.server.mkdir(path)
        self._did(path)

    def link(self, src: str, dst: str) -> None:
        """Exclusive as well."""
        self.server.link(src, dst)
        self._did(dst)

    def symlink(self, target: str, path: str) -> None:
        """Exclusive as well."""
        self.server.symlink(target, path)
        self._did(path)

    def rename(self, src: str, dst: str) -> None:
        """By the server."""
        self.server.rename(src, dst)
        self._did(dst)

    def unlink(self, path: str) -> None:
        """By the server."""
        self.server.unlink(path)

    def rmdir(self, path: str) -> None:
        """By the server."""
        self.server.rmdir(path)

    def make_readonly(self, path: str) -> None:
        """By the server."""
        self.server.make_readonly(path)

    def sync_file(self, path: str) -> None:
        """By the server."""
        self.server.sync_file(path)
        self.settled.add(path)

    def sync_dir(self, path: str) -> None:
        """By the server."""
        self.server.sync_dir(path)


def clients(server: Disk, fs: str, seeds: Iterable[int]) -> list[Client]:
    """One client for each seed, over one server."""
    settled: set[str] = set()
    return [Client(server, fs, random.Random(seed), settled) for seed in seeds]
