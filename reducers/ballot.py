"""What a rank says at a boundary, and what rank 0 adds to it."""

from __future__ import annotations

from jumar.reducers.fields import (
    choice,
    count,
    flag,
    many,
    maybe_text,
    one,
    text,
    texts,
)
from jumar.reducers.making import Value, value
from jumar.reducers.values import FAMILY, SHA256


@value
class Reading(Value):
    """One guard component on one rank, as the single transfer of the boundary gave it."""

    name: str = choice("grad", "loss", "weights", "ema", "optimizer")
    fed: int = count("steps watched since the last agreed verdict")
    first_bad: int = count("first bad step, completed steps; -1 if none", lo=-1)
    bad: int = count("tensors that were bad then")
    where: tuple[str, ...] = texts("some of their names", size_max=512)


@value
class StepFacts(Value):
    """
    All that one rank knows of the steps since the last agreed verdict.

    Attributes:
        replica: `<group>:<digest>` of this rank's copy of the parameters; the copies of
            one group are equal unless something broke.  Empty: it holds no copy.
    """

    readings: tuple[Reading, ...] = many(Reading)
    skipped: int = count("updates left out because they were bad")
    replica: str = text("group and digest, or nothing", size_max=128)


NOTHING_WATCHED = StepFacts(readings=(), skipped=0, replica="")


@value
class PartWish(Value):
    """One part that this rank will write for one family."""

    family: str = text("family", pattern=FAMILY)
    name: str = text("file name", size_max=255)
    size_min: int = count("least bytes", lo=1)


@value
class Ballot(Value):
    """
    One rank's words at one boundary.

    Attributes:
        state: digest of the state before this boundary's facts of rank 0 are folded.
        order: digest of the collectives that writing will need, in their order; empty
            when it needs none.
        error: what went wrong on this rank before it could vote.
    """

    attempt: int = count("attempt number")
    done: int = count("completed steps")
    families: tuple[str, ...] = texts("families to save, in order", pattern=FAMILY)
    revise: bool = flag("commit a further revision of a committed step")
    reasons: tuple[str, ...] = texts("triggers that fell on this step", size_max=64)
    policy: str = text("digest of the policy", pattern=SHA256)
    state: str = text("digest of the state", pattern=SHA256)
    order: str = text("digests of the order of collectives", size_max=4096)
    facts: StepFacts = one(StepFacts)
    parts: tuple[PartWish, ...] = many(PartWish)
    error: str | None = maybe_text("its own error", size_max=8192)


@value
class Lead(Value):
    """What only rank 0 knows and every rank's decision needs."""

    clock_ns: int = count("wall clock, ns since 1970")
    epoch: int = count("writer epoch", lo=1)
