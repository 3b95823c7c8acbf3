"""
Frames: `u32 len | u32 crc | body | u32 len`, little-endian.

The CRC-32 is seeded with a constant other than zero and covers length and body, and a
length of zero is forbidden: so a zero-filled tail, which a plain CRC accepts as an empty
record, is never one.  The second length permits a backward scan and is a cheap check for
a torn write.
"""

from __future__ import annotations

import functools
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Final

import attrs

BODY_MAX: Final = 1 << 20
"""Bytes of one body; a longer record is refused where it is made."""

SEED: Final = 0x4A554D52
_HEAD: Final = struct.Struct("<II")
_LEN: Final = struct.Struct("<I")
OVERHEAD: Final = _HEAD.size + _LEN.size


def frame(body: bytes) -> bytes:
    """The frame of a body; ValueError when it is empty or too long."""
    size = len(body)
    if not 1 <= size <= BODY_MAX:
        raise ValueError(f"a body has 1..{BODY_MAX} bytes, not {size}")
    return b"".join(
        (_HEAD.pack(size, zlib.crc32(body, _seeded(size))), body, _LEN.pack(size))
    )


@functools.lru_cache(maxsize=4096)
def _seeded(size: int) -> int:
    """The CRC of a length: few lengths make up a log, so each is computed once."""
    return zlib.crc32(_LEN.pack(size), SEED)


@attrs.define
class Scan:
    """
    What a scan found.

    Attributes:
        bodies: the bodies of whole frames, in order.
        offsets: where each of these frames begins.
        end: offset behind the last whole frame.
        why: `end`, or why it stopped before the limit: `zeros`, `short`, `length`, `crc`.
    """

    bodies: list[bytes]
    offsets: list[int]
    end: int
    why: str


def scan(
    data: bytes, start: int = 0, limit: int | None = None, most: int | None = None
) -> Scan:
    """Whole frames from `start` on: up to `limit`, `most`, or the first that is none."""
    limit = len(data) if limit is None else limit
    bodies: list[bytes] = []
    offsets: list[int] = []
    at, why = start, "end"
    crc32, head, tail = zlib.crc32, _HEAD.unpack_from, _LEN.unpack_from
    while at < limit and len(bodies) != most:
        if limit - at < OVERHEAD:
            why = "short"
            break
        size, crc = head(data, at)
        stop = at + size + OVERHEAD
        if not 1 <= size <= BODY_MAX or stop > limit:
            why = "length" if size > BODY_MAX else ("short" if size else "zeros")
            break
        body = data[at + 8 : stop - 4]
        if tail(data, stop - 4)[0] != size or crc32(body, _seeded(size)) != crc:
            why = "crc"
            break
        bodies.append(body)
        offsets.append(at)
        at = stop
    return Scan(bodies, offsets, at, why)


LOOKS: Final = 16
"""How often, on average, a byte is looked at by a search for frames."""


def frames_behind(data: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """
    (offset, body) of each whole frame somewhere behind `start`, wherever it begins.

    Bytes that were made to look like lengths everywhere would cost a checksum at each
    place; the search gives up when it has looked at all of them `LOOKS` times.
    """
    at, budget = start + 1, LOOKS * (len(data) - start)
    while at <= len(data) - OVERHEAD and budget > 0:
        size = _LEN.unpack_from(data, at)[0]
        if size == 0:  # zeros are passed by at once
            at = max(at + 1, _not_zero(data, at) - 3)
            continue
        stop = at + size + OVERHEAD
        plausible = size <= BODY_MAX and stop <= len(data)
        if plausible and _LEN.unpack_from(data, stop - 4)[0] == size:
            budget -= size
            found = scan(data, at, stop).bodies
            if found:
                yield at, found[0]
                at = stop
                continue
        at += 1


_OTHER: Final = re.compile(rb"[^\0]")


def _not_zero(data: bytes, at: int) -> int:
    """Where the next byte other than zero stands; the end when there is none."""
    found = _OTHER.search(data, at)
    return len(data) if found is None else found.start()
