"""
Many steps in the life of simulated logs, one seed one run.

    python -m jumar.tools.harness.log_soak --steps 1000000 --seed 1

Each step is an append, a flush, a takeover, a clean close, a sleeper that wakes, a failing
call or a crash, also inside a recovery.  After each the log is compared with a plain list;
a life that fails is named by its seed, and `--seed S --steps 1` plays it again.
"""

from __future__ import annotations

import argparse
import errno
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

from jumar.tools.harness.log_life import LogLife, Power

LIFE: Final = 20
"""Steps of one life; then a new one begins on an empty disk."""

CODES: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR)


def power(chance: random.Random) -> Power:
    """What a crash leaves."""
    kind = chance.randrange(3)
    return "kill" if kind == 0 else None if kind == 1 else random.Random(chance.random())


def _close(life: LogLife, size: int) -> None:
    life.close()
    life.open()


ACTS: Final[tuple[Callable[[LogLife, int], None], ...]] = (
    lambda life, size: life.append(size, durable=True),
    lambda life, size: life.append(size, durable=True),
    lambda life, size: life.append(size, durable=False),
    lambda life, size: life.flush(),
    _close,
    lambda life, size: life.replace(),
)


def step(life: LogLife, chance: random.Random) -> None:
    """One step, and the check behind it."""
    act, size = chance.choice(ACTS), chance.randint(1, 5)
    at = chance.randint(1, chance.choice((4, 45)))
    kind = chance.randrange(8)
    if kind == 0:
        life.crash(at, power(chance), lambda: act(life, size))
    elif kind == 1:
        code, kept = chance.choice(CODES), chance.randrange(200)
        failed = life.fail(at, code, lambda: act(life, size), kept)
        life.seen[f"failed {failed or 'nothing'}"] += 1
    elif kind == 2 and life.asleep:
        life.wake(size)
    else:
        act(life, size)
    while life.log is None:
        life.read()
        if chance.random() < 0.3:
            life.seen["crash inside recovery"] += life.crash(at, power(chance), life.open)
        else:
            life.open()
    life.read()


def live(seed: int, steps: int, seen: Counter[str]) -> None:
    """One life; AssertionError or JumarError when the log is not what was told."""
    chance, life = random.Random(seed), LogLife(seen=seen)
    life.open()
    for _ in range(steps):
        step(life, chance)


def soak(steps: int, seed: int, *, progress: bool = False) -> Counter[str]:
    """
    So many steps in lives of `LIFE`; returns what was met.

    Raises:
        AssertionError, JumarError: with the seed of the life in a note.
    """
    seen: Counter[str] = Counter()
    for n in range(0, steps, LIFE):
        one = seed + n // LIFE
        try:
            live(one, min(LIFE, steps - n), seen)
        except Exception as error:
            error.add_note(f"python -m jumar.tools.harness.log_soak --seed {one} --steps 1")
            raise
        if progress and n % 10_000 < LIFE:
            print(f"{n} of {steps} steps", file=sys.stderr)
    seen["steps"] = steps
    return seen


def main() -> None:
    """Play, and print what was met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    wished = parser.parse_args()
    steps = LIFE if wished.steps == 1 else wished.steps
    for name, count in sorted(soak(steps, wished.seed, progress=True).items()):
        print(f"{name}: {count}")


if __name__ == "__main__":
    main()
