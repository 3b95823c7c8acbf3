"""Values inside events: metrics, parts, vectors over ranks, reasons of a decision."""

from __future__ import annotations

import math
import re
from typing import Final

from jumar.reducers.fields import (
    choice,
    count,
    counts,
    flag,
    many,
    maybe_count,
    maybe_real,
    maybe_text,
    one,
    text,
    texts,
)
from jumar.reducers.making import Value, value

SHA256: Final = r"[0-9a-f]{64}"
FAMILY: Final = r"[a-z][a-z0-9_]{0,31}"
CKPT_ID: Final = rf"{FAMILY}@(0|[1-9][0-9]{{0,18}})r(0|[1-9][0-9]{{0,8}})"
_PARSE_ID = re.compile(rf"({FAMILY})@([0-9]+)r([0-9]+)", re.ASCII)


def ckpt_id(family: str, done: int, revision: int) -> str:
    """The identity of a checkpoint in its run: `<family>@<done>r<revision>`."""
    return f"{family}@{done}r{revision}"


def parse_ckpt_id(text: str) -> tuple[str, int, int]:
    """(family, completed steps, revision) of an identity; ValueError if it is none."""
    found = _PARSE_ID.fullmatch(text)
    if found is None:
        raise ValueError(f"not a checkpoint identity: {text!r}")
    return found[1], int(found[2]), int(found[3])


@value
class Metric(Value):
    """A number as data: non-finite ones are states, so that they survive any codec."""

    state: str = choice("finite", "nan", "+inf", "-inf", "missing")
    value: float | None = maybe_real("the number, None unless finite")

    @classmethod
    def of(cls, number: float | None) -> Metric:
        """The metric of a float, an int or None (not measured)."""
        if number is None:
            return cls(state="missing", value=None)
        number = float(number)
        if math.isfinite(number):
            return cls(state="finite", value=number)
        return cls(state=_NON_FINITE.get(number, "nan"), value=None)

    @property
    def finite(self) -> bool:
        """Whether it can rank a checkpoint."""
        return self.value is not None

    def __str__(self) -> str:
        return self.state if self.value is None else f"{self.value:.6g}"


_NON_FINITE: Final = {math.inf: "+inf", -math.inf: "-inf"}


@value
class Part(Value):
    """One durable file of a checkpoint."""

    name: str = text("file name", size_max=255)
    rank: int = count("rank that wrote it")
    size: int = count("bytes", lo=1)
    sha256: str = text("digest of its bytes", pattern=SHA256)


@value
class Journaled(Value):
    """One file of a rank's evidence journal, as far as it was written by then."""

    rank: int = count("rank that wrote it")
    name: str = text("file name", size_max=255)
    size: int | None = maybe_count("bytes that the digest covers; None: not noted")
    sha256: str = text("digest of those bytes", pattern=SHA256)


@value
class Declared(Value):
    """One part that a rank said it would write."""

    name: str = text("file name", size_max=255)
    rank: int = count("rank that writes it")
    size_min: int = count("least bytes", lo=1)


@value
class RankOutcome(Value):
    """What one rank wrote, or its error."""

    parts: tuple[Part, ...] = many(Part)
    error: str | None = maybe_text("its error, with the traceback's end", size_max=8192)


@value
class ComponentVector(Value):
    """One guard component over all ranks, in rank order."""

    name: str = choice("grad", "loss", "weights", "ema", "optimizer", "replica")
    fed: tuple[int, ...] = counts("steps each rank watched")
    first_bad: tuple[int, ...] = counts("first bad completed step, -1 if none", lo=-1)


@value
class Ranked(Value):
    """One place of a ranking."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    metric: Metric = one(Metric)


@value
class Ranking(Value):
    """A `best` rule's whole order at a decision, best first."""

    rule: str = text("the rule", size_max=255)
    order: tuple[Ranked, ...] = many(Ranked)


@value
class Kept(Value):
    """What one rule, or one kind of protection, keeps."""

    rule: str = text("the rule or the protection", size_max=255)
    kept: tuple[str, ...] = texts("checkpoints", pattern=CKPT_ID)


@value
class Victim(Value):
    """A checkpoint that no rule and no protection keeps."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    rule: str = text("the rule it fell to", size_max=255)


@value
class Candidate(Value):
    """A checkpoint that a restart looked at, newest first."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    chosen: bool = flag("the attempt begins from it")
    reason: str = text("why, or why not", size_max=1024)
