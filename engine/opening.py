"""
Opening a run: the log, the roll forward, the restart decision, and the state for all.

Rank 0 opens and decides; its answers carry either an error, which every rank then
raises, or the next candidate, which every rank looks at, or the settled state.

Longer than 300 lines, since an open is one story from arguments to a settled state.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from typing import Final

import attrs
import structlog

from jumar.engine import effects as fx
from jumar.engine import errors, manifest
from jumar.engine.clock import Clock, SystemClock
from jumar.engine.coordinator import Coordinator, SingleProcess
from jumar.engine.disk import Disk
from jumar.engine.exchange import Steps, answer, ask, drive, gather
from jumar.engine.foreign import refuse_foreign
from jumar.engine.guard import Guard, NoGuard
from jumar.engine.history import History
from jumar.engine.inbox import Inbox
from jumar.engine.layout import Layout
from jumar.engine.ledger import Ledger
from jumar.engine.log import reserve
from jumar.engine.log.claims import Writer, this_process
from jumar.engine.log.journal import Journal
from jumar.engine.log.writer import LogWriter
from jumar.engine.payload import Payload
from jumar.engine.publish import Publisher
from jumar.engine.real_disk import RealDisk
from jumar.engine.recover import Recovery, observed
from jumar.engine.restart import Restart, Selection, mode_of
from jumar.engine.run import Run
from jumar.engine.session import no_probe
from jumar.engine.storage import make_dirs
from jumar.engine.telling_errors import describe, revive
from jumar.reducers import events as ev
from jumar.reducers.errors import JumarError
from jumar.reducers.fold import fold
from jumar.reducers.policy import Policy
from jumar.reducers.rules import Schedule
from jumar.reducers.state import Ckpt, State

logger = structlog.get_logger("jumar")
VERSION: Final = "0.1.0"


@attrs.frozen
class Setup:
    """
    All that one rank brings to an open.

    Attributes:
        directory: the run directory.
        restart: `auto`, `fresh`, `new`, or the completed steps of a checkpoint.
        who: who writes, for the claim (rank 0).
        background: let a thread write queued events (False: at barriers only).
        probe: called at each crash point; for tests.
    """

    directory: str
    policy: Policy
    payload: Payload
    guard: Guard
    coordinator: Coordinator
    disk: Disk
    clock: Clock
    who: Writer
    schedule: Schedule | None = None
    restart: Restart = "auto"
    background: bool = True
    probe: Callable[[str], None] = no_probe

    def __attrs_post_init__(self) -> None:
        self.policy.check(self.schedule)
        mode_of(self.restart)

    def run(self, state: State, ledger: Ledger | None) -> Run:
        """The open attempt; each rank begins its evidence journal."""
        layout = Layout(self.directory)
        journal = Journal(
            self.disk, layout.log, state.attempt, self.coordinator.rank, self.clock
        )
        journal.note(
            ev.RankJoined(
                attempt=state.attempt, world=self.coordinator.world, **self.who.plain()
            )
        )
        return Run(
            layout=layout,
            state=state,
            coordinator=self.coordinator,
            disk=self.disk,
            clock=self.clock,
            payload=self.payload,
            guard=self.guard,
            ledger=ledger,
            journal=journal,
            inbox=Inbox(self.disk, layout.log),
            probe=self.probe,
        )

    def publisher(self) -> Publisher:
        """The owner of names while the run is not open yet."""
        return Publisher(
            disk=self.disk,
            layout=Layout(self.directory),
            rank=self.coordinator.rank,
            at=self.probe,
            beat=self.coordinator.beat,
        )


def open_run(
    directory: str,
    *,
    policy: Policy,
    payload: Payload,
    guard: Guard | None = None,
    schedule: Schedule | None = None,
    restart: Restart = "auto",
    coordinator: Coordinator | None = None,
) -> Run:
    """
    Open a run directory on this machine's disk; every rank of the job calls it.

    Args:
        directory: the run directory; made when absent.
        payload: gives the bytes of a checkpoint.
        guard: None: nothing is watched, and no checkpoint is *verified good*.
        coordinator: None: a job of one rank.

    Raises:
        RunBusy, LogDamaged, RestoreError, RankMismatch, RankLost: the same on all ranks.
    """
    job = coordinator or SingleProcess()
    setup = Setup(
        directory=os.path.abspath(directory),
        policy=policy,
        schedule=schedule,
        restart=restart,
        payload=payload,
        guard=guard or NoGuard(),
        coordinator=job,
        disk=RealDisk(),
        clock=SystemClock(),
        who=this_process(),
    )
    try:
        return drive(open_steps(setup), job)
    except BaseException:
        job.close()  # the others must hear of it before this process goes
        raise


def open_steps(setup: Setup) -> Steps[Run]:
    """
    `open_run` as steps: the simulated cluster answers the exchanges itself.

    Raises:
        RunBusy, LogDamaged, RestoreError, RankMismatch, RankLost: the same on all ranks.
    """
    schedule = None if setup.schedule is None else setup.schedule.to_plain()
    hello = {
        "policy": setup.policy.digest(),
        "schedule": schedule,
        "restart": setup.restart,
    }
    if setup.coordinator.rank == 0:
        return (yield from _lead(setup, hello))
    return (yield from _follow(setup, hello))


def _follow(setup: Setup, hello: fx.Plain) -> Steps[Run]:
    message = yield from ask("open", hello)
    while not message.get("settled"):
        if message.get("error"):
            raise revive(message["error"])
        seen = manifest.damage(
            setup.disk, message["folder"], Ckpt.from_plain(message["ckpt"]), None
        )
        message = yield from ask("read", {"unreadable": seen and f"{seen[0]}: {seen[1]}"})
    return setup.run(State.from_plain(message["state"]), None)


def _lead(setup: Setup, hello: fx.Plain) -> Steps[Run]:
    hellos = yield from gather("open", hello)
    opening = Opening(setup)
    phase = "open"
    try:
        _same(hellos)
        opening.begin()
        for proposal in opening.selection.proposals(setup.restart):
            if proposal is None:
                break
            folder = opening.publisher.where(proposal)
            yield from answer(phase, {"ckpt": proposal.to_plain(), "folder": folder})
            phase = "read"
            votes = yield from gather(phase, {"unreadable": None})
            if opening.accepts(proposal, [vote["unreadable"] for vote in votes]):
                break
        run = opening.settle(proposal)
    except errors.RankLost as lost:
        opening.give_up("rank_lost", lost)
        raise
    except (JumarError, OSError) as error:
        opening.give_up("error", error)
        yield from answer(phase, {"error": describe(error)})
        raise
    except (Exception, KeyboardInterrupt, SystemExit):
        # This process may want to try again.  A generator that is thrown away is none of
        # these: its process is over, and nothing of it may still write.
        if opening.ledger is not None:
            opening.ledger.let_go()
        raise
    yield from answer(phase, {"settled": True, "state": run.state.to_plain()})
    return run


def _same(hellos: list[fx.Plain]) -> None:
    for field in ("policy", "schedule", "restart"):
        odd = [rank for rank, one in enumerate(hellos) if one[field] != hellos[0][field]]
        if odd:
            raise errors.RankMismatch(
                f"rank {', '.join(map(str, odd))} opened with another {field} than rank 0",
                why="every rank opens a run with the same arguments",
                instead="pass the same policy, schedule and restart on all ranks",
                value=odd[0],
            )


@attrs.define
class Opening:
    """Rank 0's side, from an unopened log to a settled state."""

    setup: Setup
    history: History = attrs.field(factory=History)
    ledger: Ledger | None = None
    publisher: Publisher = attrs.field(init=False)
    selection: Selection = attrs.field(init=False)
    inbox: Inbox = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.publisher = self.setup.publisher()

    @property
    def state(self) -> State:
        """What the log means so far."""
        return self.history.state

    def emit(self, *events: ev.Event) -> None:
        """Log and fold; durable when any of them is a barrier."""
        assert self.ledger is not None
        self.ledger.log(events)
        for event in events:
            fold(self.state, event)

    def begin(self) -> None:
        """Claim, roll forward, start the attempt."""
        setup, log = self.setup, Layout(self.setup.directory).log
        exists = setup.disk.stat(f"{log}/IDENTITY") is not None
        refuse_foreign(setup.disk, setup.directory, setup.restart, exists)
        if exists:
            self.history.catch_up(setup.disk, log)  # who cannot read may not write
        make_dirs(setup.disk, log)  # and syncs the names that a killed process made
        run_id = self.state.run_id or uuid.uuid4().hex

        def claim(dead: int) -> LogWriter:
            """Another epoch; the claim of a writer of ours that died holds nobody off."""
            alive = setup.who.alive
            who = attrs.evolve(setup.who, alive=lambda c: c.epoch != dead and alive(c))
            return LogWriter.open(
                setup.disk,
                log,
                run_id=run_id,
                who=who,
                clock=setup.clock,
                background=setup.background,
            )

        writer = claim(0)
        self.ledger = Ledger(writer, claim)
        self._set_space_aside(log)
        self.history.catch_up(setup.disk, log)
        if not self.state.run_id:
            self.emit(ev.RunStarted(run_id=writer.run_id, version=VERSION, layout="native"))
        self._recovery().run()
        if self.state.phase in ("begun", "selected"):  # it died without a word
            self.ledger.seal_evidence(self.state.attempt)
        self.inbox = Inbox(setup.disk, log, answered=self.history.answered)
        for event in self.inbox.look(lambda: self.state, self.ledger):
            fold(self.state, event)
        self.ledger.take_facts()  # the others are told the whole state
        self._start_attempt()
        self.selection = Selection(self.state, self.publisher)

    def _set_space_aside(self, log: str) -> None:
        """A full disk takes no training, but may take the answer to why it ended."""
        try:
            reserve.ensure(self.setup.disk, log)
        except OSError as error:
            logger.warning("no space could be set aside for last words", why=str(error))

    def _recovery(self) -> Recovery:
        assert self.ledger is not None
        look = self.ledger.writer.must_lead
        return Recovery(self.state, self.publisher, self.ledger.epoch, self.emit, look)

    def _start_attempt(self) -> None:
        setup = self.setup
        if setup.policy != self.state.policy:
            self.emit(ev.PolicyResolved(policy=setup.policy))
        if setup.schedule != self.state.schedule:
            self.emit(ev.ScheduleResolved(schedule=setup.schedule))
        attempt = self.state.attempt + 1
        self.emit(ev.AttemptStarted(attempt=attempt, world=setup.coordinator.world))
        mode = mode_of(setup.restart)
        at = f"live@{setup.restart}r0" if mode == "at" else None
        self.emit(ev.RestartRequested(attempt=attempt, mode=mode, at=at))

    def accepts(self, proposal: Ckpt, unreadable: list[str | None]) -> bool:
        """Whether every rank can read the candidate; else all walk back together."""
        bad = {rank: why for rank, why in enumerate(unreadable) if why}
        if not bad:
            return True
        self.selection.refuse(
            proposal,
            "; ".join(f"rank {rank} cannot read it: {why}" for rank, why in bad.items()),
        )
        return False

    def settle(self, source: Ckpt | None) -> Run:
        """Log the decision, rewrite the pointers, and hand over the open run."""
        assert self.ledger is not None
        self._note_damage()
        if source is not None:
            self.selection.choose(
                source, "the newest that verifies, readable by every rank"
            )
        self.emit(
            ev.RestartSelected(
                attempt=self.state.attempt,
                ckpt_id=None if source is None else source.ckpt_id,
                done=0 if source is None else source.done,
                candidates=tuple(self.selection.candidates),
            )
        )
        self._recovery().rewrite_pointers()
        run = self.setup.run(self.state, self.ledger)
        run.inbox = self.inbox
        return run

    def _note_damage(self) -> None:
        """What the search for a source saw stays known, whether it found one or not."""
        for ckpt, finding, detail in self.selection.damaged:
            if ckpt.observed != finding:
                self.emit(observed(ckpt, finding, detail))

    def give_up(self, reason: str, error: Exception) -> None:
        """Write down why the open failed, if the log got that far, and let go of it."""
        if self.ledger is None:
            return
        ended = ev.AttemptEnded(
            attempt=max(0, self.state.attempt),
            reason=reason,
            done=self.state.start_done,
            detail=str(error)[:4096],
        )
        if self.state.phase != "begun":
            self.ledger.let_go()
            return
        with contextlib.suppress(errors.LogFailed):  # the first error is the one to raise
            self._note_damage()
        self.ledger.end(ended)
