"""Every scenario file under tests/scenarios holds, through the real engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jumar.tools.harness.command import judge

FILES = sorted((Path(__file__).resolve().parents[2] / "scenarios").glob("*.json"))
REPORTS = {1, 2, 3, 5, 8, 11, 13, 14, 32, 33, 37, 71}
PHASES = (
    *("ballot", "agree", "write", "outcome", "commit", "rename", "append"),
    *("publish", "prune", "unlink"),
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_holds(file: Path) -> None:
    verdict = judge(file.read_text())

    assert verdict.differs == {}
    assert verdict.exit == 0, verdict.error


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_can_fail(file: Path) -> None:
    """Each file expects something that a wrong engine would not give."""
    plain = json.loads(file.read_text())
    plain["expect"] = {"alive": [123456789]} if "error" not in plain["expect"] else {}

    assert judge(json.dumps(plain)).exit != 0


def test_every_report_and_every_row_of_the_crash_table_has_a_file() -> None:
    stems = [file.stem for file in FILES]

    assert {int(stem[6:9]) for stem in stems if stem.startswith("fault_")} == REPORTS
    assert {f"crash_before_{phase}" for phase in PHASES} <= set(stems)


def run(do: list[Any], **rest: Any) -> tuple[int, dict[str, Any]]:
    """A scenario in short: (exit, what the final state holds)."""
    plain = {"world": 2, "policy": {"keep": [{"last": 2}]}, "do": do, **rest}
    verdict = judge(json.dumps(plain))
    return verdict.exit, {key: value for key, value in verdict.final.items() if value}


SAVES: list[Any] = [{"save": 100}, {"save": 200}]


def test_saving_a_committed_step_again_merges_and_revising_replaces() -> None:
    _, merged = run([{"save": 100}, {"save": 100, "reason": "again"}, {"save": 200}])
    _, revised = run([{"save": 100}, {"save": 100, "revise": True}, {"save": 200}])

    assert merged == {"alive": [100, 200], "latest": 200, "restart": 200}
    assert revised["alive"] == [100, 200] and revised["pruned"] == [100]


def test_a_rank_that_says_another_step_saves_nothing_and_the_attempt_goes_on() -> None:
    _, final = run(
        [*SAVES, {"odd": {"rank": 1, "done": 301}}, {"save": 300}, {"save": 400}]
    )

    assert final["alive"] == [200, 400] and "aborted" not in final


@pytest.mark.parametrize("phase", ["agree", "outcome"])
def test_a_rank_that_does_not_come_ends_the_attempt(phase: str) -> None:
    fail = {"fail": {"rank": 1, "phase": phase, "error": "EIO"}}

    assert run([*SAVES, fail, {"save": 300}, {"save": 400}])[0] == 2
    _, final = run(
        [*SAVES, fail, {"save": 300}, {"restart": {"from": "auto"}}, {"save": 400}]
    )
    assert final["alive"] == [200, 400]
    assert ([300] if phase == "outcome" else []) == final.get("aborted", [])


@pytest.mark.parametrize("phase", ["ballot", "write", "commit", "rename"])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EDQUOT"])
def test_an_error_before_the_commit_aborts_and_the_attempt_goes_on(
    phase: str, error: str
) -> None:
    fail = {"fail": {"rank": 0, "phase": phase, "error": error}}
    _, final = run([*SAVES, fail, {"save": 300}, {"save": 400}])

    assert (final["alive"], final["aborted"]) == ([200, 400], [300])


@pytest.mark.parametrize("phase", ["publish", "prune", "unlink"])
def test_an_error_after_the_commit_changes_nothing_and_is_made_good(phase: str) -> None:
    fail = {"fail": {"rank": 0, "phase": phase, "error": "EIO"}}
    _, soon = run([*SAVES, fail, {"save": 300}])
    _, later = run([*SAVES, fail, {"save": 300}, {"save": 400}])

    assert soon["latest"] == 300
    assert (later["alive"], later["pruned"]) == ([300, 400], [100, 200])


def test_a_failed_append_is_decided_by_the_next_open() -> None:
    fail = {"fail": {"rank": 0, "phase": "append", "error": "EIO"}}
    _, final = run([*SAVES, fail, {"save": 300}, {"restart": {"from": "auto"}}])

    assert (final["recovered"], final["latest"]) == ([300], 300)


def test_a_restart_walks_back_over_damaged_and_missing_checkpoints() -> None:
    start = [*SAVES, {"disk": {"corrupt": 200}}]
    _, walked = run([*start, {"restart": {"from": "auto"}}, {"save": 200}])
    _, none = run([*start, {"disk": {"remove": 100}}, {"restart": {"from": "auto"}}])

    assert (walked["damaged"], walked["alive"]) == ([200], [100, 200])
    assert none == {"missing": [100], "damaged": [200]}


def test_a_truncated_part_is_damage_too() -> None:
    _, final = run([*SAVES, {"disk": {"truncate": 200}}])

    assert (final["damaged"], final["alive"], final["restart"]) == ([200], [100], 100)


def test_foreign_names_are_neither_counted_nor_deleted_nor_overwritten() -> None:
    do = [
        *SAVES,
        {"disk": {"foreign": "300"}},
        {"disk": {"foreign": "notes"}},
        {"save": 300},
    ]
    _, final = run(do)

    assert (final["alive"], final["foreign"]) == ([200, 300], ["300.foreign", "notes"])


def test_a_pin_holds_without_using_up_a_place() -> None:
    pinned = [{"save": 100}, {"pin": 100}, {"save": 200}, {"save": 300}, {"save": 400}]

    assert run(pinned)[1]["alive"] == [100, 300, 400]
    assert run([*pinned, {"unpin": 100}, {"save": 500}])[1]["alive"] == [400, 500]


def test_refusals_in_a_row_escalate_and_end_the_attempt() -> None:
    policy = {"keep": [{"last": 1}], "escalate_after": 3, "on_reject": "skip"}
    bad = {"bad": {"step": 250, "ranks": [1], "component": "grad"}}
    do = [*SAVES, bad, {"save": 300}, {"save": 400}, {"save": 500}]

    assert run(do, policy=policy)[1]["rejected"] == [300, 400, 500]
    assert run([*do, {"save": 600}], policy=policy)[0] == 2
    _, cured = run([*do, {"restart": {"from": "auto"}}, {"save": 300}], policy=policy)
    assert cured["latest"] == 300


@pytest.mark.parametrize(
    ("component", "live", "ema"),
    [("grad", False, False), ("loss", False, False), ("weights", False, False),
     ("optimizer", False, True), ("ema", True, False)],
)  # fmt: skip
def test_what_vetoes_what(component: str, live: bool, ema: bool) -> None:
    bad = {"bad": {"step": 5, "ranks": [0], "component": component}}
    _, final = run([bad, {"save": 10}, {"save": 10, "family": "ema"}])

    alive = final.get("alive", [])
    assert (live, ema) == (10 in alive, "ema@10" in alive)


def test_families_keep_by_their_own_policy() -> None:
    policy = {"keep": [{"last": 1}], "families": {"ema": {"keep": [{"last": 2}]}}}
    do = [{"save": n, "family": f} for n in (1, 2, 3) for f in ("live", "ema")]
    _, final = run([*do, {"restart": {"from": "auto"}}], policy=policy)

    assert final["alive"] == [3, "ema@2", "ema@3"]


def test_age_is_taken_from_the_clock_of_the_deciding_event() -> None:
    policy = {"keep": [{"within_s": 100}]}
    do = [
        {"save": 1},
        {"clock": {"add_s": 60}},
        {"save": 2},
        {"clock": {"add_s": 60}},
        {"save": 3},
    ]

    assert run(do, policy=policy)[1]["alive"] == [2, 3]


def test_a_share_of_the_schedule_is_kept() -> None:
    policy = {"keep": [{"ratio": 0.4}], "schedule": {"steps": 5, "save_every": 1}}

    assert run([{"save": n} for n in range(1, 6)], policy=policy)[1]["alive"] == [4, 5]


@pytest.mark.parametrize(
    ("on_rewind", "superseded", "pruned"),
    [("keep", [2, 3], []), ("quarantine", [2, 3], []), ("remove", [], [2, 3])],
)
def test_what_a_rewind_does_to_what_it_leaves_behind(
    on_rewind: str, superseded: list[int], pruned: list[int]
) -> None:
    policy = {"keep": [{"last": 9}], "on_rewind": on_rewind}
    do = [{"save": 1}, {"save": 2}, {"save": 3}, {"restart": {"from": 1}}, {"save": 4}]
    _, final = run(do, policy=policy)

    assert final["alive"] == [1, 4]
    assert (superseded, pruned) == (final.get("superseded", []), final.get("pruned", []))


def test_a_quarantined_checkpoint_can_be_restarted_from() -> None:
    policy = {"keep": [{"last": 9}], "on_rewind": "quarantine"}
    do = [{"save": 1}, {"save": 2}, {"save": 3}, {"restart": {"from": 1}}, {"save": 4},
          {"restart": {"from": 3}}, {"save": 5}]  # fmt: skip
    _, final = run(do, policy=policy)

    assert (final["alive"], final["superseded"]) == ([1, 2, 3, 5], [4])


def test_a_fresh_start_supersedes_everything_and_loads_nothing() -> None:
    assert run([*SAVES, {"restart": {"from": "fresh"}}])[1] == {"superseded": [100, 200]}


def test_the_end_commits_once_and_only_restart_and_disk_follow() -> None:
    assert run([*SAVES, {"end": 250}])[1]["alive"] == [200, 250]
    assert run([*SAVES, {"end": 200}])[1]["alive"] == [100, 200]
    assert run([*SAVES, {"end": 250}, {"save": 300}])[0] == 2


def test_a_metric_ranks_only_its_own_step_and_branch() -> None:
    policy = {"keep": [{"last": 2}, {"best": 1, "metric": "loss", "direction": "min"}]}
    late: list[Any] = [
        {"save": 1},
        {"save": 2},
        {"metric": {"step": 2, "name": "loss", "value": 3}},
    ]
    again = [*late, {"metric": {"step": 2, "name": "loss", "value": 1}}]
    rewound: list[Any] = [
        {"save": 1, "metrics": {"loss": 5}},
        {"save": 2, "metrics": {"loss": 0.1}},
        {"restart": {"from": 1}},
        {"save": 2},
    ]

    assert run(late, policy=policy)[1]["best"] == [2]
    assert run(again, policy=policy)[1]["best"] == [2]
    assert run(rewound, policy=policy)[1]["best"] == [1]


@pytest.mark.parametrize(
    "broken",
    [
        {"do": [{"jump": 1}]},
        {"do": [{"save": -1}]},
        {"do": [{"save": "1"}]},
        {"do": [{"save": True}]},
        {"do": [{"save": 1, "family": "EMA"}]},
        {"do": [{"save": 1, "family": "\u00e9ma"}]},
        {"do": [{"save": 1, "family": "../x"}]},
        {"do": [{"save": 1, "metrics": {"loss": "high"}}]},
        {"do": [{"save": 1, "extra": 1}]},
        {"do": [{"save": 100}, {"save": 50}]},
        {"do": [{"fail": {"rank": 1, "phase": "commit", "error": "EIO"}}]},
        {"do": [{"fail": {"rank": 2, "phase": "write", "error": "EIO"}}]},
        {"do": [{"fail": {"rank": 0, "phase": "write", "error": "NOPE"}}]},
        {"do": [{"crash": {"phase": "lunch"}}]},
        {"do": [{"crash": {"phase": "write"}}, {"save": 1}, {"save": 2}]},
        {"do": [{"restart": {"from": 7}}]},
        {"do": [{"disk": {"remove": 7}}]},
        {"do": [{"disk": {"foreign": "../x"}}]},
        {"do": [{"disk": {"foreign": "7"}}, {"disk": {"corrupt": 7}}]},
        {"do": [{"bad": {"step": 300, "ranks": [0], "component": "grad"}}, {"save": 200}]},
        {"do": [{"save": 5}, {"bad": {"step": 5, "ranks": [0], "component": "grad"}}]},
        {"do": [{"pin": 3}]},
        {"world": 0},
        {"surprise": 1},
        {"expect": {"alife": []}},
        {"expect": {"latest": "x"}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_mistake_in_the_file_is_a_usage_error(broken: dict[str, Any]) -> None:
    plain = {"world": 2, "policy": {"keep": [{"last": 2}]}, "do": [], **broken}
    verdict = judge(json.dumps(plain))

    assert (verdict.exit, type(verdict.error).__name__) == (2, "UsageError")
    if "expect" not in broken:
        wished = json.dumps({**plain, "expect": {"error": "usage"}})
        assert judge(wished).exit == 0
        assert judge(json.dumps({**plain, "expect": {"error": "policy"}})).exit == 2


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"keep": []},
        {"keep": [{"last": 0}]},
        {"keep": [{"last": -1}]},
        {"keep": [{"last": True}]},
        {"keep": [{"last": 2}, {"last": 3}]},
        {"keep": [{"best": 1, "metric": "loss"}]},
        {"keep": [{"best": 1, "metric": "l", "direction": "up"}]},
        {"keep": [{"best": 1, "metric": "l", "direction": "min"},
                  {"best": 2, "metric": "l", "direction": "max"}]},
        {"keep": [{"every": 5}, {"every": 5}]},
        {"keep": [{"ratio": 0.5}]},
        {"keep": [{"last": 1}, {"ratio": 0.5}], "schedule": {"steps": 9, "save_every": 1}},
        {"keep": [{"last": 1}], "ties": "random"},
        {"keep": [{"last": 1}], "on_reject": "shrug"},
        {"keep": [{"last": 1}], "escalate_after": 0},
        {"keep": [{"last": 1}], "on_rewind": "burn"},
        {"keep": [{"last": 1}], "families": {"live": {"keep": [{"last": 1}]}}},
        {"keep": [{"last": 1}], "families": {"ema": {"keep": [{"last": 0}]}}},
        {"keep": [{"last": 1}], "families": {"../ema": {"keep": [{"last": 1}]}}},
        {"keep": [{"last": 1}], "schedule": {"steps": 0, "save_every": 1}},
        {"keep": [{"latest": 1}]},
        {"kept": [{"last": 1}]},
        [],
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_mistake_in_the_policy_is_a_policy_error(policy: Any) -> None:
    plain = {"policy": policy, "do": []}
    verdict = judge(json.dumps(plain))

    assert (verdict.exit, type(verdict.error).__name__) == (2, "PolicyError")
    assert judge(json.dumps({**plain, "expect": {"error": "policy"}})).exit == 0
    assert judge(json.dumps({**plain, "expect": {"error": "usage"}})).exit == 2


def test_a_prune_is_called_back_when_what_it_was_pruned_for_is_broken() -> None:
    """Three copies: the newest is damaged, the oldest is out of sight but whole."""
    do = [*SAVES, {"crash": {"phase": "unlink"}}, {"save": 300}, {"disk": {"corrupt": 300}},
          {"restart": {"from": "auto"}}]  # fmt: skip
    _, final = run(do)

    assert (final["alive"], final["damaged"], final["restart"]) == ([100, 200], [300], 200)
    assert "pruned" not in final


def test_a_prune_whose_reason_is_whole_is_finished_by_the_open() -> None:
    do = [
        *SAVES,
        {"crash": {"phase": "unlink"}},
        {"save": 300},
        {"restart": {"from": "auto"}},
    ]

    assert run(do)[1]["pruned"] == [100]


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        ({"alive": [200, 100]}, True),
        ({"alive": ["live@100", 200]}, True),
        ({"alive": [100]}, False),
        ({"alive": [100, 100, 200]}, False),
        ({"best": [200, 100]}, True),
        ({"best": [100, 200]}, False),
        ({"latest": 200, "restart": 200}, True),
        ({"latest": None}, False),
        ({"foreign": []}, True),
    ],
)
def test_lists_compare_as_sets_and_best_in_order(
    expect: dict[str, Any], holds: bool
) -> None:
    policy = {"keep": [{"best": 2, "metric": "loss", "direction": "min"}]}
    do = [{"save": n, "metrics": {"loss": -n}} for n in (100, 200)]

    assert (0 if holds else 1) == run(do, policy=policy, expect=expect)[0]
