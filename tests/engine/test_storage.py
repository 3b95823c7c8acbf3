"""The small acts of publication."""

from __future__ import annotations

import errno
import hashlib
import random

import pytest

from jumar.engine.storage import (
    CHUNK,
    HashingFile,
    digest_file,
    make_dirs,
    remove_tree,
    safe_name,
    write_file,
)
from jumar.reducers.errors import ProtocolMisuse
from jumar.tools.harness.disk import SimDisk


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0b", "x" * 256, "é" * 128])
def test_a_name_that_is_a_path_or_too_long_is_refused(name: str) -> None:
    with pytest.raises(ProtocolMisuse) as caught:
        safe_name(name)
    assert caught.value.value == name


@pytest.mark.parametrize("name", ["state.pt", "..a", "x" * 255, "é" * 127])
def test_a_plain_name_is_itself(name: str) -> None:
    assert safe_name(name) == name


def test_a_written_file_keeps_its_bytes_and_waits_for_its_name() -> None:
    disk = SimDisk()
    write_file(disk, "a", b"one")
    disk.power_loss()
    assert disk.stat("a") is None

    write_file(disk, "a", b"one")
    disk.sync_dir(".")
    disk.power_loss()
    assert disk.read("a") == b"one"


@pytest.mark.parametrize("at", ["write", "sync"])
def test_a_file_that_cannot_be_written_is_closed_and_the_error_is_raised(at: str) -> None:
    disk, told = SimDisk(), []

    def failing(name: str, path: str) -> None:
        told.append(name)
        if name == at:
            raise OSError(errno.ENOSPC, "planned", path)

    disk.before = failing
    with pytest.raises(OSError, match="planned"):
        write_file(disk, "a", b"one")
    assert told[-1] == "close"


def test_made_directories_are_durable_with_all_their_parents() -> None:
    disk = SimDisk()
    make_dirs(disk, "a/b/c")
    disk.power_loss()

    assert disk.listdir("a/b") == ["c"]


def test_a_directory_that_another_rank_made_meanwhile_is_durable_too() -> None:
    disk = SimDisk()

    def other_rank(name: str, path: str) -> None:
        if (name, path) == ("mkdir", "a"):
            disk.before = None
            disk.mkdir("a")

    disk.before = other_rank
    make_dirs(disk, "a/b")
    disk.power_loss()

    assert disk.before is None
    assert disk.listdir("a") == ["b"]


def test_a_hashing_file_counts_and_digests_what_it_wrote() -> None:
    disk, beats = SimDisk(), []
    data = bytes(range(256)) * (CHUNK // 100)
    file = HashingFile(disk.create("f"), beat=lambda: beats.append(1))
    assert len(data) == file.write(memoryview(data))
    file.write(b"end")
    file.sync()
    file.close()

    whole = data + b"end"
    assert (len(whole), hashlib.sha256(whole).hexdigest()) == (file.size, file.sha256)
    assert (file.size, file.sha256) == digest_file(disk, "f")
    assert len(beats) > 2


def test_a_long_part_is_synced_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.engine.storage.SYNC_EVERY", 10)
    disk = SimDisk()
    file = HashingFile(disk.create("f"))
    for data in (b"1234", b"12345", b"1", b"123456789", b"1"):
        file.write(data)

    assert disk.file_syncs == 2
    assert file.size == 20


def test_an_error_of_the_disk_comes_through_and_a_part_is_not_counted() -> None:
    disk = SimDisk()
    file = HashingFile(disk.create("f"))
    file.write(b"one")

    def full(name: str, path: str) -> None:
        raise OSError(errno.ENOSPC, "planned", path)

    disk.before = full
    with pytest.raises(OSError, match="planned"):
        file.write(b"two")
    assert (file.size, file.sha256) == (3, hashlib.sha256(b"one").hexdigest())


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1])
def test_a_file_is_digested_in_chunks(size: int) -> None:
    disk, beats = SimDisk(), []
    data = random.Random(size).randbytes(size)
    write_file(disk, "f", data)

    found = digest_file(disk, "f", beat=lambda: beats.append(1))
    assert found == (size, hashlib.sha256(data).hexdigest())
    assert len(beats) == -(-size // CHUNK)


def test_a_tree_that_somebody_else_removes_at_the_same_time_is_gone() -> None:
    disk = SimDisk()
    make_dirs(disk, "t")
    for name in ("a", "b"):
        write_file(disk, f"t/{name}", b"1")

    def other(name: str, path: str) -> None:
        if (name, path) == ("unlink", "t/a"):
            disk.before = None
            disk.remove_tree("t")

    disk.before = other
    remove_tree(disk, "t")

    assert disk.before is None
    assert disk.stat("t") is None


def test_a_tree_that_cannot_be_removed_says_so() -> None:
    disk = SimDisk()
    make_dirs(disk, "t")
    write_file(disk, "t/a", b"1")

    def failing(name: str, path: str) -> None:
        if name == "unlink":
            raise OSError(errno.EIO, "planned", path)

    disk.before = failing
    with pytest.raises(OSError, match="planned"):
        remove_tree(disk, "t")


def test_a_tree_is_removed_without_following_links_and_twice_is_fine() -> None:
    disk = SimDisk()
    make_dirs(disk, "run/t/sub")
    make_dirs(disk, "elsewhere")
    write_file(disk, "elsewhere/precious", b"1")
    write_file(disk, "run/t/sub/f", b"2")
    disk.symlink("../../elsewhere", "run/t/out")
    remove_tree(disk, "run/t")
    remove_tree(disk, "run/t")

    assert disk.listdir("run") == []
    assert disk.read("elsewhere/precious") == b"1"
