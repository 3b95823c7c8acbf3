"""
The verdict of a boundary: the OR over all ranks, per component, and what it vetoes.

A rejection is sticky per family: the state in memory stays suspect until something was
restored, so a caller that swallows the error and saves again is refused again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from jumar.reducers.ballot import Reading, StepFacts
from jumar.reducers.events import GuardFound, GuardVerdict
from jumar.reducers.state import State
from jumar.reducers.values import ComponentVector

WATCHED: Final = ("grad", "loss", "weights", "ema", "optimizer")
"""What a rank can see for itself to be non-finite."""

COMPONENTS: Final = (*WATCHED, "replica")
"""In the order in which a verdict tells them; the last one takes all ranks to see."""

EVERYBODY: Final = frozenset({"grad", "loss", "weights", "replica"})
"""Components that veto every family."""

WITHOUT_OPTIMIZER: Final = frozenset({"ema", "best_ema", "adapter", "merged"})
OF_EMA: Final = frozenset({"ema", "best_ema"})


def vetoes(component: str, family: str) -> bool:
    """Whether a flag of this component stops this family."""
    by_component: Mapping[str, bool] = {
        "optimizer": family not in WITHOUT_OPTIMIZER,
        "ema": family in OF_EMA,
    }
    return component in EVERYBODY or by_component.get(component, False)


def flagged(vector: ComponentVector) -> tuple[int, ...]:
    """The ranks on which a component was non-finite."""
    return tuple(rank for rank, first in enumerate(vector.first_bad) if first >= 0)


def verdict(state: State, done: int, facts: Sequence[StepFacts]) -> GuardVerdict:
    """
    The agreed verdict.

    Args:
        state: gives attempt and the start of the interval.
        done: completed steps now.
        facts: what each rank saw, in rank order.
    """
    components = _vectors(facts)
    replicas = tuple(one.replica for one in facts)
    odd = odd_replicas(replicas)
    if odd:
        seen = [(int(bool(told)), -1) for told in replicas]
        seen = [(fed, done if rank in odd else bad) for rank, (fed, bad) in enumerate(seen)]
        components.append(("replica", seen))
    vectors = tuple(
        ComponentVector(
            name=name,
            fed=tuple(fed for fed, _ in ranks),
            first_bad=tuple(first for _, first in ranks),
        )
        for name, ranks in sorted(components, key=lambda one: COMPONENTS.index(one[0]))
    )
    return GuardVerdict(
        attempt=state.attempt,
        from_done=state.verdict_done,
        to_done=done,
        components=vectors,
        flagged=tuple(vector.name for vector in vectors if flagged(vector)),
        skipped=tuple(one.skipped for one in facts),
        replicas=replicas if any(replicas) else (),
    )


def _vectors(facts: Sequence[StepFacts]) -> list[tuple[str, list[tuple[int, int]]]]:
    """Components over ranks; a rank that never fed one contributes (0, -1)."""
    by_rank = [{r.name: (r.fed, r.first_bad) for r in one.readings} for one in facts]
    names = {name for readings in by_rank for name in readings}
    return [(name, [r.get(name, (0, -1)) for r in by_rank]) for name in sorted(names)]


def odd_replicas(replicas: Sequence[str]) -> tuple[int, ...]:
    """
    The ranks whose parameters differ from the majority of their group.

    Without a majority the group's lowest rank counts as right: nobody can tell, and all
    that is certain is that these are not the same.
    """
    groups: dict[str, dict[int, str]] = {}
    for rank, told in enumerate(replicas):
        if told:
            group, _, digest = told.partition(":")
            groups.setdefault(group, {})[rank] = digest
    odd: list[int] = []
    for said in groups.values():
        counts = Counter(said.values())  # in rank order, so that a tie is the lowest rank's
        usual = counts.most_common(1)[0][0]
        odd += [rank for rank, digest in said.items() if digest != usual]
    return tuple(sorted(odd))


FOUND_MAX: Final = 4
"""Ranks of which a verdict tells where they were bad, a component."""


def found(agreed: GuardVerdict, facts: Sequence[StepFacts]) -> list[GuardFound]:
    """Where the ranks that were bad first were bad, as far as they can name it."""
    told = []
    for vector in agreed.components:
        first = min((bad for bad in vector.first_bad if bad >= 0), default=None)
        ranks = [rank for rank, bad in enumerate(vector.first_bad) if bad == first]
        for rank in ranks[:FOUND_MAX]:
            for reading in facts[rank].readings:
                if reading.name == vector.name and reading.where:
                    told.append(_found(agreed, rank, reading))
    return told


def _found(agreed: GuardVerdict, rank: int, reading: Reading) -> GuardFound:
    return GuardFound(
        attempt=agreed.attempt,
        done=agreed.to_done,
        component=reading.name,
        rank=rank,
        first_bad=reading.first_bad,
        bad=reading.bad,
        where=reading.where,
    )


def culprits(agreed: GuardVerdict, family: str) -> list[ComponentVector]:
    """The flagged components that veto a family, in the fixed order of components."""
    return [v for v in agreed.components if flagged(v) and vetoes(v.name, family)]


def first_bad(vectors: Iterable[ComponentVector]) -> int | None:
    """The earliest bad step, completed steps."""
    return min((bad for v in vectors for bad in v.first_bad if bad >= 0), default=None)


def bad_ranks(vectors: Sequence[ComponentVector]) -> tuple[int, ...]:
    """
    The ranks to name: those that were bad first, by their own loss when a loss was bad.

    Under data parallelism a NaN of one rank's batch makes every rank's gradient NaN, and
    from the next step on every rank's loss; only who was first tells whose batch it was.
    """
    losses = [vector for vector in vectors if vector.name == "loss"]
    told = losses or vectors
    first = first_bad(told)
    return tuple(sorted({r for v in told for r in flagged(v) if v.first_bad[r] == first}))


def covered(state: State, agreed: GuardVerdict) -> bool:
    """
    Whether every rank fed some component, so that a clean verdict means something.

    An empty interval (a further save at one step) is as good as the verdict before it.
    """
    if agreed.to_done == agreed.from_done:
        return state.covered
    vectors = [vector.fed for vector in agreed.components]
    if vectors and vectors[0] and all(vectors[0]):
        return True  # the common case: one component was fed everywhere
    fed = [sum(steps) for steps in zip_longest(*vectors, fillvalue=0)]
    return bool(fed) and all(fed)
