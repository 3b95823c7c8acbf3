"""
Segment files: magic, a framed header, framed records, and a footer once it is sealed.

The header freezes the predecessor: its name, how many of its bytes count, their digest,
and how many bytes after them do not.  Nothing is ever cut; what a dead or sleeping writer
left behind the frozen count stays as evidence and is reported, not obeyed.  The header
also tells the Merkle peaks of all records before it, so that each segment can be checked
on its own.  The footer is a frame whose body is a map, where that of a record is an array.

Stored headers are never rewritten; one of an older format is lifted when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Self

import attrs
import msgpack

from jumar.engine.disk import Disk, DiskFile
from jumar.engine.log.frame import frame, scan

MAGIC: Final = b"JUMARSG1"
FORMAT: Final = 2
HEADER_MAX: Final = 65536
_NAME: Final = re.compile(r"([0-9]{6})-([0-9]{12})\.seg", re.ASCII)


_is_int = attrs.validators.instance_of(int)
_is_str = attrs.validators.instance_of(str)
_is_hash = attrs.validators.matches_re(r"[0-9a-f]{64}")

LIFTS: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    1: lambda plain: {**plain, "format": 2, "peaks": None},
}
"""From a format to the next one; `tests/golden` holds a log of each."""


class NewerFormat(ValueError):
    """A header of a format that this version does not know."""


@attrs.frozen
class Pred:
    """The predecessor, frozen by its successor."""

    name: str = attrs.field(validator=attrs.validators.matches_re(_NAME))
    valid_bytes: int = attrs.field(validator=_is_int)
    sha256: str = attrs.field(validator=_is_str)
    discarded_bytes: int = attrs.field(validator=_is_int)


@attrs.frozen
class Header:
    """
    The first frame of a segment.

    Attributes:
        log_id: of the IDENTITY, so that a segment of another log is known as such.
        prev: hash of the record before `first_seq`, hex.
        peaks: of the Merkle tree over the records before `first_seq`, 32 bytes each,
            largest subtree first; None in a header of format 1.
        pred: None for the first segment of a log.
        writer: host, pid, boot id of whoever wrote it.
    """

    format: int = attrs.field(validator=attrs.validators.in_([FORMAT]))
    log_id: str = attrs.field(validator=_is_str)
    epoch: int = attrs.field(validator=_is_int)
    first_seq: int = attrs.field(validator=_is_int)
    prev: str = attrs.field(validator=_is_hash)
    peaks: list[bytes] | None
    pred: Pred | None
    writer: dict[str, Any]

    def __attrs_post_init__(self) -> None:
        peaks = [bytes(32)] * self.first_seq.bit_count()
        told = peaks if self.peaks is None else self.peaks
        if [type(one) is bytes and len(one) for one in told] != [len(one) for one in peaks]:
            raise ValueError("not the peaks of so many records")

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """
        A header as it was stored, in whichever format.

        Raises:
            NewerFormat: of a format that is yet to come.
            ValueError, TypeError, KeyError: none at all.
        """
        while (version := plain["format"]) != FORMAT:
            if type(version) is int and version > FORMAT:
                raise NewerFormat(f"format {version}, and this version knows {FORMAT}")
            plain = LIFTS[version](plain)
        pred = plain["pred"]
        return cls(**{**plain, "pred": None if pred is None else Pred(**pred)})


@attrs.frozen
class Footer:
    """
    The last frame of a sealed segment.

    Attributes:
        count: records in this segment.
        size: records in the log up to here.
        last_hash: hash of the last of them, hex.
        root: Merkle root over all of them, hex.
        sha256: of every byte of the file before the footer, hex.
    """

    count: int = attrs.field(validator=_is_int)
    size: int = attrs.field(validator=_is_int)
    last_hash: str = attrs.field(validator=_is_hash)
    root: str = attrs.field(validator=_is_hash)
    sha256: str = attrs.field(validator=_is_hash)


def name_of(epoch: int, first_seq: int) -> str:
    """`EEEEEE-SSSSSSSSSSSS.seg`."""
    return f"{epoch:06d}-{first_seq:012d}.seg"


def is_segment(name: str) -> bool:
    """Whether a name is that of a segment."""
    return _NAME.fullmatch(name) is not None


def epoch_of(name: str) -> tuple[int, int]:
    """(epoch, first sequence number) of a segment's name."""
    found = _NAME.fullmatch(name)
    assert found is not None, name
    return int(found[1]), int(found[2])


def header_bytes(header: Header) -> bytes:
    """What a new segment begins with."""
    return MAGIC + frame(msgpack.packb(attrs.asdict(header), use_bin_type=True))


def footer_bytes(footer: Footer) -> bytes:
    """What a sealed segment ends with."""
    return frame(msgpack.packb(attrs.asdict(footer), use_bin_type=True))


def begin(disk: Disk, root: str, name: str, header: bytes) -> DiskFile:
    """A new segment that holds nothing but its header, durable with its name."""
    file = disk.create(f"{root}/seg/{name}")
    file.write(header)
    file.sync()
    disk.sync_dir(f"{root}/seg")
    return file


def read_header(data: bytes) -> tuple[Header, int] | None:
    """
    (header, offset of the first record); None when it is torn or none of ours.

    Raises:
        NewerFormat: it is whole, and of a format that is yet to come.
    """
    if data[: len(MAGIC)] != MAGIC:
        return None
    found = scan(data, len(MAGIC), min(len(data), len(MAGIC) + HEADER_MAX), most=1)
    if not found.bodies:
        return None
    try:
        plain = msgpack.unpackb(found.bodies[0], raw=False, strict_map_key=True)
        return Header.from_plain(plain), found.end
    except NewerFormat:
        raise
    except (ValueError, TypeError, KeyError):
        return None


def read_footer(body: bytes) -> Footer | None:
    """The footer that a frame's body is; None when it is none (a record, or odd)."""
    if body[0] & 0xF0 != 0x80:
        return None
    try:
        return Footer(**msgpack.unpackb(body, raw=False, strict_map_key=True))
    except (ValueError, TypeError):
        return None
