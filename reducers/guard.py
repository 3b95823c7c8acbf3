"""
The verdict of a boundary: the OR over all ranks, per component, and what it vetoes.

A rejection is sticky per family: the state in memory stays suspect until something was
restored, so a caller that swallows the error and saves again is refused again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from jumar.reducers.events import GuardVerdict
from jumar.reducers.state import State
from jumar.reducers.values import ComponentVector

COMPONENTS: Final = ("grad", "loss", "weights", "ema", "optimizer")
EVERYBODY: Final = frozenset({"grad", "loss", "weights"})
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


def verdict(
    state: State, done: int, components: Sequence[tuple[str, Sequence[tuple[int, int]]]]
) -> GuardVerdict:
    """
    The agreed verdict.

    Args:
        state: gives attempt and the start of the interval.
        done: completed steps now.
        components: (name, per rank (steps fed, first bad step or -1)), any order.
    """
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
