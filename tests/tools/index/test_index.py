"""What an index answers is what the log holds, whatever became of its file."""

from __future__ import annotations

import copy
import os
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.engine.errors import LogDamaged
from jumar.engine.log.reader import LogReader
from jumar.engine.real_disk import RealDisk
from jumar.tools.index import build
from jumar.tools.index.draft import Draft
from jumar.tools.index.fetch import Stale, fetch
from jumar.tools.index.index import Index
from jumar.tools.index.rows import Row
from jumar.tools.index.store import APPLICATION_ID, SCHEMA, Store, Unusable

Content = Callable[[Path], list[Any]]
FIRST = "000001-000000000000.seg"


def damage(lab: Any, name: str, change: Callable[[bytearray], None]) -> None:
    """Change a segment's bytes in place, durably."""
    node = lab.disk._node(f"{lab.root}/seg/{name}")
    change(node.data)
    node.synced = bytes(node.data)


def last_offset(lab: Any) -> int:
    reader = LogReader(lab.disk, lab.root)
    for _ in reader:
        pass
    return reader.offset


# --- what it answers ---


def test_it_finds_by_type_step_checkpoint_and_number(lab: Any) -> None:
    index = lab.index()

    assert lab.steps(index) == [100, 200, 300]
    assert lab.steps(index, step=200) == [200]
    assert lab.steps(index, ckpt_id="live@300r0") == [300]
    assert lab.steps(index, since=3) == [300]
    assert lab.steps(index, limit=2) == [100, 200]
    assert [row.seq for row in index.find(["test.saved", "writer.claimed"])] == [0, 1, 2, 3]
    assert index.find("test.saved", step=200, ckpt_id="live@300r0") == []


def test_values_that_sqlite_cannot_hold_find_nothing_and_harm_nothing(lab: Any) -> None:
    """A log may hold larger integers, and a shell may hand over bytes that are no text."""
    lab.write(2**64 - 1, 2**63 - 1)
    index = lab.index()

    assert lab.steps(index, step=2**63 - 1) == [2**63 - 1]
    assert index.find(step=2**64 - 1) == []
    assert index.find(["\udcff", "test.saved"], since=-(2**70)) != []
    assert index.find(since=2**70) == []
    assert len(index.find(limit=2**70)) == 7
    assert lab.steps(index, ckpt_id=f"live@{2**64 - 1}r0") == [2**64 - 1]


def test_the_file_says_what_it_is(lab: Any) -> None:
    lab.index()
    *_, head = LogReader(lab.disk, lab.root)
    db = sqlite3.connect(lab.place)

    assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
    tables = db.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")
    assert {("event", 1), ("head", 1)} <= set(tables)
    log_id = LogReader(lab.disk, lab.root).identity.log_id
    (said,) = db.execute("SELECT log_id, size, last_hash, schema FROM head")
    assert said == (log_id, head.seq + 1, head.hash.hex(), SCHEMA)
    (last,) = db.execute("SELECT * FROM event ORDER BY seq DESC LIMIT 1")
    place = (FIRST, last_offset(lab))
    assert last == (3, "test.saved", 300, 0, 1, "live@300r0", *place)
    db.close()


def test_an_index_that_is_up_to_date_is_not_written(lab: Any) -> None:
    lab.index()
    before = lab.place.stat()
    lab.index()

    assert lab.place.stat() == before
    assert os.listdir(lab.place.parent) == ["index.sqlite"]


def test_what_is_new_is_added_to_what_was_there(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.index()
    added: list[int] = []
    add = Store.add

    def counted(self: Store, rows: Any, head: Any) -> None:
        added.append(len(rows))
        add(self, rows, head)

    monkeypatch.setattr(Store, "add", counted)
    lab.write(400)

    assert lab.steps(lab.index()) == [100, 200, 300, 400]
    assert added == [2], "the claim and the one checkpoint of the second epoch"


STEPS = st.lists(st.integers(0, 10**6), max_size=6)
MOVES = st.lists(
    st.one_of(STEPS, st.sampled_from(["refresh", "reopen", "epoch"])), max_size=14
)


@given(moves=MOVES, batch=st.integers(1, 5))
@settings(max_examples=50, derandomize=True, deadline=None)
def test_an_index_that_grew_equals_one_built_at_once(
    kit: Any, moves: list[Any], batch: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "BATCH", batch)
        lab = kit.Lab(Path(folder) / "grown.sqlite")
        writer = lab.writer()
        index = Index.open(lab.disk, lab.root, lab.place)
        for move in moves:
            if move == "refresh":
                index.refresh()
            elif move == "reopen":
                index.close()
                index = Index.open(lab.disk, lab.root, lab.place)
            elif move == "epoch":
                writer.close()
                writer = lab.writer()
            else:
                writer.append_all([kit.entry(step) for step in move], durable=True)
        writer.close()
        index.refresh()
        once = attrs.evolve(lab, place=Path(folder) / "once.sqlite")

        assert index.find() == once.index().find()
        assert kit.content(lab.place) == kit.content(once.place)
        index.close()


# --- what may become of its file ---


def spoil_garbage(lab: Any) -> None:
    lab.place.write_bytes(random.Random(1).randbytes(30_000))


def spoil_empty(lab: Any) -> None:
    lab.place.write_bytes(b"")


def spoil_pages(lab: Any) -> None:
    """The first page, with everything that names it, is whole; what follows is not."""
    data = lab.place.read_bytes()
    lab.place.write_bytes(data[:4096] + bytes(len(data) - 4096))


def spoil_entry(lab: Any) -> None:
    """One bit of a type, in the table or in the index of types."""
    data = lab.place.read_bytes()
    assert data.count(b"test.saved") == 6
    lab.place.write_bytes(data.replace(b"test.saved", b"test.raved", 1))


def spoil_cut(lab: Any) -> None:
    os.truncate(lab.place, lab.place.stat().st_size // 2)


def spoil_folder(lab: Any) -> None:
    lab.place.unlink()
    lab.place.mkdir()


def spoil_fifo(lab: Any) -> None:
    """Whoever opened it would wait for ever."""
    lab.place.unlink()
    os.mkfifo(lab.place)


def sql(*statements: str) -> Callable[[Any], None]:
    def spoil(lab: Any) -> None:
        db = sqlite3.connect(lab.place)
        for one in statements:
            db.execute(one)
        db.commit()
        db.close()

    return spoil


SPOILERS = {
    "deleted": lambda lab: lab.place.unlink(),
    "garbage": spoil_garbage,
    "empty": spoil_empty,
    "pages": spoil_pages,
    "entry": spoil_entry,
    "cut": spoil_cut,
    "folder": spoil_folder,
    "fifo": spoil_fifo,
    "application": sql("PRAGMA application_id = 7"),
    "version": sql(f"PRAGMA user_version = {SCHEMA + 1}"),
    "schema": sql(f"UPDATE head SET schema = {SCHEMA + 1}"),
    "log": sql("UPDATE head SET log_id = 'another'"),
    "hash": sql("UPDATE head SET last_hash = 'ab'"),
    "no head": sql("DELETE FROM head"),
    "longer": sql("UPDATE head SET size = 9"),
    "row gone": sql("DELETE FROM event WHERE seq = 2"),
    "table": sql("ALTER TABLE event ADD COLUMN more TEXT"),
    "trigger": sql("CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM event; END"),
    "wal": sql("PRAGMA journal_mode = WAL"),
}


STILL_WHOLE = {"wal"}
"""What changes nothing that an answer depends on."""


@pytest.mark.parametrize("how", SPOILERS)
def test_a_file_that_was_spoilt_is_replaced(lab: Any, kit: Any, how: str) -> None:
    lab.index().close()
    whole = kit.content(lab.place)
    SPOILERS[how](lab)
    index = Index.open(lab.disk, lab.root, lab.place)
    if how != "hash":  # only the log can tell
        assert (index._store is not None) == (how in STILL_WHOLE)
    lab.write(400)
    index.refresh()

    assert lab.steps(index) == [100, 200, 300, 400]
    index.close()
    assert lab.steps(lab.index()) == [100, 200, 300, 400]
    assert os.listdir(lab.place.parent) == ["index.sqlite"]
    if how != "folder":
        assert kit.content(lab.place)[:4] == whole[:4]
        assert Index.open(lab.disk, lab.root, lab.place)._store is not None


@pytest.mark.parametrize("how", SPOILERS)
def test_a_file_that_is_spoilt_while_it_is_open_is_replaced(lab: Any, how: str) -> None:
    lab.index().close()
    index = Index.open(lab.disk, lab.root, lab.place)
    SPOILERS[how](lab)
    assert set(lab.steps(index)) >= {100, 300}
    lab.write(400)
    index.refresh()

    assert lab.steps(index) == [100, 200, 300, 400]
    assert lab.steps(lab.index()) == [100, 200, 300, 400]


def _wal() -> bytes:
    """The bytes of a database that keeps another kind of journal, with larger pages."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        db = sqlite3.connect(file.name)
        db.executescript(
            "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; CREATE TABLE t (x)"
        )
        db.close()
        return Path(file.name).read_bytes()


WAL = _wal()


LEFT = {
    "empty": b"",
    "header": b"SQLite format 3\0",
    "zeros": bytes(5000),
    "garbage": b"x" * 99_999,
    "wal": WAL,
}


@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
def test_a_draft_that_was_left_behind_is_overwritten(
    lab: Any, kit: Any, left: bytes
) -> None:
    lab.place.with_name("index.sqlite.draft").write_bytes(left)
    index = lab.index()

    assert lab.steps(index) == [100, 200, 300]
    assert len(kit.content(lab.place)) == 5
    assert os.listdir(lab.place.parent) == ["index.sqlite"]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_no_journal_is_made_beside_it(
    lab: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Also from a file that somebody switched to another kind of journal."""
    lab.index().close()
    sql(f"PRAGMA journal_mode = {mode}")(lab)
    names: list[str] = []
    add = Store.add

    def watched(self: Store, rows: Any, head: Any) -> None:
        def seen() -> Iterator[Any]:
            yield from rows
            names.extend(os.listdir(lab.place.parent))

        add(self, seen(), head)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "add", watched)
    lab.write(400)
    lab.index()

    assert set(names) == {"index.sqlite", "index.sqlite.draft"}


def test_the_index_of_another_log_is_replaced(lab: Any, kit: Any) -> None:
    other = kit.Lab(lab.place)
    other.write(700, 800, 900)
    other.index()

    assert lab.steps(lab.index()) == [100, 200, 300]
    assert other.steps(other.index()) == [700, 800, 900]


def test_a_log_that_was_rewritten_with_the_same_length_is_indexed_anew(lab: Any) -> None:
    twin = attrs.evolve(lab, disk=copy.deepcopy(lab.disk), clock=copy.copy(lab.clock))
    lab.write(400, 500)
    twin.write(600, 700)
    assert lab.steps(lab.index(), since=4) == [400, 500]
    assert [link.name for link in _chain(lab)] == [link.name for link in _chain(twin)]
    index = Index.open(twin.disk, twin.root, twin.place)
    index.refresh()

    assert twin.steps(index, since=4) == [600, 700]
    assert twin.steps(index, step=700) == [700]
    assert index.find(step=400) == []


def _chain(lab: Any) -> list[Any]:
    reader = LogReader(lab.disk, lab.root)
    assert len(list(reader)) == 7
    return reader.chain


def test_a_log_that_was_cut_is_indexed_anew(lab: Any) -> None:
    earlier = attrs.evolve(lab, disk=copy.deepcopy(lab.disk))
    lab.write(400)
    lab.index()

    assert earlier.steps(earlier.index()) == [100, 200, 300]


def test_a_damaged_log_is_indexed_up_to_the_damage_and_says_so(lab: Any) -> None:
    index = lab.index()
    assert index.complete
    lab.write(400)
    at = index.find("test.saved", step=200)[0].offset
    damage(lab, FIRST, lambda data: data.__setitem__(at + 20, data[at + 20] ^ 1))
    lab.index()
    index.refresh()

    assert not index.complete
    assert lab.steps(index) == []  # a successor froze the whole segment
    assert index.find() == []


def test_damage_in_the_last_segment_leaves_what_stands_before_it(lab: Any) -> None:
    at = lab.index().find("test.saved", step=200)[0].offset
    damage(lab, FIRST, lambda data: data.__setitem__(at + 20, data[at + 20] ^ 1))
    index = lab.index()

    assert (index.complete, lab.steps(index)) == (False, [100])


def test_the_kinds_are_those_of_the_whole_log(lab: Any) -> None:
    lab.index()

    assert lab.index().kinds == {("writer.claimed?", 2), ("test.saved?", 1)}


# --- who else is there ---


@pytest.mark.parametrize("mode", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_file_that_another_connection_has_locked_is_no_hindrance(
    lab: Any, mode: str
) -> None:
    lab.index()
    other = sqlite3.connect(lab.place, isolation_level=None)
    other.execute(f"BEGIN {mode}")
    other.execute("UPDATE event SET step = 0")
    lab.write(400)
    index = lab.index()

    assert lab.steps(index) == [100, 200, 300, 400]
    other.execute("COMMIT")
    other.close()
    assert lab.steps(lab.index(), step=400) == [400]


@pytest.mark.parametrize("how", ["no folder", "parent is a file", "read-only"])
def test_where_nothing_can_be_written_it_lies_in_memory(
    lab: Any, tmp_path: Path, how: str
) -> None:
    lab.place = tmp_path / "sub" / "index.sqlite"
    if how == "parent is a file":
        lab.place.parent.write_text("")
    if how == "read-only":
        lab.place.parent.mkdir()
        lab.index()
        lab.write(400)
        lab.place.parent.chmod(0o555)
        if os.access(lab.place.parent, os.W_OK):
            pytest.skip("this user may write everywhere")
    index = lab.index()

    assert lab.steps(index)[:3] == [100, 200, 300]
    assert index._store is not None and index._store.in_memory


def test_an_index_in_memory_grows_too(lab: Any) -> None:
    lab.place = None
    index = lab.index()
    lab.write(400)
    index.refresh()

    assert lab.steps(index) == [100, 200, 300, 400]


def test_who_finds_another_at_work_answers_from_memory(
    lab: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.index()
    before = kit.content(lab.place)
    lab.write(400)
    draft = Draft.begin(lab.place)
    index = Index.open(lab.disk, lab.root, lab.place)
    monkeypatch.setattr(Store, "empty", lambda _: pytest.fail("it began from zero"))
    index.refresh()
    monkeypatch.undo()

    assert lab.steps(index) == [100, 200, 300, 400]
    assert kit.content(lab.place) == before
    draft.end()
    lab.write(500)
    index.refresh()
    assert lab.steps(index) == [100, 200, 300, 400, 500]
    assert len(kit.content(lab.place)) == 9, "eight records and the head"


def test_a_draft_that_was_published_in_between_is_refused(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its maker renames it after we opened it: what we hold would be the index itself."""
    first = Draft.begin(lab.place)

    def lock(fd: int, how: int) -> None:
        first.publish()

    monkeypatch.setattr("fcntl.flock", lock)
    with pytest.raises(OSError):
        Draft.begin(lab.place)
    assert lab.place.exists()
    first.end()


def test_a_full_disk_leads_to_memory(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.index()
    lab.write(400)
    add = Store.add

    def full(self: Store, rows: Any, head: Any) -> None:
        path = self._db.execute("PRAGMA database_list").fetchone()[2]
        if path:
            raise Unusable("database or disk is full")
        add(self, rows, head)

    monkeypatch.setattr(Store, "add", full)
    index = lab.index()

    assert (index.place, lab.steps(index)) == (None, [100, 200, 300, 400])
    assert os.listdir(lab.place.parent) == ["index.sqlite"]


def broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second batch of two rows raises."""
    add, count = Store.add, iter(range(9))

    def broken(self: Store, rows: Any, head: Any) -> None:
        add(self, rows, head)
        if next(count):
            raise KeyboardInterrupt

    monkeypatch.setattr(build, "BATCH", 2)
    monkeypatch.setattr(Store, "add", broken)


def test_a_crash_between_batches_leaves_the_older_file(
    lab: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.index()
    before = kit.content(lab.place)
    lab.write(400, 500, 600, 700)
    with monkeypatch.context() as patch:
        broken_off(patch)
        with pytest.raises(KeyboardInterrupt):
            lab.index()

    assert kit.content(lab.place) == before
    assert os.listdir(lab.place.parent) == ["index.sqlite"]
    assert lab.steps(lab.index()) == [100, 200, 300, 400, 500, 600, 700]


def test_a_crash_within_a_batch_takes_the_whole_batch_back(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory the index goes on, so its rows must be those that its head counts."""
    lab.place = None
    index = lab.index()
    lab.write(400, 500, 600)
    monkeypatch.setattr(build, "BATCH", 2)
    monkeypatch.setattr("jumar.tools.index.store.SCHEMA", object(), raising=True)
    with pytest.raises(Unusable):
        index._catch_up()
    monkeypatch.undo()

    assert index._store is not None
    assert [row.seq for row in index.find()] == list(range(index._store.head.size)) != []
    index.refresh()
    assert lab.steps(index) == [100, 200, 300, 400, 500, 600]


# --- reading ---


def test_a_row_that_leads_elsewhere_costs_a_rebuild_and_then_leads_there(
    lab: Any, kit: Any
) -> None:
    index = lab.index()
    right = index.find("test.saved")
    wrong = [
        Row(right[0].seq, FIRST, right[1].offset),
        Row(right[1].seq, FIRST, right[1].offset + 1),
        Row(right[2].seq, "000009-000000000000.seg", right[2].offset),
        Row(right[2].seq, "../IDENTITY", 0),
        Row(right[2].seq, FIRST, 10**9),
    ]

    for row in wrong:
        assert index.read([row])[0].seq == row.seq
    assert [r.seq for r in index.read(wrong)] == [1, 2, 3, 3, 3]


def test_a_record_of_another_length_than_most_is_read_whole(lab: Any, kit: Any) -> None:
    big = attrs.evolve(kit.entry(400), payload={"done": 400, "fill": "x" * 900_000})
    writer = lab.writer()
    writer.append_all([kit.entry(350), big], durable=True)

    (record,) = lab.index().read(lab.index().find(step=400))
    assert record.payload == big.payload


def test_a_row_leads_to_no_file_but_a_segment(lab: Any, tmp_path: Path) -> None:
    """Even when a whole frame with that number is there."""
    lab = attrs.evolve(lab, disk=RealDisk(), root=str(tmp_path / "run/.jumar"))
    lab.write(100)
    segment, copied = tmp_path / f"run/.jumar/seg/{FIRST}", tmp_path / "run/.jumar/copied"
    copied.write_bytes(segment.read_bytes())
    (row,) = lab.index().find("test.saved")

    with pytest.raises(Stale, match="is no segment"):
        fetch(lab.disk, lab.root, row._replace(segment="../copied"))
    assert fetch(lab.disk, lab.root, row).payload["done"] == 100


def test_a_record_that_the_log_lost_is_damage(lab: Any) -> None:
    index = lab.index()
    rows = index.find("test.saved", step=200)
    damage(lab, FIRST, lambda data: data.__setitem__(rows[0].offset + 20, 0))

    with pytest.raises(LogDamaged) as error:
        index.read(rows)
    assert "record 2 is not in the log any more" in str(error.value)
    assert not index.complete
    with pytest.raises(LogDamaged):
        index.read([Row(99, FIRST, 8)])
