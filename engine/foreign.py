"""Directories that hold somebody else's checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from jumar.engine import errors
from jumar.engine.disk import Disk
from jumar.engine.restart import Restart

FOREIGN_RUN: Final = re.compile(
    r"(checkpoint|iter_|step|epoch|global_step).*"
    r"|.*\.(pt|pth|ckpt|bin|safetensors|distcp)"
)
"""Names by which a directory betrays checkpoints of somebody else."""


def refuse_foreign(disk: Disk, directory: str, restart: Restart, exists: bool) -> None:
    """
    A directory of somebody else's checkpoints is never started from zero in silence.

    Args:
        exists: whether the directory holds a run of ours.

    Raises:
        RestoreError: it holds checkpoints and no log; or a run, and `new` was asked for.
    """
    if exists and restart == "new":
        raise errors.RestoreError(
            f"{directory} holds a run already",
            why="restart='new' is for a directory without one",
            instead="use restart='auto' to go on, 'fresh' to begin again in the same run, "
            "or another directory",
            value=directory,
        )
    if exists or disk.stat(directory) is None:
        return
    found = next(_foreign_names(disk, directory), None)
    if found is not None:
        raise errors.RestoreError(
            f"{directory} holds checkpoints but no log of jumar",
            why=f"{found!r} looks like a checkpoint that something else wrote; starting "
            "from zero beside it would look like a loss",
            instead="`jumar import KIND DIR --into RUN` makes a log for them; or choose "
            "another directory",
            value=found,
        )


def _foreign_names(disk: Disk, directory: str) -> Iterator[str]:
    for name in disk.listdir(directory):
        path = f"{directory}/{name}"
        stat = disk.stat(path)
        inside = disk.listdir(path) if stat and stat.kind == "dir" else []
        for entry in (name, *(f"{name}/{one}" for one in inside)):
            if FOREIGN_RUN.fullmatch(entry.rpartition("/")[2]):
                yield entry
