"""
Two real processes over gloo: the same outcome on both ranks, in bounded time.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.engine.real_disk import RealDisk
from jumar.reducers import events as ev
from jumar.tools.views.story import Story

pytestmark = pytest.mark.xdist_group("ranks")  # one tour serves all of them
WORKER = Path(__file__).with_name("worker.py")
LIMIT_S = 60.0
TOUR = (
    *("commit", "restart", "poisoned", "other_step", "write_fails", "busy", "no_log"),
    *("damaged", "other_policy"),
)


def play(where: Path, *cases: str) -> list[dict[str, Any]]:
    """Rank -> case -> result; both processes are gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    command = [sys.executable, str(WORKER), str(where), *cases]
    ranks = [
        subprocess.Popen(
            command,
            env={**os.environ, **shared, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        outputs = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    lines = [[line for line in out.splitlines() if line.startswith("{")] for out in outputs]
    return [{one["case"]: one["result"] for one in map(json.loads, rank)} for rank in lines]


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """All cases that end without a lost rank, in one pair of processes."""
    where = tmp_path_factory.mktemp("tour")
    return where, play(where, *TOUR)


@pytest.fixture
def results(toured: tuple[Path, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What both ranks said."""
    return toured[1]


def both(results: list[dict[str, Any]], case: str) -> Any:
    """The one result that both ranks came to."""
    assert results[0][case] == results[1][case]
    return results[0][case]


def story(where: Path) -> Story:
    """The log that was left."""
    return Story.read(RealDisk(), str(where))


def test_a_commit_and_the_end_are_the_same_on_both_ranks(
    results: list[dict[str, Any]],
) -> None:
    first, finished, fresh = both(results, "commit")

    assert first == {"status": "committed", "ckpt_id": "live@10r0", "reason": ""}
    assert (finished, fresh) == ("committed", True)


def test_a_restart_goes_on_with_the_same_weights(results: list[dict[str, Any]]) -> None:
    assert both(results, "restart") == [10, True]


def test_a_bad_batch_on_rank_1_is_rejected_on_both_and_names_rank_1(
    results: list[dict[str, Any]], toured: tuple[Path, Any]
) -> None:
    refused, sticky, restarted_at, cured = both(results, "poisoned")

    assert (refused["status"], refused["ckpt_id"]) == ("rejected", None)
    assert "not finite on rank 1, first at step 15" in refused["reason"]
    assert "2 in a row" in sticky["reason"]
    assert (restarted_at, cured["status"]) == (10, "committed")
    first = story(toured[0] / "poisoned").of(ev.CkptRejected)[0][1]
    assert isinstance(first, ev.CkptRejected) and first.ranks == (1,)


def test_a_rank_at_another_step_is_named_and_nothing_is_saved(
    results: list[dict[str, Any]], toured: tuple[Path, Any]
) -> None:
    told, fine = both(results, "other_step")

    assert told["error"] == "RankMismatch" and "rank 1 said another done" in told["text"]
    assert fine["status"] == "committed"
    assert len(story(toured[0] / "other_step").of(ev.CollMismatch)) == 1


def test_a_full_disk_on_one_rank_aborts_on_both_names_it_and_training_goes_on(
    results: list[dict[str, Any]], toured: tuple[Path, Any]
) -> None:
    on_1, on_0, fine = both(results, "write_fails")

    for rank, outcome in ((1, on_1), (0, on_0)):
        assert outcome["status"] == "aborted"
        assert f"rank {rank}: OSError" in outcome["reason"]
        assert "No space left" in outcome["reason"]
    assert fine["status"] == "committed"
    names = sorted(p.name for p in (toured[0] / "write_fails/live").iterdir())
    assert names == ["10", "40", "latest"], "no staging is left"


def test_a_second_open_says_who_holds_the_run_on_both_ranks(
    results: list[dict[str, Any]],
) -> None:
    told, fine = both(results, "busy")

    assert told["error"] == "RunBusy" and "since" in told["text"]
    assert fine["status"] == "committed"


def test_checkpoints_without_a_log_are_not_started_over(
    results: list[dict[str, Any]],
) -> None:
    told = both(results, "no_log")

    assert told["error"] == "RestoreError"
    assert "checkpoint-500" in told["text"] and "jumar import" in told["text"]


def test_a_damaged_log_is_refused_on_both_ranks_and_nothing_is_lost(
    results: list[dict[str, Any]],
) -> None:
    told, kept = both(results, "damaged")

    assert told["error"] == "LogDamaged" and ".seg" in told["text"]
    assert kept == ["10", "latest"]


def test_different_arguments_are_named(results: list[dict[str, Any]]) -> None:
    told = both(results, "other_policy")

    assert told["error"] == "RankMismatch" and "policy" in told["text"]


def test_a_save_on_one_rank_only_names_the_missing_one_in_bounded_time(
    tmp_path: Path,
) -> None:
    results = play(tmp_path, "one_rank_only")
    told = results[0]["one_rank_only"]

    assert told["value"]["error"] == "RankLost"
    assert "rank 1 did not come to the exchange 'agree'" in told["value"]["text"]
    assert told["took_s"] < 30


def test_a_rank_that_dies_while_writing_is_named_and_the_restart_needs_no_hand(
    tmp_path: Path,
) -> None:
    results = play(tmp_path, "killed")
    told = results[0]["killed"]["value"]

    assert told["error"] == "RankLost" and "rank 1" in told["text"]
    assert results[1] == {}
    left = story(tmp_path / "killed")
    aborted = [event for _, event in left.of(ev.CkptAborted)]
    assert [event.ranks for event in aborted if isinstance(event, ev.CkptAborted)] == [(1,)]
    again = play(tmp_path, "killed")
    assert again[0]["killed"]["value"]["error"] == "RankLost", (
        "it opened and went on from 10"
    )
