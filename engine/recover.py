"""
Opening a run rolls forward: what the last attempt left is finished or removed.

It repeats the syncs of phase 4 on what it sees before it logs anything that relies on
it, and it looks before it finishes.  Every step may be interrupted and is taken again by
the next open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from jumar.engine import manifest
from jumar.engine.boundary import aborted
from jumar.engine.layout import LOG, MANIFEST, POINTER, parse
from jumar.engine.publish import Publisher
from jumar.engine.storage import digest_file, remove_tree
from jumar.reducers import events as ev
from jumar.reducers.checkpoints import committed, in_flight, latest
from jumar.reducers.state import Ckpt, State
from jumar.reducers.values import Part, parse_ckpt_id

Emit = Callable[[ev.Event], None]
"""Log an event (durably if it is a barrier) and fold it."""


@attrs.define
class Recovery:
    """
    One open's roll forward over a folded state.

    Attributes:
        look: raises when somebody took the run over; called before each change of a name,
            since looking at digests may take long enough for that.
    """

    state: State
    publisher: Publisher
    epoch: int
    emit: Emit
    look: Callable[[], None]

    def run(self) -> None:
        """Settle, finish prunes, sweep, look at every part, rewrite pointers."""
        for ckpt in in_flight(self.state):
            self._settle(ckpt)
        for ckpt in [c for c in self.state.ckpts.values() if c.status == "pruning"]:
            self._finish_prune(ckpt)
        for family in self._families():
            self._sweep(family)
        for ckpt in committed(self.state):
            self._look(ckpt)
        self.rewrite_pointers()

    # --- an accepted, unfinished checkpoint ---

    def _settle(self, ckpt: Ckpt) -> None:
        """Place and commit it when its manifest is durable and its digests check out."""
        found = self._complete(ckpt)
        if found is None:
            self.emit(
                aborted(_as_accepted(ckpt), "open", (), "found unfinished at an open")
            )
            self.look()
            self.publisher.discard(ckpt)
            return
        folder, parts = found
        self.look()
        self._sync_again(folder, parts)
        if folder != self.publisher.layout.place(ckpt):
            self.publisher.put(ckpt, folder)
        else:
            self.publisher.disk.sync_dir(self.publisher.layout.family(ckpt.family))
        _, sha256 = digest_file(self.publisher.disk, f"{self._place(ckpt)}/{MANIFEST}")
        self.emit(
            ev.CkptCommitted(
                ckpt_id=ckpt.ckpt_id, manifest_sha256=sha256, parts=parts, recovered=True
            )
        )

    def _place(self, ckpt: Ckpt) -> str:
        return self.publisher.layout.place(ckpt)

    def _complete(self, ckpt: Ckpt) -> tuple[str, tuple[Part, ...]] | None:
        """(folder, parts) in staging or already in place; None when not wholly there."""
        for folder in (self.publisher.layout.staging(ckpt), self._place(ckpt)):
            said = manifest.read(self.publisher.disk, folder)
            if said is None or not self._is_of(said, ckpt):
                continue
            differs = manifest.undeclared(ckpt.declared, said.parts) or manifest.verify(
                self.publisher.disk, folder, said.parts, self.publisher.beat
            )
            if differs is None:
                return folder, said.parts
        return None

    def _is_of(self, said: manifest.Manifest, ckpt: Ckpt) -> bool:
        mine = (self.state.run_id, ckpt.ckpt_id, ckpt.epoch)
        return (said.run_id, said.ckpt_id, said.epoch) == mine

    def _sync_again(self, folder: str, parts: Iterable[Part]) -> None:
        disk = self.publisher.disk
        for name in [*(part.name for part in parts), MANIFEST]:
            disk.sync_file(f"{folder}/{name}")
        disk.sync_dir(folder)

    # --- a started prune ---

    def _finish_prune(self, ckpt: Ckpt) -> None:
        """Finish it, unless what it was pruned for is broken and the victim is whole."""
        if self._broken(ckpt.because) and self._call_back(ckpt):
            return
        self.look()
        gone = not self.publisher.hide(ckpt)
        self.publisher.delete(ckpt)
        self.emit(ev.PruneDone(ckpt_id=ckpt.ckpt_id, already_gone=gone))

    def _broken(self, because: str) -> bool:
        ckpt = self.state.ckpts.get(because)
        if ckpt is None or not ckpt.on_disk:
            return False  # it left by a rule of its own: others were committed since
        where = self.publisher.where(ckpt)
        return (
            manifest.damage(self.publisher.disk, where, ckpt, self.publisher.beat)
            is not None
        )

    def _call_back(self, ckpt: Ckpt) -> bool:
        publisher, trash = self.publisher, self.publisher.layout.trash(ckpt)
        for folder in (publisher.where(ckpt), trash):
            if manifest.damage(publisher.disk, folder, ckpt, publisher.beat) is None:
                self.look()
                if folder == trash:
                    publisher.put(ckpt, trash)
                error = f"{ckpt.because}, for which it was pruned, does not verify"
                self.emit(ev.PruneFailed(ckpt_id=ckpt.ckpt_id, whole=True, error=error))
                return True
        return False

    # --- names that nobody needs any more ---

    def _families(self) -> list[str]:
        disk, root = self.publisher.disk, self.publisher.layout.root
        names = [name for name in disk.listdir(root) if name != LOG]
        known = {ckpt.family for ckpt in self.state.ckpts.values()} | {
            *self.state.revisions
        }
        return [name for name in names if name in known]

    def _sweep(self, family: str) -> None:
        """Staging, trash and links of dead writers, and what an abort left in place."""
        disk, folder = self.publisher.disk, self.publisher.layout.family(family)
        for entry in disk.listdir(folder):
            name, path = parse(entry), f"{folder}/{entry}"
            if name is None or self._needed(family, name.kind, name.done, name.revision):
                continue
            if name.kind == "place" and not self._is_ours(path):
                continue  # foreign, whatever it is called, or of whoever came after us
            self.look()
            if name.kind == "link":
                disk.unlink(path)
            elif name.kind == "place":
                trash = f"{folder}/.{name.done}r{name.revision}.trash"
                disk.rename(path, trash)  # so that no half of it ever looks foreign
                disk.sync_dir(folder)
                remove_tree(disk, trash)
            elif name.kind == "trash" or name.epoch < self.epoch:
                remove_tree(disk, path)

    def _needed(self, family: str, kind: str, done: int, revision: int) -> bool:
        ckpt = self.state.ckpts.get(f"{family}@{done}r{revision}")
        return kind == "place" and ckpt is not None

    def _is_ours(self, path: str) -> bool:
        said = manifest.read(self.publisher.disk, path)
        if said is None or said.run_id != self.state.run_id:
            return False
        return said.epoch < self.epoch

    # --- what is there ---

    def _look(self, ckpt: Ckpt) -> None:
        """Presence and size of every part; digests only to trust a damaged one again."""
        publisher = self.publisher
        where = publisher.where(ckpt)
        beat = publisher.beat if ckpt.observed else None
        seen = manifest.damage(publisher.disk, where, ckpt, beat)
        finding, detail = seen or ("whole", "all parts verify again")
        if (ckpt.observed or "whole") != finding:
            self.emit(observed(ckpt, finding, detail))

    def rewrite_pointers(self) -> None:
        """Let each family's pointer name what the log says is latest."""
        for family in sorted({ckpt.family for ckpt in self.state.ckpts.values()}):
            newest = latest(self.state, family)
            self.look()
            if newest is None:
                self.publisher.unpoint(family)
            elif self.publisher.point(newest, self.epoch):
                self.emit(pointed(newest))


def observed(ckpt: Ckpt, finding: str, detail: str) -> ev.CkptObserved:
    """What was seen of a committed checkpoint."""
    return ev.CkptObserved(
        ckpt_id=ckpt.ckpt_id, name=ckpt.ckpt_id, finding=finding, detail=detail[:4096]
    )


def pointed(ckpt: Ckpt) -> ev.PointerMoved:
    """The pointer of a family was moved."""
    return ev.PointerMoved(family=ckpt.family, pointer=POINTER, to=ckpt.ckpt_id)


def _as_accepted(ckpt: Ckpt) -> ev.CkptAccepted:
    family, done, revision = parse_ckpt_id(ckpt.ckpt_id)
    return ev.CkptAccepted(
        ckpt_id=ckpt.ckpt_id,
        family=family,
        done=done,
        revision=revision,
        attempt=ckpt.attempt,
        epoch=ckpt.epoch,
        parent=ckpt.parent,
        verified=ckpt.verified,
        clock_ns=ckpt.clock_ns,
        reasons=(),
        declared=ckpt.declared,
        rankings=(),
    )
