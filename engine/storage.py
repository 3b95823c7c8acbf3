"""Small acts on a `Disk` that publication is made of; each says what is durable then."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import uuid
from collections.abc import Callable
from typing import Final

import attrs

from jumar.engine.disk import Disk, DiskFile
from jumar.engine.errors import LogDamaged
from jumar.reducers.errors import ProtocolMisuse

CHUNK: Final = 4 * 1024 * 1024
"""Bytes read at once: large enough to stream, small beside a machine's memory."""


SYNC_EVERY: Final = 512 * 1024 * 1024
"""Bytes between syncs of a part being written: the last one then never takes so long
that a waiting rank would think this one dead."""


def no_beat() -> None:
    """Nobody waits for this work."""


def safe_name(name: str) -> str:
    """
    The name itself, if it is a plain file name.

    Raises:
        ProtocolMisuse: empty, too long, or with a path in it.
    """
    plain = 0 < len(name.encode("utf-8", "surrogatepass")) <= 255
    if not plain or name in (".", "..") or "/" in name or "\0" in name:
        raise ProtocolMisuse(
            f"{name!r} is not a plain file name",
            why="a part lies directly in its checkpoint's folder",
            instead="use a name without '/', of at most 255 bytes",
            value=name,
        )
    return name


def write_file(disk: Disk, path: str, data: bytes) -> None:
    """Create a file with these bytes; they are durable, its name is not yet."""
    file = disk.create(path)
    try:
        file.write(data)
        file.sync()
    finally:
        file.close()


NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK}
)
"""What link(2) says where a file system has no hard links."""


def create_once(disk: Disk, path: str, data: bytes) -> bool:
    """
    A file with these bytes under this name; False when the name is taken.

    It appears whole, since it is a link to a draft.  The count of links decides whether
    that worked: over NFS the answer to a link that was made may be lost, and asking again
    then says that it exists.  Where there are no links it is made in place, and a crash
    may leave it empty.  Its bytes are durable, its name is not yet.
    """
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.{uuid.uuid4().hex}.draft"
    try:
        write_file(disk, draft, data)
        disk.link(draft, path)
    except OSError as error:
        stat = disk.stat(draft)
        if stat is not None and stat.links == 2:
            return True
        if error.errno in NO_LINKS:
            return _create_in_place(disk, path, data)
        if not isinstance(error, FileExistsError):
            raise
        return False
    finally:
        with contextlib.suppress(OSError):  # a draft that stays is in nobody's way
            disk.unlink(draft)
    return True


def _create_in_place(disk: Disk, path: str, data: bytes) -> bool:
    try:
        write_file(disk, path, data)
    except FileExistsError:
        return False
    return True


def make_dirs(disk: Disk, path: str) -> None:
    """
    Make a directory and its missing parents; each new name is durable.

    So is one that was found: a process may have been killed between its `mkdir` and the
    sync.  A parent that may not be read was not ours to make.
    """
    if not path:
        return
    parent = path.rpartition("/")[0]
    found = disk.stat(path) is not None
    if not found:
        make_dirs(disk, parent)
        with contextlib.suppress(FileExistsError):  # another rank was first
            disk.mkdir(path)
    with contextlib.suppress(*(PermissionError,) if found else ()):
        disk.sync_dir(parent or ("/" if path.startswith("/") else "."))


def must_be_dir(disk: Disk, path: str) -> None:
    """LogDamaged for a folder that is a link: it could lead out of the run directory."""
    stat = disk.stat(path)
    if stat is None or stat.kind != "dir":
        raise LogDamaged(
            f"{path} is no directory",
            why=f"it is {'missing' if stat is None else f'a {stat.kind}'}",
            instead="put the log's own folder there: nothing is written through a link",
            value=path,
        )


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a file, a link or a whole directory; already gone is success."""
    stat = disk.stat(path)
    if stat is None:
        return
    try:
        if stat.kind != "dir":
            disk.unlink(path)
            return
        for name in disk.listdir(path):
            remove_tree(disk, f"{path}/{name}")
        disk.rmdir(path)
    except FileNotFoundError:
        return


def digest_file(
    disk: Disk, path: str, *, beat: Callable[[], None] = no_beat
) -> tuple[int, str]:
    """(bytes, sha256 hex) of a file, read in bounded chunks; `beat` is called for each."""
    digest, size = hashlib.sha256(), 0
    while chunk := disk.read(path, size, CHUNK):
        digest.update(chunk)
        size += len(chunk)
        beat()
    return size, digest.hexdigest()


@attrs.define
class HashingFile:
    """
    A part being written: its bytes are counted and hashed on the way to the disk.

    Attributes:
        size: bytes written so far.
    """

    _file: DiskFile
    beat: Callable[[], None] = no_beat
    size: int = 0
    _digest: hashlib._Hash = attrs.field(factory=hashlib.sha256)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append all of `data`; returns its length in bytes."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), CHUNK):
            piece = view[start : start + CHUNK]
            self._file.write(piece)
            self._digest.update(piece)
            self.size += len(piece)
            if self.size // SYNC_EVERY > (self.size - len(piece)) // SYNC_EVERY:
                self._file.sync()
            self.beat()
        return len(view)

    def flush(self) -> None:
        """Bytes go to the disk with `sync`."""

    def sync(self) -> None:
        """Make the bytes durable."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; a late error is raised here."""
        self._file.close()

    @property
    def sha256(self) -> str:
        """Digest of the bytes so far, hex."""
        return self._digest.hexdigest()
