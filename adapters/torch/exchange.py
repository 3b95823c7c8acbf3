"""
The control plane over the job's own key-value store, under a prefix of ours.

Rank 0 waits for one key per rank and publishes one answer, so it can name who is late;
and the control plane never shares an order with training collectives.  A rank at long
work bumps its beat; whoever waits for it is patient as long as the beat changes.

Source: `torch.distributed.Store` (TCPStore, FileStore, HashStore).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store, _get_default_store

from jumar.engine.coordinator import Coordinator, SingleProcess
from jumar.engine.errors import RankLost

SLICE_S: Final = 0.5
"""How long one wait lasts before beats are looked at again."""

BEAT_S: Final = 1.0
"""A rank shows a sign of life at most this often."""

GRACE_S: Final = 2.0
LINGER_S: Final = 5.0
POLL_S: Final = 0.005

PIECE: Final = 4 << 20
"""Bytes a key holds at most: a TCPStore drops the connection that sends above 8 MiB."""

COUNT: Final = 4
"""Bytes of the number of further pieces, in front of the first one."""

LOST: Final = b"L"
FINE: Final = b"A"


def of_job(timeout_s: float) -> Coordinator:
    """
    The coordinator of this job: single when torch.distributed is not initialised.

    Every rank counts its opens in the store itself, so that two opens over one store
    never share a key, whatever else a process opened before it joined the job.
    """
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return SingleProcess()
    store, rank = _get_default_store(), dist.get_rank()
    with _told("open"):
        opened = store.add(f"jumar/opens/{rank}", 1)
    return StoreCoordinator(
        store, rank, dist.get_world_size(), timeout_s=timeout_s, prefix=str(opened)
    )


@contextmanager
def _told(phase: str) -> Iterator[None]:
    """A broken store is the loss of rank 0, in whose process it lives."""
    try:
        yield
    except dist.DistError as error:
        raise RankLost([0], phase, 0.0) from error


class StoreCoordinator:
    """
    `Coordinator` over a store.

    Args:
        store: shared by all ranks.
        timeout_s: seconds without a sign of life after which a rank is lost.
        prefix: equal on all ranks, different for each open over this store.
    """

    def __init__(
        self, store: Store, rank: int, world: int, *, timeout_s: float, prefix: str
    ) -> None:
        self.rank = rank
        self.world = world
        self._store = PrefixStore(f"jumar/{prefix}", store)
        self._timeout_s = timeout_s
        self._n = 0
        self._beats = 0
        self._beat_at = -BEAT_S
        self._closed = False
        self._spent: list[str] = []

    def gather(self, phase: str, message: bytes) -> Sequence[bytes]:
        """Rank 0: every rank's message, own first; names the late ones on all ranks."""
        self._n += 1
        keys = {rank: f"{self._n}/m/{rank}" for rank in range(1, self.world)}
        with _told(phase):
            self._refuse(self._wait(keys), phase, self._timeout_s)
            said = {r: self._take(key).partition(b"\0") for r, key in keys.items()}
            # a rank that is somewhere else in the protocol did not come
            elsewhere = [rank for rank, (at, _, _) in said.items() if at != phase.encode()]
            self._refuse(elsewhere, phase, 0.0)
            self._forget()
        return [message, *(body for _, _, body in said.values())]

    def answer(self, phase: str, message: bytes) -> None:
        """Rank 0: one answer to all."""
        with _told(phase):
            self._answer(FINE + message)

    def _refuse(self, late: list[int], phase: str, waited_s: float) -> None:
        if late:
            self._answer(LOST + json.dumps([late, phase]).encode())
            raise RankLost(late, phase, waited_s)

    def _answer(self, data: bytes) -> None:
        self._spent += [*self._put(f"{self._n}/a", data), f"{self._n}/k"]

    def _forget(self) -> None:
        """All came to this exchange, so all have read the answer to the one before."""
        for key in self._spent:
            self._store.delete_key(key)
        self._spent = []

    def ask(self, phase: str, message: bytes) -> bytes:
        """Every other rank: hand in a message, wait for rank 0's answer."""
        self._n += 1
        key = f"{self._n}/a"
        try:
            with _told(phase):
                self._put(f"{self._n}/m/{self.rank}", phase.encode() + b"\0" + message)
                if self._wait({0: key}):
                    raise RankLost([0], phase, self._timeout_s)
                data = self._take(key)
        finally:
            self._acknowledge()
        if data[:1] == LOST:
            ranks, where = json.loads(data[1:])
            raise RankLost(ranks, where, self._timeout_s)
        return data[1:]

    def _put(self, key: str, data: bytes) -> list[str]:
        """Write in pieces, the first one last: whoever sees the key finds all of them."""
        starts = range(PIECE, len(data), PIECE)
        pieces = {f"{key}/{n}": data[i : i + PIECE] for n, i in enumerate(starts)}
        pieces[key] = len(pieces).to_bytes(COUNT) + data[:PIECE]
        for name, piece in pieces.items():
            self._store.set(name, piece)  # type: ignore[arg-type]  # the stub knows str alone
        return list(pieces)

    def _take(self, key: str) -> bytes:
        """Read what `_put` wrote; on rank 0 its keys are spent then."""
        head = self._store.get(key)
        rest = [f"{key}/{n}" for n in range(int.from_bytes(head[:COUNT]))]
        if self.rank == 0:
            self._spent += [key, *rest]
        return head[COUNT:] + b"".join(self._store.get(name) for name in rest)

    def _wait(self, keys: dict[int, str]) -> list[int]:
        """Wait for these keys; the ranks without a sign of life for too long, ascending."""
        now = time.monotonic()
        seen = dict.fromkeys(keys, (now, b""))
        pending = dict(keys)
        while pending:
            try:
                self._store.wait(list(pending.values()), timedelta(seconds=self._slice_s()))
                return []
            except dist.DistNetworkError:
                raise
            except RuntimeError:  # this slice is over (a FileStore has no class for it)
                self.beat()
            pending = {r: key for r, key in pending.items() if not self._store.check([key])}
            late = [rank for rank in sorted(pending) if self._is_late(rank, seen)]
            if late:
                return late
        return []

    def _slice_s(self) -> float:
        return min(SLICE_S, self._timeout_s)

    def _is_late(self, rank: int, seen: dict[int, tuple[float, bytes]]) -> bool:
        now, key = time.monotonic(), f"beat/{rank}"
        beat = self._store.get(key) if self._store.check([key]) else b""
        since, last = seen[rank]
        if beat != last:
            seen[rank] = (now, beat)
            return False
        return now - since >= self._patience_s()

    def _patience_s(self) -> float:
        """A peer gives rank 0 the time to find out who is late, and to say so."""
        return self._timeout_s + (0.0 if self.rank == 0 else GRACE_S)

    def beat(self) -> None:
        """A sign of life, at most once a second."""
        now = time.monotonic()
        if now - self._beat_at < BEAT_S:
            return
        self._beat_at = now
        self._beats += 1
        try:
            self._store.set(f"beat/{self.rank}", str(self._beats))
        except RuntimeError:
            return  # the store is gone: the next exchange says so, by name

    def _acknowledge(self) -> None:
        """Tell rank 0 that its last answer was read, so that it may go."""
        try:
            self._store.add(f"{self._n}/k", 1)
        except RuntimeError:
            return  # rank 0 is gone: nobody waits for this

    def close(self) -> None:
        """
        Rank 0 lingers until its last answer was read: the store may live in its process.

        Bounded, since a rank that is gone reads nothing.
        """
        if self.rank != 0 or self._closed:
            return
        self._closed = True
        until = time.monotonic() + min(self._timeout_s, LINGER_S)
        while self._n and time.monotonic() < until:
            try:
                if self._store.add(f"{self._n}/k", 0) >= self.world - 1:
                    return
            except RuntimeError:
                return  # the store is gone already
            time.sleep(POLL_S)
