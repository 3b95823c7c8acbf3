"""
The one writer of a log: queue, group commit, barriers.

Records are encoded and chained when they are appended, so their order is fixed there.  A
thread writes the queue after a short while; a caller that needs a barrier writes it
itself, under the same lock.  A barrier is acknowledged only if, *after* its fdatasync, no
later claim exists: a writer that was replaced while it slept acknowledges nothing.

Any error of a write, a sync or a close kills the writer for good.  A failed fsync is never
tried again, since the second one may report success for bytes that are lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Sequence
from typing import Final, Self

import attrs

from jumar.engine.clock import Clock
from jumar.engine.disk import Disk, DiskFile
from jumar.engine.errors import LogFailed
from jumar.engine.log import claims
from jumar.engine.log.chain import Chain
from jumar.engine.log.frame import frame
from jumar.engine.log.identity import Identity
from jumar.engine.log.record import Entry, Head, Pack, packer, stored
from jumar.engine.log.segment import FORMAT, Header, begin, header_bytes
from jumar.engine.storage import make_dirs

INTERVAL_S: Final = 0.05
"""How long a queued event may wait for company before the thread writes it."""

QUEUE_MAX: Final = 65_536
"""Queued records; beyond it the appending caller writes them itself: nothing is dropped."""


@attrs.define(eq=False)
class LogWriter:
    """
    Appends to one log in one epoch; safe to call from several threads.

    Attributes:
        head: what is durable.
        syncs: fdatasyncs of records so far.
        alive: False after any error and after `close`.
    """

    disk: Disk
    root: str
    run_id: str
    epoch: int
    clock: Clock
    head: Head
    _file: DiskFile
    _next_seq: int
    _last: bytes
    _batch: int = 0
    alive: bool = True
    syncs: int = 0
    why: str = ""
    _closed: bool = False
    _pack: Pack = attrs.field(factory=packer)
    _queue: list[bytes] = attrs.field(factory=list)
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
    ) -> Self:
        """
        Claim the next epoch and begin a segment that freezes the one before it.

        Args:
            root: the log's folder, `<run>/.jumar`; made when absent.
            run_id: for a new log; an existing one keeps its own.
            background: let a thread write queued events; otherwise only barriers do.

        Raises:
            RunBusy: somebody else writes this log.
            LogDamaged: what is there cannot be trusted; nothing was written behind it.
        """
        for folder in ("claims", "seg"):
            make_dirs(disk, f"{root}/{folder}")
        identity = Identity.ensure(disk, root, run_id, clock.wall_ns())
        epoch = claims.claim(disk, root, who, clock.wall_ns())
        try:
            chain = Chain.load(disk, root)
            header = Header(
                format=FORMAT,
                log_id=identity.log_id,
                epoch=epoch,
                first_seq=chain.size,
                prev=chain.last.hex(),
                pred=chain.pred,
                writer=who.plain(),
            )
            file = begin(disk, root, header)
            head = Head(chain.size, chain.last.hex())
            writer = cls(disk, root, identity.run_id, epoch, clock, head, file,
                         chain.size, chain.last)  # fmt: skip
            writer._begin(who, header)
        except BaseException:
            with contextlib.suppress(OSError):  # so that this process may try again
                claims.give_up(disk, root, epoch)
            raise
        if background:
            writer._thread = threading.Thread(
                target=writer._work, name="jumar-log", daemon=True
            )
            writer._thread.start()
        return writer

    def _begin(self, who: claims.Writer, header: Header) -> None:
        """The first records of an epoch: who claimed it, and what was left behind."""
        begun, pred = hashlib.sha256(header_bytes(header)).hexdigest(), header.pred
        claimed = {**who.plain(), "epoch": self.epoch, "header": begun}
        entries = [Entry("writer.claimed", 1, claimed)]
        if pred is not None and pred.discarded_bytes:
            left = {
                "pred": pred.name,
                "valid_bytes": pred.valid_bytes,
                "discarded_bytes": pred.discarded_bytes,
            }
            entries.append(Entry("writer.recovered", 1, left))
        self.append_all(entries)

    # --- appending ---

    def append(self, entry: Entry, *, durable: bool = False) -> int:
        """Append one record; returns its sequence number (see `append_all`)."""
        return self.append_all([entry], durable=durable)[0]

    def append_all(self, entries: Sequence[Entry], *, durable: bool = False) -> list[int]:
        """
        Append records in order; with `durable` they are on the disk when this returns.

        Raises:
            LogFailed: the writer is dead; with `durable`, the outcome of these records is
                unknown and the next open tells.
            SchemaError: a record above 1 MiB, or one that no reader would take; nothing
                was queued.
        """
        with self._order:
            self._must_live()
            seqs = self._enqueue(entries)
            size = self._next_seq
        if durable or len(self._queue) >= QUEUE_MAX:
            self._flush(size)
        return seqs

    def _enqueue(self, entries: Sequence[Entry]) -> list[int]:
        seq, last = self._next_seq, self._last
        if not self._queue:
            self._batch = seq
        frames, seqs = [], []
        wall_ns, mono_ns = self.clock.wall_ns(), self.clock.mono_ns()
        for entry in entries:
            fields = (
                *(seq, self.epoch, entry.type, entry.v, wall_ns, mono_ns, 0),
                *(entry.op_id, entry.cause, last, seq - self._batch, entry.payload),
            )
            body, last = stored(fields, self._pack)
            frames.append(frame(body))
            seqs.append(seq)
            seq += 1
        self._queue += frames
        self._next_seq, self._last = seq, last
        return seqs

    def flush(self) -> None:
        """A barrier over all that was appended before; raises LogFailed."""
        with self._order:
            self._must_live()
            size = self._next_seq
        self._flush(size)

    def _flush(self, size: int) -> None:
        """Make the first `size` records durable, unless another caller just did."""
        with self._io:
            if self.head.size >= size:
                return
            self._must_live()
            try:
                fenced = self._write()
            except OSError as error:
                self._die(f"{type(error).__name__}: {error}")
                raise self._failed() from error
            except BaseException as error:  # Ctrl-C: how much was written is not known
                self._die(f"a write was broken off by {type(error).__name__}")
                raise
            if fenced:
                self._die(self._successor())
                raise self._failed()

    def _write(self) -> bool:
        """Write and sync the queue; True when a later claim exists afterwards."""
        with self._order:
            batch, self._queue = self._queue, []
            head = Head(self._next_seq, self._last.hex())
        self._file.write(b"".join(batch))
        self.syncs += 1
        self._file.sync()
        if self.disk.stat(claims.path_of(self.root, self.epoch + 1)) is not None:
            return True
        self.head = head
        return False

    def _successor(self) -> str:
        claim = claims.read_claim(self.disk, self.root, self.epoch + 1)
        who = f"process {claim.pid} on {claim.host}" if claim else "another process"
        return f"{who} took over with epoch {self.epoch + 1}"

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
            self.flush()
            self._die("it was closed")
            self._file.close()
            claims.release(self.disk, self.root, self.epoch)
        except BaseException as error:
            self._abandon()
            if not isinstance(error, OSError):
                raise
            self._die(f"{type(error).__name__}: {error}")
            raise self._failed() from error

    def _abandon(self) -> None:
        """Let go without a promise; what fails here was told by what killed the writer."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            claims.give_up(self.disk, self.root, self.epoch)

    def _work(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            with self._order:
                size, live = self._next_seq, self.alive
            if not live:
                return
            try:
                self._flush(size)
            except LogFailed:
                return  # the writer is dead: the next caller is told why

    def _die(self, why: str) -> None:
        self.alive, self.why = False, why

    def _must_live(self) -> None:
        if not self.alive:
            raise self._failed()

    def _failed(self) -> LogFailed:
        return LogFailed(
            "the log takes no more records",
            why=self.why,
            instead="restart the job: the next open finishes or removes what was under way",
            value=self.epoch,
        )
