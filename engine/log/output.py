"""The file that a log writer writes: pieces in, one segment durable before the next."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import attrs

from jumar.engine.disk import Disk, DiskFile
from jumar.engine.log.assembly import Begin, Piece
from jumar.engine.log.segment import begin


@attrs.define
class Output:
    """
    The open segment of one epoch.

    Attributes:
        syncs: fdatasyncs of records so far.
        durable: bytes of the open segment that a sync confirmed.
    """

    disk: Disk
    root: str
    syncs: int = 0
    durable: int = 0
    name: str = ""
    _file: DiskFile | None = None

    def put(self, pieces: Sequence[Piece]) -> None:
        """Write all of it, durably; a failed sync is not tried again by anybody."""
        batch: list[bytes] = []
        for piece in pieces:
            if isinstance(piece, Begin):
                self._sync(batch)
                self.end()
                self.name, self.durable, batch = piece.name, 0, []
                self._file = begin(self.disk, self.root, piece.name, piece.header)
                self.durable = len(piece.header)
            else:
                batch.append(piece)
        self._sync(batch)

    def _sync(self, batch: Sequence[bytes]) -> None:
        if batch:
            assert self._file is not None
            data = b"".join(batch)
            self._file.write(data)
            self.syncs += 1
            self._file.sync()
            self.durable += len(data)

    def end(self) -> None:
        """Close a segment that is sealed; a late EIO or EDQUOT is raised here."""
        if self._file is not None:
            self._file.close()
            with contextlib.suppress(OSError):  # a courtesy that some file systems refuse
                self.disk.make_readonly(f"{self.root}/seg/{self.name}")

    def drop(self) -> None:
        """Close without a promise, after an error."""
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
