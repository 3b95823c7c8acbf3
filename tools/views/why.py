"""
`why`: what happened to a checkpoint, or why there is none, each sentence with its event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from jumar.reducers import events as ev
from jumar.reducers.checkpoints import latest
from jumar.reducers.lineage import on_branch, reach
from jumar.reducers.ranking import best
from jumar.reducers.state import Ckpt
from jumar.reducers.values import parse_ckpt_id
from jumar.tools.views.refs import Ref
from jumar.tools.views.says import SAYS, listed, refusal
from jumar.tools.views.story import Story, Told


@attrs.frozen
class Line:
    """One sentence of an answer and the record that says it."""

    what: str
    says: str
    seq: int


@attrs.frozen
class Answer:
    """
    Attributes:
        fine: False when the disk contradicts the log.
    """

    head: str
    lines: tuple[Line, ...]
    fine: bool = True

    def plain(self, ref: str) -> dict[str, Any]:
        """The `--json` form."""
        lines = [attrs.asdict(line) for line in self.lines]
        return {"schema": "jumar.why/1", "ref": ref, "answer": self.head, "lines": lines,
                "fine": self.fine}  # fmt: skip


def why(story: Story, ref: Ref) -> Answer:
    """The answer for one reference."""
    events = _relevant(story, ref)
    lines = tuple(
        Line(what, says, record.seq)
        for record, event in events
        for what, says in [SAYS[type(event)](story, ref, event)]
        if says
    )
    head, fine = _headline(story, ref, events)
    return Answer(head, lines, fine)


def _relevant(story: Story, ref: Ref) -> list[Told]:
    """The records that decided over this checkpoint, or over this step."""
    found = []
    for record, event in story.told:
        if type(event) in SAYS and _concerns(story, ref, event):
            found.append((record, event))
    return found


def _concerns(story: Story, ref: Ref, event: Any) -> bool:
    if isinstance(event, ev.PrunePlanned):
        return any(victim.ckpt_id == ref.ckpt_id for victim in event.victims)
    if isinstance(event, ev.RestartSelected):
        return _left_behind_by(story, ref, event)
    attempt = _attempt(story, ref)
    if attempt is not None and getattr(event, "attempt", attempt) != attempt:
        return False
    if isinstance(event, ev.GuardVerdict):
        return event.to_done == ref.done
    named = getattr(event, "ckpt_id", None)
    if named is not None:
        return bool(named == (ref.ckpt_id or named)) and _of_step(named, ref)
    return bool(event.done == ref.done) and _family(event) in (ref.family, None)


def _of_step(ckpt_id: str, ref: Ref) -> bool:
    family, done, _ = parse_ckpt_id(ckpt_id)
    return (family, done) == (ref.family, ref.done)


def _family(event: Any) -> str | None:
    family: str | None = getattr(event, "family", None)
    return family


def _attempt(story: Story, ref: Ref) -> int | None:
    accepted = story.accepted(ref.ckpt_id) if ref.ckpt_id else None
    return accepted.attempt if accepted else None


def _left_behind_by(story: Story, ref: Ref, event: ev.RestartSelected) -> bool:
    """Whether this is the first restart after which the checkpoint was off its branch."""
    ckpt = story.state.ckpts.get(ref.ckpt_id or "")
    if ckpt is None or not ckpt.committed or on_branch(ckpt, reach(story.state)):
        return False
    later = event.attempt > ckpt.attempt
    return later and (event.ckpt_id is None or event.done < ckpt.done)


# --- the first line --------------------------------------------------------------------


def _headline(story: Story, ref: Ref, events: Sequence[Told]) -> tuple[str, bool]:
    ckpt = story.state.ckpts.get(ref.ckpt_id or "")
    if ckpt is not None:
        return _of_present(story, ckpt)
    for _, event in reversed(events):
        teller = _ENDS.get(type(event))
        if teller is not None:
            return teller(ref, event, events), True
    return _never(story, ref), True


def _of_present(story: Story, ckpt: Ckpt) -> tuple[str, bool]:
    name = ckpt.ckpt_id
    if not ckpt.on_disk:
        return f"{name} was accepted and not finished: the next open decides", True
    if not ckpt.committed:
        return f"{name} is on its way out: its prune has started", True
    seen = story.damage(ckpt)
    if seen is not None:
        return (
            f"{name} is {seen[0]} on the disk, and no rule of the log did that: {seen[1]}",
            False,
        )
    if not on_branch(ckpt, reach(story.state)):
        return f"{name} is kept and superseded: a restart left it behind", True
    return f"{name} is kept{_because(story, ckpt)}", True


def _because(story: Story, ckpt: Ckpt) -> str:
    newest = latest(story.state, ckpt.family)
    places = [c.ckpt_id for c in best(story.state, ckpt.family)]
    said = ["it is the latest"] if newest is ckpt else []
    if ckpt.ckpt_id in places:
        said.append(f"it is best {places.index(ckpt.ckpt_id) + 1}")
    if ckpt.pinned:
        said.append("it is pinned")
    return f": {' and '.join(said)}" if said else ""


def _gone(ref: Ref, event: ev.PruneDone, events: Sequence[Told]) -> str:
    plans = [e for _, e in events if isinstance(e, ev.PrunePlanned)]
    rule = next((v.rule for p in plans for v in p.victims if v.ckpt_id == ref.ckpt_id), "?")
    how = "a later revision took its place" if rule == "revised" else f"pruned by {rule}"
    return f"{ref.ckpt_id} is gone: {how}"


def _rejected(ref: Ref, event: ev.CkptRejected, _: Sequence[Told]) -> str:
    why = refusal(event)
    return f"nothing was saved at {ref.done}: {why}"


def _aborted(ref: Ref, event: ev.CkptAborted, _: Sequence[Told]) -> str:
    ranks = f" on rank {listed(event.ranks)}" if event.ranks else ""
    where = f"aborted in phase {event.phase}{ranks}"
    return f"nothing was saved at {ref.done}: {where}: {event.error}"


def _never(story: Story, ref: Ref) -> str:
    saved = sorted(
        {e.done for _, e in story.of(ev.CkptProposed) if _family(e) == ref.family}  # type: ignore[attr-defined]
    )
    before = [done for done in saved if done < ref.done][-1:]
    after = [done for done in saved if done > ref.done][:1]
    near = " and ".join(str(done) for done in [*before, *after]) or "never"
    return (
        f"nothing was saved at {ref.done}: no save of {ref.family} was asked for at that "
        f"step; the nearest were at {near}"
    )


_ENDS: Final[Mapping[type, Callable[[Ref, Any, Sequence[Told]], str]]] = {
    ev.PruneDone: _gone,
    ev.CkptRejected: _rejected,
    ev.CkptAborted: _aborted,
}
