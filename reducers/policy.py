"""
Policies are values: what to keep, how ties and refusals are treated, per family.

A rule says what it wants kept; `retention.py` joins the rules by OR and finds who loses;
somebody else deletes.  Whatever cannot apply or contradicts itself is refused where it is
built, with `PolicyError`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NoReturn, Self

import attrs

from jumar.reducers.errors import PolicyError

DIRECTIONS: Final = ("min", "max")
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ties": ("oldest", "newest"),
    "on_reject": ("raise", "skip", "stop"),
    "on_rewind": ("keep", "quarantine", "remove"),
}


def _refuse(what: str, why: str, instead: str, value: object) -> NoReturn:
    raise PolicyError(what, why=why, instead=instead, value=value)


def _whole(name: str) -> Any:
    """An int of at least 1; a limit of zero is never "all" and never "none"."""

    def check(_: object, __: object, given: object) -> None:
        if type(given) is not int or given < 1:
            _refuse(
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
            _refuse("KeepBest(metric) was refused", "it names no metric",
                    "give the name that is reported, e.g. 'val/loss'", given)  # fmt: skip

    @direction.validator
    def _said(self, _: object, given: object) -> None:
        if given not in DIRECTIONS:
            _refuse("KeepBest(direction) was refused", "it is mandatory: min or max",
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
            _refuse("KeepWithin(seconds) was refused", "a length of time is above zero",
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
            _refuse("KeepRatio(ratio) was refused", "a share is above 0 and at most 1",
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
            _refuse("Pin(done) was refused", "it names completed steps, 0 or more",
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
            _refuse("Schedule(validate_every) was refused", "a cadence is at least 1 step",
                    "leave it out for no validation", given)  # fmt: skip

    @classmethod
    def from_plain(cls, plain: object) -> Self:
        """Decode `{steps, save_every, validate_every?}`; raises PolicyError."""
        given = _mapping(plain, "schedule", {"steps", "save_every", "validate_every"})
        missing = {"steps", "save_every"} - given.keys()
        if missing:
            _refuse("the schedule was refused", f"{sorted(missing)} missing",
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


def _mapping(plain: object, what: str, known: Iterable[str]) -> dict[str, Any]:
    if not isinstance(plain, dict):
        _refuse(f"the {what} was refused", "it is not a mapping", f"write a {what}", plain)
    unknown = plain.keys() - set(known)
    if unknown:
        _refuse(f"the {what} was refused", f"unknown key {sorted(map(str, unknown))}",
                f"known are {sorted(known)}", plain)  # fmt: skip
    return plain


def rule_from_plain(plain: object) -> Rule:
    """Decode one rule such as `{"best": 2, "metric": "loss", "direction": "min"}`."""
    given = _mapping(plain, "rule", [*_RULES, "metric", "direction"])
    kinds = given.keys() & _RULES.keys()
    if len(kinds) != 1:
        _refuse("the rule was refused", "it is not exactly one of the known kinds",
                f"write one of {sorted(_RULES)}", plain)  # fmt: skip
    kind = next(iter(kinds))
    cls, attribute = _RULES[kind]
    extra = {key: given[key] for key in given.keys() - {kind}}
    needed = {"metric", "direction"} if cls is KeepBest else set()
    if extra.keys() != needed:
        _refuse(f"the rule {kind!r} was refused",
                f"it takes {sorted(needed) or 'nothing'} beside its limit",
                "only a best rule names metric and direction", plain)  # fmt: skip
    made: Rule = cls(**{attribute: given[kind]}, **extra)
    return made


def rule_to_plain(rule: Rule) -> dict[str, Any]:
    """The form that `rule_from_plain` reads."""
    kind, attribute = next((k, a) for k, (c, a) in _RULES.items() if c is type(rule))
    plain = attrs.asdict(rule)
    return {kind: plain.pop(attribute), **plain}


def _contradictions(keep: Sequence[Rule]) -> Iterable[str]:
    lasts = sum(isinstance(rule, KeepLast) for rule in keep)
    ratios = sum(isinstance(rule, KeepRatio) for rule in keep)
    metrics = [rule.metric for rule in keep if isinstance(rule, KeepBest)]
    if lasts > 1:
        yield "two rules count the newest (last, last)"
    if lasts and ratios:
        yield "two rules count the newest (last, ratio)"
    if len(metrics) != len(set(metrics)):
        yield "two best rules rank one metric"
    if len(keep) != len(set(keep)):
        yield "the same rule stands twice"


def _rules(rules: Iterable[Rule] | None) -> tuple[Rule, ...] | None:
    return None if rules is None else tuple(rules)


def _known_family(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and name == name.lower()


@attrs.frozen
class Policy:
    """
    What to keep, and how ties, refusals and rewinds are treated.

    Attributes:
        keep: the rules, joined by OR; None in a family's policy: as the top level.
        ties: on an equal metric the `oldest` (default) or the `newest` commit is better.
        on_reject: what `save()` does on every rank when it is vetoed: `raise`
            (default) SaveRejected, `skip` (return the outcome), `stop` the attempt.
        escalate_after: refusals in a row after which TrainingPoisoned is raised.
        on_rewind: what happens to files that a restart left behind: `keep` (default),
            `quarantine`, `remove`.
        families: a family's own policy; what it leaves out is as the top level.
    """

    keep: tuple[Rule, ...] | None = attrs.field(converter=_rules)
    ties: str | None = None
    on_reject: str | None = None
    escalate_after: int | None = None
    on_rewind: str | None = None
    families: Mapping[str, Policy] = attrs.field(factory=dict, hash=False)

    def __attrs_post_init__(self) -> None:
        if self.keep is not None and not self.keep:
            _refuse("the policy was refused", "keep is empty, so nothing would survive",
                    "name at least one rule, e.g. KeepLast(3)", ())  # fmt: skip
        for rule in self.keep or ():
            if not isinstance(rule, Rule):
                _refuse("the policy was refused", "keep holds something that is no rule",
                        "use KeepLast, KeepBest, KeepEvery, KeepWithin, KeepRatio, Pin",
                        rule)  # fmt: skip
        for problem in _contradictions(self.keep or ()):
            _refuse("the policy contradicts itself", problem, "keep one of them",
                    [str(rule) for rule in self.keep or ()])  # fmt: skip
        self._check_options()
        self._check_families()

    def _check_options(self) -> None:
        for name, allowed in OPTIONS.items():
            given = getattr(self, name)
            if given is not None and given not in allowed:
                _refuse(f"policy {name} was refused", f"it is one of {', '.join(allowed)}",
                        f"leave it out for {allowed[0]!r}", given)  # fmt: skip
        n = self.escalate_after
        if n is not None and (type(n) is not int or n < 1):
            _refuse("policy escalate_after was refused", "it counts refusals, at least 1",
                    "leave it out for 10", n)  # fmt: skip

    def _check_families(self) -> None:
        for name, policy in self.families.items():
            if not _known_family(name) or name == "live" or policy.families:
                _refuse("policy families was refused",
                        "a family is named in lower case, has no families of its own, and "
                        "`live` is the top level itself",
                        "write families={'ema': Policy(...)}", name)  # fmt: skip

    def of(self, family: str) -> Policy:
        """The policy in force for one family: its own, completed by the top level's."""
        own = self.families.get(family)
        top = attrs.evolve(_DEFAULTS, **{n: v for n, v in _said(self) if n != "families"})
        if own is None:
            return top
        return attrs.evolve(top, **{n: v for n, v in _said(own) if n != "families"})

    def check(self, schedule: Schedule | None) -> None:
        """Refuse what cannot apply under this schedule: PolicyError."""
        for policy in (self, *self.families.values()):
            ratios = [str(r) for r in policy.keep or () if isinstance(r, KeepRatio)]
            if ratios and schedule is None:
                _refuse("the policy cannot apply", "a ratio needs the length of the run",
                        "give a schedule (steps, save_every)", ratios)  # fmt: skip
        if self.keep is None:
            _refuse("the policy was refused", "the top level has no keep",
                    "name at least one rule, e.g. KeepLast(3)", None)  # fmt: skip

    @classmethod
    def from_plain(cls, plain: object) -> Policy:
        """Decode the JSON form of a policy; raises PolicyError."""
        given = _mapping(plain, "policy", [f.name for f in attrs.fields(cls)])
        keep = given.get("keep")
        if keep is not None and not isinstance(keep, list):
            _refuse("the policy was refused", "keep is not a list", "write a list of rules",
                    keep)  # fmt: skip
        families = _mapping(
            given.get("families", {}), "families", given.get("families", {})
        )
        return cls(
            keep=None if keep is None else [rule_from_plain(rule) for rule in keep],
            families={name: cls.from_plain(own) for name, own in families.items()},
            **{name: given[name] for name in _SCALARS if name in given},
        )

    def to_plain(self) -> dict[str, Any]:
        """The form that `from_plain` reads; what was left out stays out."""
        plain: dict[str, Any] = {n: v for n, v in _said(self) if n in _SCALARS}
        if self.keep is not None:
            plain["keep"] = [rule_to_plain(rule) for rule in self.keep]
        if self.families:
            plain["families"] = {n: p.to_plain() for n, p in self.families.items()}
        return plain

    def digest(self) -> str:
        """sha256 of the plain form: what the ranks compare."""
        text = json.dumps(self.to_plain(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


_SCALARS: Final = ("ties", "on_reject", "escalate_after", "on_rewind")
_DEFAULTS: Final = Policy(
    keep=None, ties="oldest", on_reject="raise", escalate_after=10, on_rewind="keep"
)


def _said(policy: Policy) -> Iterable[tuple[str, Any]]:
    """What a policy says itself, without what it leaves to the level above."""
    for field in attrs.fields(Policy):
        given = getattr(policy, field.name)
        if given is not None:
            yield field.name, given
