"""The shapes of a scenario's operations: which keys, each with its check."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from jumar.engine.layout import LOG, POINTER
from jumar.reducers.errors import JumarError
from jumar.reducers.guard import WATCHED
from jumar.reducers.values import FAMILY

Op = Mapping[str, Any]

PHASES: Final = (
    *("ballot", "agree", "write", "outcome", "commit", "rename", "append"),
    *("publish", "prune", "unlink"),
)
OF_RANK_0: Final = frozenset(PHASES[4:])
"""Phases in which only rank 0 does something."""

STEP_MAX: Final = 10**15
WORLD_MAX: Final = 4096
_FAMILY: Final = re.compile(FAMILY, re.ASCII)


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


def is_step(value: object) -> bool:
    """Completed steps."""
    return type(value) is int and 0 <= value <= STEP_MAX


def _rank(value: object) -> bool:
    return type(value) is int and 0 <= value < WORLD_MAX


def _ranks(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_rank, value))


def is_text(value: object) -> bool:
    """A text that says something."""
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
        and all(map(is_text, value))
        and all(map(_metric, value.values()))
    )


def _one_of(*options: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in options


def is_family(value: object) -> bool:
    """A family's name, as events allow it."""
    return isinstance(value, str) and _FAMILY.fullmatch(value) is not None


def _foreign(value: object) -> bool:
    """A plain file name that jumar does not use itself."""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= 255:
        return False
    return not ({"/", "\0"} & set(value)) and value not in (".", "..", LOG, POINTER)


def _from(value: object) -> bool:
    return value in ("auto", "fresh") if isinstance(value, str) else is_step(value)


def _whom(value: object) -> bool:
    return value == "all" or _ranks(value)


def _flag(value: object) -> bool:
    return type(value) is bool


def _done_or_none(value: object) -> bool:
    return value is None or is_step(value)


def _errno(value: object) -> bool:
    return isinstance(value, str) and hasattr(errno, value) and value.startswith("E")


def is_count(value: object) -> bool:
    """A number of ranks."""
    return type(value) is int and 1 <= value <= WORLD_MAX


@attrs.frozen
class Shape:
    """One operation: its required and optional keys, each with its check."""

    needs: Mapping[str, Callable[[object], bool]]
    may: Mapping[str, Callable[[object], bool]] = {}


SHAPES: Final[Mapping[str, Shape]] = {
    "save": Shape(
        {"save": is_step},
        {"metrics": _metrics, "family": is_family, "reason": is_text, "revise": _flag},
    ),
    "metric": Shape({"step": is_step, "name": is_text, "value": _metric}),
    "bad": Shape({"step": is_step, "ranks": _ranks, "component": _one_of(*WATCHED)}),
    "fail": Shape({"rank": _rank, "phase": _one_of(*PHASES), "error": _errno}),
    "odd": Shape({"rank": _rank, "done": _done_or_none}),
    "crash": Shape({"phase": _one_of(*PHASES)}, {"ranks": _whom, "power": _flag}),
    "restart": Shape({"from": _from}, {"world": is_count}),
    "clock": Shape({"add_s": _number}),
    "pin": Shape({"pin": is_step}),
    "unpin": Shape({"unpin": is_step}),
    "end": Shape({"end": is_step}),
}
FLAT: Final = frozenset({"save", "pin", "unpin", "end"})
"""Operations whose own key holds a step, with further keys beside it."""

DISK: Final[Mapping[str, Callable[[object], bool]]] = {
    "remove": is_step,
    "corrupt": is_step,
    "truncate": is_step,
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
