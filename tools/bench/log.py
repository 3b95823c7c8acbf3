"""Rows 3 and 4: a durable append, and one that nobody waits for."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jumar.engine.clock import SystemClock
from jumar.engine.log.claims import this_process
from jumar.engine.log.frame import frame
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.engine.real_disk import RealDisk
from jumar.tools.bench.pairs import Row, ratios, row

ENTRY = Entry("bench.event", 1, {"done": 400, "name": "val/loss", "fill": "x" * 200})


@contextmanager
def log_in(directory: str, *, background: bool) -> Iterator[LogWriter]:
    """A log on the disk that holds this directory."""
    log = LogWriter.open(
        RealDisk(),
        f"{directory}/.jumar",
        run_id="0" * 32,
        who=this_process(),
        clock=SystemClock(),
        background=background,
    )
    yield log
    log.close()


def durable() -> Row:
    """One event, durable, against one write and fdatasync of as many bytes."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        fd = os.open(f"{directory}/plain", os.O_WRONLY | os.O_CREAT)
        bytes_of_one = frame(bytes(340))

        def theirs() -> None:
            os.write(fd, bytes_of_one)
            os.fdatasync(fd)

        with log_in(directory, background=False) as log:
            found = ratios(lambda: log.append(ENTRY, durable=True), theirs, repeats=40)
        os.close(fd)
    return row(
        "durable append of one event",
        1.25,
        "one write + fdatasync of the same bytes",
        found,
    )


def queued() -> Row:
    """What the training thread pays for an event that rides along."""
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as directory,
        log_in(directory, background=True) as log,
    ):
        took = []
        for _ in range(4000):
            begun = time.perf_counter_ns()
            log.append(ENTRY)
            took.append(time.perf_counter_ns() - begun)
    middle = statistics.median(took) / 1000
    what = "append from the training thread, not durable"
    return Row(what, "<= 20 us p50", "-", f"{middle:.1f} us", middle <= 20)
