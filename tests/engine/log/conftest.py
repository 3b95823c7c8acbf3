"""A log on a simulated disk, opened again and again."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from jumar.engine.log.reader import LogReader, Mode
from jumar.engine.log.record import Entry, Record
from jumar.engine.log.writer import LogWriter
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.world import SimClock, sim_writer

ROOT = "run/.jumar"


@attrs.define
class Logs:
    """Opens writers and readers over one disk."""

    disk: SimDisk = attrs.field(factory=SimDisk)
    clock: SimClock = attrs.field(factory=SimClock)

    def open(self, *, background: bool = False) -> LogWriter:
        """A new epoch."""
        return LogWriter.open(
            self.disk,
            ROOT,
            run_id="0" * 32,
            who=sim_writer(),
            clock=self.clock,
            background=background,
        )

    def reader(self, mode: Mode = "tail") -> LogReader:
        """A reader that was not iterated yet."""
        return LogReader(self.disk, ROOT, mode=mode)

    def records(self, mode: Mode = "tail") -> list[Record]:
        """Everything that is readable."""
        return list(self.reader(mode))

    def notes(self) -> list[int]:
        """The numbers that `note` appended, as a reader sees them."""
        return [r.payload["n"] for r in self.records() if r.type == "test.note"]

    def segments(self) -> dict[str, bytes]:
        """Every segment's bytes."""
        folder = f"{ROOT}/seg"
        return {
            name: self.disk.read(f"{folder}/{name}") for name in self.disk.listdir(folder)
        }

    def damage(self, name: str, change: Callable[[bytearray], None]) -> None:
        """Change a segment's bytes in place, durably."""
        node = self.disk._node(f"{ROOT}/seg/{name}")
        change(node.data)
        node.synced = bytes(node.data)


def note(n: int, size: int = 0) -> Entry:
    """An entry that tests can recognise."""
    return Entry("test.note", 1, {"n": n, "fill": "x" * size})


@pytest.fixture
def logs() -> Logs:
    """A fresh disk."""
    return Logs()


@pytest.fixture
def noted() -> Callable[..., Entry]:
    """The entry builder."""
    return note
