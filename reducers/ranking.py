"""
One total order for best, top-K and prune.

Finite before everything else, then direction times value compared as numbers, then the
tie rule, then the commit sequence (which has no ties).  NaN, infinities and missing
values are unranked: never an incumbent, never an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jumar.reducers.checkpoints import live, metric_of
from jumar.reducers.policy import Policy
from jumar.reducers.rules import KeepBest
from jumar.reducers.state import Ckpt, State
from jumar.reducers.values import Ranked, Ranking

SIGN: Final = {"min": 1.0, "max": -1.0}
AGE: Final = {"oldest": 1, "newest": -1}


def newest_revisions(ckpts: Iterable[Ckpt]) -> list[Ckpt]:
    """Two revisions of one step never take two places: only the newer one counts."""
    by_step: dict[int, Ckpt] = {}
    for ckpt in ckpts:
        held = by_step.get(ckpt.done)
        if held is None or ckpt.revision > held.revision:
            by_step[ckpt.done] = ckpt
    return list(by_step.values())


def ranked(state: State, rule: KeepBest, ties: str, ckpts: Iterable[Ckpt]) -> list[Ckpt]:
    """The rankable ones among `ckpts`, best first; one not yet committed is newest."""
    sign, age = SIGN[rule.direction], AGE[ties]
    keyed = []
    for ckpt in newest_revisions(ckpts):
        value = metric_of(state, ckpt, rule.metric).value
        if value is not None:
            index = state.commits if ckpt.index is None else ckpt.index
            keyed.append(((sign * value, age * index), ckpt))
    return [ckpt for _, ckpt in sorted(keyed, key=lambda pair: pair[0])]


def best_rules(policy: Policy) -> list[KeepBest]:
    """The `best` rules of a family's policy, in the order they were given."""
    return [rule for rule in policy.keep or () if isinstance(rule, KeepBest)]


def rankings(
    state: State, policy: Policy, family: str, joining: Ckpt
) -> tuple[Ranking, ...]:
    """Every best rule's whole order with `joining` in it, as it goes into the bytes."""
    ckpts = [*live(state, family), joining]
    return tuple(
        Ranking(
            rule=str(rule),
            order=tuple(
                Ranked(ckpt_id=c.ckpt_id, metric=metric_of(state, c, rule.metric))
                for c in ranked(state, rule, policy.ties or "oldest", ckpts)
            ),
        )
        for rule in best_rules(policy)
    )


def best(state: State, family: str) -> list[Ckpt]:
    """The first n of the family's first best rule; empty without such a rule."""
    assert state.policy is not None
    policy = state.policy.of(family)
    for rule in best_rules(policy):
        return ranked(state, rule, policy.ties or "oldest", live(state, family))[: rule.n]
    return []
