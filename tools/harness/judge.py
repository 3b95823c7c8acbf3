"""The reader that judges a scenario: the folded log, then every file; it writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from jumar.engine import manifest
from jumar.engine.disk import Disk
from jumar.engine.errors import RestoreError
from jumar.engine.history import decoded
from jumar.engine.layout import POINTER, Layout, parse
from jumar.engine.log.damage import damaged
from jumar.engine.log.reader import LogReader
from jumar.engine.publish import Publisher
from jumar.engine.restart import Selection
from jumar.reducers import events as ev
from jumar.reducers.checkpoints import committed, superseded
from jumar.reducers.fold import fold
from jumar.reducers.lineage import on_branch, reach
from jumar.reducers.ranking import best_rules, ranked
from jumar.reducers.state import Ckpt, State
from jumar.reducers.values import parse_ckpt_id

Named = int | str


@attrs.define
class Judge:
    """
    What a run directory amounts to, in the words of a scenario's `expect`.

    Attributes:
        told: history word -> checkpoints or steps that the log names so.
    """

    disk: Disk
    layout: Layout
    state: State = attrs.field(factory=State)
    told: dict[str, list[Named]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        reader = LogReader(self.disk, self.layout.log, mode="tail")
        for _, event in decoded(reader):
            assert isinstance(event, ev.Event)
            fold(self.state, event)
            self._note(event)
        if reader.end == "corrupt":
            raise damaged(reader.findings[-1])

    def _note(self, event: ev.Event) -> None:
        match event:
            case ev.CkptRejected() | ev.CkptAborted():
                word = "rejected" if isinstance(event, ev.CkptRejected) else "aborted"
                self._tell(word, named(event.family, event.done))
            case ev.CkptCommitted(recovered=True):
                self._tell("recovered", of_id(event.ckpt_id))
            case ev.PruneStarted():
                self._tell("pruned", of_id(event.ckpt_id))
            case ev.PruneFailed(whole=True):
                called_back = of_id(event.ckpt_id)
                if called_back in self.told.get("pruned", []):
                    self.told["pruned"].remove(called_back)

    def _tell(self, word: str, name: Named) -> None:
        self.told.setdefault(word, []).append(name)

    def damage(self, ckpt: Ckpt) -> tuple[str, str] | None:
        """(`missing` or `damaged`, detail) by every digest, or None."""
        return manifest.damage(self.disk, self._publisher().where(ckpt), ckpt, _no_beat)

    def _publisher(self) -> Publisher:
        return Publisher(self.disk, self.layout, 0, lambda _: None, _no_beat)

    def final(self) -> dict[str, Any]:
        """The whole final state."""
        reached = reach(self.state)
        kept = committed(self.state)
        broken = {ckpt.ckpt_id: self.damage(ckpt) for ckpt in kept}
        alive = [c for c in kept if on_branch(c, reached) and broken[c.ckpt_id] is None]
        live = [ckpt for ckpt in alive if ckpt.family == "live"]
        return {
            "alive": names(alive),
            "latest": live[-1].done if live else None,
            "best": self._best(live),
            "restart": self._restart(),
            **{word: unique(self.told.get(word, ())) for word in _HISTORIES},
            "superseded": names(superseded(self.state)),
            "missing": names(
                c for c in kept if (broken[c.ckpt_id] or "")[:1] == ("missing",)
            ),
            "damaged": names(
                c for c in kept if (broken[c.ckpt_id] or "")[:1] == ("damaged",)
            ),
            "foreign": self._foreign(),
        }

    def _best(self, live: list[Ckpt]) -> list[Named]:
        assert self.state.policy is not None
        policy = self.state.policy.of("live")
        for rule in best_rules(policy):
            order = ranked(self.state, rule, policy.ties or "oldest", live)
            return [of_id(ckpt.ckpt_id) for ckpt in order[: rule.n]]
        return []

    def _restart(self) -> int | None:
        try:
            proposal = next(Selection(self.state, self._publisher()).proposals("auto"))
        except RestoreError:
            return None
        return None if proposal is None else proposal.done

    def _foreign(self) -> list[str]:
        """Names beside the live checkpoints that the log does not know."""
        folder = self.layout.family("live")
        entries = self.disk.listdir(folder) if self.disk.stat(folder) else []
        return [entry for entry in entries if not self._is_ours(entry)]

    def _is_ours(self, entry: str) -> bool:
        name = parse(entry)
        if name is None:
            return entry == POINTER
        if name.kind != "place":
            return True
        said = manifest.read(self.disk, f"{self.layout.family('live')}/{entry}")
        known = f"live@{name.done}r{name.revision}" in self.state.ckpts
        return known or (said is not None and said.run_id == self.state.run_id)


_HISTORIES = ("pruned", "rejected", "aborted", "recovered")


def _no_beat() -> None:
    """Nobody waits for a reader."""


def named(family: str, done: int) -> Named:
    """A step for `live`, `family@step` for the others."""
    return done if family == "live" else f"{family}@{done}"


def of_id(ckpt_id: str) -> Named:
    """The word of a checkpoint identity."""
    family, done, _ = parse_ckpt_id(ckpt_id)
    return named(family, done)


def unique(words: Iterable[Named]) -> list[Named]:
    """Each word once, in a stable order."""
    return sorted(set(words), key=lambda word: (isinstance(word, str), word))


def names(ckpts: Iterable[Ckpt]) -> list[Named]:
    """The words of these checkpoints, each once."""
    return unique(of_id(ckpt.ckpt_id) for ckpt in ckpts)


def difference(
    expect: Mapping[str, Any], final: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """What `expect` names and the final state contradicts: key -> (expected, found)."""
    return {
        key: (wish, final[key])
        for key, wish in expect.items()
        if not _same(key, wish, final[key])
    }


def _same(key: str, wish: Any, found: Any) -> bool:
    if key in ("latest", "restart"):
        return bool(wish == found)
    words = [str(one).removeprefix("live@") for one in wish]
    if key == "best":
        return words == [str(one) for one in found]
    return len(words) == len(set(words)) and set(words) == {str(one) for one in found}
