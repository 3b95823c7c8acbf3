"""
`Session`: what one rank holds while its attempt is open.  Data, and the crash points.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from jumar.engine.clock import Clock
from jumar.engine.coordinator import Coordinator
from jumar.engine.disk import Disk
from jumar.engine.guard import Guard
from jumar.engine.inbox import Inbox
from jumar.engine.layout import Layout
from jumar.engine.ledger import Ledger
from jumar.engine.log.journal import Journal
from jumar.engine.payload import Payload
from jumar.engine.publish import Publisher
from jumar.reducers.fold import fold_all
from jumar.reducers.state import State


def no_probe(point: str) -> None:
    """Production: nobody stands at the points."""


@attrs.define
class Session:
    """
    One rank's side of an open attempt.

    Attributes:
        state: what the log means, equal on all ranks at every boundary.
        ledger: rank 0's log; None on the other ranks.
        journal: this rank's own evidence.
        inbox: what operators ask; rank 0 looks into it.
        over: why nothing more can be saved in this attempt; empty while it goes on.
        point: the last crash point that was passed, for error messages.
    """

    layout: Layout
    state: State
    coordinator: Coordinator
    disk: Disk
    clock: Clock
    payload: Payload
    guard: Guard
    ledger: Ledger | None
    journal: Journal
    inbox: Inbox
    probe: Callable[[str], None] = no_probe
    over: str = ""
    point: str = ""
    publisher: Publisher = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.publisher = Publisher(
            disk=self.disk,
            layout=self.layout,
            rank=self.coordinator.rank,
            at=self.act,
            beat=self.coordinator.beat,
        )

    def current(self) -> State:
        """The state with what rank 0 logged since the last boundary, as a copy."""
        facts = self.ledger.facts if self.ledger else ()
        return fold_all(self.state.copy(), facts)

    def at(self, point: str) -> None:
        """A place where a crash test may stand."""
        self.point = point
        self.probe(point)

    def act(self, point: str) -> None:
        """
        The same, just before rank 0 changes a name: it looks whether it still leads.

        Raises:
            LogFailed: another process took over while this one slept.
        """
        self.at(point)
        if self.ledger is not None:
            self.ledger.writer.must_lead()

    @property
    def rank(self) -> int:
        """This process, 0 .. world-1."""
        return self.coordinator.rank
