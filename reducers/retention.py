"""
Retention as a decision: what each rule keeps, what is protected, who loses and why.

It runs once after each commit, over the live branch of that family.  A policy decides
here; the engine deletes, from the event that this module returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jumar.reducers.checkpoints import latest, live, superseded
from jumar.reducers.events import PrunePlanned
from jumar.reducers.policy import Policy
from jumar.reducers.ranking import newest_revisions, ranked
from jumar.reducers.rules import (
    KeepBest,
    KeepEvery,
    KeepLast,
    KeepRatio,
    KeepWithin,
    Pin,
    Rule,
)
from jumar.reducers.state import Ckpt, State
from jumar.reducers.values import Kept, Victim

NS: Final = 1_000_000_000


def _last(state: State, rule: KeepLast, ckpts: list[Ckpt], _: int) -> list[Ckpt]:
    return ckpts[-rule.n :]


def _ratio(state: State, rule: KeepRatio, ckpts: list[Ckpt], now_ns: int) -> list[Ckpt]:
    assert state.schedule is not None  # Policy.check refused it otherwise
    return _last(state, rule.as_last(state.schedule), ckpts, now_ns)


def _best(state: State, rule: KeepBest, ckpts: list[Ckpt], _: int) -> list[Ckpt]:
    assert state.policy is not None
    ties = state.policy.of(ckpts[0].family).ties if ckpts else None
    return ranked(state, rule, ties or "oldest", ckpts)[: rule.n]


def _every(state: State, rule: KeepEvery, ckpts: list[Ckpt], _: int) -> list[Ckpt]:
    return [ckpt for ckpt in ckpts if ckpt.done % rule.steps == 0]


def _within(state: State, rule: KeepWithin, ckpts: list[Ckpt], now_ns: int) -> list[Ckpt]:
    return [ckpt for ckpt in ckpts if now_ns - ckpt.clock_ns <= rule.seconds * NS]


def _pin(state: State, rule: Pin, ckpts: list[Ckpt], _: int) -> list[Ckpt]:
    return [ckpt for ckpt in ckpts if ckpt.done == rule.done]


_KEEPS: Final[Mapping[type, Callable[..., list[Ckpt]]]] = {
    KeepLast: _last,
    KeepRatio: _ratio,
    KeepBest: _best,
    KeepEvery: _every,
    KeepWithin: _within,
    Pin: _pin,
}


def keeps(state: State, rule: Rule, ckpts: Sequence[Ckpt], now_ns: int) -> list[Ckpt]:
    """What one rule keeps of these checkpoints (commit order, one revision a step)."""
    return _KEEPS[type(rule)](state, rule, list(ckpts), now_ns)


def _last_verified(state: State, family: str) -> list[Ckpt]:
    return [ckpt for ckpt in live(state, family) if ckpt.verified][-1:]


def _newest(state: State, family: str) -> list[Ckpt]:
    newest = latest(state, family)
    return [] if newest is None else [newest]


def _source(state: State, family: str) -> list[Ckpt]:
    """The restart source, until this attempt has committed a newer one."""
    source = state.ckpts.get(state.source or "")
    newest = latest(state, source.family) if source else None
    if source is None or (newest and newest.attempt == state.attempt):
        return []
    return [source]


def _pinned(state: State, family: str) -> list[Ckpt]:
    return [ckpt for ckpt in live(state, family) if ckpt.pinned]


PROTECTIONS: Final[Mapping[str, Callable[[State, str], list[Ckpt]]]] = {
    "newest": _newest,
    "last verified good": _last_verified,
    "restart source": _source,
    "pinned": _pinned,
}
"""
Kept in addition to what the rules keep, without using up their places.  In flight needs
no row, since only committed ones are looked at; nor does the sole survivor, which is the
newest.
"""


def plan(state: State, because: Ckpt, now_ns: int) -> PrunePlanned | None:
    """
    The retention decision after a commit; None when nobody loses.

    Args:
        state: with `because` committed.
        because: the checkpoint that was just committed.
        now_ns: the clock value that ages are taken from, ns since 1970.
    """
    assert state.policy is not None
    policy = state.policy.of(because.family)
    ckpts = live(state, because.family)
    places = newest_revisions(ckpts)
    kept = [
        Kept(rule=str(rule), kept=_ids(keeps(state, rule, places, now_ns)))
        for rule in policy.keep or ()
    ]
    protected = [
        Kept(rule=name, kept=_ids(protect(state, because.family)))
        for name, protect in PROTECTIONS.items()
    ]
    safe = {ckpt_id for one in (*kept, *protected) for ckpt_id in one.kept}
    victims = [
        Victim(ckpt_id=c.ckpt_id, rule=_fell_to(c, places, policy))
        for c in ckpts
        if c.ckpt_id not in safe
    ]
    victims += _left_behind(state, because.family, policy)
    if not victims:
        return None
    return PrunePlanned(
        family=because.family,
        because=because.ckpt_id,
        clock_ns=now_ns,
        kept=tuple(kept),
        protected=tuple(one for one in protected if one.kept),
        victims=tuple(victims),
    )


def _ids(ckpts: Sequence[Ckpt]) -> tuple[str, ...]:
    return tuple(ckpt.ckpt_id for ckpt in ckpts)


def _fell_to(ckpt: Ckpt, places: Sequence[Ckpt], policy: Policy) -> str:
    if ckpt not in places:
        return "revised"
    return str((policy.keep or ("",))[0])


def _left_behind(state: State, family: str, policy: Policy) -> list[Victim]:
    if policy.on_rewind != "remove":
        return []
    return [
        Victim(ckpt_id=ckpt.ckpt_id, rule="on_rewind=remove")
        for ckpt in superseded(state)
        if ckpt.family == family and not ckpt.pinned
    ]


def to_quarantine(state: State, family: str) -> list[Ckpt]:
    """What `on_rewind=quarantine` puts out of the way, whole, after a commit."""
    assert state.policy is not None
    if state.policy.of(family).on_rewind != "quarantine":
        return []
    return [ckpt for ckpt in superseded(state) if ckpt.family == family]
