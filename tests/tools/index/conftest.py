"""A log on a simulated disk, and its index in a real file: SQLite knows no other disk."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from jumar.engine.disk import Disk
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.simulate import ROOT
from jumar.tools.harness.world import SimClock, sim_writer
from jumar.tools.index.index import Index

LOG = f"{ROOT}/.jumar"


@attrs.define
class Lab:
    """One log, and where its index lies."""

    place: Path
    disk: Disk = attrs.field(factory=SimDisk)
    root: str = LOG
    clock: SimClock = attrs.field(factory=SimClock)

    def writer(self) -> LogWriter:
        """A new epoch."""
        return LogWriter.open(
            self.disk, self.root, run_id="0" * 32, who=sim_writer(), clock=self.clock,
            background=False,
        )  # fmt: skip

    def write(self, *steps: int) -> None:
        """An epoch with one saved checkpoint per step."""
        writer = self.writer()
        writer.append_all([entry(step) for step in steps], durable=True)
        writer.close()

    def index(self) -> Index:
        """The index as it was left, brought up to date."""
        index = Index.open(self.disk, self.root, self.place)
        index.refresh()
        return index

    def steps(self, index: Index, **wish: Any) -> list[int]:
        """The steps of the checkpoints that the index finds, read from the segments."""
        return [r.payload["done"] for r in index.read(index.find("test.saved", **wish))]


def entry(step: int) -> Entry:
    """A record with a step and a checkpoint, of an ignorable type."""
    return Entry("test.saved?", 1, {"done": step, "ckpt_id": f"live@{step}r0"})


def content(place: Path) -> list[Any]:
    """Every row and the head of an index file, as SQLite itself reads it."""
    db = sqlite3.connect(place)
    try:
        return [
            *db.execute("SELECT * FROM event ORDER BY seq"),
            *db.execute("SELECT * FROM head"),
        ]
    finally:
        db.close()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A log with three checkpoints, not indexed yet."""
    lab = Lab(tmp_path / "index.sqlite")
    lab.write(100, 200, 300)
    return lab


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The helpers of this file, for tests that make their own log."""
    return SimpleNamespace(Lab=Lab, entry=entry, content=content)
