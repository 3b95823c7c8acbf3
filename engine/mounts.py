"""
Which kind of file system holds a directory, from Linux's mount table (proc(5)).

On a network file system a client may see old names, old sizes and zeros, and SQLite's
locks and memory maps are not safe; nothing of the log depends on either.
"""

from __future__ import annotations

from typing import Final

NETWORK: Final = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "9p", "afs",
                  "glusterfs", "orangefs", "pvfs", "wekafs", "fuse.")  # fmt: skip
"""How the types of file systems with several clients begin; `fuse.*` may be any."""


def is_network(kind: str) -> bool:
    """Whether other hosts may write there, so that this one may see old names."""
    return kind == "fuse" or kind.startswith(NETWORK)


def kind_of(path: str, mountinfo: str) -> str:
    """
    The file-system type of an absolute path without links.

    Args:
        mountinfo: the text of `/proc/self/mountinfo`; of two mounts on one directory the
            later line covers the earlier one.
    """
    best, kind = -1, "unknown"
    for line in mountinfo.splitlines():
        before, found, after = line.partition(" - ")
        fields = before.split(" ")
        if not found or len(fields) < 5:
            continue
        mount = _plain(fields[4])
        inside = mount == "/" or path == mount or path.startswith(mount + "/")
        if inside and len(mount) >= best:
            best, kind = len(mount), after.split(" ")[0]
    return kind


def _plain(field: str) -> str:
    """Undo the octal escapes of blanks and backslashes."""
    for sign in " \t\n\\":
        field = field.replace(f"\\{ord(sign):03o}", sign)
    return field
