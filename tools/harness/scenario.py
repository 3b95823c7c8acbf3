"""
The scenario format: reading a JSON file strictly, before anything runs.

Anything wrong inside `policy` is the error `policy`; anything else wrong in the file,
unknown keys included, is the error `usage`.
"""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from jumar.engine.layout import LOG, POINTER
from jumar.reducers.errors import JumarError, PolicyError
from jumar.reducers.guard import COMPONENTS
from jumar.reducers.policy import Policy, Schedule

Op = Mapping[str, Any]

PHASES: Final = (
    *("ballot", "agree", "write", "outcome", "commit", "rename", "append"),
    *("publish", "prune", "unlink"),
)
OF_RANK_0: Final = frozenset(PHASES[4:])
"""Phases in which only rank 0 does something."""

STEP_MAX: Final = 10**15
WORLD_MAX: Final = 4096


class UsageError(JumarError):
    """A scenario that says something which the format does not allow."""


def refuse(
    what: str, value: object, why: str = "the scenario format does not allow it"
) -> Any:
    """Raise the `usage` error."""
    raise UsageError(
        what, why=why, instead="see `jumar simulate --help` for the format", value=value
    )


# --- checks of single values -----------------------------------------------------------


def _step(value: object) -> bool:
    return type(value) is int and 0 <= value <= STEP_MAX


def _rank(value: object) -> bool:
    return type(value) is int and 0 <= value < WORLD_MAX


def _ranks(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_rank, value))


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def metric_value(value: object) -> float | None:
    """A metric of the format as a float: numbers, "nan", "inf", "-inf", null."""
    if value is None:
        return None
    if value in ("nan", "inf", "-inf"):
        return float(str(value))
    if not _number(value):
        refuse(
            "a metric value was refused",
            value,
            'it is a number, "nan", "inf", "-inf", null',
        )
    return float(value)  # type: ignore[arg-type]


def _metric(value: object) -> bool:
    metric_value(value)
    return True


def _metrics(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(map(_text, value))
        and all(map(_metric, value.values()))
    )


def _one_of(*options: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in options


def _family(value: object) -> bool:
    known = isinstance(value, str) and value.isidentifier() and value == value.lower()
    return known and len(str(value)) <= 32 and str(value)[0] != "_"


def _foreign(value: object) -> bool:
    """A plain file name that jumar does not use itself."""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= 255:
        return False
    return not ({"/", "\0"} & set(value)) and value not in (".", "..", LOG, POINTER)


def _from(value: object) -> bool:
    return value in ("auto", "fresh") if isinstance(value, str) else _step(value)


def _whom(value: object) -> bool:
    return value == "all" or _ranks(value)


def _flag(value: object) -> bool:
    return type(value) is bool


def _done_or_none(value: object) -> bool:
    return value is None or _step(value)


def _errno(value: object) -> bool:
    return isinstance(value, str) and hasattr(errno, value) and value.startswith("E")


def _count(value: object) -> bool:
    return type(value) is int and 1 <= value <= WORLD_MAX


@attrs.frozen
class Shape:
    """One operation: its required and optional keys, each with its check."""

    needs: Mapping[str, Callable[[object], bool]]
    may: Mapping[str, Callable[[object], bool]] = {}


SHAPES: Final[Mapping[str, Shape]] = {
    "save": Shape(
        {"save": _step},
        {"metrics": _metrics, "family": _family, "reason": _text, "revise": _flag},
    ),
    "metric": Shape({"step": _step, "name": _text, "value": _metric}),
    "bad": Shape({"step": _step, "ranks": _ranks, "component": _one_of(*COMPONENTS)}),
    "fail": Shape({"rank": _rank, "phase": _one_of(*PHASES), "error": _errno}),
    "odd": Shape({"rank": _rank, "done": _done_or_none}),
    "crash": Shape({"phase": _one_of(*PHASES)}, {"ranks": _whom, "power": _flag}),
    "restart": Shape({"from": _from}, {"world": _count}),
    "clock": Shape({"add_s": _number}),
    "pin": Shape({"pin": _step}),
    "unpin": Shape({"unpin": _step}),
    "end": Shape({"end": _step}),
}
FLAT: Final = frozenset({"save", "pin", "unpin", "end"})
"""Operations whose own key holds a step, with further keys beside it."""

DISK: Final[Mapping[str, Callable[[object], bool]]] = {
    "remove": _step,
    "corrupt": _step,
    "truncate": _step,
    "foreign": _foreign,
    "mtimes": _one_of("equal", "reversed", "random"),
}

STEPS: Final = frozenset(
    {
        "alive",
        "pruned",
        "rejected",
        "aborted",
        "recovered",
        "superseded",
        "missing",
        "damaged",
    }
)
EXPECTED: Final = STEPS | {"best", "latest", "restart", "foreign"}


@attrs.frozen
class Scenario:
    """A file that was read and found well formed."""

    name: str
    world: int
    policy: Policy
    schedule: Schedule | None
    do: tuple[tuple[str, Op], ...]
    expect: Mapping[str, Any]


def parse(text: str) -> Any:
    """The JSON of a scenario file; UsageError when it is none."""
    try:
        plain = json.loads(text, parse_constant=lambda word: refuse("not a number", word))
    except ValueError as error:
        refuse("the file is not JSON", str(error))
    if not isinstance(plain, dict):
        refuse("a scenario is a JSON object", type(plain).__name__)
    return plain


def expected_error(plain: Mapping[str, Any]) -> str | None:
    """`policy` or `usage` when the file expects that; it stands alone then."""
    expect = plain.get("expect")
    if not isinstance(expect, dict) or "error" not in expect:
        return None
    if set(expect) != {"error"} or expect["error"] not in ("policy", "usage"):
        refuse('expect "error" stands alone and is "policy" or "usage"', expect)
    return str(expect["error"])


def read(plain: Mapping[str, Any]) -> Scenario:
    """
    Check the whole file.

    Raises:
        PolicyError: something wrong inside `policy`.
        UsageError: something wrong anywhere else.
    """
    unknown = plain.keys() - {"name", "world", "policy", "do", "expect"}
    if unknown:
        refuse("unknown keys in the scenario", sorted(unknown))
    if "policy" not in plain:
        refuse("the scenario has no policy", None)
    name, world, do = plain.get("name", ""), plain.get("world", 1), plain.get("do", [])
    if not isinstance(name, str) or not _count(world) or not isinstance(do, list):
        refuse("name, world or do was refused", [name, world], "a text, 1.., a list")
    policy, schedule = read_policy(plain["policy"])
    ops = tuple(_op(one) for one in do)
    return Scenario(name, world, policy, schedule, ops, _expect(plain.get("expect", {})))


def read_policy(plain: object) -> tuple[Policy, Schedule | None]:
    """The policy of a scenario, with its schedule inside; PolicyError."""
    if not isinstance(plain, dict):
        raise PolicyError("the policy was refused", why="it is not an object",
                          instead='write {"keep": [...]}', value=plain)  # fmt: skip
    rest = {key: value for key, value in plain.items() if key != "schedule"}
    schedule = Schedule.from_plain(plain["schedule"]) if "schedule" in plain else None
    policy = Policy.from_plain(rest)
    policy.check(schedule)
    return policy, schedule


def _op(plain: object) -> tuple[str, Op]:
    if not isinstance(plain, dict):
        refuse("an operation is an object", plain)
    assert isinstance(plain, dict)
    kinds = plain.keys() & ({*SHAPES, "disk"} - FLAT) or plain.keys() & FLAT
    if len(kinds) != 1:
        refuse(
            "an operation has one known key", plain, f"known: {sorted({*SHAPES, 'disk'})}"
        )
    kind = next(iter(kinds))
    if kind in FLAT:
        return kind, _fields(kind, plain, SHAPES[kind])
    if len(plain) != 1 or not isinstance(plain[kind], dict):
        refuse(f"{kind} holds one object and nothing beside it", plain)
    if kind == "disk":
        return kind, _disk(plain["disk"])
    return kind, _fields(kind, plain[kind], SHAPES[kind])


def _disk(body: Mapping[str, Any]) -> Op:
    if len(body) != 1 or not body.keys() <= DISK.keys():
        refuse("disk does one of its known things", body, f"known: {sorted(DISK)}")
    key, value = next(iter(body.items()))
    if not DISK[key](value):
        refuse(f"disk {key} was refused", value)
    return body


def _fields(kind: str, body: Mapping[str, Any], shape: Shape) -> Op:
    missing = shape.needs.keys() - body.keys()
    unknown = body.keys() - shape.needs.keys() - shape.may.keys()
    if missing or unknown:
        refuse(
            f"{kind} was refused",
            body,
            f"missing {sorted(missing)}, unknown {sorted(unknown)}",
        )
    for key, good in {**shape.needs, **shape.may}.items():
        if key in body and not good(body[key]):
            refuse(f"{kind} {key} was refused", body[key])
    return body


def _named(value: object) -> bool:
    """A step of `live`, or `family@step`."""
    if isinstance(value, str):
        family, at, step = value.partition("@")
        return bool(at) and _family(family) and step.isascii() and step.isdigit()
    return _step(value)


def _expect(plain: object) -> Mapping[str, Any]:
    if not isinstance(plain, dict):
        refuse("expect is an object", plain)
    assert isinstance(plain, dict)
    if unknown := plain.keys() - EXPECTED:
        refuse("unknown keys in expect", sorted(unknown), f"known: {sorted(EXPECTED)}")
    for key, value in plain.items():
        scalar = key in ("latest", "restart")
        each = [value] if scalar and value is not None else (value or [])
        named = _text if key == "foreign" else _named
        if not (scalar or isinstance(value, list)) or not all(named(one) for one in each):
            refuse(f"expect {key} was refused", value)
    return plain
