"""
Where the index of a log lies: beside it, in node-local scratch, or nowhere (memory).

On a network file system locks and renames cannot be relied on, and a client's cache may
show an old file: there is no SQLite beside a log there.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Final

from jumar.engine.mounts import is_network

NAME: Final = "index.sqlite"
_LOG_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


def place_for(log_root: str, fs_kind: str, log_id: str) -> Path | None:
    """
    The file of a log's index; None: in memory.

    Args:
        log_root: the log's folder, `<run>/.jumar`.
        fs_kind: the type of the file system that holds it, as the mount table names it;
            an empty text (not known) counts as a network.
        log_id: of the log's IDENTITY; the name of the file in scratch.
    """
    if not fs_kind or is_network(fs_kind):
        return _scratch(log_id)
    return Path(log_root) / NAME


def _scratch(log_id: str) -> Path | None:
    """A file in a folder that nobody but this user can write to; None if there is none."""
    if not _LOG_ID.fullmatch(log_id):
        return None  # it comes from a file, and must not lead out of the folder
    try:
        folder = Path(tempfile.gettempdir()) / f"jumar-{os.getuid()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    return folder / f"{log_id}.sqlite" if private and found.st_uid == os.getuid() else None
