"""
What the boundary protocol asks for, and what it is told: plain values, no I/O.

The protocol (`boundary.py`) emits effects; the shell (`run.py`) carries each one out and
hands back one input.  A simulator or a model checker can stand in for the shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from jumar.engine.errors import RankLost
from jumar.reducers.ballot import StepFacts
from jumar.reducers.errors import JumarError
from jumar.reducers.events import CkptAccepted, Event
from jumar.reducers.values import Part

Plain = Mapping[str, Any]


# --- effects ---------------------------------------------------------------------------


@attrs.frozen
class ReadGuard:
    """Read the guard once: the only device-to-host transfer. -> GuardRead"""


@attrs.frozen
class ClearGuard:
    """The verdict was agreed on: clear this rank's flags. -> nothing"""


@attrs.frozen
class Gather:
    """Rank 0: collect every rank's message. -> Gathered | Lost"""

    phase: str
    message: Plain


@attrs.frozen
class Answer:
    """Rank 0: publish one message to all. -> nothing"""

    phase: str
    message: Plain


@attrs.frozen
class Ask:
    """A peer: hand in a message and wait for rank 0's. -> Answered | Lost"""

    phase: str
    message: Plain


@attrs.frozen
class Log:
    """Rank 0: append; return when durable if any of them is a barrier. -> Logged"""

    events: tuple[Event, ...]


@attrs.frozen
class Stage:
    """Collect the payload and write this rank's parts into staging. -> Staged"""

    accepted: tuple[CkptAccepted, ...]


@attrs.frozen
class Place:
    """Rank 0: check, manifest, syncs, rename, sync of the parent. -> Placed"""

    accepted: tuple[CkptAccepted, ...]
    parts: Mapping[str, tuple[Part, ...]]


@attrs.frozen
class Discard:
    """Rank 0: remove the staging of aborted checkpoints. -> nothing"""

    accepted: tuple[CkptAccepted, ...]


@attrs.frozen
class Tidy:
    """Rank 0: publish and prune; never fails the save. -> nothing"""

    ckpt_ids: tuple[str, ...]


@attrs.frozen
class Outcome:
    """
    What a save came to, the same on all ranks.

    Attributes:
        status: `committed`, `rejected`, `aborted` or `merged`.
        ckpt_id: the checkpoint, None when none exists.
        reason: one line: the culprit of a rejection, the error of an abort.
        others: the outcomes of the further families of one boundary.
    """

    status: str
    ckpt_id: str | None
    reason: str
    family: str = "live"
    others: tuple[Outcome, ...] = ()


@attrs.frozen
class Conclude:
    """The boundary is over: return these, or raise. -> nothing"""

    outcomes: tuple[Outcome, ...] = ()
    error: JumarError | None = None


Effect = (
    ReadGuard | ClearGuard | Gather | Answer | Ask | Log | Stage | Place | Discard | Tidy
    | Conclude
)  # fmt: skip


# --- inputs ----------------------------------------------------------------------------


@attrs.frozen
class GuardRead:
    """What this rank saw since the last verdict, or its own error."""

    facts: StepFacts
    error: str | None = None


@attrs.frozen
class Gathered:
    """Every rank's message, in rank order."""

    messages: Sequence[Plain]


@attrs.frozen
class Answered:
    """Rank 0's message."""

    message: Plain


@attrs.frozen
class Lost:
    """An exchange that ended without some ranks."""

    error: RankLost


@attrs.frozen
class Logged:
    """The append's result: None, or why it failed (the writer is dead then)."""

    error: str | None = None


@attrs.frozen
class Staged:
    """What this rank wrote, by checkpoint, or its error."""

    parts: Mapping[str, tuple[Part, ...]]
    error: str | None = None


@attrs.frozen
class PlaceResult:
    """One checkpoint in place (its manifest's digest), or the phase and error."""

    manifest_sha256: str = ""
    phase: str = ""
    error: str | None = None


@attrs.frozen
class Placed:
    """The result of each placement, by checkpoint."""

    results: Mapping[str, PlaceResult]


Input = GuardRead | Gathered | Answered | Lost | Logged | Staged | Placed
