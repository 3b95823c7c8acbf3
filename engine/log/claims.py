"""
Claims: which process writes an epoch, decided by one exclusive create.

`claims/EEEEEE` names host, pid and since when; its name depends on the epoch alone, so two
contenders always fight for the same one.  A clean close leaves `EEEEEE.released` beside
it.  Who finds an unreleased claim whose process still lives on this host is told so;
any other writer is fenced at its next barrier by the existence of a later claim.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs
import msgpack

from jumar.engine.disk import Disk
from jumar.engine.errors import LogDamaged, RunBusy
from jumar.engine.storage import create_once, write_file

_NAME: Final = re.compile(r"[0-9]{6}", re.ASCII)
EPOCH_MAX: Final = 999_999
CLAIM_MAX: Final = 4096


_is_int = attrs.validators.instance_of(int)
_is_str = attrs.validators.instance_of(str)


@attrs.frozen
class Claim:
    """Who claimed an epoch; `since_ns` is wall clock, `started` a process start tick."""

    epoch: int = attrs.field(validator=_is_int)
    host: str = attrs.field(validator=_is_str)
    pid: int = attrs.field(validator=_is_int)
    boot_id: str = attrs.field(validator=_is_str)
    started: int = attrs.field(validator=_is_int)
    since_ns: int = attrs.field(validator=[_is_int, attrs.validators.in_(range(1 << 62))])


@attrs.frozen
class Writer:
    """
    Who wants to write.

    Attributes:
        alive: whether the process of a claim still lives, as far as this host can tell.
    """

    host: str
    pid: int
    boot_id: str
    started: int
    alive: Callable[[Claim], bool]

    def plain(self) -> dict[str, Any]:
        """For the segment header."""
        return {"host": self.host, "pid": self.pid, "boot_id": self.boot_id}


def this_process() -> Writer:
    """This process as a writer."""
    me = Writer(
        host=socket.gethostname(),
        pid=os.getpid(),
        boot_id=_boot_id(),
        started=_started(os.getpid()) or 0,
        alive=lambda claim: _lives(claim, socket.gethostname(), _boot_id()),
    )
    return me


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""  # not Linux: a pid alone must do


def _started(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (proc(5), field 22)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])  # dead, and not yet waited for


def _lives(claim: Claim, host: str, boot_id: str) -> bool:
    if (claim.host, claim.boot_id) != (host, boot_id):
        return False  # nothing can be known of another host: the fence decides
    return _started(claim.pid) == claim.started if boot_id else _pid_exists(claim.pid)


def _pid_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def epochs(disk: Disk, root: str) -> list[int]:
    """All claimed epochs, ascending."""
    names = disk.listdir(f"{root}/claims")
    return [int(name) for name in names if _NAME.fullmatch(name)]


def path_of(root: str, epoch: int) -> str:
    """The claim of an epoch."""
    return f"{root}/claims/{epoch:06d}"


def read_claim(disk: Disk, root: str, epoch: int) -> Claim | None:
    """What a claim says; None when it cannot be read."""
    try:
        plain = msgpack.unpackb(disk.read(path_of(root, epoch), 0, CLAIM_MAX), raw=False)
        return Claim(**plain)
    except (OSError, ValueError, TypeError):
        return None


def claim(disk: Disk, root: str, who: Writer, now_ns: int) -> int:
    """
    Claim the next epoch, durably.

    Raises:
        RunBusy: a living process holds the newest claim, or another one was faster.
    """
    found = _unreleased(disk, root)
    if found is not None and who.alive(found):
        raise busy(found, found.epoch)
    held = epochs(disk, root)
    epoch = held[-1] + 1 if held else 1
    if epoch > EPOCH_MAX:
        raise LogDamaged(
            f"epoch {held[-1]} is the last that a name can hold",
            why="a claim of that number was made by nobody who counts",
            instead=f"look at {root}/claims, and begin in another directory",
            value=held[-1],
        )
    mine = Claim(epoch, who.host, who.pid, who.boot_id, who.started, now_ns)
    if not create_once(disk, path_of(root, epoch), msgpack.packb(attrs.asdict(mine))):
        raise busy(read_claim(disk, root, epoch), epoch)
    try:
        disk.sync_dir(f"{root}/claims")
    except BaseException:  # so that this process may try again
        with contextlib.suppress(OSError):
            give_up(disk, root, epoch, "", 0)
        raise
    return epoch


def release(disk: Disk, root: str, epoch: int) -> None:
    """Let go of an epoch after a clean close."""
    disk.create(f"{path_of(root, epoch)}.released").close()
    disk.sync_dir(f"{root}/claims")


def give_up(disk: Disk, root: str, epoch: int, segment: str, durable: int) -> None:
    """
    Let go of an epoch whose writer died, and say how much of its last segment counts.

    After a failed fsync the kernel may show bytes that it never wrote and will not write;
    a successor on this machine could not tell.  They were not acknowledged.
    """
    told = msgpack.packb({"segment": segment, "durable": durable})
    write_file(disk, f"{path_of(root, epoch)}.given-up", told)


def durable_bytes(disk: Disk, root: str, epoch: int, segment: str) -> int | None:
    """How much of a segment counts, if its writer gave up; None when nobody says."""
    path = f"{path_of(root, epoch)}.given-up"
    if disk.stat(path) is None:
        return None
    try:
        plain = msgpack.unpackb(disk.read(path, 0, CLAIM_MAX), raw=False)
        told = plain["durable"] if plain["segment"] == segment else None
        return told if type(told) is int and told >= 0 else None
    except (OSError, ValueError, TypeError, KeyError):
        return None  # torn by a crash: nothing better is known than what can be read


def holder(disk: Disk, root: str, who: Writer) -> Claim | None:
    """
    Whoever may be writing now: unreleased, and not known to be dead.

    A claim of another host counts, since nothing can be known of that process.
    """
    found = _unreleased(disk, root)
    if found is None or (found.host == who.host and not who.alive(found)):
        return None
    return found


def _unreleased(disk: Disk, root: str) -> Claim | None:
    """The newest claim, unless its writer let go of it or it says nothing."""
    held = epochs(disk, root)
    if not held:
        return None
    path = path_of(root, held[-1])
    if any(disk.stat(f"{path}.{how}") for how in ("released", "given-up")):
        return None
    return read_claim(disk, root, held[-1])


def busy(holder: Claim | None, epoch: int) -> RunBusy:
    """The error that names who holds an epoch, and since when."""
    if holder is None:
        who, since = "another process", "just now"
    else:
        who = f"process {holder.pid} on {holder.host}"
        since = datetime.fromtimestamp(holder.since_ns / 1e9, UTC).isoformat(
            timespec="seconds"
        )
    return RunBusy(
        "this run is being written by somebody else",
        why=f"{who} has held it since {since} (writer epoch {epoch})",
        instead="wait for it to end, or stop it; reading (`jumar status`, `why`) needs no "
        "claim",
        value=None if holder is None else holder.pid,
    )
