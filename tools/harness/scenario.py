"""
The scenario format: reading a JSON file strictly, before anything runs.

Anything wrong inside `policy` is the error `policy`; anything else wrong in the file,
unknown keys included, is the error `usage`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from jumar.reducers.errors import PolicyError
from jumar.reducers.policy import Policy
from jumar.reducers.rules import Schedule
from jumar.tools.harness.shapes import (
    DISK,
    EXPECTED,
    FLAT,
    SHAPES,
    Op,
    Shape,
    is_count,
    is_family,
    is_step,
    is_text,
    refuse,
)


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
    except (ValueError, RecursionError) as error:
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
    if not isinstance(name, str) or not is_count(world) or not isinstance(do, list):
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
        return bool(at) and is_family(family) and step.isascii() and step.isdigit()
    return is_step(value)


def _expect(plain: object) -> Mapping[str, Any]:
    if not isinstance(plain, dict):
        refuse("expect is an object", plain)
    assert isinstance(plain, dict)
    if unknown := plain.keys() - EXPECTED:
        refuse("unknown keys in expect", sorted(unknown), f"known: {sorted(EXPECTED)}")
    for key, value in plain.items():
        scalar = key in ("latest", "restart")
        each = [value] if scalar and value is not None else (value or [])
        named = is_text if key == "foreign" else _named
        if not (scalar or isinstance(value, list)) or not all(named(one) for one in each):
            refuse(f"expect {key} was refused", value)
    return plain
