"""What a reader says of odd bytes, and what it still shows."""

from __future__ import annotations

from typing import Any

import attrs
import msgpack
import pytest

from jumar.engine.errors import LogDamaged
from jumar.engine.log.frame import frame
from jumar.engine.log.segment import MAGIC, Header, Pred, header_bytes, read_header

ROOT = "run/.jumar"
NAME = "000001-000000000000.seg"


def reheaded(logs: Any, **changes: Any) -> None:
    """Write another header, whole and with a right checksum, over the first segment's."""

    def change(data: bytearray) -> None:
        found = read_header(bytes(data))
        assert found is not None
        header, first = found
        data[:first] = header_bytes(attrs.evolve(header, **changes))

    logs.damage(NAME, change)


def test_salvage_shows_every_whole_record_behind_damage_and_tells_of_the_gap(
    logs: Any, noted: Any
) -> None:
    log = logs.open()
    for n in range(6):
        log.append(noted(n, 40), durable=True)
    log.close()
    again = logs.open()
    again.append(noted(6), durable=True)
    data = logs.segments()[NAME]
    third = [at for at in range(len(data)) if data.startswith(b"x" * 40, at)][2]
    logs.damage(NAME, lambda data: data.__setitem__(third, data[third] ^ 1))

    reader = logs.reader("salvage")
    told = [r.payload["n"] for r in reader if r.type == "test.note"]

    assert told == [0, 1, 3, 4, 5, 6]
    assert reader.end == "corrupt"
    assert any("record 4 does not follow record 2" in f.what for f in reader.findings)


def test_salvage_does_not_take_a_torn_batch_for_records(logs: Any, noted: Any) -> None:
    """The last pages of a write may survive without its first: never acknowledged."""
    log = logs.open()
    log.append(noted(0), durable=True)
    whole = len(logs.segments()[NAME])
    log.append_all([noted(n, 50) for n in (1, 2, 3)], durable=True)
    logs.damage(NAME, lambda data: data.__setitem__(whole + 30, data[whole + 30] ^ 1))

    reader = logs.reader("salvage")

    assert [r.payload["n"] for r in reader if r.type == "test.note"] == [0]
    assert reader.end == "not_yet_visible"


def test_a_torn_tail_does_not_hide_damage_before_it(logs: Any, noted: Any) -> None:
    log = logs.open()
    log.append(noted(0), durable=True)
    log.close()
    logs.open().append(noted(1), durable=True)
    logs.damage(NAME, lambda data: data.__setitem__(-20, data[-20] ^ 1))
    tip = max(logs.segments())
    logs.damage(tip, lambda data: data.extend(bytes(30)))

    reader = logs.reader("salvage")
    list(reader)

    assert reader.end == "corrupt"


def test_a_writer_that_closes_while_a_reader_looks_is_no_damage(
    logs: Any, noted: Any
) -> None:
    """The reader sees half a frame; before it asks whether it was closed, it was."""
    log = logs.open()
    log.append(noted(0), durable=True)
    log.append(noted(1))
    whole = b"".join(log._plan.pieces)
    log._plan.pieces = [whole[:10]]
    log.flush()

    looks: list[str] = []

    def closing(name: str, path: str) -> None:
        if len(looks) == 2:  # its header and its bytes were read
            logs.disk.before = None
            log._output._file.write(whole[10:])
            log.close()
        elif name == "read" and path.endswith(NAME):
            looks.append(path)

    reader = logs.reader()
    logs.disk.before = closing
    seen = list(reader)
    if logs.disk.before is not None:  # it asked before it read, and no call came after
        closing("end", "")

    assert len(seen) == 2 and reader.end == "not_yet_visible"
    assert len(logs.records("strict")) == 3


def test_a_copy_of_a_segment_under_a_later_name_hides_nobody(logs: Any, noted: Any) -> None:
    for n in range(2):
        log = logs.open()
        log.append(noted(n), durable=True)
        log.close()
    copy = logs.disk.create(f"{ROOT}/seg/000009-000000000000.seg")
    copy.write(logs.segments()[NAME])

    reader = logs.reader("strict")

    assert [r.payload["n"] for r in reader if r.type == "test.note"] == [0, 1]
    assert [(f.segment, f.severity) for f in reader.findings] == [
        ("000009-000000000000.seg", "warning")
    ]


def test_a_header_that_was_replaced_is_corrupt(logs: Any, noted: Any) -> None:
    """Its checksum is right; the digest in the first record is not of these bytes."""
    logs.open().append(noted(0), durable=True)
    reheaded(logs, writer={"host": "sim", "pid": 99, "boot_id": "sim"})

    reader = logs.reader()

    assert list(reader) == [] and reader.end == "corrupt"
    assert reader.findings[-1].offset == 0
    with pytest.raises(LogDamaged, match="header"):
        list(logs.reader("strict"))
    with pytest.raises(LogDamaged, match="header"):
        logs.open()
    assert len(list(logs.reader("salvage"))) == 2


GOOD = Pred(NAME, 100, "0" * 64, 0)


@pytest.mark.parametrize(
    "plain",
    [
        {"pred": {**attrs.asdict(GOOD), "name": "../../etc/passwd"}},
        {"pred": {**attrs.asdict(GOOD), "valid_bytes": "100"}},
        {"pred": {**attrs.asdict(GOOD), "more": 1}},
        {"pred": 7},
        {"epoch": "1"},
        {"first_seq": None},
        {"prev": b"00"},
        {"format": 0},
    ],
    ids=str,
)
def test_a_header_of_other_types_is_none(plain: dict[str, Any]) -> None:
    header = Header(2, "0" * 32, 1, 0, "0" * 64, [], GOOD, {"host": "sim"})
    assert read_header(header_bytes(header)) is not None

    packed = {**attrs.asdict(header), **plain}

    assert read_header(framed(packed)) is None


def framed(plain: dict[str, Any]) -> bytes:
    return MAGIC + frame(msgpack.packb(plain, use_bin_type=True))


def test_what_is_no_file_or_far_too_long_is_not_read(logs: Any, noted: Any) -> None:
    logs.open().append(noted(0), durable=True)
    name = "000002-000000000002.seg"
    logs.disk.symlink("/etc/passwd", f"{ROOT}/seg/{name}")

    reader = logs.reader("salvage")
    assert len(list(reader)) == 2
    assert [(f.segment, f.severity) for f in reader.findings] == [(name, "error")]
    with pytest.raises(LogDamaged, match="no file"):
        logs.open()
