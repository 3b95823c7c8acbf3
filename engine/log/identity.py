"""`IDENTITY`: which log this is; made once and never changed."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any, Final

import attrs
import msgpack

from jumar.engine.disk import Disk
from jumar.engine.errors import LogDamaged
from jumar.engine.storage import create_once

FORMAT: Final = 1
SIZE_MAX: Final = 4096


@attrs.frozen
class Identity:
    """
    Attributes:
        log_id: of this log, uuid4 hex.
        run_id: of the run it belongs to, uuid4 hex.
        created_ns: wall clock, for people.
        digest: SHA-256 of the stored bytes: the `prev` of record 0.
    """

    log_id: str
    run_id: str
    created_ns: int
    digest: bytes = b""

    def plain(self) -> dict[str, Any]:
        """What is stored."""
        return {
            "format": FORMAT,
            "hash": "sha256",
            "log_id": self.log_id,
            "run_id": self.run_id,
            "created_ns": self.created_ns,
        }

    @classmethod
    def ensure(cls, disk: Disk, root: str, run_id: str, now_ns: int) -> Identity:
        """The identity of the log in `root`, made by link() when there is none; durable."""
        path = f"{root}/IDENTITY"
        if disk.stat(path) is None:
            made = cls(uuid.uuid4().hex, run_id, now_ns)
            # False: somebody was first, and theirs counts.
            create_once(disk, path, msgpack.packb(made.plain(), use_bin_type=True))
        # Also when it was there: whoever made these names may have died before the sync.
        for folder in (root, root.rpartition("/")[0] or "."):
            disk.sync_dir(folder)
        return cls.read(disk, root)

    @classmethod
    def read(cls, disk: Disk, root: str) -> Identity:
        """
        The identity of the log in `root`.

        Raises:
            LogDamaged: there is none, or it cannot be understood.
        """
        path = f"{root}/IDENTITY"
        if disk.stat(path) is None:
            raise LogDamaged(
                f"there is no log in {root}",
                why="its IDENTITY is missing",
                instead="name the run directory, the one that holds .jumar",
                value=root,
            )
        data = disk.read(path, 0, SIZE_MAX)
        try:
            plain = msgpack.unpackb(data, raw=False, strict_map_key=True)
            known = plain["format"] == FORMAT and plain["hash"] == "sha256"
            made = cls(
                str(plain["log_id"]), str(plain["run_id"]), int(plain["created_ns"]),
                hashlib.sha256(data).digest(),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise _damaged(path, f"it is not an identity: {error}") from error
        if not known:
            raise _damaged(path, "it is of a format that this version does not know")
        return made


def _damaged(path: str, why: str) -> LogDamaged:
    return LogDamaged(
        "the log's identity cannot be read",
        why=why,
        instead="restore .jumar/IDENTITY from a copy: the whole chain begins with it",
        value=path,
    )
