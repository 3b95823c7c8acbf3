"""
N ranks in one process: the real engine code over a simulated disk and clock.

The engine's steps are generators that yield exchanges; this cluster answers them in rank
order, so one script is one run.  A rank that was killed, or does not come, is lost to the
others exactly as a silent process would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs

from jumar.engine import codec
from jumar.engine import effects as fx
from jumar.engine.errors import RankLost
from jumar.engine.exchange import Reply, Steps
from jumar.reducers.errors import JumarError

T = TypeVar("T")
PATIENCE_S: Final = 60.0
"""Virtual seconds that an exchange waits; nobody really does."""


class Killed(BaseException):
    """The process of a rank is gone: nothing after this point happens on it."""


@attrs.frozen
class Ended:
    """How one rank's steps ended: a value, an error, or killed (neither)."""

    value: Any = None
    error: JumarError | OSError | None = None
    killed: bool = False


@attrs.define
class SimCoordinator:
    """Rank and world of one simulated rank; its exchanges go through the cluster."""

    rank: int
    world: int

    def gather(self, phase: str, message: bytes) -> list[bytes]:
        """Never called: simulated ranks run as steps."""
        raise AssertionError(f"{phase}: simulated ranks run as steps")

    def answer(self, phase: str, message: bytes) -> None:
        """Never called."""
        raise AssertionError(f"{phase}: simulated ranks run as steps")

    def ask(self, phase: str, message: bytes) -> bytes:
        """Never called."""
        raise AssertionError(f"{phase}: simulated ranks run as steps")

    def beat(self) -> None:
        """Virtual time stands still during work."""

    def close(self) -> None:
        """Nothing was opened."""


@attrs.define
class Exchange:
    """One call of all ranks: drives their steps until each has ended."""

    steps: Mapping[int, Callable[[], Steps[Any]]]
    world: int
    ended: dict[int, Ended] = attrs.field(factory=dict)
    _wishes: dict[int, fx.Gather | fx.Ask | fx.Answer] = attrs.field(factory=dict)
    _running: dict[int, Steps[Any]] = attrs.field(factory=dict)

    def run(self) -> dict[int, Ended]:
        """How each rank ended; a rank without steps never came."""
        for rank in range(self.world):
            if rank in self.steps:
                self._running[rank] = self.steps[rank]()
                self._advance(rank, None)
            else:
                self.ended[rank] = Ended(killed=True)
        while self._wishes:
            self._settle()
        return self.ended

    def _advance(self, rank: int, reply: Reply) -> None:
        """Let one rank go on to its next wish or its end."""
        self._wishes.pop(rank, None)
        try:
            self._wishes[rank] = self._running[rank].send(reply)
        except StopIteration as stop:
            self.ended[rank] = Ended(value=stop.value)
        except Killed:
            self.ended[rank] = Ended(killed=True)
        except (JumarError, OSError) as error:
            self.ended[rank] = Ended(error=error)

    def _settle(self) -> None:
        """Answer the one exchange that all living ranks have come to."""
        lead = self._wishes.get(0)
        peers = [rank for rank in sorted(self._wishes) if rank]
        if lead is None:
            self._lose(peers, (0,), self._wishes[peers[0]].phase)
        elif isinstance(lead, fx.Answer):
            message = copied(lead.message)
            self._advance(0, None)
            for rank in peers:
                if self._wishes[rank].phase == lead.phase:
                    self._advance(rank, fx.Answered(copied(message)))
        else:
            self._gather(lead, peers)

    def _gather(self, lead: fx.Gather | fx.Ask, peers: list[int]) -> None:
        here = [rank for rank in peers if self._wishes[rank].phase == lead.phase]
        late = tuple(rank for rank in range(1, self.world) if rank not in here)
        if late:
            self._lose([0, *here], late, lead.phase)
            return
        messages = [copied(self._wishes[rank].message) for rank in range(self.world)]
        self._advance(0, fx.Gathered(messages))

    def _lose(self, ranks: list[int], late: tuple[int, ...], phase: str) -> None:
        for rank in ranks:
            self._advance(rank, fx.Lost(RankLost(late, phase, PATIENCE_S)))


def copied(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as it arrives: through the bytes that a real job would send."""
    return codec.unpack(codec.pack(dict(message)))
