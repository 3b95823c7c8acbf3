"""
Segment files: magic, a framed header, then framed records; one writer each.

The header freezes the predecessor: its name, how many of its bytes count, their digest,
and how many bytes after them do not.  Nothing is ever cut; what a dead or sleeping writer
left behind the frozen count stays as evidence and is reported, not obeyed.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs
import msgpack

from jumar.engine.disk import Disk, DiskFile
from jumar.engine.log.frame import frame, scan

MAGIC: Final = b"JUMARSG1"
FORMAT: Final = 1
_NAME: Final = re.compile(r"([0-9]{6})-([0-9]{12})\.seg", re.ASCII)


_is_int = attrs.validators.instance_of(int)
_is_str = attrs.validators.instance_of(str)


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
        pred: None for the first segment of a log.
        writer: host, pid, boot id of whoever wrote it.
    """

    format: int = attrs.field(validator=attrs.validators.in_([FORMAT]))
    log_id: str = attrs.field(validator=_is_str)
    epoch: int = attrs.field(validator=_is_int)
    first_seq: int = attrs.field(validator=_is_int)
    prev: str = attrs.field(validator=_is_str)
    pred: Pred | None
    writer: dict[str, Any]


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
    plain = attrs.asdict(header)
    return MAGIC + frame(msgpack.packb(plain, use_bin_type=True))


def begin(disk: Disk, root: str, header: Header) -> DiskFile:
    """A new segment that holds nothing but its header, durable with its name."""
    file = disk.create(f"{root}/seg/{name_of(header.epoch, header.first_seq)}")
    file.write(header_bytes(header))
    file.sync()
    disk.sync_dir(f"{root}/seg")
    return file


def read_header(data: bytes) -> tuple[Header, int] | None:
    """(header, offset of the first record); None when it is torn or none of ours."""
    if data[: len(MAGIC)] != MAGIC:
        return None
    found = scan(data, len(MAGIC), min(len(data), len(MAGIC) + 65536))
    if not found.bodies:
        return None
    size = len(found.bodies[0])
    try:
        plain = msgpack.unpackb(found.bodies[0], raw=False, strict_map_key=True)
        pred = plain["pred"]
        header = Header(**{**plain, "pred": None if pred is None else Pred(**pred)})
    except (ValueError, TypeError, KeyError):
        return None
    return header, len(MAGIC) + size + 12
