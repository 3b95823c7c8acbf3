"""One flipped bit anywhere, and bytes that nobody wrote: told where it is, and no more."""

from __future__ import annotations

import contextlib
import os
import random
import tracemalloc
from functools import cache

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.engine.log import heads
from jumar.engine.log.audit import audit
from jumar.engine.log.frame import OVERHEAD, frame, scan
from jumar.engine.log.journal import read_journal
from jumar.engine.log.reader import LogReader, Mode
from jumar.engine.log.record import BadRecord, decode
from jumar.engine.log.segment import MAGIC, NewerFormat, read_header
from jumar.reducers.errors import JumarError
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.log_life import ROOT, LogLife
from jumar.tools.harness.tamper import disk_of, files_of

SOAK = bool(os.environ.get("JUMAR_SOAK"))
MODES: tuple[Mode, ...] = ("tail", "salvage")
STRIDE = 1 if SOAK else 11


@cache
def whole() -> dict[str, bytes]:
    """Three epochs; segments that were sealed, one that was not, and one that was torn."""
    life = LogLife()
    life.open()
    for _ in range(3):
        life.append(4, durable=True)
    life.close()
    life.open()
    life.append(2, durable=True)
    life.replace()
    life.append(7, durable=True)
    life.close()
    return files_of(life.disk, "run")


def segments() -> list[str]:
    return sorted(name for name in whole() if name.startswith(".jumar/seg/"))


def frames_of(data: bytes) -> list[int]:
    """Where each frame begins; the header's begins with the magic."""
    found = read_header(data)
    assert found is not None
    return [0, *scan(data, found[1]).offsets]


def flipped(name: str, at: int) -> SimDisk:
    data = bytearray(whole()[name])
    data[at] ^= 1 << (at % 8)
    return disk_of({**whole(), name: bytes(data)}, "run")


def test_the_log_without_a_flip_is_whole() -> None:
    said = audit(disk_of(whole(), "run"), ROOT, [])
    assert (said.findings, said.segments, said.sealed) == ((), 5, 4)


@pytest.mark.parametrize("index", range(5))
def test_one_flipped_bit_is_reported_with_its_segment_and_frame(index: int) -> None:
    """Magic, header, length, checksum, body, second length, footer: every region."""
    name = segments()[index]
    data, short = whole()[name], name.removeprefix(".jumar/seg/")
    starts = frames_of(data)
    regions = {0, 4, 8, 9, 12, 16, 20, len(data) - 1, len(data) - 4, len(data) - 5}
    for start in starts[1:]:
        regions |= {start, start + 4, start + 8, start + 9}
    for at in sorted(regions | {*range(0, len(data), STRIDE)}):
        disk = flipped(name, at)
        said = audit(disk, ROOT, [])
        frame_start = max(start for start in starts if start <= at)

        told = [(f.segment, f.offset) for f in said.findings if f.severity == "error"]
        assert (short, frame_start) in told, (at, told)
        reader = LogReader(disk, ROOT)
        for _ in reader:
            pass
        assert reader.end == "corrupt", at


@pytest.mark.parametrize("name", ["IDENTITY", "claims/000001", "claims/000003.released"])
def test_a_flip_outside_the_segments_gives_only_our_errors(name: str) -> None:
    data = whole()[f".jumar/{name}"]
    for at in range(len(data)):
        disk = flipped(f".jumar/{name}", at)
        try:
            said = audit(disk, ROOT, [])
        except JumarError:
            continue
        assert name != "IDENTITY" or said.findings


odd_bytes = st.one_of(
    st.binary(max_size=300),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
        | st.text(max_size=9) | st.binary(max_size=9),
        lambda inner: st.lists(inner, max_size=13) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    ).map(msgpack.packb),
    st.integers(1, 2000).map(lambda n: b"\x91" * n),
    st.sampled_from([b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"]).map(
        lambda kind: kind + b"\xff" * 4
    ),
)  # fmt: skip


@given(odd_bytes, st.booleans())
@settings(max_examples=2000 if SOAK else 120, derandomize=True, deadline=None)
def test_odd_bytes_give_only_our_errors(data: bytes, framed: bool) -> None:
    """As a body, as a segment, as a head, as a journal."""
    with_frame = frame(data) if framed and data else data
    with contextlib.suppress(BadRecord):
        decode(data)
    with contextlib.suppress(NewerFormat):
        read_header(MAGIC + with_frame)
    heads.read_text(data)
    read_journal(b"JUMARJN1" + with_frame)
    name = segments()[-1]
    for changed in (MAGIC + with_frame, whole()[name] + with_frame, with_frame):
        disk = disk_of({**whole(), name: changed}, "run")
        for mode in MODES:
            reader = LogReader(disk, ROOT, mode=mode)
            assert len(list(reader)) <= 60
        audit(disk, ROOT, [])


def test_a_length_that_is_a_lie_costs_no_memory() -> None:
    """Frames of any length up to 4 GiB are told, none is allocated."""
    name = segments()[-1]
    chance = random.Random(3)
    tracemalloc.start()
    for _ in range(200):
        size = chance.choice([2**20 + 1, 2**31 - 1, 2**32 - 1, chance.randrange(2**32)])
        lie = size.to_bytes(4, "little") + bytes(OVERHEAD)
        disk = disk_of({**whole(), name: whole()[name][:300] + lie}, "run")
        for mode in MODES:
            assert list(LogReader(disk, ROOT, mode=mode)) is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20, peak
