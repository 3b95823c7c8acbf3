"""
A rank's evidence journal: what it saw, for whoever asks afterwards.  Never read as truth.

    .jumar/rank/0003/00001/00000000.seg    attempt 3, rank 1, its first file

The frames are those of the log and the chain is its own: `prev` of the first record is the
SHA-256 of the header.  Nothing is synced, so a record survives its process and not its
machine.  Files are bounded in size and number, the oldest goes first.  No error of a
journal reaches training: the journal falls silent, says so once, and counts what it missed.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable
from typing import Final

import attrs
import msgpack
import structlog

from jumar.engine.clock import Clock
from jumar.engine.disk import Disk, DiskFile
from jumar.engine.log.frame import BODY_MAX, frame, scan
from jumar.engine.log.record import BadRecord, Entry, Pack, Record, decode, packer, stored
from jumar.reducers.errors import JumarError
from jumar.reducers.events import Event
from jumar.reducers.values import Journaled

MAGIC: Final = b"JUMARJN1"
FILE_BYTES: Final = 64 * 1024
FILES: Final = 4
"""A rank keeps at most this many files of about so many bytes of one attempt."""

READ_MAX: Final = FILE_BYTES + 2 * BODY_MAX
"""Bytes of a file that are looked at: no journal of ours is longer."""

_FILE: Final = re.compile(r"[0-9]{8}\.seg", re.ASCII)
_RANK: Final = re.compile(r"[0-9]{5}", re.ASCII)
logger = structlog.get_logger("jumar")


def folder_of(root: str, attempt: int) -> str:
    """Where the journals of one attempt lie."""
    return f"{root}/rank/{attempt:04d}"


@attrs.define(eq=False)
class Journal:
    """
    The journal of one rank in one attempt.

    Attributes:
        missed: records that are not in it, since the disk would not take them.
        pruned: files that made room for newer ones.
    """

    disk: Disk
    root: str
    attempt: int
    rank: int
    clock: Clock
    file_bytes: int = FILE_BYTES
    missed: int = 0
    pruned: int = 0
    silent: bool = False
    _file: DiskFile | None = None
    _number: int = -1
    _seq: int = 0
    _last: bytes = b""
    _bytes: int = 0
    _pack: Pack = attrs.field(factory=packer)

    def note(self, event: Event) -> None:
        """Append one event; an error silences the journal and reaches nobody."""
        if self.silent:
            self.missed += 1
            return
        try:
            if self._file is None or self._bytes >= self.file_bytes:
                self._roll()
            self._write(event)
        except (OSError, JumarError) as error:
            self.silent = True
            self.missed += 1
            logger.warning(
                "an evidence journal fell silent", rank=self.rank, why=str(error)
            )

    def _write(self, event: Event) -> None:
        entry = Entry.of(event)
        fields = (
            *(self._seq, self.attempt, entry.type, entry.v),
            *(self.clock.wall_ns(), self.clock.mono_ns(), self.rank),
            *(None, None, self._last, 0, entry.payload),
        )
        body, last = stored(fields, self._pack)
        assert self._file is not None
        self._bytes += self._file.write(frame(body))
        self._seq, self._last = self._seq + 1, last

    def _roll(self) -> None:
        """The next file; the oldest one goes when there are too many."""
        self.close()
        folder = f"{folder_of(self.root, self.attempt)}/{self.rank:05d}"
        for path in (f"{self.root}/rank", folder.rpartition("/")[0], folder):
            with contextlib.suppress(FileExistsError):
                self.disk.mkdir(path)
        there = [name for name in self.disk.listdir(folder) if _FILE.fullmatch(name)]
        for name in there[: max(0, len(there) - FILES + 1)]:
            self.disk.unlink(f"{folder}/{name}")
            self.pruned += 1
        self._number = int(there[-1][:8]) + 1 if there else 0
        header = msgpack.packb(
            {"attempt": self.attempt, "rank": self.rank, "file": self._number,
             "first_seq": self._seq, "prev": self._last}
        )  # fmt: skip
        self._file = self.disk.create(f"{folder}/{self._number:08d}.seg")
        self._bytes = self._file.write(MAGIC + frame(header))
        self._last = hashlib.sha256(header).digest()

    def close(self) -> None:
        """Let go of the file; what it says is in the kernel already."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # nothing of it is relied upon
                self._file.close()
            self._file = None


def read_journal(data: bytes) -> tuple[list[Record], str]:
    """
    The records of one journal file, chain checked, and how it ends.

    Returns:
        the whole records that follow each other, and `end` or why they stop.
    """
    found = scan(data, len(MAGIC)) if data[: len(MAGIC)] == MAGIC else None
    if found is None or not found.bodies:
        return [], "no header"
    last = hashlib.sha256(found.bodies[0]).digest()
    records: list[Record] = []
    for body in found.bodies[1:]:
        try:
            record = decode(body)
        except BadRecord:
            return records, "not a record"
        if record.prev != last:
            return records, "chain"
        records.append(record)
        last = record.hash
    return records, found.why


def journals(disk: Disk, root: str, attempt: int) -> Iterable[Journaled]:
    """
    The journals of an attempt with the digests of their bytes as they are now.

    A rank may still add to its own; what is sealed is its beginning, `size` bytes.
    """
    folder = folder_of(root, attempt)
    if disk.stat(folder) is None:
        return
    for rank in filter(_RANK.fullmatch, disk.listdir(folder)):
        names = [name for name in disk.listdir(f"{folder}/{rank}") if _FILE.fullmatch(name)]
        for name in names[-FILES:]:
            data = disk.read(f"{folder}/{rank}/{name}", 0, READ_MAX)
            yield Journaled(
                rank=int(rank),
                name=name,
                size=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
            )
