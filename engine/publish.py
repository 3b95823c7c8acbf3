"""
The effects of a boundary on the disk: stage, place, point, prune.

Each function says what is durable when it returns.  `at(point)` is called just before
each step that a crash test may want to stand at; it does nothing in production.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from jumar.engine import manifest
from jumar.engine.disk import Disk
from jumar.engine.layout import MANIFEST, POINTER, Layout
from jumar.engine.payload import PartFile, Payload, Plan
from jumar.engine.storage import HashingFile, make_dirs, remove_tree, safe_name, write_file
from jumar.reducers.errors import ProtocolMisuse
from jumar.reducers.events import CkptAccepted
from jumar.reducers.state import Ckpt
from jumar.reducers.values import Part

At = Callable[[str], None]
FOREIGN: Final = ".foreign"


@attrs.define
class Publisher:
    """Rank 0: the one owner of a run directory's names.  Any rank: owner of its parts."""

    disk: Disk
    layout: Layout
    rank: int
    at: At
    beat: Callable[[], None]
    _moved: list[tuple[str, str]] = attrs.field(factory=list)

    def take_moved(self) -> list[tuple[str, str]]:
        """Foreign entries moved aside since the last call: (path, new path)."""
        moved, self._moved = self._moved, []
        return moved

    def stage(self, ckpt: Ckpt, plan: Plan, payload: Payload) -> tuple[Part, ...]:
        """Write this rank's parts into staging; each is durable when this returns."""
        folder = self.layout.staging(ckpt)
        self._own_folder(folder)
        opened: dict[str, HashingFile] = {}

        def open_part(name: str) -> PartFile:
            safe_name(name)
            if name in opened or name == MANIFEST:
                raise ProtocolMisuse(
                    f"part {name!r} cannot be opened",
                    why="a part is opened once, and the manifest is not a part",
                    instead="give each part its own name",
                    value=name,
                )
            file = HashingFile(self.disk.create(f"{folder}/{name}"), beat=self.beat)
            opened[name] = file
            return file

        try:
            payload.stage(plan, open_part)
        except BaseException:
            for file in opened.values():
                with contextlib.suppress(OSError):  # the first error is the one to raise
                    file.close()
            raise
        return tuple(self._seal(name, file) for name, file in opened.items())

    def _own_folder(self, folder: str) -> None:
        # Another rank of this boundary may be first: the name holds our epoch.
        with contextlib.suppress(FileExistsError):
            try:
                self.disk.mkdir(folder)
            except FileNotFoundError:  # the family's first: one sync, not one a save
                make_dirs(self.disk, folder.rpartition("/")[0])
                self.disk.mkdir(folder)

    def _seal(self, name: str, file: HashingFile) -> Part:
        file.sync()
        file.close()
        return Part(name=name, rank=self.rank, size=file.size, sha256=file.sha256)

    def place(
        self,
        ckpt: Ckpt,
        accepted: CkptAccepted,
        parts: Sequence[Part],
        build: Callable[[], bytes],
    ) -> bytes:
        """
        Manifest, syncs, rename: the checkpoint is durable under its final name.

        Args:
            build: the manifest's bytes, made after the check of the parts.

        Returns:
            the manifest's bytes.

        Raises:
            ProtocolMisuse: the written set is not the declared one.
        """
        staging = self.layout.staging(ckpt)
        differs = manifest.undeclared(accepted.declared, parts)
        differs = differs or manifest.look(self.disk, staging, parts)
        if differs:
            raise ProtocolMisuse(
                f"{accepted.ckpt_id} is not what was declared",
                why=differs,
                instead="declare each part with a size it really has",
                value=[part.name for part in parts],
            )
        written = build()
        write_file(self.disk, f"{staging}/{MANIFEST}", written)
        self.disk.sync_dir(staging)
        self.at("rename")
        self.put(ckpt, staging)
        return written

    def put(self, ckpt: Ckpt, source: str) -> None:
        """
        Rename into place and sync the parent; a foreign entry there is moved aside.

        Raises:
            ProtocolMisuse: this very checkpoint stands there: whoever took over while
                this process slept has finished it, and it must not be moved.
        """
        target = self.layout.place(ckpt)
        if self.disk.stat(target) is not None:
            said = manifest.read(self.disk, target)
            if said is not None and said.ckpt_id == ckpt.ckpt_id:
                raise ProtocolMisuse(
                    f"{ckpt.ckpt_id} is in its place already",
                    why=f"its manifest is of writer epoch {said.epoch}",
                    instead="restart the job: the next open tells what became of it",
                    value=target,
                )
            self._move_aside(target)
        self.disk.rename(source, target)
        self.disk.sync_dir(self.layout.family(ckpt.family))

    def _move_aside(self, target: str) -> None:
        aside, n = target + FOREIGN, 1
        while self.disk.stat(aside) is not None:
            n += 1
            aside = f"{target}{FOREIGN}{n}"
        self.disk.rename(target, aside)
        self._moved.append((target, aside))

    def point(self, ckpt: Ckpt, epoch: int) -> bool:
        """Let `<family>/latest` name a checkpoint, durably; False if it does already."""
        folder = self.layout.family(ckpt.family)
        target = self.layout.place(ckpt).rpartition("/")[2]
        link, fresh = f"{folder}/{POINTER}", f"{folder}/.latest.e{epoch}.link"
        stat = self.disk.stat(link)
        if stat is not None and stat.kind == "link" and self.disk.readlink(link) == target:
            return False
        if stat is not None and stat.kind != "link":
            self._move_aside(link)  # a foreign file of that name
        if self.disk.stat(fresh) is not None:
            self.disk.unlink(fresh)
        self.disk.symlink(target, fresh)
        self.disk.rename(fresh, link)
        self.disk.sync_dir(folder)
        return True

    def unpoint(self, family: str) -> None:
        """Take the pointer away: the live branch has no checkpoint of this family."""
        link = f"{self.layout.family(family)}/{POINTER}"
        stat = self.disk.stat(link)
        if stat is not None and stat.kind == "link":
            self.disk.unlink(link)
            self.disk.sync_dir(self.layout.family(family))

    def hide(self, ckpt: Ckpt) -> bool:
        """
        One rename out of sight, durable; False when nothing is there any more.

        A rename that a killed process made is synced as well: what is deleted next must
        not come back in its place, half of it gone.
        """
        source, trash = self.where(ckpt), self.layout.trash(ckpt)
        if self.disk.stat(source) is not None:
            self.disk.rename(source, trash)
        elif self.disk.stat(trash) is None:
            return False
        for parent in {source.rpartition("/")[0], trash.rpartition("/")[0]}:
            self.disk.sync_dir(parent)
        return True

    def delete(self, ckpt: Ckpt) -> None:
        """Delete what `hide` put out of sight; already gone is success."""
        remove_tree(self.disk, self.layout.trash(ckpt))

    def discard(self, ckpt: Ckpt) -> None:
        """Remove what an aborted checkpoint left: its staging, or its place."""
        remove_tree(self.disk, self.layout.staging(ckpt))
        said = manifest.read(self.disk, self.layout.place(ckpt))
        if said is not None and (said.ckpt_id, said.epoch) == (ckpt.ckpt_id, ckpt.epoch):
            self.hide(ckpt)  # the rename had happened before the error
            self.delete(ckpt)

    def where(self, ckpt: Ckpt) -> str:
        """Where a committed checkpoint lies: its place, else the quarantine."""
        place = self.layout.place(ckpt)
        if self.disk.stat(place) is None:
            aside = self.layout.quarantine(ckpt)
            if self.disk.stat(aside) is not None:
                return aside
        return place

    def quarantine(self, ckpt: Ckpt) -> str | None:
        """Put a superseded one out of the way, whole; None if it is there already."""
        place, aside = self.layout.place(ckpt), self.layout.quarantine(ckpt)
        if self.disk.stat(place) is None or self.disk.stat(aside) is not None:
            return None
        make_dirs(self.disk, aside.rpartition("/")[0])
        self.disk.rename(place, aside)
        self.disk.sync_dir(aside.rpartition("/")[0])
        self.disk.sync_dir(self.layout.family(ckpt.family))
        return aside
