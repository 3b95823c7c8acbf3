"""
One rank of the store tests: plays the cases in order and prints what each came to.

    python store_worker.py RANK WORLD PORT        (rank 0 hosts the store)
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from torch._C._distributed_c10d import TCPStore

from jumar.adapters.torch.exchange import StoreCoordinator
from jumar.engine.errors import RankLost

RANK, WORLD, PORT = map(int, sys.argv[1:])
BIG = 3 << 20


def exchange(job: StoreCoordinator, message: bytes) -> bytes:
    """One whole exchange; rank 0 answers with all messages joined."""
    if RANK != 0:
        return job.ask("p", message)
    joined = b"".join(job.gather("p", message))
    job.answer("p", joined)
    return joined


def big(job: StoreCoordinator, store: TCPStore) -> object:
    """Three exchanges of megabytes."""
    lengths = [len(exchange(job, bytes([RANK]) * BIG)) for _ in range(3)]
    return lengths


def busy(job: StoreCoordinator, store: TCPStore) -> object:
    """Rank 1 is at work for longer than the time-out, and shows that it lives."""
    if RANK == 1:
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            job.beat()
            threading.Event().wait(0.1)
    return exchange(job, str(RANK).encode()).decode()


def late(job: StoreCoordinator, store: TCPStore) -> object:
    """Rank 2 comes only when the others have given it up."""
    if RANK == 2:
        store.wait(["given up/0", "given up/1"], timedelta(seconds=30))
    try:
        exchange(job, b"")
    except RankLost as lost:
        store.set(f"given up/{RANK}", "")
        return [lost.ranks, lost.phase]
    return None


def killed(job: StoreCoordinator, store: TCPStore) -> object:
    """Rank 0, with the store in it, dies when all wait for its answer."""
    if RANK == 0:
        job.gather("p", b"")
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        job.ask("p", b"")
    except RankLost as lost:
        return [lost.ranks, lost.phase]
    return None


CASES: tuple[Callable[[StoreCoordinator, TCPStore], object], ...] = (
    *(big, busy, late, killed),
)


def main() -> None:
    """Play all cases over one store, each under a prefix of its own."""
    store = TCPStore("127.0.0.1", PORT, WORLD, is_master=RANK == 0)
    for case in CASES:
        job = StoreCoordinator(store, RANK, WORLD, timeout_s=2.0, prefix=case.__name__)
        result = case(job, store)
        print(json.dumps({"case": case.__name__, "result": result}), flush=True)


if __name__ == "__main__":
    main()
