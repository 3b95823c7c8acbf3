"""What others know of a log: heads beside it, manifests, files from outside."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from jumar.engine import manifest
from jumar.engine.log import heads
from jumar.engine.log.audit import BESIDE, MANIFEST, OUTSIDE, Anchor
from jumar.reducers.checkpoints import committed
from jumar.reducers.errors import JumarError, ProtocolMisuse
from jumar.tools.views.story import Story

FILE_MAX: Final = 64 * 1024 * 1024


def beside(story: Story) -> tuple[list[Anchor], list[tuple[str, str]]]:
    """The heads in `.jumar/heads`, and (where, what) of those that say nothing."""
    found, silent, log = [], [], story.layout.log
    if story.disk.stat(f"{log}/heads") is None:
        return [], []  # a log of the first format
    for ordinal in heads.ordinals(story.disk, log):
        name = heads.path_of("", ordinal)[1:]
        told = heads.read(story.disk, log, ordinal)
        if told is None:
            silent.append((name, "the head is not whole: a crash while it was made"))
        else:
            found.append(_of(told, BESIDE, name))
    return found, silent


def _of(told: heads.Told, where: str, name: str) -> Anchor:
    return Anchor(
        where=where,
        name=name,
        size=told.size,
        root=told.root,
        log_id=told.log_id,
        signers=told.signers,
    )


def manifests(story: Story) -> list[Anchor]:
    """The head in each committed checkpoint that is there."""
    found = []
    for ckpt in committed(story.state):
        said = manifest.read(story.disk, story.folder(ckpt))
        if said is not None and said.ckpt_id == ckpt.ckpt_id:
            found.append(_witness(said.head, MANIFEST, ckpt.ckpt_id))
    return found


def _witness(head: manifest.Witness, where: str, name: str) -> Anchor:
    return Anchor(where, name, head.size, root=head.root, last_hash=head.last_hash)


def outside(files: Iterable[Path]) -> list[Anchor]:
    """
    Heads that somebody kept elsewhere: a head file, or the `jumar.json` of a checkpoint.

    Raises:
        ProtocolMisuse: a file that is neither.
    """
    found = []
    for file in files:
        with file.open("rb") as stream:
            data = stream.read(FILE_MAX)
        told = heads.read_text(data)
        if told is not None:
            found.append(_of(told, OUTSIDE, str(file)))
        else:
            found.append(_witness(_of_manifest(file, data), OUTSIDE, str(file)))
    return found


def _of_manifest(file: Path, data: bytes) -> manifest.Witness:
    try:
        return manifest.parse(data).head
    except (ValueError, KeyError, TypeError, JumarError) as error:
        raise ProtocolMisuse(
            f"{str(file)!r} is no head of a log",
            why=f"neither a head file (origin, size, root) nor a manifest: {error}",
            instead="name a copy of .jumar/heads/*.head, or of a checkpoint's jumar.json",
            value=str(file),
        ) from error
