"""What a new writer continues."""

from __future__ import annotations

from typing import Self

import attrs

from jumar.engine.disk import Disk
from jumar.engine.log.identity import Identity
from jumar.engine.log.links import links
from jumar.engine.log.reader import LogReader, damaged
from jumar.engine.log.segment import Pred


@attrs.frozen
class Chain:
    """What a new writer continues: size, last hash, and the predecessor to freeze."""

    size: int
    last: bytes
    pred: Pred | None

    @classmethod
    def load(cls, disk: Disk, root: str, *, sync: bool) -> Self:
        """
        Read the whole log.

        Args:
            sync: fsync the segment that is to be frozen first, so that what counts valid
                is durable.

        Raises:
            LogDamaged: it is corrupt.
        """
        identity = Identity.read(disk, root)
        chain, _ = links(disk, root, identity)
        if chain and sync:
            disk.sync_file(f"{root}/seg/{chain[-1].name}")
            disk.sync_dir(f"{root}/seg")
        reader = LogReader(disk, root, mode="tail")
        for _ in reader:
            pass
        if reader.end == "corrupt":
            raise damaged(reader.findings[-1])
        if not reader.chain:
            return cls(0, identity.digest, None)
        pred = Pred(
            name=reader.chain[-1].name,
            valid_bytes=reader.tail_end,
            sha256=reader.tail_sha256,
            discarded_bytes=reader.tail_size - reader.tail_end,
        )
        return cls(reader.size, reader.last, pred)

    def freeze(self) -> Pred | None:
        """The predecessor as the new header names it."""
        return self.pred
