"""
What a power loss leaves: a name or a byte survives exactly when it was synced.

Without one, the simulated disk and the real one give the same answers to any calls.
"""

from __future__ import annotations

import errno
import os
import random
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from jumar.engine.disk import Disk, DiskFile
from jumar.engine.real_disk import RealDisk
from jumar.tools.harness.disk import Crash, SimDisk

SOAK = bool(os.environ.get("JUMAR_SOAK"))
BUDGET = settings(
    max_examples=3000 if SOAK else 60, derandomize=not SOAK, deadline=None,
    stateful_step_count=40,
)  # fmt: skip


def disk_with(*dirs: str) -> SimDisk:
    """A disk with these durable directories."""
    disk = SimDisk()
    for path in dirs:
        disk.mkdir(path)
        disk.sync_dir(path.rpartition("/")[0] or ".")
    return disk


def write(disk: SimDisk, path: str, data: bytes, *, sync: bool = True) -> None:
    """A file, its bytes durable or not."""
    file = disk.create(path)
    file.write(data)
    if sync:
        file.sync()


def test_an_unsynced_name_is_gone_even_if_its_bytes_were_synced() -> None:
    disk = disk_with("d")
    write(disk, "d/a", b"one")
    disk.power_loss()

    assert disk.stat("d/a") is None


def test_unsynced_bytes_are_gone_even_if_the_name_was_synced() -> None:
    disk = disk_with("d")
    write(disk, "d/a", b"one", sync=False)
    disk.sync_dir("d")
    disk.power_loss()

    assert disk.read("d/a") == b""


def test_both_syncs_keep_both() -> None:
    disk = disk_with("d")
    write(disk, "d/a", b"one")
    disk.sync_dir("d")
    disk.power_loss()

    assert disk.read("d/a") == b"one"


def test_a_file_vanishes_with_the_directory_that_was_not_durable() -> None:
    disk = disk_with("d")
    disk.mkdir("d/e")
    write(disk, "d/e/a", b"one")
    disk.sync_dir("d/e")
    disk.power_loss()

    assert disk.stat("d/e") is None


Effect = Callable[[SimDisk], None]


@pytest.mark.parametrize(
    ("effect", "before", "after"),
    [
        (lambda d: d.rename("d/old", "d/new"), ["old"], ["new"]),
        (lambda d: d.unlink("d/old"), ["old"], []),
        (lambda d: d.link("d/old", "d/new"), ["old"], ["new", "old"]),
        (lambda d: d.symlink("old", "d/new"), ["old"], ["new", "old"]),
        (lambda d: d.mkdir("d/new"), ["old"], ["new", "old"]),
        (lambda d: write(d, "d/new", b""), ["old"], ["new", "old"]),
    ],
    ids=["rename", "unlink", "link", "symlink", "mkdir", "create"],
)
def test_a_change_of_names_lasts_only_after_the_sync_of_its_directory(
    effect: Effect, before: list[str], after: list[str]
) -> None:
    for synced, names in ((False, before), (True, after)):
        disk = disk_with("d")
        write(disk, "d/old", b"one")
        disk.sync_dir("d")
        effect(disk)
        if synced:
            disk.sync_dir("d")
        disk.power_loss()

        assert names == disk.listdir("d")


@pytest.mark.parametrize("synced", ["d", "e"])
def test_a_rename_between_directories_never_loses_both_names(synced: str) -> None:
    disk = disk_with("d", "e")
    write(disk, "d/a", b"one")
    disk.sync_dir("d")
    disk.rename("d/a", "e/a")
    disk.sync_dir(synced)
    disk.power_loss()

    assert (disk.listdir("d"), disk.listdir("e")) == ([], ["a"])
    assert disk.read("e/a") == b"one"


def test_a_rename_between_directories_without_a_sync_did_not_happen() -> None:
    disk = disk_with("d", "e")
    write(disk, "d/a", b"one")
    disk.sync_dir("d")
    disk.rename("d/a", "e/a")
    disk.power_loss()

    assert (disk.listdir("d"), disk.listdir("e")) == (["a"], [])


def test_a_rename_that_lasts_brings_the_earlier_move_of_its_entry() -> None:
    disk = disk_with("d", "e", "f", "d/x")
    disk.rename("d/x", "e/x")
    disk.rename("e/x", "f/x")
    disk.sync_dir("f")
    disk.power_loss()

    assert [disk.listdir(folder) for folder in "def"] == [[], [], ["x"]]


def test_a_rename_that_lasts_brings_the_one_that_made_room_for_it() -> None:
    disk = disk_with("d", "e", "f")
    for path in ("d/x", "f/y"):
        write(disk, path, path.encode())
        disk.sync_dir(path[0])
    disk.rename("d/x", "e/x")
    disk.rename("f/y", "d/x")
    disk.sync_dir("f")
    disk.power_loss()

    assert (disk.read("e/x"), disk.read("d/x")) == (b"d/x", b"f/y")
    assert disk.listdir("f") == []


def test_a_rename_that_lasts_brings_no_other() -> None:
    disk = disk_with("d", "e", "f", "d/x", "d/y")
    disk.rename("d/x", "e/x")
    disk.rename("e/x", "e/z")
    disk.rename("d/y", "f/y")
    disk.sync_dir("f")
    disk.power_loss()

    assert [disk.listdir(folder) for folder in "def"] == [["x"], [], ["y"]]


def test_a_rename_onto_a_file_leaves_the_old_bytes_or_the_new_ones() -> None:
    for synced, left in ((False, b"old"), (True, b"new")):
        disk = disk_with("d")
        for name in ("old", "new"):
            write(disk, f"d/{name}", name.encode())
        disk.sync_dir("d")
        disk.rename("d/new", "d/old")
        if synced:
            disk.sync_dir("d")
        disk.power_loss()

        assert left == disk.read("d/old")
        assert (disk.stat("d/new") is None) is synced


def test_a_renamed_directory_keeps_its_own_durable_names_only() -> None:
    disk = disk_with("d", "d/staging")
    write(disk, "d/staging/kept", b"1")
    disk.sync_dir("d/staging")
    write(disk, "d/staging/lost", b"2")
    disk.rename("d/staging", "d/400")
    disk.sync_dir("d")
    disk.power_loss()

    assert (disk.listdir("d"), disk.listdir("d/400")) == (["400"], ["kept"])


def test_a_removed_directory_comes_back_with_its_names_unless_synced() -> None:
    for synced, names in ((False, ["x"]), (True, [])):
        disk = disk_with("d", "d/x")
        write(disk, "d/x/f", b"1")
        disk.sync_dir("d/x")
        disk.unlink("d/x/f")
        disk.rmdir("d/x")
        if synced:
            disk.sync_dir("d")
        disk.power_loss()

        assert names == disk.listdir("d")
        assert synced or disk.read("d/x/f") == b"1"


def test_two_names_of_one_inode_share_what_is_durable() -> None:
    disk = disk_with("d")
    write(disk, "d/a", b"one", sync=False)
    disk.link("d/a", "d/b")
    disk.sync_file("d/b")
    disk.sync_dir("d")
    disk.power_loss()

    assert disk.read("d/a") == disk.read("d/b") == b"one"


def test_an_unlinked_file_that_is_open_is_writable_and_dies_with_the_power() -> None:
    disk = disk_with("d")
    file = disk.create("d/a")
    disk.sync_dir("d")
    disk.unlink("d/a")
    file.write(b"one")
    file.sync()
    disk.sync_dir("d")
    disk.power_loss()

    assert disk.listdir("d") == []


def test_a_second_power_loss_changes_nothing() -> None:
    disk = disk_with("d", "e")
    write(disk, "d/a", b"one")
    disk.sync_dir("d")
    disk.rename("d/a", "e/a")
    disk.power_loss()
    disk.sync_dir("e")
    disk.power_loss()

    assert (disk.listdir("d"), disk.listdir("e")) == (["a"], [])


PLACES = [f"{folder}/{name}" for folder in "def" for name in "ab"]
MOVES = st.lists(
    st.one_of(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)),
              st.tuples(st.sampled_from("def"), st.none())),
    max_size=12,
)  # fmt: skip


@given(MOVES)
@settings(BUDGET, max_examples=BUDGET.max_examples * 5)
def test_no_order_of_renames_and_syncs_loses_or_doubles_an_entry(
    moves: list[tuple[str, str | None]],
) -> None:
    """Three entries move onto free names; some directories are synced in between."""
    disk = disk_with("d", "e", "f", "d/b")
    for path, data in (("d/a", b"1"), ("e/a", b"2")):
        write(disk, path, data)
        disk.sync_dir(path[0])
    for source, target in moves:
        if target is None:
            disk.sync_dir(source)
        elif disk.stat(source) is not None and disk.stat(target) is None:
            disk.rename(source, target)
    disk.power_loss()

    left = {path: stat.kind for path in PLACES if (stat := disk.stat(path))}
    assert sorted(left.values()) == ["dir", "file", "file"], left
    files = [path for path, kind in left.items() if kind == "file"]
    assert {b"1", b"2"} == {disk.read(path) for path in files}


def test_what_somebody_else_does_is_durable_at_once() -> None:
    disk = disk_with("d")
    disk.foreign_tree("d/x", {"f": b"0123"})
    disk.flip_byte("d/x/f")
    disk.power_loss()
    assert disk.read("d/x/f") == b"0133"
    disk.truncate("d/x/f")
    disk.power_loss()
    assert disk.read("d/x/f") == b"01"
    disk.remove_tree("d/x")
    disk.power_loss()

    assert disk.listdir("d") == []


def test_file_times_can_be_made_to_lie() -> None:
    disk = disk_with("d")
    for name in ("a", "b", "c"):
        write(disk, f"d/{name}", b"")

    def times() -> list[int]:
        return [stat.mtime_ns for n in "abc" if (stat := disk.stat(f"d/{n}"))]

    assert times() == sorted(times())
    disk.set_mtimes("reversed")
    assert times() == sorted(times(), reverse=True)
    orders = set()
    for seed in range(20):
        disk.set_mtimes("random", seed)
        orders.add(tuple(sorted(range(3), key=times().__getitem__)))
    assert len(orders) > 3
    disk.set_mtimes("equal")
    assert len(set(times())) == 1


def test_a_call_that_fails_or_crashes_has_no_effect() -> None:
    disk = disk_with("d")
    file = disk.create("d/open")
    errors: list[BaseException] = [OSError(errno.EIO, "planned"), Crash()]

    def failing(name: str, path: str) -> None:
        raise errors[0]

    calls: list[Callable[[], object]] = [
        lambda: disk.create("d/a"), lambda: disk.mkdir("d/a"),
        lambda: disk.symlink("t", "d/a"), lambda: disk.link("d/open", "d/a"),
        lambda: disk.rename("d/open", "d/a"), lambda: disk.unlink("d/open"),
        lambda: file.write(b"1"), file.sync, lambda: disk.sync_dir("d"),
        lambda: disk.sync_file("d/open"), lambda: disk.rmdir("d"),
    ]  # fmt: skip
    counted = (disk.file_syncs, disk.dir_syncs, disk.calls + len(calls) * len(errors))
    disk.before = failing
    while errors:
        for call in calls:
            with pytest.raises(type(errors[0])):
                call()
        errors.pop(0)
    disk.before = None

    assert counted == (disk.file_syncs, disk.dir_syncs, disk.calls)
    assert (disk.listdir("d"), disk.read("d/open")) == (["open"], b"")
    disk.power_loss()
    assert disk.listdir("d") == []
    assert not isinstance(Crash(), Exception), "no handler of errors may catch it"


def test_calls_and_syncs_are_counted_and_told_with_their_paths() -> None:
    disk = disk_with("d")
    told: list[tuple[str, str]] = []
    disk.before = lambda name, path: told.append((name, path))
    counted = (disk.calls, disk.file_syncs, disk.dir_syncs)
    file = disk.create("d/a")
    file.write(b"1")
    file.sync()
    file.close()
    disk.sync_file("d/a")
    disk.sync_dir("d")

    names = ["create", "write", "sync", "close", "sync_file"]
    assert told == [*((name, "d/a") for name in names), ("sync_dir", "d")]
    assert (disk.calls, disk.file_syncs, disk.dir_syncs) == tuple(
        was + more for was, more in zip(counted, (6, 2, 1), strict=True)
    )


def survivors(
    act: Callable[[SimDisk], None], look: Callable[[SimDisk], object]
) -> set[object]:
    """Everything that chance may leave of an act."""
    found = set()
    for seed in range(60):
        disk = disk_with("d")
        write(disk, "d/old", b"0123")
        disk.sync_dir("d")
        act(disk)
        disk.power_loss(random.Random(seed))
        found.add(look(disk))
    return found


def test_chance_keeps_drops_tears_or_zeroes_an_unsynced_write() -> None:
    def act(disk: SimDisk) -> None:
        file = disk.create("d/a")
        file.write(b"AB")
        file.sync()
        disk.sync_dir("d")
        file.write(b"CDEF")

    left = survivors(act, lambda disk: disk.read("d/a"))

    assert {b"AB", b"ABCDEF", b"AB\0\0\0\0", b"ABC", b"ABCDE"} <= left
    assert all(isinstance(one, bytes) and one.startswith(b"AB") for one in left)


def test_chance_decides_over_each_name_but_keeps_a_rename_whole() -> None:
    def act(disk: SimDisk) -> None:
        disk.mkdir("d/x")
        disk.mkdir("d/y")
        disk.rename("d/old", "d/new")

    left = survivors(act, lambda disk: tuple(disk.listdir("d")))

    for names in left:
        assert isinstance(names, tuple)
        assert len({"old", "new"} & set(names)) == 1, names
    assert {("new",), ("old",), ("new", "x"), ("old", "y"), ("old", "x", "y")} <= left


def test_chance_cannot_touch_what_was_synced() -> None:
    def act(disk: SimDisk) -> None:
        disk.rename("d/old", "d/new")
        disk.sync_dir("d")

    assert {(("new",), b"0123")} == survivors(
        act, lambda disk: (tuple(disk.listdir("d")), disk.read("d/new"))
    )


def answer(call: Callable[[], Any]) -> Any:
    """What a call returns, or its errno."""
    try:
        return call()
    except OSError as error:
        return error.errno


PATHS = st.sampled_from(["a", "b", "a/a", "a/b", "b/a", "b/a/b", "a/a/a"])
BYTES = st.binary(max_size=6)


class TwoDisks(RuleBasedStateMachine):
    """
    Any calls on a real directory and on a simulated one: equal answers, equal trees.

    A link names a plain file outside, so that a path through it is no directory on
    either side: the engine never walks through a link, and the simulation cannot.
    """

    files: Bundle[tuple[DiskFile, DiskFile]] = Bundle("files")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.outside = f"{self.folder.name}/outside"
        self.sim = SimDisk()
        self.sides: list[tuple[Disk, str]] = [
            (RealDisk(), f"{self.folder.name}/d"), (self.sim, "d"),
        ]  # fmt: skip
        RealDisk().create(self.outside).close()
        self.opened: list[DiskFile] = []
        for disk, root in self.sides:
            disk.mkdir(root)

    def both(self, name: str, *paths: str, **rest: Any) -> list[Any]:
        """The answers of both disks to one call."""
        answers = []
        for disk, root in self.sides:
            call = partial(getattr(disk, name), *(f"{root}/{p}" for p in paths), **rest)
            answers.append(answer(call))
        return answers

    @rule(target=files, path=PATHS)
    def create(self, path: str) -> Any:
        real, sim = self.both("create", path)
        if isinstance(real, int) or isinstance(sim, int):
            assert real == sim, path
            return multiple()  # refused: no file
        self.opened.append(real)
        return real, sim

    @rule(pair=files, data=BYTES, kind=st.sampled_from([bytes, bytearray, memoryview]))
    def write(self, pair: tuple[DiskFile, DiskFile], data: bytes, kind: Any) -> None:
        real, sim = (answer(partial(file.write, kind(data))) for file in pair)
        assert real == sim

    @rule(pair=files, name=st.sampled_from(["sync", "close"]))
    def settle(self, pair: tuple[DiskFile, DiskFile], name: str) -> None:
        real, sim = (answer(getattr(file, name)) for file in pair)
        assert real == sim

    @rule(
        name=st.sampled_from(
            ["mkdir", "unlink", "rmdir", "readlink", "listdir", "sync_file", "sync_dir"]
        ),
        path=PATHS,
    )
    def on_one_path(self, name: str, path: str) -> None:
        real, sim = self.both(name, path)
        assert real == sim, (name, path)

    @rule(name=st.sampled_from(["rename", "link"]), src=PATHS, dst=PATHS)
    def on_two_paths(self, name: str, src: str, dst: str) -> None:
        real, sim = self.both(name, src, dst)
        assert real == sim, (name, src, dst)

    @rule(path=PATHS)
    def symlink(self, path: str) -> None:
        real, sim = (
            answer(partial(disk.symlink, self.outside, f"{root}/{path}"))
            for disk, root in self.sides
        )
        assert real == sim, path

    @rule(path=PATHS, start=st.integers(0, 8), size=st.one_of(st.none(), st.integers(1, 8)))
    def read(self, path: str, start: int, size: int | None) -> None:
        real, sim = self.both("read", path, start=start, size=size)
        assert real == sim, (path, start, size)

    @invariant()
    def trees_are_equal(self) -> None:
        real, sim = (tree(disk, root) for disk, root in self.sides)
        assert real == sim

    def teardown(self) -> None:
        for file in self.opened:
            file.close()
        self.folder.cleanup()


def tree(disk: Disk, path: str) -> Any:
    """Everything below a path: names, kinds, sizes of files, bytes and targets."""
    stat = disk.stat(path)
    assert stat is not None
    if stat.kind == "dir":
        return {name: tree(disk, f"{path}/{name}") for name in disk.listdir(path)}
    if stat.kind == "link":
        return stat.size, disk.readlink(path)
    return stat.size, disk.read(path)


TwoDisks.TestCase.settings = BUDGET
TestBothDisks = TwoDisks.TestCase
