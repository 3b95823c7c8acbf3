"""
Ratios from interleaved pairs: ours, theirs, ours, theirs, ...; the median of the ratios.

These machines are noisy, so an absolute time says little and a timed test nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

import attrs

PAIRS: Final = 31


@attrs.frozen
class Row:
    """
    One line of the table.

    Attributes:
        seen: the median, with its spread when it is a ratio.
        holds: whether the bar was met in this run.
    """

    what: str
    bar: str
    against: str
    seen: str
    holds: bool


def time_of(call: Callable[[], object], repeats: int) -> float:
    """Seconds for `repeats` calls."""
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return time.perf_counter() - begun


def ratios(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    repeats: int,
    pairs: int = PAIRS,
) -> list[float]:
    """Sorted ratios ours/theirs of interleaved pairs, after one that is not counted."""
    time_of(ours, repeats), time_of(theirs, repeats)
    found = []
    for i in range(pairs):
        first, second = (ours, theirs) if i % 2 == 0 else (theirs, ours)
        a, b = time_of(first, repeats), time_of(second, repeats)
        found.append(a / b if i % 2 == 0 else b / a)
    return sorted(found)


def row(what: str, bar: float, against: str, found: list[float]) -> Row:
    """A row of a ratio against its bar."""
    middle = statistics.median(found)
    low, high = found[len(found) // 10], found[-1 - len(found) // 10]
    seen = f"{middle:.2f}x ({low:.2f} to {high:.2f})"
    return Row(what, f"<= {bar:.2f}x", against, seen, middle <= bar)
