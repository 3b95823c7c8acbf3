"""
How the ranks of one job exchange their words: rank 0 gathers, then answers all.

The authoritative log is written by rank 0 between the two halves, so a peer never
hears of a decision before it is durable.  Waiting is bounded and named: a rank that
shows no sign of life for `timeout_s` seconds is named in `RankLost`, and the attempt
is over for every rank that is still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Coordinator(Protocol):
    """The control plane of one job.  Calls of all ranks come in the same order."""

    @property
    def rank(self) -> int:
        """This process, 0 .. world-1."""

    @property
    def world(self) -> int:
        """How many ranks the job has."""

    def gather(self, phase: str, message: bytes) -> Sequence[bytes]:
        """
        Rank 0 only: wait for the message of every rank, in rank order (own one first).

        Raises:
            RankLost: a rank gave no sign of life for `timeout_s`; names all late ones,
                and the ranks that wait for the answer are told the same names.
        """

    def answer(self, phase: str, message: bytes) -> None:
        """Rank 0 only: publish one answer to all ranks; ends the exchange."""

    def ask(self, phase: str, message: bytes) -> bytes:
        """
        Every other rank: hand in a message and wait for rank 0's answer.

        Raises:
            RankLost: rank 0 gave no sign of life, or it named others as lost.
        """

    def beat(self) -> None:
        """A sign of life during long work (writing a payload); cheap, never raises."""

    def close(self) -> None:
        """Let go of what was opened; calling it twice is harmless."""


class SingleProcess:
    """The coordinator of a job with one rank: it answers itself."""

    rank = 0
    world = 1

    def gather(self, phase: str, message: bytes) -> Sequence[bytes]:
        """Return the one message."""
        return [message]

    def answer(self, phase: str, message: bytes) -> None:
        """Nobody else listens."""

    def ask(self, phase: str, message: bytes) -> bytes:
        """Never called: a single process is rank 0."""
        raise AssertionError(f"rank 0 of 1 cannot ask ({phase})")

    def beat(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing was opened."""
