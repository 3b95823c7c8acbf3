"""What a new writer continues."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Self

import attrs

from jumar.engine.disk import Disk
from jumar.engine.errors import LogDamaged
from jumar.engine.log import claims, heads
from jumar.engine.log.damage import damaged
from jumar.engine.log.links import DAMAGE, Link
from jumar.engine.log.merkle import Tree
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Head, Record
from jumar.engine.log.segment import Pred, epoch_of, is_segment


@attrs.frozen
class Chain:
    """
    What a new writer continues: all records, their tree, and the predecessor to freeze.
    """

    size: int
    last: bytes
    tree: Tree
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
        tree = Tree()
        for _, grown in rooted(reader):
            tree = grown
        if reader.end == "corrupt":
            raise damaged(reader.blame)
        if not reader.chain:
            return cls(0, reader.identity.digest, Tree(), None)
        tip = reader.chain[-1]
        if tree.size != reader.size:  # the last segment has no record yet
            tree = _told(tip) or tree
        disk.sync_file(f"{root}/seg/{tip.name}")
        disk.sync_dir(f"{root}/seg")
        pred = Pred(
            name=tip.name,
            valid_bytes=reader.tail_end,
            sha256=reader.tail_sha256,
            discarded_bytes=reader.tail_size - reader.tail_end,
        )
        return cls(reader.size, reader.last, tree, pred)

    @property
    def head(self) -> Head:
        """What the log is now."""
        return Head(self.size, self.last.hex(), tuple(self.tree.peaks))


def take_over(disk: Disk, root: str, log_id: str, epoch: int) -> tuple[Chain, int]:
    """
    What the new epoch continues, and the number of its next head.

    Heads are listed, the log is read, and then the next head is made, in this order.
    Whoever wrote until now makes that same one before it acknowledges more: so either the
    reading holds all that was acknowledged, or the name is taken and all is read again.

    Raises:
        RunBusy: a third process claimed the epoch behind this one.
        LogDamaged: the log is corrupt, or shorter than a head beside it says.
    """
    ordinal = -1
    while True:
        there = heads.ordinals(disk, root)
        ordinal = max([ordinal, *there])
        chain = Chain.load(disk, root)
        _must_hold(chain, _newest(disk, root, there), log_id)
        _must_be_newest(disk, root, epoch)
        ordinal += 1
        with contextlib.suppress(FileExistsError):
            heads.publish(disk, root, ordinal, heads.text_of(log_id, chain.head))
            return chain, ordinal + 1
        if disk.stat(claims.path_of(root, epoch + 1)) is not None:
            raise claims.busy(claims.read_claim(disk, root, epoch + 1), epoch + 1)


def _newest(disk: Disk, root: str, ordinals: list[int]) -> heads.Told | None:
    """The newest head that is whole: they are not synced, so the last may be torn."""
    told = (heads.read(disk, root, ordinal) for ordinal in reversed(ordinals))
    return next((one for one in told if one is not None), None)


def _must_be_newest(disk: Disk, root: str, epoch: int) -> None:
    """No segment may be of our epoch or a later one: then claims were lost."""
    later = [
        n for n in disk.listdir(f"{root}/seg") if is_segment(n) and epoch_of(n)[0] >= epoch
    ]
    if later:
        raise LogDamaged(
            f"{root}/claims does not name every epoch that wrote",
            why=f"{later[-1]} is there, and the newest claim is {epoch}",
            instead="restore .jumar/claims from a copy, or make an empty file there named "
            f"{epoch_of(later[-1])[0]:06d}",
            value=later[-1],
        )


def _must_hold(chain: Chain, told: heads.Told | None, log_id: str) -> None:
    """What a head beside the log tells was durable before the head was made."""
    if told is None or told.log_id != log_id:
        return
    shorter, same = chain.size < told.size, chain.size == told.size
    if shorter or (same and chain.head.root != told.root):
        raise LogDamaged(
            "the log is not the one that its newest head describes",
            why=f"the head tells of {told.size} records, root {told.root[:12]}; there are "
            f"{chain.size}, root {chain.head.root[:12]}: acknowledged records were cut "
            "off or replaced, or this host does not see them yet",
            instead="on a network file system try again in a minute; else: " + DAMAGE,
            value=told.size,
        )


def rooted(reader: LogReader) -> Iterator[tuple[Record, Tree]]:
    """
    Each record, and the tree, which is that of all records so far in the last segment.

    Segments whose successor tells the peaks are passed over: the header's own digest
    stands in the chain, so those peaks are as good as the records.
    """
    tree, seen = Tree(), ""
    for record in reader:
        if reader.segment != seen:
            seen, link = reader.segment, reader.link
            tree = _told(link) or tree
            following = reader.chain[reader.chain.index(link) + 1 :]
            skip = bool(following) and _told(following[0]) is not None
        if not skip:
            tree.add(reader.body)
        yield record, tree


def _told(link: Link) -> Tree | None:
    """The tree before a segment, as its header tells it."""
    header = link.header
    return None if header.peaks is None else Tree(header.first_seq, list(header.peaks))
