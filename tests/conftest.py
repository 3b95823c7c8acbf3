"""
Runs and logs on simulated disks; a run can be written out to a real directory.

An index always lies in a real file: SQLite knows no other disk.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from jumar.engine.disk import Disk
from jumar.engine.log.reader import LogReader, Mode
from jumar.engine.log.record import Entry, Record
from jumar.engine.log.writer import LogWriter
from jumar.tools.cli import main
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.scenario import read
from jumar.tools.harness.simulate import ROOT, Simulation
from jumar.tools.harness.world import SimClock, sim_writer
from jumar.tools.index.index import Index

POLICY = {"keep": [{"last": 2}, {"best": 1, "metric": "loss", "direction": "min"}],
          "on_reject": "skip"}  # fmt: skip


def write_out(disk: SimDisk, path: str, to: Path) -> None:
    """Copy a simulated tree to a real directory."""
    to.mkdir(parents=True, exist_ok=True)
    for name in disk.listdir(path):
        inner = f"{path}/{name}"
        stat = disk.stat(inner)
        assert stat is not None
        if stat.kind == "dir":
            write_out(disk, inner, to / name)
        elif stat.kind == "link":
            (to / name).symlink_to(disk.readlink(inner))
        else:
            (to / name).write_bytes(disk.read(inner))


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """`made(do, ...)`: the run directory that a scenario's operations leave."""

    def make(do: list[Any], **rest: Any) -> Path:
        plain = {"world": 2, "policy": POLICY, "do": do, **rest}
        simulation = Simulation(read(json.loads(json.dumps(plain))))
        simulation.play()
        run = tmp_path / "run"
        write_out(simulation.disk, ROOT, run)
        return run

    return make


LOG = f"{ROOT}/.jumar"


@attrs.define
class Logs:
    """Opens writers and readers over one disk."""

    disk: SimDisk = attrs.field(factory=SimDisk)
    clock: SimClock = attrs.field(factory=SimClock)

    def open(self, *, background: bool = False) -> LogWriter:
        """A new epoch."""
        return LogWriter.open(
            self.disk,
            LOG,
            run_id="0" * 32,
            who=sim_writer(),
            clock=self.clock,
            background=background,
        )

    def reader(self, mode: Mode = "tail") -> LogReader:
        """A reader that was not iterated yet."""
        return LogReader(self.disk, LOG, mode=mode)

    def records(self, mode: Mode = "tail") -> list[Record]:
        """Everything that is readable."""
        return list(self.reader(mode))

    def notes(self) -> list[int]:
        """The numbers that `note` appended, as a reader sees them."""
        return [r.payload["n"] for r in self.records() if r.type == "test.note"]

    def segments(self) -> dict[str, bytes]:
        """Every segment's bytes."""
        folder = f"{LOG}/seg"
        return {
            name: self.disk.read(f"{folder}/{name}") for name in self.disk.listdir(folder)
        }

    def damage(self, name: str, change: Callable[[bytearray], None]) -> None:
        """Change a segment's bytes in place, durably."""
        node = self.disk._node(f"{LOG}/seg/{name}")
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


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes the place of /tmp, so that no index stays behind there."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


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


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """(exit code, stdout and stderr) of a command."""

    def tell(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return tell
