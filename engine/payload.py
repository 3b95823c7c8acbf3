"""What is saved: the protocol between the engine and whoever owns the bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs


class PartFile(Protocol):
    """A file-like object for one part; bytes are hashed as they are written."""

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append all of `data`; returns its length in bytes."""

    def flush(self) -> None:
        """Does nothing; there for writers such as `torch.save` that call it."""


@attrs.frozen
class Plan:
    """
    One accepted checkpoint, as told to the payload.

    Attributes:
        ckpt_id: `<family>@<done>r<revision>`.
        family: the line of checkpoints that it belongs to.
        done: completed steps (optimizer updates applied).
        records: what goes into the bytes: rankings that include this checkpoint,
            its metrics, run id, attempt and parent (plain values only).
    """

    ckpt_id: str
    family: str
    done: int
    records: Mapping[str, object]


@attrs.frozen
class Declaration:
    """
    What one rank is about to write for one family.

    Attributes:
        parts: part name -> least size in bytes (at least 1); plain file names, unique over
            all ranks of one checkpoint.
        order: digest of the collectives that writing will need, in their order; empty when
            it needs none.  Ranks that differ in it write nothing.
    """

    parts: Mapping[str, int]
    order: str = ""


class Payload(Protocol):
    """Gives the bytes of a checkpoint.  Called on every rank, in the same order."""

    def declare(self, family: str) -> Declaration:
        """
        What *this rank* will write; local work alone, no collective.

        Agreed and logged before the first byte, checked before the commit.  An error
        becomes this rank's vote: then no rank writes anything.
        """

    def stage(self, plan: Plan, open_part: Callable[[str], PartFile]) -> None:
        """
        Collect the state and write this rank's parts, each opened once by name.

        Ranks that write nothing take part too, since collecting sharded state is a
        collective.  Parts are closed, synced and digested by the caller.
        """
