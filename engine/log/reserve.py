"""
`RESERVE`: a file that is there to be deleted, so that a full disk takes the last words.

It is written, not merely extended, and of noise, so that a file system that compresses or
allocates late really set the space aside.
"""

from __future__ import annotations

import os
from typing import Final

from jumar.engine.disk import Disk
from jumar.engine.storage import write_file

SIZE: Final = 1024 * 1024
"""Bytes: a new claim, a segment and its records need a few kilobytes."""


def path_of(root: str) -> str:
    """`.jumar/RESERVE`."""
    return f"{root}/RESERVE"


def ensure(disk: Disk, root: str) -> None:
    """Set the space aside unless it is already; OSError when there is none."""
    path = path_of(root)
    stat = disk.stat(path)
    if stat is not None and stat.size == SIZE:
        return
    if stat is not None:
        disk.unlink(path)  # a crash cut it short, or somebody changed it
    try:
        write_file(disk, path, os.urandom(SIZE))
    except OSError:
        spend(disk, root)  # half of it would only take the space away
        raise


def spend(disk: Disk, root: str) -> None:
    """Give the space back; the directory's sync lets the file system have it at once."""
    if disk.stat(path_of(root)) is not None:
        disk.unlink(path_of(root))
        disk.sync_dir(root)
