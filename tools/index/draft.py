"""
A file being made beside the index, to be renamed over it when it is whole.

The index itself is never written in place: SQLite's journal belongs to a name, so a journal
that one file left behind could be rolled back into the next one of that name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Self

import attrs


@attrs.define
class Draft:
    """The only draft of one index: whoever comes second is refused."""

    place: Path
    path: Path
    _fd: int

    @classmethod
    def begin(cls, place: Path) -> Self:
        """
        A draft, locked; what a killed process left there is to be overwritten.

        Raises:
            OSError: it cannot be made, or somebody else is making one.
        """
        path = place.with_name(f"{place.name}.draft")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        draft = cls(place, path, os.open(path, flags, 0o666))
        try:
            fcntl.flock(draft._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its maker may have published or dropped it between the two calls.
            if not draft._is_there():
                raise BlockingIOError(f"{path} was replaced")
        except BaseException:
            os.close(draft._fd)
            raise
        return draft

    def publish(self) -> None:
        """Make it the index; OSError when it cannot be."""
        os.fsync(self._fd)
        self.path.rename(self.place)

    def end(self) -> None:
        """Let go; what was not published is removed."""
        with contextlib.suppress(OSError):
            if self._is_there():
                self.path.unlink()
        os.close(self._fd)

    def _is_there(self) -> bool:
        """Whether the name still leads to this file."""
        return os.path.samestat(os.fstat(self._fd), self.path.lstat())
