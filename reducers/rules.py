"""
Rules are values: what one of them wants kept.  Refused where they are built.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final, NoReturn, Self

import attrs

from jumar.reducers.errors import PolicyError

DIRECTIONS: Final = ("min", "max")


def refuse(what: str, why: str, instead: str, value: object) -> NoReturn:
    """Raise PolicyError."""
    raise PolicyError(what, why=why, instead=instead, value=value)


def _whole(name: str) -> Any:
    """An int of at least 1; a limit of zero is never "all" and never "none"."""

    def check(_: object, __: object, given: object) -> None:
        if type(given) is not int or given < 1:
            refuse(
                f"{name} was refused",
                "a limit is a whole number of at least 1",
                "leave the rule out to keep nothing by it",
                given,
            )

    return attrs.field(validator=check)


@attrs.frozen
class KeepLast:
    """Keep the `n` newest commits of the live branch."""

    n: int = _whole("KeepLast(n)")

    def __str__(self) -> str:
        return f"keep_last={self.n}"


@attrs.frozen
class KeepBest:
    """Keep the `n` best by a metric; `direction` is `min` or `max` and never guessed."""

    n: int = _whole("KeepBest(n)")
    metric: str = attrs.field(kw_only=True)
    direction: str = attrs.field(kw_only=True)

    @metric.validator
    def _named(self, _: object, given: object) -> None:
        if type(given) is not str or not given:
            refuse("KeepBest(metric) was refused", "it names no metric",
                    "give the name that is reported, e.g. 'val/loss'", given)  # fmt: skip

    @direction.validator
    def _said(self, _: object, given: object) -> None:
        if given not in DIRECTIONS:
            refuse("KeepBest(direction) was refused", "it is mandatory: min or max",
                    "say direction='min' where lower is better", given)  # fmt: skip

    def __str__(self) -> str:
        return f"keep_best={self.n} ({self.metric} {self.direction})"


@attrs.frozen
class KeepEvery:
    """Keep each checkpoint whose completed steps are a multiple of `steps`."""

    steps: int = _whole("KeepEvery(steps)")

    def __str__(self) -> str:
        return f"keep_every={self.steps}"


def _positive(given: Any) -> bool:
    return type(given) in (int, float) and math.isfinite(given) and bool(given > 0)


@attrs.frozen
class KeepWithin:
    """Keep what is at most `seconds` old, by the clock value in the deciding event."""

    seconds: float = attrs.field()

    @seconds.validator
    def _length(self, _: object, given: object) -> None:
        if not _positive(given):
            refuse("KeepWithin(seconds) was refused", "a length of time is above zero",
                    "give seconds, e.g. 3600", given)  # fmt: skip

    def __str__(self) -> str:
        return f"keep_within={self.seconds:g}s"


@attrs.frozen
class KeepRatio:
    """Keep the newest share `ratio` of all periodic saves of the schedule, at least 1."""

    ratio: float = attrs.field()

    @ratio.validator
    def _share(self, _: object, given: Any) -> None:
        if not _positive(given) or given > 1:
            refuse("KeepRatio(ratio) was refused", "a share is above 0 and at most 1",
                    "give e.g. 0.4 for two fifths of all saves", given)  # fmt: skip

    def as_last(self, schedule: Schedule) -> KeepLast:
        """The `KeepLast` that this share means under a schedule; exact, not in floats."""
        saves = max(1, -(-schedule.steps // schedule.save_every))
        return KeepLast(max(1, math.ceil(Fraction(repr(self.ratio)) * saves)))

    def __str__(self) -> str:
        return f"keep_ratio={self.ratio:g}"


@attrs.frozen
class Pin:
    """Keep the checkpoints of one step, whatever the other rules say."""

    done: int = attrs.field()

    @done.validator
    def _step(self, _: object, given: object) -> None:
        if type(given) is not int or given < 0:
            refuse("Pin(done) was refused", "it names completed steps, 0 or more",
                    "give the step of the checkpoint to hold", given)  # fmt: skip

    def __str__(self) -> str:
        return f"pin={self.done}"


Rule = KeepLast | KeepBest | KeepEvery | KeepWithin | KeepRatio | Pin
_RULES: Final[Mapping[str, tuple[type, str]]] = {
    "last": (KeepLast, "n"),
    "best": (KeepBest, "n"),
    "every": (KeepEvery, "steps"),
    "within_s": (KeepWithin, "seconds"),
    "ratio": (KeepRatio, "ratio"),
    "pin": (Pin, "done"),
}
"""Plain key -> (class, the attribute that the key holds)."""


@attrs.frozen
class Schedule:
    """
    The length and cadence of a run, in completed steps.

    Attributes:
        steps: the run ends after this many updates.
        save_every: a periodic save is due at each multiple.
        validate_every: a validation is due at each multiple; None: never.
    """

    steps: int = _whole("Schedule(steps)")
    save_every: int = _whole("Schedule(save_every)")
    validate_every: int | None = attrs.field(default=None)

    @validate_every.validator
    def _cadence(self, _: object, given: object) -> None:
        if given is not None and (type(given) is not int or given < 1):
            refuse("Schedule(validate_every) was refused", "a cadence is at least 1 step",
                    "leave it out for no validation", given)  # fmt: skip

    @classmethod
    def from_plain(cls, plain: object) -> Self:
        """Decode `{steps, save_every, validate_every?}`; raises PolicyError."""
        given = mapping(plain, "schedule", {"steps", "save_every", "validate_every"})
        missing = {"steps", "save_every"} - given.keys()
        if missing:
            refuse("the schedule was refused", f"{sorted(missing)} missing",
                    "give steps and save_every", plain)  # fmt: skip
        return cls(**given)

    def to_plain(self) -> dict[str, Any]:
        """The form that `from_plain` reads."""
        return attrs.asdict(self)

    def triggers(self, done: int) -> tuple[str, ...]:
        """Which saves fall on this step: `periodic`, `final`."""
        due = {
            "periodic": done > 0 and done % self.save_every == 0,
            "final": done == self.steps,
        }
        return tuple(reason for reason, is_due in due.items() if is_due)


def mapping(plain: object, what: str, known: Iterable[str]) -> dict[str, Any]:
    """A JSON object that holds known keys only; PolicyError otherwise."""
    if not isinstance(plain, dict):
        refuse(f"the {what} was refused", "it is not a mapping", f"write a {what}", plain)
    unknown = plain.keys() - set(known)
    if unknown:
        refuse(f"the {what} was refused", f"unknown key {sorted(map(str, unknown))}",
                f"known are {sorted(known)}", plain)  # fmt: skip
    return plain


def rule_from_plain(plain: object) -> Rule:
    """Decode one rule such as `{"best": 2, "metric": "loss", "direction": "min"}`."""
    given = mapping(plain, "rule", [*_RULES, "metric", "direction"])
    kinds = given.keys() & _RULES.keys()
    if len(kinds) != 1:
        refuse("the rule was refused", "it is not exactly one of the known kinds",
                f"write one of {sorted(_RULES)}", plain)  # fmt: skip
    kind = next(iter(kinds))
    cls, attribute = _RULES[kind]
    extra = {key: given[key] for key in given.keys() - {kind}}
    needed = {"metric", "direction"} if cls is KeepBest else set()
    if extra.keys() != needed:
        refuse(f"the rule {kind!r} was refused",
                f"it takes {sorted(needed) or 'nothing'} beside its limit",
                "only a best rule names metric and direction", plain)  # fmt: skip
    made: Rule = cls(**{attribute: given[kind]}, **extra)
    return made


def rule_to_plain(rule: Rule) -> dict[str, Any]:
    """The form that `rule_from_plain` reads."""
    kind, attribute = next((k, a) for k, (c, a) in _RULES.items() if c is type(rule))
    plain = attrs.asdict(rule)
    return {kind: plain.pop(attribute), **plain}
