"""
References: how a person names a checkpoint.

    latest  best  best~2  restart  400  live@400r0  ema@400  @seq:93  9f2c41 (digest prefix)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import attrs

from jumar.engine.errors import RestoreError
from jumar.engine.publish import Publisher
from jumar.engine.restart import Selection
from jumar.engine.storage import no_beat
from jumar.reducers import events as ev
from jumar.reducers.checkpoints import latest
from jumar.reducers.errors import JumarError
from jumar.reducers.lineage import on_branch, reach
from jumar.reducers.ranking import best
from jumar.reducers.state import Ckpt
from jumar.reducers.values import FAMILY, ckpt_id
from jumar.tools.views.story import Story


class UnknownReference(JumarError):
    """A reference that names nothing in this run."""


@attrs.frozen
class Ref:
    """
    What a reference names: a checkpoint, or at least a step of a family.

    Attributes:
        ckpt_id: None when nothing was ever accepted at that step.
    """

    family: str
    done: int
    ckpt_id: str | None


_STEP: Final = re.compile(rf"(?:(?P<f>{FAMILY})@)?(?P<d>[0-9]{{1,19}})(?:r(?P<r>[0-9]+))?")
_BEST: Final = re.compile(r"best(?:~(?P<n>[0-9]+))?")
_SEQ: Final = re.compile(r"@seq:(?P<n>[0-9]+)")
_DIGEST: Final = re.compile(r"[0-9a-f]{6,64}")


def resolve(story: Story, text: str) -> Ref:
    """What `text` names; UnknownReference when it names nothing."""
    for pattern, resolver in _RESOLVERS:
        found = pattern.fullmatch(text)
        ref = resolver(story, found) if found else None
        if ref is not None:
            return ref
    raise UnknownReference(
        f"{text!r} names nothing in this run",
        why="it is no step, identity, sequence number or digest that the log knows",
        instead="use latest, best, best~2, restart, 400, live@400r0, @seq:93 or a digest "
        "prefix; `jumar list RUN --all` shows what there was",
        value=text,
    )


def _of(ckpt: Ckpt | None) -> Ref | None:
    return None if ckpt is None else Ref(ckpt.family, ckpt.done, ckpt.ckpt_id)


def _latest(story: Story, _: re.Match[str]) -> Ref | None:
    return _of(latest(story.state, "live"))


def _best(story: Story, found: re.Match[str]) -> Ref | None:
    place = int(found["n"] or 1) - 1
    order = best(story.state, "live") if story.state.policy else []
    return _of(order[place]) if 0 <= place < len(order) else None


def _restart(story: Story, _: re.Match[str]) -> Ref | None:
    return _of(would_restart(story))


def would_restart(story: Story) -> Ckpt | None:
    """What `restart='auto'` would load now; None: nothing, or nothing that verifies."""
    publisher = Publisher(story.disk, story.layout, 0, lambda _: None, no_beat)
    try:
        return next(Selection(story.state, publisher).proposals("auto"))
    except RestoreError:
        return None


def _step(story: Story, found: re.Match[str]) -> Ref | None:
    """Newest revision on the live branch, else newest in the run, else the bare step."""
    family, done = found["f"] or "live", int(found["d"])
    if found["r"] is not None:
        named = ckpt_id(family, done, int(found["r"]))
        return Ref(family, done, named) if story.accepted(named) else None
    reached = reach(story.state)
    ids: list[tuple[bool, int, str]] = []
    for _, event in story.of(ev.CkptAccepted):
        assert isinstance(event, ev.CkptAccepted)
        if (event.family, event.done) == (family, done):
            ckpt = story.state.ckpts.get(event.ckpt_id)
            ids.append(
                (ckpt is not None and on_branch(ckpt, reached), len(ids), event.ckpt_id)
            )
    return Ref(family, done, max(ids)[2] if ids else None)


def _seq(story: Story, found: re.Match[str]) -> Ref | None:
    for record, event in story.told:
        if record.seq == int(found["n"]):
            named = getattr(event, "ckpt_id", None)
            done = getattr(event, "done", None)
            if named is not None:
                accepted = story.accepted(named)
                return Ref(accepted.family, accepted.done, named) if accepted else None
            if done is not None:
                return Ref(getattr(event, "family", None) or "live", done, None)
    return None


def _digest(story: Story, found: re.Match[str]) -> Ref | None:
    for _, event in story.of(ev.CkptCommitted):
        assert isinstance(event, ev.CkptCommitted)
        digests = [event.manifest_sha256, *(part.sha256 for part in event.parts)]
        if any(digest.startswith(found[0]) for digest in digests):
            accepted = story.accepted(event.ckpt_id)
            return Ref(accepted.family, accepted.done, event.ckpt_id) if accepted else None
    return None


_RESOLVERS: Final[tuple[tuple[re.Pattern[str], Callable[..., Ref | None]], ...]] = (
    (re.compile("latest"), _latest),
    (re.compile("restart"), _restart),
    (_BEST, _best),
    (_SEQ, _seq),
    (_STEP, _step),
    (_DIGEST, _digest),
)
