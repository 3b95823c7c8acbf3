"""The log where clients see late: readers wait, and writers are told by the server."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.engine.errors import LogDamaged, LogFailed, RunBusy
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.tools.harness.clients import Client, clients
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.world import SimClock, sim_writer

ROOT = "run/.jumar"
LATE: Counter[str] = Counter()
ENDS: Counter[str] = Counter()


def opened(disk: Client) -> LogWriter:
    return LogWriter.open(disk, ROOT, run_id="0" * 32, who=sim_writer(), clock=SimClock(),
                          background=False, seal_records=5)  # fmt: skip


def notes(disk: Client) -> tuple[list[int], str]:
    reader = LogReader(disk, ROOT)
    seen = [r.payload["n"] for r in reader if r.type == "t"]
    return seen, reader.end


def entries(numbers: list[int]) -> list[Entry]:
    return [Entry("t", 1, {"n": n, "fill": "x" * (n % 5) * 20}) for n in numbers]


@given(
    st.sampled_from(["nfs", "lustre"]),
    st.integers(0, 2**16),
    st.lists(st.tuples(st.sampled_from(["durable", "queued", "close"]), st.integers(1, 4)),
             max_size=8),
)  # fmt: skip
@settings(max_examples=80, derandomize=True, deadline=None)
def watched(fs: str, seed: int, script: list[tuple[str, int]]) -> None:
    disk = SimDisk()
    here, there = clients(disk, fs, (seed, seed + 1))
    log = opened(here)
    log.flush()
    appended: list[int] = []
    acked = 0
    for what, size in script:
        numbers = list(range(len(appended), len(appended) + size))
        appended += numbers
        log.append_all(entries(numbers), durable=what == "durable")
        if what == "close":
            log.close()
            log = opened(here)
            log.flush()
        if what != "queued":
            acked = len(appended)
        seen, end = notes(there)
        ENDS[end] += 1
        assert end in ("end", "not_yet_visible"), end
        assert seen == appended[: len(seen)]
    there.refresh()
    seen, end = notes(there)
    assert end == "end" and appended[:acked] == seen[:acked]
    LATE.update(there.late)


def test_a_reader_on_another_host_sees_a_beginning_and_never_damage() -> None:
    """And it really was late, in every way."""
    watched()
    assert ENDS["not_yet_visible"] and ENDS["end"]
    assert {kind for kind, n in LATE.items() if n} == {"size", "zeros", "listing", "absent"}


REFUSED: Counter[str] = Counter()


@given(st.sampled_from(["nfs", "lustre"]), st.integers(0, 2**16), st.booleans(),
       st.lists(st.integers(0, 1), min_size=1, max_size=12))  # fmt: skip
@settings(max_examples=120, derandomize=True, deadline=None)
def test_two_hosts_that_take_the_run_from_each_other_lose_nothing_acknowledged(
    fs: str, seed: int, fresh_open: bool, script: list[int]
) -> None:
    """
    Each in turn appends, or takes over when it is told that it was replaced.

    Even an open that reads old bytes loses nothing: the head that it cannot make, or that
    tells of more than it read, stops it.
    """
    disk = SimDisk()
    *hosts, fresh = clients(disk, fs, (seed, seed + 1, 0))
    logs: list[LogWriter | None] = [None, None]
    acked: list[int] = []
    n = 0
    for who in script:
        n += 1
        log = logs[who]
        if log is None:
            if fresh_open:
                hosts[who].refresh()
            try:
                log = logs[who] = opened(hosts[who])
            except (RunBusy, LogDamaged) as error:
                REFUSED[type(error).__name__] += 1
                assert not fresh_open or isinstance(error, RunBusy), error
                continue
        try:
            log.append_all(entries([n]), durable=True)
            acked.append(n)
        except LogFailed:
            log.close()
            logs[who] = None
    seen, end = notes(fresh)
    assert end == "end" and [number for number in seen if number in acked] == acked
