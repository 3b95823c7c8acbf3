"""
Carrying out exchanges: steps are generators that yield what only the job can answer.

`drive` answers them through a `Coordinator`.  A simulated cluster answers the same
generators itself, so the same engine code runs in both.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from jumar.engine import codec
from jumar.engine import effects as fx
from jumar.engine.coordinator import Coordinator
from jumar.engine.errors import RankLost

T = TypeVar("T")
Exchange = fx.Gather | fx.Answer | fx.Ask
Reply = fx.Gathered | fx.Answered | fx.Lost | None
Steps = Generator[Exchange, Reply, T]


def drive(steps: Steps[T], coordinator: Coordinator) -> T:
    """Run steps to their end over a coordinator; returns what they return."""
    try:
        wish = next(steps)
        while True:
            wish = steps.send(reply_to(wish, coordinator))
    except StopIteration as stop:
        result: T = stop.value
        return result


def reply_to(wish: Exchange, coordinator: Coordinator) -> Reply:
    """One exchange; a lost rank is an input of the protocol, not an exception of it."""
    data = codec.pack(dict(wish.message))
    try:
        match wish:
            case fx.Gather():
                answers = coordinator.gather(wish.phase, data)
                return fx.Gathered([codec.unpack(answer) for answer in answers])
            case fx.Ask():
                return fx.Answered(codec.unpack(coordinator.ask(wish.phase, data)))
            case fx.Answer():
                coordinator.answer(wish.phase, data)
                return None
    except RankLost as lost:
        return fx.Lost(lost)


def gather(phase: str, message: fx.Plain) -> Steps[list[fx.Plain]]:
    """Rank 0's half of an exchange outside a boundary; raises RankLost."""
    reply = yield fx.Gather(phase, message)
    if isinstance(reply, fx.Lost):
        raise reply.error
    assert isinstance(reply, fx.Gathered)
    return list(reply.messages)


def ask(phase: str, message: fx.Plain) -> Steps[fx.Plain]:
    """A peer's half of an exchange outside a boundary; raises RankLost."""
    reply = yield fx.Ask(phase, message)
    if isinstance(reply, fx.Lost):
        raise reply.error
    assert isinstance(reply, fx.Answered)
    return reply.message


def answer(phase: str, message: fx.Plain) -> Steps[None]:
    """Rank 0 ends an exchange outside a boundary."""
    yield fx.Answer(phase, message)
