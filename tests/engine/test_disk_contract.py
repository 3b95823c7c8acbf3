"""
Both disks behave alike, as far as one process can see.

Random calls on both are compared in `tests/tools/harness/test_sim_disk.py`.
"""

from __future__ import annotations

import array
import errno
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_a_rename_into_itself_or_onto_what_holds_it_is_refused(
    place: tuple[Disk, str],
) -> None:
    disk, root = place
    disk.mkdir(f"{root}/a")
    disk.mkdir(f"{root}/a/b")
    put(disk, f"{root}/a/f")

    def rename(src: str, dst: str) -> int | None:
        return code(lambda: disk.rename(f"{root}/{src}", f"{root}/{dst}"))

    assert rename("a", "a/b") == rename("a", "a/new") == errno.EINVAL
    assert rename("a/f", "a") == rename("a/b", "a") == errno.ENOTEMPTY
    assert rename("a/f", "a/b") == errno.EISDIR
    assert rename("a/b", "a/f") == errno.ENOTDIR
    assert rename("none", "a/f/x") == errno.ENOTDIR
    assert rename("a", "a") is None
    assert disk.listdir(f"{root}/a") == ["b", "f"]


def test_an_open_file_outlives_its_name_and_a_closed_one_is_written_no_more(
    place: tuple[Disk, str],
) -> None:
    disk, root = place
    file = disk.create(f"{root}/a")
    disk.link(f"{root}/a", f"{root}/b")
    disk.unlink(f"{root}/a")
    assert file.write(b"one") == 3
    disk.unlink(f"{root}/b")
    assert file.write(memoryview(b"two")) == 3
    file.sync()
    file.close()
    file.close()

    assert disk.listdir(root) == []
    assert code(lambda: file.write(b"x")) == errno.EBADF
    assert code(file.sync) == errno.EBADF


def test_wide_items_are_written_as_their_bytes(place: tuple[Disk, str]) -> None:
    disk, root = place
    words = array.array("I", [1, 2, 3])
    file = disk.create(f"{root}/a")

    assert file.write(memoryview(words)) == words.itemsize * 3
    assert disk.read(f"{root}/a") == words.tobytes()
    file.close()


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


def test_a_write_that_the_kernel_cuts_short_goes_on_or_is_an_error(tmp_path: Path) -> None:
    """A limit on file size cuts the first write; the rest of it then fails."""
    file = RealDisk().create(str(tmp_path / "a"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))
    try:
        refused = code(lambda: file.write(b"0123456789"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.close()

    assert refused == errno.EFBIG
    assert (tmp_path / "a").read_bytes() == b"0123"


def test_a_file_knows_how_many_names_it_has(place: tuple[Disk, str]) -> None:
    disk, root = place
    put(disk, f"{root}/a")
    disk.link(f"{root}/a", f"{root}/b")

    for name in ("a", "b"):
        stat = disk.stat(f"{root}/{name}")
        assert stat is not None and stat.links == 2
    disk.unlink(f"{root}/a")
    stat = disk.stat(f"{root}/b")
    assert stat is not None and stat.links == 1


def test_a_sealed_file_can_be_read_and_removed(place: tuple[Disk, str]) -> None:
    disk, root = place
    put(disk, f"{root}/a", b"sealed")
    disk.make_readonly(f"{root}/a")

    assert disk.read(f"{root}/a") == b"sealed"
    assert code(lambda: disk.make_readonly(f"{root}/none")) == errno.ENOENT
    disk.unlink(f"{root}/a")
    assert disk.stat(f"{root}/a") is None


def test_a_disk_says_what_kind_it_is(place: tuple[Disk, str]) -> None:
    disk, root = place
    assert disk.fs_kind(root)
