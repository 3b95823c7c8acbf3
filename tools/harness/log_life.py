"""
One log through crashes, failing calls and sleeping writers, beside a plain list.

Each appended number is *acknowledged* (it was told durable), *unsure* (nobody was told) or
gone.  Whatever happened, a reader sees all acknowledged numbers in order, and behind them
at most a beginning of the unsure ones; what it saw after an open stays.  `seen` counts
what was met on the way: a search that never met a torn tail has not looked for one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import attrs

from jumar.engine.errors import LogFailed
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.tools.harness.disk import ShortWrite, SimDisk
from jumar.tools.harness.faults import dies_at
from jumar.tools.harness.world import SimClock, sim_writer

ROOT = "run/.jumar"
SEAL_RECORDS = 5
"""Small, so that segments roll all the time."""

Power = random.Random | str | None
"""What a crash leaves: `kill` all, None only what was synced, else as chance says."""

_MET = {
    "orphan segment": "orphan segment",
    "whole frames": "bytes of a zombie",
    "fork": "fork",
}


@attrs.define
class LogLife:
    """
    A log on a simulated disk, and what it must hold.

    Attributes:
        acked: numbers that a reader must see.
        unsure: numbers that it may see behind them, in order.
        asleep: writers that were replaced without being told.
    """

    disk: SimDisk = attrs.field(factory=SimDisk)
    clock: SimClock = attrs.field(factory=SimClock)
    acked: list[int] = attrs.field(factory=list)
    unsure: list[int] = attrs.field(factory=list)
    seen: Counter[str] = attrs.field(factory=Counter)
    n: int = 0
    log: LogWriter | None = None
    asleep: list[LogWriter] = attrs.field(factory=list)

    # --- what people do ---

    def open(self) -> None:
        """A new epoch; whoever wrote before is taken for dead."""
        self.log = LogWriter.open(
            self.disk, ROOT, run_id="0" * 32, who=sim_writer(), clock=self.clock,
            background=False, seal_records=SEAL_RECORDS,
        )  # fmt: skip
        self.settle()

    def append(self, size: int, durable: bool) -> None:
        """So many numbers in one call."""
        numbers = list(range(self.n, self.n + size))
        self.n += size
        self.unsure += numbers
        self._writer.append_all([_entry(n) for n in numbers], durable=durable)
        if durable:
            self._acknowledge()

    def flush(self) -> None:
        """A barrier."""
        self._writer.flush()
        self._acknowledge()

    def close(self) -> None:
        """A clean end of the epoch."""
        self._writer.close()
        self._acknowledge()
        self.log = None

    def replace(self) -> None:
        """Another process takes over while this one sleeps."""
        sleeper = self._writer
        self.open()
        self.asleep.append(sleeper)

    def wake(self, size: int) -> None:
        """A replaced writer goes on; nothing that it says may be acknowledged."""
        sleeper = self.asleep.pop(0)
        for _ in range(size):
            self.n += 1
            sleeper.append(_entry(self.n - 1))
        told = True
        try:
            sleeper.flush()
        except LogFailed:
            told = False
        assert not told, "a replaced writer was told that its records are durable"
        sleeper.close()
        self.seen["zombie"] += 1

    # --- what happens to them ---

    def crash(
        self, at: int, power: random.Random | str | None, act: Callable[[], None]
    ) -> bool:
        """
        Stop the machine at the `at`-th call of an act; False when the act was shorter.
        """
        died = dies_at(self.disk, at, act)
        self.lose(power)
        return died

    def lose(self, power: Power) -> None:
        """The machine goes down and comes back."""
        if not isinstance(power, str):
            self.disk.power_loss(power)
        self.log, self.asleep = None, []

    def fail(self, at: int, code: int, act: Callable[[], None], kept: int = 0) -> str:
        """
        Let the `at`-th call of an act fail once; returns the name of that call.

        Args:
            kept: bytes that a failing write still appends.
        """
        until, failed = self.disk.calls + at, [""]

        def failing(name: str, path: str) -> None:
            if self.disk.calls == until:
                failed[0] = name
                raise ShortWrite(code, path, kept)

        self.disk.before = failing
        try:
            act()
        except (LogFailed, OSError):
            if self.log is not None and not self.log.alive:
                self.log.close()
            self.log = None  # who was told of an error ends
        finally:
            self.disk.before = None
        return failed[0]

    # --- what must hold ---

    def settle(self) -> None:
        """After an open: what survived of the unsure ones stays."""
        self.acked, self.unsure = self.read(), []

    def read(self) -> list[int]:
        """What a reader sees, checked against the list."""
        reader = LogReader(self.disk, ROOT)
        told = [record.payload["n"] for record in reader if record.type == "t"]
        self._note(reader)
        assert reader.end != "corrupt", reader.findings
        sure = len(self.acked)
        assert self.acked == told[:sure], (self.acked, told)
        assert told[sure:] == self.unsure[: len(told) - sure], (told, self.unsure)
        if self.unsure:
            kept = len(told) - sure
            self.seen["unsure and kept"] += kept > 0
            self.seen["unsure and lost"] += kept < len(self.unsure)
        return told

    def _note(self, reader: LogReader) -> None:
        self.seen["torn tail"] += reader.end == "not_yet_visible"
        self.seen["sealed"] += reader.sealed > 0
        for finding in reader.findings:
            for text, name in _MET.items():
                self.seen[name] += text in finding.what and "(0 whole" not in finding.what

    @property
    def _writer(self) -> LogWriter:
        assert self.log is not None
        return self.log

    def _acknowledge(self) -> None:
        self.acked += self.unsure
        self.unsure = []


def _entry(n: int) -> Entry:
    return Entry("t", 1, {"n": n, "fill": "x" * (n % 7) * 9})
