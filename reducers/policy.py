"""
Policies are values: what to keep, how ties and refusals are treated, per family.

A rule says what it wants kept; `retention.py` joins the rules by OR and finds who loses;
somebody else deletes.  Whatever cannot apply or contradicts itself is refused where it is
built, with `PolicyError`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jumar.reducers.rules import (
    KeepBest,
    KeepLast,
    KeepRatio,
    Rule,
    Schedule,
    mapping,
    refuse,
    rule_from_plain,
    rule_to_plain,
)
from jumar.reducers.values import FAMILY

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ties": ("oldest", "newest"),
    "on_reject": ("raise", "skip", "stop"),
    "on_rewind": ("keep", "quarantine", "remove"),
}


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
    return isinstance(name, str) and re.fullmatch(FAMILY, name, re.ASCII) is not None


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
            refuse("the policy was refused", "keep is empty, so nothing would survive",
                    "name at least one rule, e.g. KeepLast(3)", ())  # fmt: skip
        for rule in self.keep or ():
            if not isinstance(rule, Rule):
                refuse("the policy was refused", "keep holds something that is no rule",
                        "use KeepLast, KeepBest, KeepEvery, KeepWithin, KeepRatio, Pin",
                        rule)  # fmt: skip
        for problem in _contradictions(self.keep or ()):
            refuse("the policy contradicts itself", problem, "keep one of them",
                    [str(rule) for rule in self.keep or ()])  # fmt: skip
        self._check_options()
        self._check_families()

    def _check_options(self) -> None:
        for name, allowed in OPTIONS.items():
            given = getattr(self, name)
            if given is not None and given not in allowed:
                refuse(f"policy {name} was refused", f"it is one of {', '.join(allowed)}",
                        f"leave it out for {allowed[0]!r}", given)  # fmt: skip
        n = self.escalate_after
        if n is not None and (type(n) is not int or n < 1):
            refuse("policy escalate_after was refused", "it counts refusals, at least 1",
                    "leave it out for 10", n)  # fmt: skip

    def _check_families(self) -> None:
        for name, policy in self.families.items():
            if not _known_family(name) or name == "live" or policy.families:
                refuse("policy families was refused",
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
                refuse("the policy cannot apply", "a ratio needs the length of the run",
                        "give a schedule (steps, save_every)", ratios)  # fmt: skip
        if self.keep is None:
            refuse("the policy was refused", "the top level has no keep",
                    "name at least one rule, e.g. KeepLast(3)", None)  # fmt: skip

    @classmethod
    def from_plain(cls, plain: object) -> Policy:
        """Decode the JSON form of a policy; raises PolicyError."""
        given = mapping(plain, "policy", [f.name for f in attrs.fields(cls)])
        keep = given.get("keep")
        if keep is not None and not isinstance(keep, list):
            refuse("the policy was refused", "keep is not a list", "write a list of rules",
                    keep)  # fmt: skip
        families = mapping(given.get("families", {}), "families", given.get("families", {}))
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
