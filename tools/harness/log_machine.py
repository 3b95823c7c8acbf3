"""
A search over the life of a log, with Hypothesis: crashes and failing calls anywhere, and
writers that sleep while another takes over.
"""

from __future__ import annotations

import errno
import random
from collections import Counter

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jumar.tools.harness.log_life import LogLife

SEEN: Counter[str] = Counter()
"""What the searches of this process met."""
POWER = st.one_of(st.just("kill"), st.none(), st.integers(1, 2**16))
CODES = st.sampled_from([errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR])
AT = st.one_of(st.integers(1, 5), st.integers(1, 45))
"""Which call: often one of the few of an append, sometimes one of the many of an open."""
ACTS = st.sampled_from(["append", "queue and flush", "close", "replace"])


def power(drawn: str | int | None) -> str | random.Random | None:
    """What the power leaves: all, nothing unsynced, or what chance decides."""
    return random.Random(drawn) if isinstance(drawn, int) else drawn


class Machine(RuleBasedStateMachine):
    """The log equals what was acknowledged, or that and a beginning of what was unsure."""

    def __init__(self) -> None:
        super().__init__()
        self.life = LogLife(seen=SEEN)
        self.life.open()

    def act(self, what: str, size: int) -> None:
        """One of `ACTS`."""
        life = self.life
        if what == "append":
            life.append(size, durable=True)
        elif what == "queue and flush":
            life.append(size, durable=False)
            life.flush()
        elif what == "close":
            life.close()
            life.open()
        else:
            life.replace()

    def recover(self) -> None:
        """Open again unless a writer is there."""
        if self.life.log is None:
            self.life.read()
            self.life.open()

    @rule(size=st.integers(1, 4), durable=st.booleans())
    def append(self, size: int, durable: bool) -> None:
        """Records, waited for or not."""
        self.life.append(size, durable)

    @rule()
    def flush(self) -> None:
        """A barrier."""
        self.life.flush()

    @rule(act=ACTS, size=st.integers(1, 4))
    def do(self, act: str, size: int) -> None:
        """Something that takes many calls."""
        self.act(act, size)

    @precondition(lambda self: self.life.asleep)
    @rule(size=st.integers(1, 7))
    def a_sleeper_wakes(self, size: int) -> None:
        """A replaced writer goes on."""
        self.life.wake(size)

    @rule(act=ACTS, size=st.integers(1, 9), at=AT, how=POWER)
    def crash(self, act: str, size: int, at: int, how: str | int | None) -> None:
        """The machine stops in the middle of something."""
        self.life.crash(at, power(how), lambda: self.act(act, size))
        self.recover()

    @rule(size=st.integers(1, 4), seed=st.integers(1, 2**16))
    def power_fails_before_the_sync(self, size: int, seed: int) -> None:
        """The one moment at which a record can be torn."""
        self.life.crash(2, random.Random(seed), lambda: self.act("append", size))
        self.recover()

    @rule(how=POWER, at=st.lists(st.integers(1, 60), min_size=1, max_size=3))
    def crash_inside_recoveries(self, how: str | int | None, at: list[int]) -> None:
        """The machine stops, and again while it recovers."""
        self.life.lose(power(how))
        for one in at:
            crashed = self.life.crash(one, power(how), self.life.open)
            SEEN["crash inside recovery"] += crashed
        self.recover()

    @rule(act=ACTS, size=st.integers(1, 9), at=AT, code=CODES, how=POWER,
          kept=st.integers(0, 300))  # fmt: skip
    def a_call_fails_and_the_machine_crashes_after_the_recovery(
        self, act: str, size: int, at: int, code: int, how: str | int | None, kept: int
    ) -> None:
        """An error, a recovery that believes what it sees, and then no power."""
        failed = self.life.fail(at, code, lambda: self.act(act, size), kept)
        SEEN[f"failed {failed}"] += 1
        SEEN["short write"] += failed == "write" and kept > 0
        self.recover()
        self.life.read()
        self.life.lose(power(how))
        self.recover()

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        """What a reader sees is what the list says."""
        self.life.read()


def search(examples: int, *, shrink: bool = True) -> None:
    """
    Run the machine over so many derandomised lives of 25 steps.

    Args:
        shrink: reduce a failing life to its shortest form before it is raised.
    """
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        ),
    )
