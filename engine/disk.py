"""
The dozen file-system calls that jumar uses, as a protocol, and the real ones.

Every byte that the engine reads or writes goes through a `Disk`, so that a
simulated one can lose exactly what a power loss would lose.  Paths are plain
strings with `/` between names.  A name or a byte is durable only after the
matching sync: `DiskFile.sync` or `sync_file` for bytes, `sync_dir` of the parent
for names.  Every call raises `OSError` (with its errno) and nothing else.
"""

from __future__ import annotations

from typing import Literal, Protocol

import attrs

Kind = Literal["file", "dir", "link", "other"]


@attrs.frozen
class Stat:
    """
    What `lstat` says of one name: its kind, size in bytes, mtime in nanoseconds, and how
    many names the inode has.
    """

    kind: Kind
    size: int
    mtime_ns: int
    links: int = 1


class DiskFile(Protocol):
    """A file that was just created and is written front to back, once."""

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append *all* of `data`; returns its length in bytes."""

    def sync(self) -> None:
        """Make the bytes written so far durable (fdatasync)."""

    def close(self) -> None:
        """Close; a late EIO or EDQUOT is raised here. Closing twice is harmless."""


class Disk(Protocol):
    """What the engine needs of a file system."""

    def create(self, path: str) -> DiskFile:
        """Create exclusively (O_CREAT | O_EXCL); `FileExistsError` if the name is taken."""

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """Bytes `start .. start+size` of a file; fewer at its end; all when None."""

    def stat(self, path: str) -> Stat | None:
        """`lstat`; None when there is no such name (or no such parent)."""

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def mkdir(self, path: str) -> None:
        """Make one directory; `FileExistsError` if the name is taken."""

    def rename(self, src: str, dst: str) -> None:
        """rename(2): a directory refuses a populated target, a link is replaced."""

    def link(self, src: str, dst: str) -> None:
        """link(2) of a file; `FileExistsError` if `dst` is taken."""

    def unlink(self, path: str) -> None:
        """Remove a file or a link; `FileNotFoundError` if it is not there."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def symlink(self, target: str, path: str) -> None:
        """Make a symbolic link with exactly this target text."""

    def readlink(self, path: str) -> str:
        """The target text of a symbolic link."""

    def make_readonly(self, path: str) -> None:
        """chmod(2) 0444 of a file: a sealed one is not changed by accident."""

    def fs_kind(self, path: str) -> str:
        """The type of the file system that holds a directory, as the mount table says."""

    def sync_file(self, path: str) -> None:
        """Open an existing file, fsync it, close it."""

    def sync_dir(self, path: str) -> None:
        """fsync a directory: its entries are durable afterwards."""
