"""
Native names: where a checkpoint lives, is staged, and goes on its way out.

    live/400                revision 0          live/400r1           a later revision
    live/.400r1.e3.staging  being written by epoch 3
    live/.400r0.trash       out of sight, being deleted
    live/latest             relative link for outsiders, never read
    .jumar/quarantine/...   superseded ones, whole (`on_rewind=quarantine`)

Everything that begins with a dot in a family's folder is ours; every other name that the
log does not know is foreign.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from jumar.reducers.state import Ckpt

LOG: Final = ".jumar"
MANIFEST: Final = "jumar.json"
POINTER: Final = "latest"
_NAME: Final = re.compile(
    r"(?P<place>(?P<pd>0|[1-9][0-9]*)(?:r(?P<pr>[1-9][0-9]*))?)"
    r"|(?P<staging>\.(?P<sd>[0-9]+)r(?P<sr>[0-9]+)\.e(?P<se>[0-9]+)\.staging)"
    r"|(?P<trash>\.(?P<td>[0-9]+)r(?P<tr>[0-9]+)\.trash)"
    r"|(?P<link>\.latest\.e(?P<le>[0-9]+)\.link)",
    re.ASCII,
)


@attrs.frozen
class Name:
    """
    What a name in a family's folder says.

    Attributes:
        kind: `place`, `staging`, `trash` or `link`.
        done: completed steps; -1 for a link.
        revision: 0, 1, ...; -1 for a link.
        epoch: the writer's epoch of a staging or link name; -1 for the others.
    """

    kind: str
    done: int = -1
    revision: int = -1
    epoch: int = -1


def parse(name: str) -> Name | None:
    """The meaning of a native name; None for any other name (ASCII digits only)."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    if found["place"]:
        return Name("place", int(found["pd"]), int(found["pr"] or 0))
    if found["staging"]:
        return Name("staging", int(found["sd"]), int(found["sr"]), int(found["se"]))
    if found["trash"]:
        return Name("trash", int(found["td"]), int(found["tr"]))
    return Name("link", epoch=int(found["le"]))


def place_name(done: int, revision: int) -> str:
    """`400`, or `400r1` for a later revision."""
    return f"{done}r{revision}" if revision else str(done)


@attrs.frozen
class Layout:
    """The paths of one run directory."""

    root: str

    @property
    def log(self) -> str:
        """The folder of the log."""
        return f"{self.root}/{LOG}"

    def family(self, family: str) -> str:
        """The folder of one family."""
        return f"{self.root}/{family}"

    def place(self, ckpt: Ckpt) -> str:
        """The final path of a checkpoint."""
        return f"{self.root}/{ckpt.family}/{place_name(ckpt.done, ckpt.revision)}"

    def staging(self, ckpt: Ckpt) -> str:
        """Where it is written; the epoch keeps two writers apart."""
        return (
            f"{self.root}/{ckpt.family}/.{ckpt.done}r{ckpt.revision}.e{ckpt.epoch}.staging"
        )

    def trash(self, ckpt: Ckpt) -> str:
        """Where it goes, out of sight, before it is deleted."""
        return f"{self.root}/{ckpt.family}/.{ckpt.done}r{ckpt.revision}.trash"

    def quarantine(self, ckpt: Ckpt) -> str:
        """Where a superseded one is put out of the way."""
        name = place_name(ckpt.done, ckpt.revision)
        return f"{self.log}/quarantine/{ckpt.family}/{name}"
