"""Which file system holds a directory, from mount tables as Linux writes them."""

from __future__ import annotations

import pytest

from jumar.engine.mounts import is_network, kind_of
from jumar.engine.real_disk import RealDisk

TABLE = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /proc rw shared:12 - proc proc rw
41 22 0:40 / /mnt/lustre\\040one rw - lustre 10.0.0.1@tcp:/fs rw
42 22 0:41 / /home rw,relatime shared:20 master:1 - nfs4 server:/home rw,vers=4.2
43 42 0:42 / /home/scratch rw - tmpfs tmpfs rw
44 22 0:43 / /home rw - beegfs beegfs_nodev rw
45 22 0:44 / /data rw - fuse.sshfs me@host: rw
not a line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/runs", "ext4"),
        ("/homes", "ext4"),
        ("/home/me/run", "beegfs"),
        ("/home/scratch/run", "tmpfs"),
        ("/mnt/lustre one/run", "lustre"),
        ("/data", "fuse.sshfs"),
    ],
)
def test_the_longest_mount_counts_and_the_last_of_two(path: str, kind: str) -> None:
    assert kind == kind_of(path, TABLE)


def test_an_empty_table_knows_nothing() -> None:
    assert kind_of("/x", "") == "unknown"


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        *((k, True) for k in ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs",
                              "smb3", "9p", "fuse.sshfs", "fuse")),
        *((k, False) for k in ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "sim",
                               "fuseblk", "unknown")),
    ],
)  # fmt: skip
def test_some_kinds_have_several_clients(kind: str, network: bool) -> None:
    assert network == is_network(kind)


def test_this_machine_knows_what_holds_a_directory(tmp_path: object) -> None:
    kind = RealDisk().fs_kind(str(tmp_path))
    assert kind and kind.replace(".", "").replace("_", "").isalnum()
