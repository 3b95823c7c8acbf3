"""
`every`: run something with each combination of its choices, instead of random ones.

Where a simulation asks chance, an `Odometer` answers: it counts through all answers, the
last question fastest, as a model checker would.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import attrs


@attrs.define
class Odometer(random.Random):
    """
    A source of chance that gives one combination of answers, and then the next.

    A number of a range is one of its ends or its middle: enough to tear a write.
    """

    _digits: list[list[int]] = attrs.field(factory=list)
    _asked: int = 0

    def __attrs_pre_init__(self) -> None:
        random.Random.__init__(self)

    def _answer(self, answers: int) -> int:
        """The current digit of this question; each is (answer, how many there are)."""
        if self._asked == len(self._digits):
            self._digits.append([0, answers])
        self._asked += 1
        return self._digits[self._asked - 1][0]

    def random(self) -> float:
        """Yes or no: below or above a half."""
        return (0.25, 0.75)[self._answer(2)]

    def choice(self, seq: Any) -> Any:
        """Each in turn."""
        return seq[self._answer(len(seq))]

    def randint(self, a: int, b: int) -> int:
        """The lowest, the middle, the highest."""
        numbers = sorted({a, (a + b) // 2, b})
        return numbers[self._answer(len(numbers))]

    def advance(self) -> bool:
        """To the next combination; False after the last one."""
        del self._digits[self._asked :]
        self._asked = 0
        while self._digits:
            self._digits[-1][0] += 1
            if self._digits[-1][0] < self._digits[-1][1]:
                return True
            self._digits.pop()
        return False


def every() -> Iterator[random.Random]:
    """One source of chance for each combination of the answers that are asked of it."""
    odometer = Odometer()
    yield odometer
    while odometer.advance():
        yield odometer
