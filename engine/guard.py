"""What the engine needs of a guard: one reading a boundary, and a reset."""

from __future__ import annotations

from typing import Protocol

from jumar.reducers.ballot import NOTHING_WATCHED, StepFacts


class Guard(Protocol):
    """Accumulates step facts on the device between boundaries."""

    def read(self) -> StepFacts:
        """The one device-to-host transfer of a boundary; clears nothing."""

    def clear(self) -> None:
        """Forget the flags: the verdict over them was agreed on."""


class NoGuard:
    """For a trainer without one: checkpoints are then never *verified good*."""

    def read(self) -> StepFacts:
        """Nothing was watched."""
        return NOTHING_WATCHED

    def clear(self) -> None:
        """Nothing to forget."""
