"""The vocabulary is strict where it is built and read, and its names are fixed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import attrs
import pytest

from jumar.reducers import events as ev
from jumar.reducers.errors import SchemaError
from jumar.reducers.fields import (
    choice,
    count,
    flag,
    many,
    maybe,
    maybe_count,
    real,
    text,
    texts,
)
from jumar.reducers.making import Value, value
from jumar.reducers.policy import Policy
from jumar.reducers.rules import KeepLast, Schedule
from jumar.reducers.schema import (
    UPCASTERS,
    Unknown,
    decode,
    encode,
    lift,
    missing_upcasters,
)
from jumar.reducers.values import Metric, Part

SHA = "ab" * 32
KNOWN = {
    "run.started": (1, True, False),
    "policy.resolved": (1, True, False),
    "schedule.resolved": (1, True, False),
    "attempt.started": (1, True, True),
    "attempt.ended": (2, True, False),
    "run.finished": (1, True, True),
    "run.failed": (1, True, True),
    "writer.claimed": (2, False, False),
    "writer.recovered": (1, False, False),
    "segment.opened": (1, False, False),
    "head.published": (1, False, False),
    "evidence.sealed": (2, False, False),
    "rank.joined": (1, False, False),
    "rank.left": (1, False, False),
    "log.dropped": (1, False, False),
    "note.correction": (1, False, False),
    "guard.verdict": (2, True, False),
    "guard.found": (1, False, False),
    "guard.action": (1, True, False),
    "metric.reported": (1, True, False),
    "ckpt.proposed": (1, True, False),
    "ckpt.rejected": (1, True, True),
    "ckpt.accepted": (1, True, True),
    "ckpt.written": (1, True, False),
    "ckpt.committed": (1, True, True),
    "ckpt.aborted": (1, True, True),
    "ckpt.merged": (1, True, False),
    "ckpt.observed": (1, True, False),
    "ckpt.pinned": (1, True, False),
    "ckpt.unpinned": (1, True, False),
    "ckpt.moved": (1, False, False),
    "pointer.moved": (1, False, False),
    "prune.planned": (1, True, False),
    "prune.started": (1, True, True),
    "prune.done": (1, True, False),
    "prune.failed": (1, True, False),
    "restart.requested": (1, True, False),
    "restart.selected": (1, True, True),
    "sharding.resolved": (1, False, False),
    "restart.component": (2, True, False),
    "restart.completed": (1, True, False),
    "coll.mismatch": (2, False, False),
    "coll.waiting": (1, False, False),
}
"""A released type is never renamed and never means something else: changing this table is
a decision."""


def test_the_registry_is_what_was_decided() -> None:
    found = {name: (cls.v, cls.critical, cls.barrier) for name, cls in ev.TYPES.items()}

    assert found == KNOWN


@value
class Sample(Value):
    """One field of each kind."""

    n: int = count("things", lo=1, hi=9)
    maybe_n: int | None = maybe_count("things")
    x: float = real("seconds")
    on: bool = flag("switch")
    word: str = text("a word", size_max=5, pattern="[a-z]+")
    pick: str = choice("a", "b")
    words: tuple[str, ...] = texts("words", size_max=3)
    inner: Metric | None = maybe(Metric)
    parts: tuple[Part, ...] = many(Part)


PART = Part(name="f", rank=0, size=1, sha256=SHA)
GOOD: dict[str, Any] = {
    "n": 3, "maybe_n": None, "x": 1.5, "on": True, "word": "abc", "pick": "a",
    "words": ("x", "yy"), "inner": Metric.of(2.0), "parts": (PART,),
}  # fmt: skip


def test_what_is_built_is_read_back_equal() -> None:
    sample = Sample(**GOOD)

    assert sample == Sample.from_plain(sample.to_plain())
    assert sample.to_plain()["words"] == ["x", "yy"]


def test_what_was_read_is_as_frozen_as_what_was_built() -> None:
    read = Sample.from_plain(Sample(**GOOD).to_plain())

    field = "name"
    for one in (read, *read.parts):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(one, field, "other")
    assert {type(read), *map(type, read.parts)} == {Sample, Part}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("n", wrong) for wrong in ("1", 1.0, 1.9, True, None, 0, 10)),
        *(("maybe_n", wrong) for wrong in ("", False, -1)),
        *(("x", wrong) for wrong in (1, "1.5", float("nan"), float("inf"), True)),
        *(("on", wrong) for wrong in (1, 0, "true", None)),
        *(("word", wrong) for wrong in (b"abc", "abcdef", "ABC", "ab\n", "", 5)),
        *(("pick", wrong) for wrong in ("c", "", None, ["a"])),
        *(("words", wrong) for wrong in (["x"], ("toolong",), (1,), "xyz", None)),
        *(("inner", wrong) for wrong in (2.0, {"state": "finite", "value": 2.0})),
        *(("parts", wrong) for wrong in ([PART], (None,), PART)),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_built_and_named(
    name: str, wrong: object
) -> None:
    with pytest.raises(SchemaError, match=f"Sample.{name}") as refused:
        Sample(**{**GOOD, name: wrong})

    assert wrong is refused.value.value or wrong != wrong


@pytest.mark.parametrize(
    "change",
    [
        {"n": "3"},
        {"n": 10},
        {"maybe_n": False},
        {"word": "ABC"},
        {"n": True},
        {"n": None},
        {"n": ...},
        {"x": 2},
        {"words": "xy"},
        {"words": ["x", 1]},
        {"words": ["toolong"]},
        {"parts": [None]},
        {"parts": [{"name": "f"}]},
        {"parts": {}},
        {"inner": {"state": "odd", "value": 1.0}},
        {"inner": 3},
        {"extra": 1},
        {"n": ..., "extra": 1},
    ],
    ids=repr,
)
def test_a_stored_value_is_never_coerced(change: dict[str, Any]) -> None:
    plain = {**Sample(**GOOD).to_plain(), **change}
    if plain["n"] is ...:
        del plain["n"]
    with pytest.raises(SchemaError):
        Sample.from_plain(plain)


EVENTS: list[ev.Event] = [
    ev.PolicyResolved(policy=Policy(keep=[KeepLast(3)])),
    ev.ScheduleResolved(schedule=Schedule(steps=10, save_every=2)),
    ev.ScheduleResolved(schedule=None),
    ev.PruneStarted(ckpt_id="live@400r0", because="live@700r0"),
    ev.MetricReported(
        attempt=0, done=5, name="loss", metric=Metric.of(float("nan")), data="", family=None
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_an_event_survives_being_stored(event: ev.Event) -> None:
    assert event == decode(*encode(event))


@pytest.mark.parametrize(
    "name",
    ["live@400", "Live@4r0", "live@04r0", "live@4r", "@4r0", "live@4r00", "live@-1r0"],
)
def test_an_identity_has_one_form(name: str) -> None:
    with pytest.raises(SchemaError):
        ev.PruneStarted(ckpt_id=name, because="live@1r0")


@pytest.mark.parametrize(
    ("number", "state", "finite"),
    [
        (1, "finite", True),
        (-0.0, "finite", True),
        (float("nan"), "nan", False),
        (float("inf"), "+inf", False),
        (float("-inf"), "-inf", False),
        (None, "missing", False),
    ],
)
def test_a_metric_is_data_whatever_it_is(
    number: float | None, state: str, finite: bool
) -> None:
    metric = Metric.of(number)

    assert (state, finite) == (metric.state, metric.finite)
    assert metric == Metric.from_plain(metric.to_plain())


def test_unknown_types_are_critical_unless_they_are_marked() -> None:
    assert Unknown("new.type", 1, True, {}) == decode("new.type", 1, {})
    assert Unknown("new.type", 1, False, {}) == decode("new.type?", 1, {})
    assert Unknown("prune.done", 2, True, {}) == decode("prune.done", 2, {})
    assert (
        encode(ev.PointerMoved(family="live", pointer="latest", to="live@1r0"))[0]
        == "pointer.moved?"
    )


def test_every_old_version_has_its_upcaster() -> None:
    assert missing_upcasters() == []
    assert set(UPCASTERS) <= {(n, v) for n, c in ev.TYPES.items() for v in range(1, c.v)}


def test_old_payloads_are_lifted_step_by_step_and_a_gap_is_an_error() -> None:
    """A made-up type of three versions: renamed, then given a unit."""
    table = {
        ("x", 1): lambda p: {"length": p["len"]},
        ("x", 2): lambda p: {"length_mm": p["length"] * 1000},
    }

    assert lift("x", 1, 3, {"len": 2}, table) == {"length_mm": 2000}
    assert lift("x", 2, 3, {"length": 5}, table) == {"length_mm": 5000}
    with pytest.raises(SchemaError, match="no upcaster"):
        lift("x", 1, 4, {"len": 2}, table)


CODE = """
import json, sys
from jumar.tools.harness.scenario import read
from jumar.tools.harness.simulate import Simulation, ROOT
from jumar.tools.harness.judge import Judge
from jumar.engine.layout import Layout
do = [{"save": n, "family": f, "metrics": {"b": n, "a": -n}}
      for n in (1, 2, 3) for f in ("ema", "live", "aux")]
keep = [{"last": 2}, {"best": 1, "metric": "a", "direction": "min"}]
s = Simulation(read({"world": 2, "policy": {"keep": keep}, "do": do}))
s.play()
state = Judge(s.disk, Layout(ROOT)).state
state.run_id = ""  # random, and so are the bytes that name it
for ckpt in state.ckpts.values():
    ckpt.parts, ckpt.manifest_sha256 = (), ""
print(state.digest())
"""


def test_the_state_digest_does_not_depend_on_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1 and len(digests.pop()) == 65
