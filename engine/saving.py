"""Carrying out the effects of one boundary: one handler per effect, in a table."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import structlog

from jumar.engine import effects as fx
from jumar.engine import manifest
from jumar.engine.boundary import Boundary, Request
from jumar.engine.errors import LogFailed
from jumar.engine.exchange import Steps
from jumar.engine.payload import Plan
from jumar.engine.session import Session
from jumar.engine.tidy import tidy
from jumar.reducers import events as ev
from jumar.reducers.ballot import NOTHING_WATCHED, Lead
from jumar.reducers.values import Part

logger = structlog.get_logger("jumar")
POINTS: Final = {"agree": "agree", "outcome": "outcome", "return": ""}
"""The crash point before each exchange; none before the last."""


@attrs.define
class Saving:
    """The shell of one boundary on one rank."""

    run: Session

    def steps(self, request: Request) -> Steps[fx.Conclude]:
        """Drive the protocol to its end."""
        if self.run.ledger is not None:
            self.run.inbox.look(self.run.current, self.run.ledger)
        boundary = Boundary(
            state=self.run.state,
            rank=self.run.rank,
            request=request,
            facts=self.run.ledger.take_facts() if self.run.ledger else (),
            lead=self._lead(),
        )
        effects = boundary.start()
        while True:
            reply: fx.Input | None = None
            for effect in effects:
                if isinstance(effect, fx.Conclude):
                    return effect
                reply = yield from self._perform(effect)
            assert reply is not None, "the last effect of a step has an input"
            effects = boundary.receive(reply)

    def _lead(self) -> Lead | None:
        ledger = self.run.ledger
        if ledger is None:
            return None
        return Lead(clock_ns=self.run.clock.wall_ns(), epoch=ledger.epoch)

    def _perform(self, effect: fx.Effect) -> Steps[fx.Input | None]:
        if isinstance(effect, fx.Gather | fx.Ask | fx.Answer):
            if not isinstance(effect, fx.Answer) and POINTS[effect.phase]:
                self.run.at(POINTS[effect.phase])
            return (yield effect)
        return _HANDLERS[type(effect)](self, effect)

    def _read_guard(self, _: fx.ReadGuard) -> fx.Input:
        try:
            self.run.at("ballot")
            return fx.GuardRead(self.run.guard.read())
        except Exception as error:  # becomes this rank's vote: every rank aborts
            return fx.GuardRead(NOTHING_WATCHED, error=tail(error))

    def _clear_guard(self, _: fx.ClearGuard) -> None:
        self.run.guard.clear()

    def _log(self, effect: fx.Log) -> fx.Input:
        assert self.run.ledger is not None
        try:
            if any(isinstance(event, ev.CkptCommitted) for event in effect.events):
                self.run.at("append")
            self.run.ledger.log(effect.events)
        except (LogFailed, OSError) as error:
            logger.error("the log failed; the attempt is over", why=str(error))
            return fx.Logged(error=str(error))
        return fx.Logged()

    def _stage(self, effect: fx.Stage) -> fx.Input:
        parts: dict[str, tuple[Part, ...]] = {}
        try:
            self.run.at("write")
            for accepted in effect.accepted:
                ckpt = self.run.state.ckpts[accepted.ckpt_id]
                plan = self._plan(accepted)
                parts[ckpt.ckpt_id] = self.run.publisher.stage(ckpt, plan, self.run.payload)
        except Exception as error:  # becomes this rank's vote: it takes part in the outcome
            return fx.Staged(parts, error=tail(error))
        return fx.Staged(parts)

    def _plan(self, accepted: ev.CkptAccepted) -> Plan:
        records = {
            "run_id": self.run.state.run_id,
            "ckpt_id": accepted.ckpt_id,
            "attempt": accepted.attempt,
            "parent": accepted.parent,
            "rankings": [ranking.to_plain() for ranking in accepted.rankings],
        }
        return Plan(accepted.ckpt_id, accepted.family, accepted.done, records)

    def _place(self, effect: fx.Place) -> fx.Input:
        return fx.Placed(
            {
                accepted.ckpt_id: self._place_one(accepted, effect.parts[accepted.ckpt_id])
                for accepted in effect.accepted
            }
        )

    def _place_one(
        self, accepted: ev.CkptAccepted, parts: tuple[Part, ...]
    ) -> fx.PlaceResult:
        run, ledger = self.run, self.run.ledger
        assert ledger is not None
        ckpt = run.state.ckpts[accepted.ckpt_id]
        try:
            run.act("commit")
            written = run.publisher.place(
                ckpt,
                accepted,
                parts,
                lambda: manifest.build(run.state.run_id, accepted, parts, ledger.head),
            )
        except Exception as error:  # an abort, durable before any rank leaves
            phase = "rename" if run.point == "rename" else "commit"
            return fx.PlaceResult(phase=phase, error=tail(error))
        return fx.PlaceResult(manifest_sha256=hashlib.sha256(written).hexdigest())

    def _discard(self, effect: fx.Discard) -> None:
        for accepted in effect.accepted:
            ckpt = _as_ckpt(accepted)
            try:
                self.run.publisher.discard(ckpt)
            except OSError as error:
                logger.warning("staging stays until the next open", ckpt=accepted.ckpt_id,
                               why=str(error))  # fmt: skip

    def _tidy(self, effect: fx.Tidy) -> None:
        tidy(self.run, effect.ckpt_ids)


def _as_ckpt(accepted: ev.CkptAccepted) -> Any:
    """Family, step, revision and epoch: all that the layout needs of an aborted one."""
    return accepted


def tail(error: BaseException) -> str:
    """An error as a vote: its class and words, and where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" (in {frame.name}, line {frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {error}{where}"[:8192]


_HANDLERS: Final[Mapping[type, Callable[[Saving, Any], fx.Input | None]]] = {
    fx.ReadGuard: Saving._read_guard,
    fx.ClearGuard: Saving._clear_guard,
    fx.Log: Saving._log,
    fx.Stage: Saving._stage,
    fx.Place: Saving._place,
    fx.Discard: Saving._discard,
    fx.Tidy: Saving._tidy,
}
