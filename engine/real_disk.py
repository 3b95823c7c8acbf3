"""`RealDisk`: the `Disk` protocol on the operating system's calls."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from jumar.engine.disk import Kind, Stat
from jumar.engine.mounts import kind_of

_KINDS: Final[tuple[tuple[int, Kind], ...]] = (
    (modes.S_IFREG, "file"),
    (modes.S_IFDIR, "dir"),
    (modes.S_IFLNK, "link"),
)


@attrs.define
class RealFile:
    """A file descriptor that is written front to back."""

    _fd: int

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append all of `data`, however short the kernel's writes are."""
        written = os.write(self._fd, data)
        size = len(data) if isinstance(data, bytes) else memoryview(data).nbytes
        while written < size:
            written += os.write(self._fd, memoryview(data).cast("B")[written:])
        return written

    def sync(self) -> None:
        """fdatasync(2)."""
        if self._fd < 0:  # Python would raise a ValueError, which no caller expects
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        os.fdatasync(self._fd)

    def close(self) -> None:
        """close(2), once."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


@attrs.frozen
class RealDisk:
    """The file system of this machine."""

    def create(self, path: str) -> RealFile:
        """O_CREAT | O_EXCL."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return RealFile(os.open(path, flags, 0o666))

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """pread(2) until enough or the end; a link is not followed (ELOOP)."""
        # Without O_NONBLOCK the open of a pipe that somebody put here would wait for ever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if modes.S_ISFIFO(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "a pipe, not a file", path)
            if size is None:
                size = max(0, os.fstat(fd).st_size - start)
            chunks = []
            while size > 0 and (chunk := os.pread(fd, size, start)):
                chunks.append(chunk)
                start, size = start + len(chunk), size - len(chunk)
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        finally:
            os.close(fd)

    def stat(self, path: str) -> Stat | None:
        """lstat(2)."""
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        mode = modes.S_IFMT(found.st_mode)
        kind: Kind = next((kind for bits, kind in _KINDS if mode == bits), "other")
        return Stat(kind, found.st_size, found.st_mtime_ns, found.st_nlink)

    def listdir(self, path: str) -> list[str]:
        """The names, sorted: no caller may depend on the file system's order."""
        return sorted(os.listdir(path))

    def mkdir(self, path: str) -> None:
        """mkdir(2)."""
        os.mkdir(path)

    def rename(self, src: str, dst: str) -> None:
        """rename(2)."""
        os.rename(src, dst)

    def link(self, src: str, dst: str) -> None:
        """link(2)."""
        os.link(src, dst, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        """unlink(2)."""
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        """rmdir(2)."""
        os.rmdir(path)

    def symlink(self, target: str, path: str) -> None:
        """symlink(2)."""
        os.symlink(target, path)

    def readlink(self, path: str) -> str:
        """readlink(2)."""
        return os.readlink(path)

    def make_readonly(self, path: str) -> None:
        """chmod(2)."""
        os.chmod(path, 0o444)

    def fs_kind(self, path: str) -> str:
        """From /proc/self/mountinfo; `unknown` where there is none."""
        try:
            table = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
        except OSError:
            return "unknown"  # not Linux
        return kind_of(os.path.realpath(path), table)

    def sync_file(self, path: str) -> None:
        """fsync(2) of an existing file."""
        with _opened(path, os.O_RDONLY) as fd:
            os.fsync(fd)

    def sync_dir(self, path: str) -> None:
        """fsync(2) of a directory."""
        with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            os.fsync(fd)


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
