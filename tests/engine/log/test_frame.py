"""Frames and records: what is written is read back, and nothing else is."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.engine.log.frame import BODY_MAX, OVERHEAD, frame, frames_behind, scan
from jumar.engine.log.record import (
    BadRecord,
    canonical,
    decode,
    encode,
    refuse_extensions,
    stored,
)
from jumar.reducers.errors import SchemaError

BODIES = [b"first", b"x" * 300, b"\0", b"last one"]
DATA = b"".join(frame(body) for body in BODIES)


@given(st.lists(st.binary(min_size=1, max_size=400), max_size=8))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_a_scan_gives_back_every_body_and_where_it_stands(bodies: list[bytes]) -> None:
    data = b"".join(frame(body) for body in bodies)

    found = scan(data)

    assert bodies == found.bodies
    assert ("end", len(data)) == (found.why, found.end)
    assert all(
        data[at + 8 :].startswith(b) for at, b in zip(found.offsets, bodies, strict=True)
    )


def test_a_cut_at_any_byte_loses_only_the_cut_record() -> None:
    ends = [sum(len(b) + OVERHEAD for b in BODIES[: n + 1]) for n in range(len(BODIES))]
    for cut in range(len(DATA)):
        found = scan(DATA[:cut])

        assert BODIES[: sum(end <= cut for end in ends)] == found.bodies, cut
        assert (found.why == "end") == (cut in (0, *ends)), cut


def test_every_flipped_bit_is_seen() -> None:
    for bit in range(len(DATA) * 8):
        broken = bytearray(DATA)
        broken[bit // 8] ^= 1 << bit % 8

        found = scan(bytes(broken))

        assert found.bodies != BODIES and found.why != "end", bit


@pytest.mark.parametrize("zeros", [1, 4, 11, 12, 13, 512, 4096])
def test_a_zero_filled_tail_is_never_a_record(zeros: int) -> None:
    found = scan(DATA + bytes(zeros))

    assert found.bodies == BODIES
    assert found.why in ("zeros", "short")


def test_a_body_that_is_empty_or_too_long_is_refused() -> None:
    for body in (b"", bytes(BODY_MAX + 1)):
        with pytest.raises(ValueError, match=str(len(body))):
            frame(body)


def test_whole_frames_behind_damage_are_found() -> None:
    last = (len(DATA) - len(frame(BODIES[-1])), BODIES[-1])

    assert last == list(frames_behind(DATA, len(frame(b"first")) + 3))[-1]
    assert len(list(frames_behind(DATA, len(frame(b"first"))))) == 2
    assert list(frames_behind(DATA, len(DATA) - 10)) == []


def _body(**changes: object) -> bytes:
    fields = {
        "seq": 0, "epoch": 1, "type": "x.y", "v": 1, "wall_ns": 5, "mono_ns": 6, "rank": 0,
        "op_id": None, "cause": None, "prev": b"\1" * 32, "back": 0,
        "payload": {"b": 1, "a": [1.5]},
    }  # fmt: skip
    return encode(tuple({**fields, **changes}.values()))


def test_a_record_round_trips_and_one_meaning_has_one_form() -> None:
    record = decode(_body())

    assert (record.seq, record.type, record.payload) == (0, "x.y", {"a": [1.5], "b": 1})
    assert _body(payload={"a": [1.5], "b": 1}) == _body(payload={"b": 1, "a": [1.5]})
    assert canonical(decode(_body()), _body())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        _body()[:-1],
        _body() + b"\0",
        _body(seq=True),
        _body(seq="0"),
        _body(type=b"x.y"),
        _body(payload=[1]),
        msgpack.packb({"seq": 1}),
        msgpack.packb([1] * 10),
        msgpack.packb([*[1] * 10, {1: 2}]),
        b"\x91" * 2000,
    ],
)
def test_a_body_that_is_no_record_is_refused(body: bytes) -> None:
    with pytest.raises(BadRecord):
        decode(body)


@pytest.mark.parametrize(
    "payload",
    [
        {"e": msgpack.ExtType(5, b"x")},
        {"e": msgpack.Timestamp(1)},
        {"e": [0, {"f": msgpack.Timestamp(1 << 33, 7)}]},
        {"e": msgpack.Timestamp(1 << 40)},
    ],
    ids=str,
)
def test_an_extension_is_stored_by_nobody_and_found_by_whoever_looks(
    payload: dict[str, object],
) -> None:
    body = _body(payload=payload)

    with pytest.raises(BadRecord):
        refuse_extensions(decode(body).payload)
    assert not canonical(decode(body), body)
    fields = (0, 1, "x.y", 1, 5, 6, 0, None, None, b"\1" * 32, 0, payload)
    with pytest.raises(SchemaError, match="not allowed"):
        stored(fields, msgpack.Packer().pack)


def test_a_duplicate_key_is_not_canonical() -> None:
    """Last wins when it is decoded, so only the bytes can tell."""
    twice = _body().replace(b"\x82\xa1a", b"\x83\xa1b\x07\xa1a")

    assert decode(twice).payload["b"] == 1
    assert not canonical(decode(twice), twice)


@given(st.binary(max_size=200))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_random_bytes_give_only_our_error(data: bytes) -> None:
    for body in scan(data).bodies:
        pytest.fail(f"random bytes were taken for a frame: {body!r}")
    with pytest.raises(BadRecord):
        decode(data)
