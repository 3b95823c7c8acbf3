"""Both disks behave alike, as far as one process can see."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.engine.disk import Disk
from jumar.engine.real_disk import RealDisk
from jumar.tools.harness.disk import SimDisk


@pytest.fixture(params=["real", "sim"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    """A disk and an empty directory on it."""
    if request.param == "real":
        return RealDisk(), str(tmp_path)
    disk = SimDisk()
    disk.mkdir("d")
    return disk, "d"


def put(disk: Disk, path: str, data: bytes = b"x") -> None:
    """A file with these bytes."""
    file = disk.create(path)
    file.write(data)
    file.sync()
    file.close()
    file.close()


def code(call: Callable[[], Any]) -> int | None:
    """The errno of a call, None when it works."""
    try:
        call()
    except OSError as error:
        return error.errno
    return None


def test_bytes_come_back_whole_and_in_ranges(place: tuple[Disk, str]) -> None:
    disk, root = place
    put(disk, f"{root}/a", b"0123456789")

    assert disk.read(f"{root}/a") == b"0123456789"
    assert disk.read(f"{root}/a", 3, 3) == b"345"
    assert disk.read(f"{root}/a", 8, 100) == b"89"
    assert disk.read(f"{root}/a", 20) == b""
    stat = disk.stat(f"{root}/a")
    assert stat is not None and (stat.kind, stat.size) == ("file", 10)


def test_create_and_mkdir_refuse_a_taken_name(place: tuple[Disk, str]) -> None:
    disk, root = place
    put(disk, f"{root}/a")
    disk.mkdir(f"{root}/b")

    assert code(lambda: disk.create(f"{root}/a")) == errno.EEXIST
    assert code(lambda: disk.mkdir(f"{root}/b")) == errno.EEXIST
    assert code(lambda: disk.create(f"{root}/no/a")) == errno.ENOENT
    assert code(lambda: disk.create(f"{root}/a/c")) == errno.ENOTDIR


def test_a_directory_is_not_renamed_onto_a_populated_one(place: tuple[Disk, str]) -> None:
    disk, root = place
    for name in ("a", "b", "empty"):
        disk.mkdir(f"{root}/{name}")
    put(disk, f"{root}/a/f")
    put(disk, f"{root}/b/g")

    assert code(lambda: disk.rename(f"{root}/a", f"{root}/b")) == errno.ENOTEMPTY
    disk.rename(f"{root}/a", f"{root}/empty")
    assert disk.listdir(root) == ["b", "empty"]
    assert disk.listdir(f"{root}/empty") == ["f"]


def test_a_link_is_replaced_by_a_rename_and_never_followed(place: tuple[Disk, str]) -> None:
    disk, root = place
    put(disk, f"{root}/old")
    disk.symlink("old", f"{root}/latest")
    disk.symlink("new", f"{root}/fresh")
    disk.rename(f"{root}/fresh", f"{root}/latest")

    assert disk.readlink(f"{root}/latest") == "new"
    stat = disk.stat(f"{root}/latest")
    assert stat is not None and stat.kind == "link"
    assert code(lambda: disk.read(f"{root}/latest")) == errno.ELOOP
    assert code(lambda: disk.readlink(f"{root}/old")) == errno.EINVAL


def test_a_hard_link_is_a_second_name(place: tuple[Disk, str]) -> None:
    disk, root = place
    put(disk, f"{root}/a", b"one")
    disk.link(f"{root}/a", f"{root}/b")
    disk.unlink(f"{root}/a")

    assert disk.read(f"{root}/b") == b"one"
    assert code(lambda: disk.link(f"{root}/b", f"{root}/b")) == errno.EEXIST
    assert code(lambda: disk.link(f"{root}/a", f"{root}/c")) == errno.ENOENT


def test_removals_refuse_the_wrong_kind(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.mkdir(f"{root}/d")
    put(disk, f"{root}/d/f")

    assert code(lambda: disk.rmdir(f"{root}/d")) == errno.ENOTEMPTY
    assert code(lambda: disk.rmdir(f"{root}/d/f")) == errno.ENOTDIR
    assert code(lambda: disk.unlink(f"{root}/d")) in (errno.EISDIR, errno.EPERM)
    assert code(lambda: disk.unlink(f"{root}/none")) == errno.ENOENT
    assert disk.stat(f"{root}/none") is None
    assert disk.stat(f"{root}/d/f/g") is None


def test_syncs_refuse_what_is_not_there(place: tuple[Disk, str]) -> None:
    disk, root = place
    put(disk, f"{root}/a")
    disk.sync_file(f"{root}/a")
    disk.sync_dir(root)

    assert code(lambda: disk.sync_file(f"{root}/b")) == errno.ENOENT
    assert code(lambda: disk.sync_dir(f"{root}/a")) == errno.ENOTDIR


NAMES = st.sampled_from(["a", "b", "a/a", "a/b", "b/a"])
OPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "mkdir", "rename", "link", "unlink", "rmdir", "symlink"]),
        NAMES,
        NAMES,
    ),
    max_size=14,
)


def play(disk: Disk, root: str, ops: list[tuple[str, str, str]]) -> list[Any]:
    """What each operation answers, and the tree afterwards."""
    return [*(code(partial(act, disk, root, *op)) for op in ops), tree(disk, root)]


def act(disk: Disk, root: str, name: str, a: str, b: str) -> None:
    """One operation on one or two paths."""
    one, two = f"{root}/{a}", f"{root}/{b}"
    if name == "put":
        put(disk, one)
    elif name == "symlink":
        disk.symlink("t", f"{one}.link")
    elif name in ("rename", "link"):
        getattr(disk, name)(one, two)
    else:
        getattr(disk, name)(one)


def tree(disk: Disk, path: str) -> Any:
    """Names and kinds below a directory."""
    stat = disk.stat(path)
    if stat is None or stat.kind != "dir":
        return stat and stat.kind
    return {name: tree(disk, f"{path}/{name}") for name in disk.listdir(path)}


@given(OPS)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_random_operations_answer_alike_on_both_disks(
    tmp_path_factory: pytest.TempPathFactory, ops: list[tuple[str, str, str]]
) -> None:
    """Links stand at the end of a path only: the engine never walks through one."""
    sim = SimDisk()
    sim.mkdir("d")

    assert play(RealDisk(), str(tmp_path_factory.mktemp("d")), ops) == play(sim, "d", ops)
