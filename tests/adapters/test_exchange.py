"""The coordinator over a store: order, names of late ranks, patience, tidiness."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch._C._distributed_c10d import FileStore, HashStore

from jumar.adapters.torch.exchange import StoreCoordinator, of_job
from jumar.engine.coordinator import SingleProcess
from jumar.engine.errors import RankLost

WORKER = Path(__file__).with_name("store_worker.py")
LIMIT_S = 90.0


def ranks(
    world: int, *, timeout_s: float = 20.0
) -> tuple[HashStore, list[StoreCoordinator]]:
    """Coordinators of one job over one store."""
    store = HashStore()
    made = [
        StoreCoordinator(store, rank, world, timeout_s=timeout_s, prefix="t")
        for rank in range(world)
    ]
    return store, made


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Results, or RankLost, of calls that run in threads."""
    results: list[Any] = [None] * len(calls)

    def run(i: int) -> None:
        try:
            results[i] = calls[i]()
        except RankLost as lost:
            results[i] = lost

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def lead(coordinator: StoreCoordinator, phase: str, message: bytes) -> bytes:
    """Rank 0: gather, then answer with everything joined."""
    joined = b"|".join(coordinator.gather(phase, message))
    coordinator.answer(phase, joined)
    return joined


def test_every_rank_gets_one_answer_made_of_all_messages_in_rank_order() -> None:
    _, (zero, one, two) = ranks(3)
    big = bytes(range(256)) * 40_000  # more than two pieces
    for n in range(5):
        name = str(n).encode()
        answers = at_once(
            partial(lead, zero, "p", name),
            partial(one.ask, "p", b"one"),
            partial(two.ask, "p", big),
        )
        assert [name + b"|one|" + big] * 3 == answers


def test_the_store_does_not_grow_with_the_number_of_exchanges() -> None:
    store, (zero, one) = ranks(2)
    sizes = []
    for _ in range(6):
        at_once(lambda: lead(zero, "p", b"0"), lambda: one.ask("p", b"1"))
        sizes.append(store.num_keys())

    assert len(set(sizes[1:])) == 1


def test_a_late_rank_is_named_on_all_that_wait() -> None:
    _, (zero, one, _) = ranks(3, timeout_s=0.3)
    results = at_once(lambda: lead(zero, "p", b""), lambda: one.ask("p", b""))

    assert [lost.ranks for lost in results] == [(2,), (2,)]
    assert [lost.phase for lost in results] == ["p", "p"]


def test_an_absent_rank_0_is_named() -> None:
    _, (_, one) = ranks(2, timeout_s=0.3)

    with pytest.raises(RankLost) as lost:
        one.ask("p", b"")
    assert lost.value.ranks == (0,)


def test_a_rank_that_gives_signs_of_life_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Goal: long writes are not taken for death.  The beat's rate limit is lifted here."""
    monkeypatch.setattr("jumar.adapters.torch.exchange.BEAT_S", 0.0)
    _, (zero, one) = ranks(2, timeout_s=0.4)
    done = threading.Event()

    def slow() -> bytes:
        for _ in range(8):
            one.beat()
            done.wait(0.2)
        return one.ask("p", b"late")

    results = at_once(lambda: lead(zero, "p", b"0"), slow)

    assert results == [b"0|late"] * 2


def test_a_rank_in_another_phase_did_not_come() -> None:
    _, (zero, one) = ranks(2)
    results = at_once(lambda: lead(zero, "agree", b""), lambda: one.ask("open", b""))

    assert [lost.ranks for lost in results] == [(1,), (1,)]


def test_a_file_will_do_as_the_store(tmp_path: Path) -> None:
    """Its time-outs are plain RuntimeErrors; each rank has a store object of its own."""
    stores = [FileStore(str(tmp_path / "store"), 3) for _ in range(3)]
    zero, one, _ = (
        StoreCoordinator(store, rank, 3, timeout_s=0.3, prefix="t")
        for rank, store in enumerate(stores)
    )
    results = at_once(lambda: lead(zero, "p", b""), lambda: one.ask("p", b""))

    assert [lost.ranks for lost in results] == [(2,), (2,)]


one_launch = pytest.mark.xdist_group("store")


@pytest.fixture(scope="module")
def processes() -> list[dict[str, Any]]:
    """What three real processes over a TCPStore came to: rank -> case -> result."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    started = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(rank), "3", port],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the store itself prints a page for a broken line
            text=True,
        )
        for rank in range(3)
    ]
    try:
        outputs = [process.communicate(timeout=LIMIT_S)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    lines = [map(json.loads, output.splitlines()) for output in outputs]
    return [{line["case"]: line["result"] for line in rank} for rank in lines]


@one_launch
def test_messages_above_the_limit_of_a_tcp_store_arrive_whole(
    processes: list[dict[str, Any]],
) -> None:
    assert [rank["big"] for rank in processes] == [[9 << 20] * 3] * 3


@one_launch
def test_a_process_at_long_work_is_waited_for(processes: list[dict[str, Any]]) -> None:
    assert [rank["busy"] for rank in processes] == ["012"] * 3


@one_launch
def test_a_late_process_is_named_by_the_others_and_hears_of_it_when_it_comes(
    processes: list[dict[str, Any]],
) -> None:
    assert [rank["late"] for rank in processes] == [[[2], "p"]] * 3


@one_launch
def test_the_death_of_rank_0_ends_every_wait_and_names_it(
    processes: list[dict[str, Any]],
) -> None:
    assert "killed" not in processes[0]
    assert [rank["killed"] for rank in processes[1:]] == [[[0], "p"]] * 2


def test_a_process_without_a_job_is_single() -> None:
    assert isinstance(of_job(1.0), SingleProcess)
