"""Time as an argument: what the engine asks of a clock, and the machine's own."""

from __future__ import annotations

import time
from typing import Protocol

import attrs


class Clock(Protocol):
    """Two readings, both in nanoseconds."""

    def wall_ns(self) -> int:
        """Since 1970, UTC; shown to people, never used to order anything."""

    def mono_ns(self) -> int:
        """A line that never goes back within one boot."""


@attrs.frozen
class SystemClock:
    """The clocks of this machine."""

    def wall_ns(self) -> int:
        """time.time_ns."""
        return time.time_ns()

    def mono_ns(self) -> int:
        """time.monotonic_ns."""
        return time.monotonic_ns()
