"""
The one writer of a log: queue, group commit, barriers, fence.

Records are chained when they are appended (`assembly.py`), so their order is fixed there.
A thread writes the queue after a short while; a caller that needs a barrier writes it
itself, under the same lock.  A barrier is acknowledged only if, *after* its fdatasync, no
later claim exists, and on a network file system only if the next head could be made as
well: a writer that was replaced while it slept acknowledges nothing.

Any error of a write, a sync or a close kills the writer for good.  A failed fsync is never
tried again, since the second one may report success for bytes that are lost.

Longer than 300 lines, since every state of a writer is seen in one place.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Sequence
from typing import Any, Final, Self

import attrs

from jumar.engine.clock import Clock
from jumar.engine.disk import Disk
from jumar.engine.errors import LogFailed
from jumar.engine.log import claims
from jumar.engine.log.assembly import SEAL_BYTES, SEAL_RECORDS, Assembly
from jumar.engine.log.chain import take_over
from jumar.engine.log.fence import Fence
from jumar.engine.log.identity import Identity
from jumar.engine.log.output import Output
from jumar.engine.log.record import Entry, Head
from jumar.engine.log.segment import Pred
from jumar.engine.mounts import is_network
from jumar.engine.storage import make_dirs, must_be_dir
from jumar.reducers.errors import SchemaError
from jumar.reducers.events import WriterClaimed, WriterRecovered

INTERVAL_S: Final = 0.05
"""How long a queued event may wait for company before the thread writes it."""

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
QUEUE_MAX: Final = 65_536
"""Queued records; beyond it the appending caller writes them itself: nothing is dropped."""


@attrs.define(eq=False)
class LogWriter:
    """
    Appends to one log in one epoch; safe to call from several threads.

    Attributes:
        head: what is durable and acknowledged.
        alive: False after any error and after `close`.
        full: it died for want of space.
    """

    disk: Disk
    root: str
    run_id: str
    epoch: int
    clock: Clock
    head: Head
    _plan: Assembly
    _fence: Fence
    _output: Output
    alive: bool = True
    full: bool = False
    why: str = ""
    _closed: bool = False
    _sealed: bool = False
    _order: threading.Lock = attrs.field(factory=threading.Lock)
    _io: threading.Lock = attrs.field(factory=threading.Lock)
    _stop: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        root: str,
        *,
        run_id: str,
        who: claims.Writer,
        clock: Clock,
        background: bool = True,
        seal_bytes: int = SEAL_BYTES,
        seal_records: int = SEAL_RECORDS,
    ) -> Self:
        """
        Claim the next epoch and begin a segment that freezes the one before it.

        Args:
            root: the log's folder, `<run>/.jumar`; made when absent.
            run_id: for a new log; an existing one keeps its own.
            background: let a thread write queued events; otherwise only barriers do.
            seal_bytes, seal_records: what a segment holds before the next one begins.

        Raises:
            RunBusy: somebody else writes this log.
            LogDamaged: what is there cannot be trusted; nothing was written behind it.
        """
        for folder in ("claims", "seg", "heads"):
            make_dirs(disk, f"{root}/{folder}")
            must_be_dir(disk, f"{root}/{folder}")
        identity = Identity.ensure(disk, root, run_id, clock.wall_ns())
        epoch = claims.claim(disk, root, who, clock.wall_ns())
        writer: Self | None = None
        try:
            chain, next_head = take_over(disk, root, identity.log_id, epoch)
            plan = Assembly(identity.log_id, epoch, who.plain(), chain.size, chain.last,
                            chain.tree, seal_bytes, seal_records)  # fmt: skip
            fs = disk.fs_kind(root)
            fence = Fence(disk, root, identity.log_id, epoch, is_network(fs), next_head)
            writer = cls(disk, root, identity.run_id, epoch, clock, plan.head(), plan,
                         fence, Output(disk, root))  # fmt: skip
            writer._begin(who, chain.pred, fs)
        except BaseException:
            with contextlib.suppress(OSError):  # so that this process may try again
                output = Output(disk, root) if writer is None else writer._output
                output.drop()
                claims.give_up(disk, root, epoch, output.name, output.durable)
            raise
        if background:
            writer._thread = threading.Thread(
                target=writer._work, name="jumar-log", daemon=True
            )
            writer._thread.start()
        return writer

    def _begin(self, who: claims.Writer, pred: Pred | None, fs: str) -> None:
        """A segment, and the first records of an epoch: who claimed it, what was left."""
        claimed: dict[str, Any] = {**who.plain(), "epoch": self.epoch, "fs": fs}
        begun = [WriterClaimed(**claimed, header=self._plan.begin(pred))]
        entries = [Entry.of(one) for one in begun]
        if pred is not None and pred.discarded_bytes:
            left = WriterRecovered(
                pred=pred.name,
                valid_bytes=pred.valid_bytes,
                discarded_bytes=pred.discarded_bytes,
            )
            entries.append(Entry.of(left))
        self._output.put(self._plan.take())
        self.append_all(entries)

    @property
    def syncs(self) -> int:
        """Fdatasyncs of records so far."""
        return self._output.syncs

    @property
    def size(self) -> int:
        """Records so far, durable or not."""
        return self._plan.size

    # --- appending ---

    def append(self, entry: Entry, *, durable: bool = False) -> int:
        """`append_all` of one record."""
        return self.append_all([entry], durable=durable)[0]

    def append_all(
        self, entries: Sequence[Entry], *, durable: bool = False, witness: bool = False
    ) -> list[int]:
        """
        Append records in order; with `durable` they are on the disk when this returns.

        Args:
            witness: also leave a head beside the log (with `durable`).

        Raises:
            LogFailed: the writer is dead; with `durable`, the outcome of these records is
                unknown and the next open tells.
            SchemaError: a record above 1 MiB, or one that no reader would take; nothing
                was queued.
        """
        with self._order:
            self._must_live()
            if self._sealed:  # the footer is queued: nothing may stand behind it
                raise self._failed("it is being closed")
            try:
                seqs = self._plan.add(entries, self.clock.wall_ns(), self.clock.mono_ns())
            except SchemaError:
                raise
            except BaseException as error:  # Ctrl-C: half of it may be chained
                self._die(f"an append was broken off by {type(error).__name__}")
                raise
            size = self._plan.size
        if durable or len(self._plan.pieces) >= QUEUE_MAX:
            self._flush(size, witness=witness)
        return seqs

    def flush(self) -> None:
        """A barrier over all that was appended before; raises LogFailed."""
        with self._order:
            self._must_live()
            size = self._plan.size
        self._flush(size)

    def must_lead(self) -> None:
        """
        A look, before something outside the log is changed: has nobody taken over?  It
        narrows the time in which a paused process can do harm, and cannot close it.

        Raises:
            LogFailed: somebody has, or the writer is dead.
            OSError: the look failed; nothing is known, and the log goes on.
        """
        with self._io:
            self._must_live()
            self._must_hold(self._fence.holds(self.head))

    def _flush(self, size: int, *, witness: bool = False) -> None:
        """Make the first `size` records durable, unless another caller just did."""
        with self._io:
            if self.head.size >= size and not witness:
                return
            self._must_live()
            try:
                leads = self._write(witness)
            except OSError as error:
                self._die_of(error)
                raise self._failed() from error
            except BaseException as error:  # Ctrl-C: how much was written is not known
                self._die(f"a write was broken off by {type(error).__name__}")
                raise
            self._must_hold(leads)

    def _write(self, witness: bool) -> bool:
        """Write and sync the queue; False when somebody else took over meanwhile."""
        with self._order:
            pieces, head = self._plan.take(), self._plan.head()
        self._output.put(pieces)
        leads = self._fence.holds(head, witness=witness)
        if leads:
            self.head = head
        return leads

    def _must_hold(self, leads: bool) -> None:
        if not leads:
            self._die(self._fence.successor())
            raise self._failed()

    # --- ending ---

    def close(self) -> None:
        """
        Write what is queued, close, release the claim; raises LogFailed.

        A dead writer only gives its claim up, so that this process may open again.
        """
        if self._closed:
            return
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._closed = True
        if not self.alive:
            self._abandon()
            return
        try:
            with self._order:
                self._sealed = True
                self._plan.seal()
            self._flush(self._plan.size, witness=True)
            self._die("it was closed")
            self._output.end()
            claims.release(self.disk, self.root, self.epoch)
        except BaseException as error:
            self._abandon()
            if not isinstance(error, OSError):
                raise
            self._die_of(error)
            raise self._failed() from error

    def _abandon(self) -> None:
        """Let go without a promise."""
        self._output.drop()
        self._give_up()

    def _give_up(self) -> None:
        """
        Say what counts; what fails here was told by what killed the writer.

        A successor that read more has made that durable: it is not contradicted.
        """
        out = self._output
        with contextlib.suppress(OSError):
            name = "" if self._fence.is_passed() else out.name
            claims.give_up(self.disk, self.root, self.epoch, name, out.durable)

    def _work(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            with self._order:
                size, live = self._plan.size, self.alive
            if not live:
                return
            try:
                self._flush(size)
            except LogFailed:
                return  # the writer is dead: the next caller is told why

    def _die_of(self, error: OSError) -> None:
        self.full = error.errno in NO_SPACE
        self._die(f"{type(error).__name__}: {error}")
        self._give_up()  # at once: a kill before `close` would leave it unsaid

    def _die(self, why: str) -> None:
        self.alive, self.why = False, why

    def _must_live(self) -> None:
        if not self.alive:
            raise self._failed()

    def _failed(self, why: str = "") -> LogFailed:
        return LogFailed(
            "the log takes no more records",
            why=why or self.why,
            instead="restart the job: the next open finishes or removes what was under way",
            value=self.epoch,
        )
