"""
`jumar.json`: the manifest inside every checkpoint, synced last.

It names each part with size and digest, the rankings that include this checkpoint, and
the durable head of the log at its commit, so that a copy of a checkpoint witnesses the
log that it came from.  JSON with sorted keys; non-finite metrics are states, not numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from jumar.engine.disk import Disk
from jumar.engine.layout import MANIFEST
from jumar.engine.log.record import Head
from jumar.engine.storage import digest_file
from jumar.reducers.errors import SchemaError
from jumar.reducers.events import CkptAccepted
from jumar.reducers.state import Ckpt
from jumar.reducers.values import Declared, Part

SCHEMA: Final = "jumar.manifest/2"
LIFTS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "jumar.manifest/1": lambda plain: {
        **plain, "schema": SCHEMA, "head": {**plain["head"], "root": None},
    },
}  # fmt: skip
"""From a version to the next one: version 2 added the Merkle root to the head."""
SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes; a larger file under this name is not a manifest of ours."""


@attrs.frozen
class Witness:
    """
    The head of the log when a checkpoint was committed.

    Attributes:
        root: Merkle root, hex; None in a manifest of version 1.
    """

    size: int = attrs.field(validator=attrs.validators.instance_of(int))
    last_hash: str = attrs.field(validator=attrs.validators.instance_of(str))
    root: str | None = attrs.field(
        validator=attrs.validators.optional(attrs.validators.instance_of(str))
    )


@attrs.frozen
class Manifest:
    """What a manifest says that the engine acts on."""

    run_id: str
    ckpt_id: str
    epoch: int
    parts: tuple[Part, ...]
    head: Witness


def build(run_id: str, accepted: CkptAccepted, parts: Sequence[Part], head: Head) -> bytes:
    """The manifest's bytes; `head` is what is durable of the log."""
    plain: dict[str, Any] = {
        "schema": SCHEMA,
        "run_id": run_id,
        "ckpt_id": accepted.ckpt_id,
        "family": accepted.family,
        "done": accepted.done,
        "revision": accepted.revision,
        "attempt": accepted.attempt,
        "epoch": accepted.epoch,
        "parent": accepted.parent,
        "verified": accepted.verified,
        "reasons": list(accepted.reasons),
        "rankings": [ranking.to_plain() for ranking in accepted.rankings],
        "parts": [part.to_plain() for part in parts],
        "head": head.plain(),
    }
    return json.dumps(plain, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def read(disk: Disk, folder: str) -> Manifest | None:
    """The manifest in a folder; None when there is none that this version understands."""
    path = f"{folder}/{MANIFEST}"
    stat = disk.stat(path)
    if stat is None or stat.kind != "file" or stat.size > SIZE_MAX:
        return None
    try:
        return parse(disk.read(path))
    except (ValueError, KeyError, TypeError, SchemaError):
        return None


def parse(data: bytes) -> Manifest:
    """
    A manifest's bytes, of this version or an older one.

    Raises:
        ValueError, KeyError, TypeError, SchemaError: they are none.
    """
    plain = json.loads(data)
    while plain["schema"] != SCHEMA:
        plain = LIFTS[plain["schema"]](plain)
    parts = tuple(Part.from_plain(one) for one in plain["parts"])
    head = Witness(**plain["head"])
    return Manifest(plain["run_id"], plain["ckpt_id"], plain["epoch"], parts, head)


def undeclared(declared: Sequence[Declared], parts: Sequence[Part]) -> str | None:
    """How the written set differs from the declared one; None when it does not."""
    wished = {(one.rank, one.name): one.size_min for one in declared}
    written = {(part.rank, part.name): part.size for part in parts}
    if not declared:
        return "nothing was declared: an empty checkpoint is an error"
    if len(written) != len(parts) or len({part.name for part in parts}) != len(parts):
        return "two parts have one name"
    if missing := sorted(wished.keys() - written.keys()):
        return f"declared and not written: {missing}"
    if surplus := sorted(written.keys() - wished.keys()):
        return f"written and not declared: {surplus}"
    small = [key for key, size in written.items() if size < wished[key]]
    return f"smaller than declared: {sorted(small)}" if small else None


def look(disk: Disk, folder: str, parts: Sequence[Part]) -> str | None:
    """What presence and size say against these parts; None when nothing."""
    for part in parts:
        stat = disk.stat(f"{folder}/{part.name}")
        if stat is None:
            return f"{part.name} is missing"
        if stat.kind != "file":
            return f"{part.name} is a {stat.kind}, not a file"
        if stat.size != part.size:
            return f"{part.name} has {stat.size} bytes, committed were {part.size}"
    return None


def verify(
    disk: Disk, folder: str, parts: Sequence[Part], beat: Callable[[], None]
) -> str | None:
    """What the digests say against these parts; None when they are whole."""
    seen = look(disk, folder, parts)
    if seen is not None:
        return seen
    for part in parts:
        try:
            _, sha256 = digest_file(disk, f"{folder}/{part.name}", beat=beat)
        except OSError as error:
            return f"{part.name} cannot be read: {error}"
        if sha256 != part.sha256:
            return f"{part.name} has sha256 {sha256[:12]}, committed was {part.sha256[:12]}"
    return None


def damage(
    disk: Disk, folder: str, ckpt: Ckpt, beat: Callable[[], None] | None
) -> tuple[str, str] | None:
    """
    (`missing` or `damaged`, detail) of a committed checkpoint, or None when whole.

    Digests are compared when `beat` is given (it is called as the reading goes on);
    otherwise only presence and size.
    """
    if disk.stat(folder) is None:
        return "missing", "its folder is gone"
    if disk.stat(f"{folder}/{MANIFEST}") is None:
        return "damaged", f"{MANIFEST} is missing"
    seen = (
        look(disk, folder, ckpt.parts)
        if beat is None
        else verify(disk, folder, (*ckpt.parts, _own(disk, folder, ckpt)), beat)
    )
    return None if seen is None else ("damaged", seen)


def _own(disk: Disk, folder: str, ckpt: Ckpt) -> Part:
    """The manifest as a part; its size is not committed, its digest is."""
    stat = disk.stat(f"{folder}/{MANIFEST}")
    size = max(1, stat.size if stat else 1)
    return Part(name=MANIFEST, rank=0, size=size, sha256=ckpt.manifest_sha256)
