"""
Every workload of up to three operations, every call, everything that can be left of it.

Method: workloads form a tree, so each operation is played once on a copy of the disk that
those before it left.  At each of its calls the machine stops, and then each combination of
what the power may leave of every unsynced write and name is recovered from and checked
(as CrashMonkey does for file systems, Mohan et al., OSDI 2018).  The second test lets each
call fail instead, once, with each error.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import pytest

from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.every import every
from jumar.tools.harness.inode import Node
from jumar.tools.harness.log_life import LogLife
from jumar.tools.harness.world import SimClock

SOAK = bool(os.environ.get("JUMAR_SOAK"))
MOST = {1: 400, 2: 400, 3: 400} if SOAK else {1: 40, 2: 12, 3: 4}
"""Combinations of what is left, at most, of one crash in the n-th operation."""

Act = Callable[[LogLife], None]


def closed(life: LogLife) -> None:
    life.close()
    life.open()


ACTS: dict[str, Act] = {
    "append, durable": lambda life: life.append(1, durable=True),
    "append four": lambda life: life.append(4, durable=True),
    "queue": lambda life: life.append(1, durable=False),
    "flush": lambda life: life.flush(),
    "close and open": closed,
    "replace": lambda life: life.replace(),
}


def begun() -> LogLife:
    life = LogLife()
    life.open()
    return life


def copied(life: LogLife) -> LogLife:
    """The same moment once more; a writer's locks cannot be copied, so they are shared."""
    shared = {
        id(lock): lock
        for log in [life.log, *life.asleep]
        if log is not None
        for lock in (log._order, log._io, log._stop, log._plan._pack)
    }
    hashes = {
        id(log._plan._digest): log._plan._digest.copy()
        for log in [life.log, *life.asleep]
        if log is not None
    }
    return copy.deepcopy(life, {**shared, **hashes})


def lives(depth: int, life: LogLife, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Play each operation on a copy, crash it at each call, go on behind it."""
    for name, act in ACTS.items():
        here = (*names, name)
        at = 1
        while crashed_anyhow(life, at, act, here):
            at += 1
        yield here
        if depth > 1:
            after = copied(life)
            act(after)
            yield from lives(depth - 1, after, here)


MET: Counter[str] = Counter()


def crashed_anyhow(life: LogLife, at: int, act: Act, names: tuple[str, ...]) -> bool:
    """Stop at the `at`-th call with each outcome; False when the act has fewer calls."""
    stopped = copied(life)
    if not stopped.crash(at, "kill", lambda: act(stopped)):
        return False
    kept = pickle.dumps((stopped.disk._root, stopped.disk._renames))
    check(left_of(stopped, kept), (*names, at, "kill"))
    for chance in islice(every(), MOST[len(names)]):
        left = left_of(stopped, kept)
        left.disk.power_loss(chance)
        check(left, (*names, at, "power"))
    return True


def left_of(stopped: LogLife, kept: bytes) -> LogLife:
    """A machine that stopped, as it was; copied often, so by the quickest way."""
    root, renames = pickle.loads(kept)
    return LogLife(
        disk=SimDisk(root=root, renames=renames), clock=SimClock(), n=stopped.n,
        acked=[*stopped.acked], unsure=[*stopped.unsure],
    )  # fmt: skip


def content(node: Node) -> object:
    """What a reader can see of a tree."""
    if node.kind == "file":
        return bytes(node.data)
    return tuple((name, content(child)) for name, child in sorted(node.entries.items()))


SEEN: set[bytes] = set()


def check(life: LogLife, where: tuple[object, ...]) -> None:
    """Recover, unless the same bytes and the same promises were recovered from before."""
    state = repr((life.acked, life.unsure, content(life.disk._root)))
    digest = hashlib.sha256(state.encode()).digest()
    MET["states"] += 1
    if digest in SEEN:
        return
    SEEN.add(digest)
    try:
        life.read()
        life.open()
        life.append(1, durable=True)
        life.read()
    except Exception as error:
        error.add_note(f"in {where}")
        raise
    MET.update(life.seen)


def test_every_short_workload_survives_every_crash() -> None:
    MET.clear()
    SEEN.clear()
    workloads = list(lives(3, begun(), ()))

    assert len(workloads) == sum(len(ACTS) ** n for n in (1, 2, 3))
    assert len(SEEN) > 1000 and MET["torn tail"] and MET["orphan segment"], MET


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR])
def test_every_call_of_every_operation_may_fail(code: int) -> None:
    """Until no fault fires any more; then the power goes, and nothing told is lost."""
    failed: Counter[str] = Counter()
    for act in ACTS.values():
        for how in ("kill", None):
            at = 1
            while True:
                life = begun()
                life.append(1, durable=False)
                name = life.fail(at, code, partial(act, life))
                if not name:
                    break
                failed[name] += 1
                life.log = None
                life.read()
                life.open()
                life.append(1, durable=True)
                life.lose(how)
                life.read()
                life.open()
                at += 1

    assert {"write", "sync", "create", "read", "link", "sync_dir", "close"} <= {*failed}
