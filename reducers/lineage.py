"""
Branches: which commits lie on the live branch, and which a restart left behind.

An attempt continues another one up to some completed step, or begins from nothing.  So
the live branch is a short walk over attempts, and a commit is on it when its attempt is
and its step is not beyond the fork.  All families that were committed at the restart's
own step belong to the same moment and stay with it.
"""

from __future__ import annotations

from jumar.reducers.state import Ckpt, State


def reach(state: State) -> dict[int, int | None]:
    """Attempt -> completed steps up to which it is on the live branch (None: all)."""
    reached: dict[int, int | None] = {state.attempt: None}
    attempt, limit = state.attempt, None
    while fork := state.forks.get(attempt):
        attempt = fork[0]
        limit = fork[1] if limit is None else min(limit, fork[1])
        reached[attempt] = limit
    return reached


def on_branch(ckpt: Ckpt, reached: dict[int, int | None]) -> bool:
    """Whether this checkpoint lies on the branch that `reach` describes."""
    if ckpt.attempt not in reached:
        return False
    limit = reached[ckpt.attempt]
    return limit is None or ckpt.done <= limit


def owner(state: State, attempt: int, done: int) -> int:
    """The attempt that a step belongs to, seen from `attempt`: metrics are kept by it."""
    while (fork := state.forks.get(attempt)) and done <= fork[1]:
        attempt = fork[0]
    return attempt
