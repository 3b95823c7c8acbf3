"""
Rows 7 and 9: replay of a whole log, and the memory that it takes.

    python -m jumar.tools.bench.replay DIRECTORY --events 10000000

makes a log of that size in an empty directory, replays it once, and prints both figures.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from jumar.engine.clock import SystemClock
from jumar.engine.history import History
from jumar.engine.log.claims import this_process
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.engine.real_disk import RealDisk
from jumar.reducers import events as ev
from jumar.reducers.policy import Policy
from jumar.reducers.rules import KeepLast
from jumar.reducers.values import (
    ComponentVector,
    Declared,
    Metric,
    Part,
    RankOutcome,
    Victim,
)
from jumar.tools.bench.pairs import Row, ratios

SHA: Final = "ab" * 32
KEPT: Final = 5
EVENTS: Final = 60_000


def told() -> Iterator[ev.Event]:
    """
    The events of an endless run of two ranks, in constant memory.

    Of 53, 37 are verdicts, 8 metrics, and 8 a boundary: proposed, accepted, written,
    committed, pointer, prune planned, started and done.
    """
    yield ev.RunStarted(run_id="0" * 32, version="bench", layout="native")
    yield ev.PolicyResolved(policy=Policy(keep=[KeepLast(KEPT)]))
    yield ev.AttemptStarted(attempt=0, world=2)
    yield ev.RestartRequested(attempt=0, mode="new", at=None)
    yield ev.RestartSelected(attempt=0, ckpt_id=None, done=0, candidates=())
    done = 0
    while True:
        for n in range(37):
            done += 1
            yield _verdict(done)
            if n % 5 == 0:
                metric = Metric.of(1.0 / done)
                yield ev.MetricReported(attempt=0, done=done, name="loss", metric=metric,
                                        data="val", family=None)  # fmt: skip
        yield from _boundary(done)


def _verdict(done: int) -> ev.Event:
    vectors = tuple(
        ComponentVector(name=name, fed=(1, 1), first_bad=(-1, -1))
        for name in ("grad", "loss", "weights")
    )
    return ev.GuardVerdict(attempt=0, from_done=done - 1, to_done=done, components=vectors,
                           flagged=(), skipped=(0, 0), replicas=())  # fmt: skip


def _boundary(done: int) -> Iterator[ev.Event]:
    at = f"live@{done}r0"
    parts = tuple(Part(name=f"p{r}", rank=r, size=1000, sha256=SHA) for r in (0, 1))
    yield ev.CkptProposed(family="live", done=done, attempt=0, reasons=("every",))
    yield ev.CkptAccepted(
        ckpt_id=at, family="live", done=done, revision=0, attempt=0, epoch=1,
        parent=None if done == 37 else f"live@{done - 37}r0", verified=True,
        clock_ns=10**18 + done, reasons=("every",), rankings=(),
        declared=tuple(Declared(name=p.name, rank=p.rank, size_min=1) for p in parts),
    )  # fmt: skip
    yield ev.CkptWritten(
        ckpt_id=at, ranks=tuple(RankOutcome(parts=(part,), error=None) for part in parts)
    )
    yield ev.CkptCommitted(ckpt_id=at, manifest_sha256=SHA, parts=parts, recovered=False)
    yield ev.PointerMoved(family="live", pointer="latest", to=at)
    old = done - 37 * KEPT
    if old > 0:
        gone = f"live@{old}r0"
        yield ev.PrunePlanned(
            family="live", because=at, clock_ns=10**18 + done, kept=(), protected=(),
            victims=(Victim(ckpt_id=gone, rule=f"last {KEPT}"),),
        )  # fmt: skip
        yield ev.PruneStarted(ckpt_id=gone, because=at)
        yield ev.PruneDone(ckpt_id=gone, already_gone=False)


def make_log(directory: str, events: int, *, progress: bool = False) -> None:
    """A log of so many events, in segments as a run makes them."""
    log = LogWriter.open(
        RealDisk(), f"{directory}/.jumar", run_id="0" * 32, who=this_process(),
        clock=SystemClock(), background=False,
    )  # fmt: skip
    written, events_left = 0, islice(told(), events)
    while some := [Entry.of(event) for event in islice(events_left, 1000)]:
        log.append_all(some, durable=True)
        written += len(some)
        if progress and written % 500_000 == 0:
            print(f"{written} of {events} events written", file=sys.stderr)
    log.close()


def replay(directory: str) -> History:
    """Read, check frames and chain, decode, fold."""
    history = History()
    history.catch_up(RealDisk(), f"{directory}/.jumar")
    return history


def peak_mib(directory: str) -> tuple[float, float]:
    """(peak resident MiB, events/s) of a fresh process that only replays."""
    done = subprocess.run(
        [sys.executable, "-m", "jumar.tools.bench.replay", directory],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    rate, peak = done.stdout.split()
    return float(peak), float(rate)


def _measure(directory: str) -> str:
    """`events/s MiB` of this process."""
    begun = time.perf_counter()
    size = replay(directory).size
    rate = size / (time.perf_counter() - begun)
    # Not `ru_maxrss`: across an exec that one keeps the peak of the parent.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return f"{rate:.0f} {peak:.1f}"


def speed() -> Row:
    """Events a second, and the ratio to an aggregate of the `eventsourcing` package."""
    what, bar = "replay, chain verified", ">= 200 k events/s, >= 5x"
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        make_log(directory, EVENTS)
        best = max(float(_measure(directory).split()[0]) for _ in range(5))
        try:
            theirs = aggregate(EVENTS // 6)
        except ModuleNotFoundError:
            seen = f"{best / 1000:.0f} k/s; `eventsourcing` is not installed"
            return Row(what, bar, "-", seen, False)
        found = ratios(lambda: theirs(), lambda: replay(directory), repeats=1, pairs=7)
    middle = statistics.median(found) * 6  # theirs had a sixth of the events
    seen = f"{best / 1000:.0f} k/s, {middle:.1f}x"
    holds = best >= 200_000 and middle >= 5
    return Row(what, bar, "`eventsourcing` aggregate replay", seen, holds)


def aggregate(events: int) -> Callable[[], object]:
    """A repository read of one aggregate with so many events, from memory, no snapshot."""
    from eventsourcing.application import Application
    from eventsourcing.domain import Aggregate, event

    class Training(Aggregate):
        @event("Started")
        def __init__(self, run_id: str) -> None:
            self.run_id, self.done, self.fed = run_id, 0, 0

        @event("Verdict")
        def verdict(self, done: int, components: list[dict[str, Any]]) -> None:
            self.done, self.fed = done, components[0]["fed"][0]

    app: Any = Application()
    made = Training("0" * 32)
    parts = [{"name": n, "fed": [1, 1], "first_bad": [-1, -1]} for n in ("a", "b", "c")]
    for done in range(events):
        made.verdict(done, parts)
    app.save(made)
    return lambda: app.repository.get(made.id)


def memory() -> Row:
    """Peak of a log of 8n events over that of n."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        peaks = []
        for n in (EVENTS, 8 * EVENTS):
            make_log(f"{directory}/{n}", n)
            peaks.append(peak_mib(f"{directory}/{n}")[0])
    grown = peaks[1] - peaks[0]
    seen = f"{peaks[0]:.0f} MiB, then {peaks[1]:.0f} MiB"
    bar = "<= 16 MiB more for 8x the events"
    return Row("replay memory", bar, f"{EVENTS} events", seen, grown <= 16)


def main() -> None:
    """Replay a directory; with `--events`, make the log first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--events", type=int, help="make a log of so many events first")
    wished = parser.parse_args()
    if wished.events is not None:
        make_log(wished.directory, wished.events, progress=True)
        peak, rate = peak_mib(wished.directory)
        print(f"{wished.events} events: {rate:.0f} events/s, peak {peak:.0f} MiB")
    else:
        print(_measure(wished.directory))


if __name__ == "__main__":
    main()
