"""
Which checkpoint an attempt begins from: a decision like any other, with its reasons.

Rank 0 proposes candidates, newest first; every rank says whether it can read the one
proposed, or all walk back together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

import attrs

from jumar.engine import manifest
from jumar.engine.errors import RestoreError
from jumar.engine.publish import Publisher
from jumar.reducers.checkpoints import RESTARTABLE, branch, committed
from jumar.reducers.lineage import on_branch, reach
from jumar.reducers.state import Ckpt, State
from jumar.reducers.values import Candidate

Restart = Literal["auto", "fresh", "new"] | int
MODES: Final = ("auto", "fresh", "new")


def mode_of(restart: Restart) -> str:
    """`auto`, `fresh`, `new`, or `at` for a step; RestoreError for anything else."""
    if restart in MODES:
        return str(restart)
    if type(restart) is int and restart >= 0:
        return "at"
    raise RestoreError(
        "restart was refused",
        why="it is 'auto', 'fresh', 'new', or the completed steps of a checkpoint",
        instead="restart='auto' begins from the newest checkpoint that verifies",
        value=restart,
    )


def wanted(state: State, done: int) -> Ckpt:
    """
    The checkpoint that `restart=done` names.

    The newest revision on the live branch, else the newest superseded one.

    Raises:
        RestoreError: none was committed at that step, or it is pruned or damaged.
    """
    reached = reach(state)
    found = [c for c in committed(state) if c.done == done and c.family in RESTARTABLE]
    found.sort(key=lambda c: (on_branch(c, reached), c.index or 0))
    if not found:
        raise RestoreError(
            f"there is no checkpoint of step {done} to restart from",
            why="none was committed at that step, or it was pruned",
            instead=f"`jumar why RUN {done}` tells where it went; `jumar list RUN` what is",
            value=done,
        )
    if found[-1].observed:
        raise RestoreError(
            f"{found[-1].ckpt_id} cannot be restarted from",
            why=f"it is {found[-1].observed} on the disk",
            instead="restart='auto' walks back to the newest one that verifies",
            value=done,
        )
    return found[-1]


@attrs.define
class Selection:
    """
    The search for a restart source on rank 0.

    Attributes:
        candidates: what was looked at so far, with reasons.
        damaged: what turned out broken on the way: (checkpoint, finding, detail).
    """

    state: State
    publisher: Publisher
    candidates: list[Candidate] = attrs.field(factory=list)
    damaged: list[tuple[Ckpt, str, str]] = attrs.field(factory=list)

    def proposals(self, restart: Restart) -> Iterator[Ckpt | None]:
        """
        Checkpoints whose bytes verify, best first; None: from nothing.

        Raises:
            RestoreError: nothing (more) to propose although something was committed.
        """
        mode = mode_of(restart)
        if mode in ("fresh", "new"):
            yield None
            return
        yield from self._verified(restart, mode)
        if mode == "auto" and not self._ever():
            yield None
            return
        raise RestoreError(
            "no checkpoint can be restarted from",
            why="; ".join(f"{c.ckpt_id}: {c.reason}" for c in self.candidates)
            or "none is left on the live branch",
            instead="restore the files from a copy, name another step (restart=STEP), or "
            "begin again in the same run with restart='fresh'",
            value=restart,
        )

    def _verified(self, restart: Restart, mode: str) -> Iterator[Ckpt]:
        for ckpt in self._in_order(restart, mode):
            why = ckpt.observed or self._broken(ckpt)
            if why:
                self.refuse(ckpt, why)
            else:
                yield ckpt

    def _in_order(self, restart: Restart, mode: str) -> list[Ckpt]:
        if mode == "at":
            assert isinstance(restart, int)
            return [wanted(self.state, restart)]
        return [c for c in reversed(branch(self.state)) if c.family in RESTARTABLE]

    def _broken(self, ckpt: Ckpt) -> str:
        where = self.publisher.where(ckpt)
        seen = manifest.damage(self.publisher.disk, where, ckpt, self.publisher.beat)
        if seen is None:
            return ""
        self.damaged.append((ckpt, *seen))
        return f"{seen[0]}: {seen[1]}"

    def refuse(self, ckpt: Ckpt, reason: str) -> None:
        """Note why a candidate was passed over."""
        self.candidates.append(
            Candidate(ckpt_id=ckpt.ckpt_id, chosen=False, reason=reason[:1024])
        )

    def choose(self, ckpt: Ckpt, reason: str) -> None:
        """Note why a candidate was taken."""
        self.candidates.append(Candidate(ckpt_id=ckpt.ckpt_id, chosen=True, reason=reason))

    def _ever(self) -> bool:
        return any(c.family in RESTARTABLE for c in branch(self.state))


def readable(
    publisher: Publisher, ckpt: Ckpt, folder: str, beat: Callable[[], None]
) -> str | None:
    """What keeps *this rank* from reading a checkpoint, by presence and size."""
    seen = manifest.damage(publisher.disk, folder, ckpt, None)
    beat()
    return None if seen is None else f"{seen[0]}: {seen[1]}"
