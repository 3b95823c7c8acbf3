"""Somebody else touches the directory: the `disk` operations of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from jumar.engine.layout import MANIFEST, parse
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.shapes import Op, refuse


def touch(disk: SimDisk, folder: str, op: Op) -> None:
    """Do what one `disk` operation says to the family's folder, durably at once."""
    key, value = next(iter(op.items()))
    if key == "mtimes":
        disk.set_mtimes(value)
    elif key == "foreign":
        _foreign(disk, folder, value)
    else:
        _TOUCH[key](disk, _newest(disk, folder, value))


def _foreign(disk: SimDisk, folder: str, name: str) -> None:
    path = f"{folder}/{name}"
    if disk.stat(path) is not None:
        refuse(f"foreign {name!r} was refused", name, "the name is taken")
    disk.foreign_tree(path, {"file": b"somebody else's\n"})


def _newest(disk: SimDisk, folder: str, done: int) -> str:
    """The newest revision of a step that lies beside the live checkpoints."""
    entries = disk.listdir(folder) if disk.stat(folder) else []
    names = {entry: parse(entry) for entry in entries}
    found = [
        (name.revision, entry)
        for entry, name in names.items()
        if name is not None
        and name.kind == "place"
        and name.done == done
        and disk.stat(f"{folder}/{entry}/{MANIFEST}") is not None  # not a foreign one
    ]
    if not found:
        refuse(f"there is no checkpoint {done} on the disk", done)
    return f"{folder}/{max(found)[1]}"


def _part(disk: SimDisk, folder: str) -> str:
    return f"{folder}/{min(n for n in disk.listdir(folder) if n.startswith('part'))}"


_TOUCH: Final[Mapping[str, Callable[[SimDisk, str], None]]] = {
    "remove": lambda disk, folder: disk.remove_tree(folder),
    "corrupt": lambda disk, folder: disk.flip_byte(_part(disk, folder)),
    "truncate": lambda disk, folder: disk.truncate(_part(disk, folder)),
}
