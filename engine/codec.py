"""Messages between ranks: plain values as msgpack, packed small."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgpack

SIZE_MAX: Final = 256 * 1024 * 1024
"""Bytes after unpacking: far above 4096 ballots, far below a machine's memory."""


def pack(message: Mapping[str, Any]) -> bytes:
    """
    Bytes of a message.

    Deflated, since the ballots of thousands of ranks differ in a few bytes only.
    """
    return zlib.compress(msgpack.packb(message, use_bin_type=True), 1)


def unpack(data: bytes) -> dict[str, Any]:
    """The message; ValueError when the bytes are none."""
    inflate = zlib.decompressobj()
    plain = inflate.decompress(data, SIZE_MAX)
    if not inflate.eof:
        raise ValueError(
            f"message of {len(data)} bytes is cut or inflates beyond {SIZE_MAX}"
        )
    message = msgpack.unpackb(plain, raw=False, strict_map_key=True)
    if not isinstance(message, dict):
        raise ValueError(f"message is a {type(message).__name__}, not a map")
    return message
