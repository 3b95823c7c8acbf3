"""
`.jumar/inbox/`: what operators ask of a run that somebody else writes.

A request is one small file, whole or absent (exclusive create by link).  Rank 0 looks at
each open and at the beginning of each boundary, and turns what is valid into events.  A
request leaves the inbox only after its event is durable; taken twice it changes nothing.
What cannot be carried out is put aside as `<name>.refused`; what is no request is left
where it is.  Nothing of it is followed, executed, or able to fail a save.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
import msgpack
import structlog

from jumar.engine.disk import Disk
from jumar.engine.ledger import Ledger
from jumar.engine.storage import create_once, make_dirs
from jumar.reducers import events as ev
from jumar.reducers.errors import ProtocolMisuse, SchemaError
from jumar.reducers.state import State

VERSION: Final = 1
SIZE_MAX: Final = 16 * 1024
AT_ONCE: Final = 64
"""Requests that one look takes; the others wait for the next one."""

_NAME: Final = re.compile(r"[0-9]{20}-[0-9a-f]{32}\.req", re.ASCII)
_ACTIONS: Final[dict[str, bool]] = {"pin": True, "unpin": False}
"""Action -> whether the checkpoint is pinned afterwards."""

logger = structlog.get_logger("jumar")


@attrs.frozen
class Request:
    """
    What somebody asks.

    Attributes:
        action: `pin` or `unpin`.
        asked_ns: wall clock of who asks; requests are taken in this order.
    """

    action: str = attrs.field(validator=attrs.validators.in_(_ACTIONS))
    ckpt_id: str
    who: str
    why: str
    asked_ns: int = attrs.field(validator=attrs.validators.instance_of(int))

    def event(self) -> ev.Event:
        """What the log will say; SchemaError for a value that it would not take."""
        if self.action == "pin":
            return ev.CkptPinned(ckpt_id=self.ckpt_id, who=self.who, why=self.why)
        return ev.CkptUnpinned(ckpt_id=self.ckpt_id, who=self.who)


def must_be_committed(state: State, ckpt_id: str | None, named: str) -> None:
    """ProtocolMisuse for what cannot be pinned; `named` is what the caller called it."""
    ckpt = state.ckpts.get(ckpt_id or "")
    if ckpt is None or not ckpt.committed:
        raise ProtocolMisuse(
            f"{named} cannot be pinned or unpinned",
            why="it is not a committed checkpoint of this run",
            instead="`jumar list RUN` names them",
            value=named,
        )


def submit(disk: Disk, log: str, request: Request) -> str:
    """
    Put a request into the inbox, durably; returns its name.

    Raises:
        SchemaError: no event can be made of it.
    """
    request.event()
    folder = f"{log}/inbox"
    make_dirs(disk, folder)
    name = f"{request.asked_ns:020d}-{uuid.uuid4().hex}.req"
    create_once(
        disk, f"{folder}/{name}", msgpack.packb({"v": VERSION, **attrs.asdict(request)})
    )
    disk.sync_dir(folder)
    return name


@attrs.define
class Inbox:
    """
    Rank 0's side: looks, takes, and removes what is in the log for good.

    Attributes:
        taken: name -> records that must be durable before the request may go.
        odd: names that were told of once.
        answered: names that the log answers already: a crash kept them here.
    """

    disk: Disk
    log: str
    taken: dict[str, int] = attrs.field(factory=dict)
    odd: set[str] = attrs.field(factory=set)
    answered: set[str] = attrs.field(factory=set)

    def look(self, state: Callable[[], State], ledger: Ledger) -> list[ev.Event]:
        """
        Log what is asked for; returns the events, not durable yet.

        Args:
            state: gives what holds now, when there is something to judge by it.
        """
        try:
            self.settle(ledger)
            found = list(self._waiting())
        except OSError as error:
            logger.warning("the inbox could not be read", why=str(error))
            return []
        if not found:
            return []
        ckpts = [ckpt for ckpt in state().ckpts.values() if ckpt.committed]
        events, pinned = [], {ckpt.ckpt_id: ckpt.pinned for ckpt in ckpts}
        for name, request in found:
            if name in self.answered:
                self.taken[name] = 0
            elif request.ckpt_id not in pinned:
                self._refuse(name, f"{request.ckpt_id} is not a committed checkpoint")
            else:
                wish = _ACTIONS[request.action]
                if pinned[request.ckpt_id] is not wish:
                    events.append(request.event())
                    ledger.remark(events[-1], op_id=name)
                pinned[request.ckpt_id] = wish
                self.taken[name] = ledger.writer.size
        return events

    def _waiting(self) -> Iterator[tuple[str, Request]]:
        folder = f"{self.log}/inbox"
        if self.disk.stat(folder) is None:
            return
        names = [name for name in self.disk.listdir(folder) if _NAME.fullmatch(name)]
        for name in [name for name in names if name not in self.taken][:AT_ONCE]:
            request = self._read(f"{folder}/{name}")
            if request is not None:
                yield name, request
            elif name not in self.odd:
                self.odd.add(name)
                logger.warning("no request that can be understood", name=name)

    def _read(self, path: str) -> Request | None:
        stat = self.disk.stat(path)
        if stat is None or stat.kind != "file" or stat.size > SIZE_MAX:
            return None
        try:
            plain: Any = msgpack.unpackb(self.disk.read(path, 0, SIZE_MAX), raw=False)
            if plain.pop("v") != VERSION:
                return None
            request = Request(**plain)
            request.event()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, SchemaError):
            return None
        return request

    def _refuse(self, name: str, why: str) -> None:
        logger.warning("a request was refused", name=name, why=why)
        path = f"{self.log}/inbox/{name}"
        try:
            self.disk.rename(path, f"{path}.refused")
        except OSError as error:
            logger.warning("a refused request stays", name=name, why=str(error))

    def settle(self, ledger: Ledger) -> None:
        """Remove the requests whose events are durable by now."""
        durable = ledger.writer.head.size
        for name in [name for name, size in self.taken.items() if size <= durable]:
            path = f"{self.log}/inbox/{name}"
            if self.disk.stat(path) is not None:
                self.disk.unlink(path)
            del self.taken[name]
