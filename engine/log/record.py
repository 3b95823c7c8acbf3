"""
Records: the body of a frame, a msgpack array, and how it is chained.

    [seq, epoch, type, v, wall_ns, mono_ns, rank, op_id, cause, prev, back, payload]

`back` is how many records before this one were written in the same batch.  A batch is
written with one call and synced before the next one begins, so only the last batch of a
segment can be torn; a reader that finds damage before a whole frame learns from `back`
whether the damaged bytes were ever acknowledged.

`prev` is the SHA-256 of the previous record's body as it is stored; that of record 0 is
the SHA-256 of the log's IDENTITY.  Only stored bytes are hashed, never re-encoded ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, Self

import attrs
import msgpack

from jumar.engine.log.frame import BODY_MAX
from jumar.engine.log.merkle import fold_peaks
from jumar.reducers import schema
from jumar.reducers.errors import SchemaError
from jumar.reducers.events import Event


@attrs.frozen
class Entry:
    """What a caller appends; the log adds everything else."""

    type: str
    v: int
    payload: dict[str, Any]
    cause: int | None = None
    op_id: str | None = None

    @classmethod
    def of(cls, event: Event, op_id: str | None = None) -> Self:
        """The entry of an event; `op_id` names the request that it answers."""
        name, v, payload = schema.encode(event)
        return cls(name, v, payload, op_id=op_id)


@attrs.frozen
class Head:
    """How much of the log is durable: records, hash of the last (hex), Merkle peaks."""

    size: int
    last_hash: str
    peaks: tuple[bytes, ...]

    @property
    def root(self) -> str:
        """Merkle root, hex; folded when somebody asks."""
        return fold_peaks(self.peaks).hex()

    def plain(self) -> dict[str, Any]:
        """What a manifest keeps of it."""
        return {"size": self.size, "last_hash": self.last_hash, "root": self.root}


@attrs.define
class Record:
    """One stored record; `hash` is the SHA-256 of its body, `prev` that of the last one."""

    seq: int
    epoch: int
    type: str
    v: int
    wall_ns: int
    mono_ns: int
    rank: int
    op_id: str | None
    cause: int | None
    prev: bytes
    back: int
    payload: dict[str, Any]
    hash: bytes


class BadRecord(ValueError):
    """A body that is no record."""


_NESTED: Final = (dict, list)
_EXTENSIONS: Final = (msgpack.ExtType, msgpack.Timestamp)
Pack = Callable[[Any], bytes]


def packer() -> Pack:
    """
    A packer of one owner: keeping it saves its set-up, sharing it would not be safe.

    Tuples and subclasses are refused: they would be read back as something else.
    """
    pack: Pack = msgpack.Packer(use_bin_type=True, strict_types=True).pack
    return pack


def encode(fields: tuple[Any, ...], pack: Pack | None = None) -> bytes:
    """The body of a record; map keys sorted, so that one meaning has one form."""
    *envelope, payload = fields
    return (pack or packer())([*envelope, _sorted(payload)])


def stored(fields: tuple[Any, ...], pack: Pack) -> tuple[bytes, bytes]:
    """
    The body of a record and its hash, read back before anybody relies on it.

    An acknowledged record that no reader takes would end the log there for ever.

    Raises:
        SchemaError: a body above 1 MiB, or one that `decode` refuses.
    """
    try:
        body = encode(fields, pack)
        if len(body) > BODY_MAX:
            raise BadRecord(f"{len(body)} bytes are too large, the limit is {BODY_MAX}")
        record = decode(body)
        refuse_extensions(record.payload)
        return body, record.hash
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise SchemaError(
            f"a {fields[2]} record cannot be stored",
            why=str(error),
            instead="give plain values (texts, 64-bit integers, floats, lists, and maps "
            "with text keys); keep large ones in a file and their digest in the event",
            value=fields[2],
        ) from error


def _sorted(plain: Any) -> Any:
    if type(plain) is dict:
        return {
            k: _sorted(v) if type(v) in _NESTED else v for k, v in sorted(plain.items())
        }
    if type(plain) is list:
        return [_sorted(one) if type(one) in _NESTED else one for one in plain]
    return plain


def refuse_extensions(plain: Any) -> None:
    """
    BadRecord for a value of an extension type of msgpack, its own timestamp included.

    Looked for where a record is made and where it is checked in full; the decoders of
    known types take exact types only, so no such value gets past them either.
    """
    for one in plain.values() if type(plain) is dict else plain:
        if type(one) in _EXTENSIONS:
            raise BadRecord(f"a {type(one).__name__} is not allowed")
        if type(one) in _NESTED:
            refuse_extensions(one)


def decode(body: bytes) -> Record:
    """
    The record of a body.

    Raises:
        BadRecord: not msgpack, not this array, or a field of another type.
    """
    try:
        fields = _unpack(body)
    except ValueError as error:
        raise BadRecord(f"not msgpack: {error}") from error
    if type(fields) is not list or tuple(map(type, fields)) not in _SHAPES:
        raise BadRecord("not an array of the 12 fields of a record")
    fields.append(_sha256(body).digest())
    made: Any = Record
    record: Record = made(*fields)
    return record


def is_record(body: bytes) -> bool:
    """Whether a body is a record."""
    try:
        decode(body)
    except BadRecord:
        return False
    return True


_unpack = msgpack.unpackb  # texts are str and map keys text or bytes by its defaults
_sha256 = hashlib.sha256
_ENVELOPE: Final = (int, int, str, int, int, int, int)
_SHAPES: Final = frozenset(
    (*_ENVELOPE, op_id, cause, bytes, int, dict)
    for op_id in (str, type(None))
    for cause in (int, type(None))
)
"""Exact types of the fields: `True` is not an int, bytes are not a text."""


def canonical(record: Record, body: bytes) -> bool:
    """Whether re-encoding gives the same bytes (no duplicate keys, no longer forms)."""
    try:
        refuse_extensions(record.payload)
        return encode(attrs.astuple(record, recurse=False)[:-1]) == body
    except (ValueError, TypeError, RecursionError):
        return False  # keys that cannot be sorted, values too deep: `encode` makes none
