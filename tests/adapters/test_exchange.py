"""The coordinator over a store: order, names of late ranks, patience, tidiness."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from torch._C._distributed_c10d import HashStore

from jumar.adapters.torch.exchange import StoreCoordinator, of_job
from jumar.engine.coordinator import SingleProcess
from jumar.engine.errors import RankLost


def ranks(
    world: int, *, timeout_s: float = 20.0
) -> tuple[HashStore, list[StoreCoordinator]]:
    """Coordinators of one job over one store."""
    store = HashStore()
    made = [
        StoreCoordinator(store, rank, world, timeout_s=timeout_s, name="t")
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
    big = bytes(2_000_000)
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


def test_a_process_without_a_job_is_single() -> None:
    assert isinstance(of_job(1.0), SingleProcess)
