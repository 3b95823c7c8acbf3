"""
Any script that the format allows runs to its end, and what is left makes sense.

The invariants are stated from the script and the final state alone, by slow and obvious
code; a failing script prints as a scenario file.
"""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from jumar.tools.harness.command import judge
from jumar.tools.harness.shapes import PHASES

BUDGET = 4000 if os.environ.get("JUMAR_SOAK") else 40
STEPS = st.integers(1, 12)
METRIC = st.one_of(st.none(), st.sampled_from(["nan", "inf", "-inf", 0, 1, 2.5, -1]))
FAMILY = st.sampled_from(["live", "live", "live", "ema"])
OPS = st.one_of(
    st.builds(
        lambda gap, loss, family, revise: {
            "save": gap, "metrics": {"loss": loss}, "family": family, "revise": revise
        },
        st.integers(0, 3), METRIC, FAMILY, st.sampled_from([False, False, True]),
    ),
    st.builds(
        lambda n, v: {"metric": {"step": n, "name": "loss", "value": v}}, STEPS, METRIC
    ),
    st.builds(
        lambda rank, c: {"bad": {"step": 0, "ranks": [rank], "component": c}},
        st.integers(0, 1), st.sampled_from(["grad", "loss", "weights", "ema", "optimizer"]),
    ),
    st.builds(
        lambda rank, phase, error: {"fail": {"rank": rank, "phase": phase, "error": error}},
        st.integers(0, 1), st.sampled_from(PHASES), st.sampled_from(["EIO", "ENOSPC"]),
    ),
    st.builds(lambda n: {"odd": {"rank": 1, "done": n}}, st.one_of(st.none(), STEPS)),
    st.builds(
        lambda phase, ranks, power: {
            "crash": {"phase": phase, "ranks": ranks, "power": power}
        },
        st.sampled_from(PHASES), st.sampled_from(["all", [0], [1]]), st.booleans(),
    ),
    st.builds(lambda source: {"restart": {"from": source}},
              st.one_of(st.just("auto"), st.just("auto"), st.just("fresh"), STEPS)),
    st.builds(lambda what, n: {"disk": {what: n}},
              st.sampled_from(["remove", "corrupt", "truncate"]), STEPS),
    st.builds(lambda n: {"disk": {"foreign": str(n)}}, STEPS),
    st.builds(lambda n: {"pin": n}, STEPS),
    st.builds(lambda n: {"end": n}, st.integers(0, 2)),
)  # fmt: skip
KEEP = st.sampled_from(
    [
        [{"last": 1}],
        [{"last": 2}, {"best": 1, "metric": "loss", "direction": "min"}],
        [{"best": 2, "metric": "loss", "direction": "max"}],
        [{"every": 4}, {"last": 1}],
    ]
)
POLICY = st.builds(
    lambda keep, rewind, ties, after: {
        "keep": keep, "on_rewind": rewind, "ties": ties, "escalate_after": after
    },
    KEEP, st.sampled_from(["keep", "quarantine", "remove"]),
    st.sampled_from(["oldest", "newest"]), st.sampled_from([1, 2, 10]),
)  # fmt: skip


def legal(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps go up as the format wants them; a gap of zero saves again at the same step."""
    last, made = 0, []
    for op in ops:
        kind = next(iter(op))
        if kind in ("save", "end"):
            last += op[kind]
            op = {**op, kind: last}
        elif kind == "bad":
            op = {"bad": {**op["bad"], "step": last + 1}}
            last += 1
            made.append(op)
            op = {"save": last}
        made.append(op)
    return made


@given(policy=POLICY, ops=st.lists(OPS, min_size=3, max_size=16))
@settings(max_examples=BUDGET, derandomize=True, deadline=None)
def test_any_script_runs_and_what_is_left_makes_sense(
    policy: dict[str, Any], ops: list[dict[str, Any]]
) -> None:
    """A script that goes on after its attempt ended is continued by a restart first."""
    do: list[dict[str, Any]] = []
    for op in legal(ops):
        do.append(op)
        if judge(json.dumps({"world": 2, "policy": policy, "do": do})).exit == 2:
            do.pop()
            if next(iter(op)) == "save":
                do += [{"restart": {"from": "fresh"}}, {"save": op["save"]}]
    text = json.dumps({"world": 2, "policy": policy, "do": do})
    note(text)
    verdict = judge(text)

    assert verdict.exit == 0, verdict.error
    makes_sense(verdict.final)


def makes_sense(final: dict[str, Any]) -> None:
    """What must hold of every final state."""
    live = [n for n in final["alive"] if isinstance(n, int)]
    assert (final["latest"] in live) if live else final["latest"] is None
    assert set(final["best"]) <= set(live)
    assert final["restart"] is None or final["restart"] in live
    if live:
        assert final["restart"] == final["latest"], "auto loads the newest that verifies"
