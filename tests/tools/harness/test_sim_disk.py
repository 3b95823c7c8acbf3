"""What a power loss leaves: a name or a byte survives exactly when it was synced."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from jumar.tools.harness.disk import SimDisk


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
    ],
    ids=["rename", "unlink", "link", "symlink", "mkdir"],
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
    disk.set_mtimes("equal")
    assert len(set(times())) == 1


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
