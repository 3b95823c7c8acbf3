"""The small acts of publication."""

from __future__ import annotations

import hashlib

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


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0b", "x" * 256])
def test_a_name_that_is_a_path_is_refused(name: str) -> None:
    with pytest.raises(ProtocolMisuse):
        safe_name(name)


def test_a_plain_name_is_itself() -> None:
    assert safe_name("state.pt") == "state.pt"


def test_made_directories_are_durable_with_all_their_parents() -> None:
    disk = SimDisk()
    make_dirs(disk, "a/b/c")
    disk.power_loss()

    assert disk.listdir("a/b") == ["c"]


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
