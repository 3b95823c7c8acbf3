"""What a new writer continues."""

from __future__ import annotations

from typing import Self

import attrs

from jumar.engine.disk import Disk
from jumar.engine.log.reader import LogReader, damaged
from jumar.engine.log.segment import Pred


@attrs.frozen
class Chain:
    """What a new writer continues: size, last hash, and the predecessor to freeze."""

    size: int
    last: bytes
    pred: Pred | None

    @classmethod
    def load(cls, disk: Disk, root: str) -> Self:
        """
        Read the whole log, then make what was read durable.

        The sync comes after the read: its writer may still be awake, and bytes that it
        adds in between must not be counted valid without being durable.

        Raises:
            LogDamaged: it is corrupt.
        """
        reader = LogReader(disk, root, mode="tail")
        for _ in reader:
            pass
        if reader.end == "corrupt":
            raise damaged(reader.findings[-1])
        if not reader.chain:
            return cls(0, reader.identity.digest, None)
        disk.sync_file(f"{root}/seg/{reader.chain[-1].name}")
        disk.sync_dir(f"{root}/seg")
        pred = Pred(
            name=reader.chain[-1].name,
            valid_bytes=reader.tail_end,
            sha256=reader.tail_sha256,
            discarded_bytes=reader.tail_size - reader.tail_end,
        )
        return cls(reader.size, reader.last, pred)
