"""Where an index lies: not beside a log on a network, not in a folder of somebody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jumar.tools.index.place import place_for

LOG_ID = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk"]
)
def test_on_a_local_file_system_it_lies_beside_the_log(kind: str) -> None:
    assert place_for("run/.jumar", kind, LOG_ID) == Path("run/.jumar/index.sqlite")


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "9p"),
        *("fuse.sshfs", "fuse.s3fs", ""),
    ],
)
def test_on_a_network_or_who_knows_where_it_lies_in_private_scratch(
    kind: str, scratch: Path
) -> None:
    folder = scratch / f"jumar-{os.getuid()}"

    assert place_for("run/.jumar", kind, LOG_ID) == folder / f"{LOG_ID}.sqlite"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert place_for("run/.jumar", kind, LOG_ID) is not None, "the folder may be there"


def test_scratch_that_others_can_write_to_is_refused(scratch: Path) -> None:
    folder = scratch / f"jumar-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)

    assert place_for("run/.jumar", "nfs", LOG_ID) is None


def test_scratch_that_belongs_to_somebody_else_is_refused(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: uid)
    (scratch / f"jumar-{uid}").mkdir(mode=0o700)

    assert place_for("run/.jumar", "nfs", LOG_ID) is None


def test_a_link_or_a_file_in_the_place_of_scratch_is_refused(
    scratch: Path, tmp_path: Path
) -> None:
    folder = scratch / f"jumar-{os.getuid()}"
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert place_for("run/.jumar", "nfs", LOG_ID) is None

    folder.unlink()
    folder.touch(mode=0o600)
    assert place_for("run/.jumar", "nfs", LOG_ID) is None


def test_where_there_is_no_scratch_it_lies_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))

    assert place_for("run/.jumar", "nfs", LOG_ID) is None


@pytest.mark.parametrize(
    "log_id", ["../../etc/x", "", LOG_ID.upper(), f"{LOG_ID}\n", "a/b"]
)
def test_a_log_cannot_name_a_file_outside_of_scratch(log_id: str) -> None:
    assert place_for("run/.jumar", "nfs", log_id) is None
