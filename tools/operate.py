"""
`jumar pin` and `unpin`: beside a live trainer by the inbox, else in an epoch of our own.

A writer that may be alive is never replaced: one on another host may be, for all that can
be known here.
"""

from __future__ import annotations

import getpass
import uuid
from pathlib import Path
from typing import Any, Final

import click

from jumar.engine.clock import SystemClock
from jumar.engine.disk import Disk
from jumar.engine.errors import RunBusy
from jumar.engine.history import History
from jumar.engine.inbox import Request, must_be_committed, submit
from jumar.engine.layout import Layout
from jumar.engine.log.claims import holder, this_process
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.engine.real_disk import RealDisk
from jumar.tools.shared import (
    FINE,
    as_json,
    emit,
    must_trust,
    ref_argument,
    run_argument,
    story_of,
)
from jumar.tools.views import refs
from jumar.tools.views.text import clean

who_option = click.option("--who", help="Who asks; your login name if left out.")
_DONE: Final = {"pin": "pinned", "unpin": "no longer pinned"}


@click.command()
@run_argument
@ref_argument
@click.option("--why", required=True, help="What it is held for.")
@who_option
@as_json
def pin(run: Path, ref: str, why: str, who: str | None, as_json: bool) -> None:
    """Hold a checkpoint against every rule until it is unpinned."""
    _ask("pin", run, ref, who, why, as_json)


@click.command()
@run_argument
@ref_argument
@who_option
@as_json
def unpin(run: Path, ref: str, who: str | None, as_json: bool) -> None:
    """Hold a checkpoint no longer: the rules decide again."""
    _ask("unpin", run, ref, who, "", as_json)


def _ask(action: str, run: Path, ref: str, who: str | None, why: str, js: bool) -> None:
    story = story_of(run)
    must_trust(story)
    found = refs.resolve(story, ref)
    must_be_committed(story.state, found.ckpt_id, ref)
    request = Request(
        action, str(found.ckpt_id), who or _login(), why, SystemClock().wall_ns()
    )
    said = ask(RealDisk(), Layout(str(run)).log, request)
    if js:
        emit(
            {
                "schema": "jumar.asked/1",
                "action": action,
                "ckpt_id": request.ckpt_id,
                **said,
            }
        )
    elif said["seq"] is not None:
        click.echo(clean(f"{request.ckpt_id} is {_DONE[action]} (seq {said['seq']})"))
    else:
        click.echo(
            clean(
                f"handed to the writer ({said['writer']}): it acts at its next save, "
                f"`jumar log RUN {request.ckpt_id}` then shows it"
            )
        )
    raise click.exceptions.Exit(FINE)


def ask(disk: Disk, log: str, request: Request) -> dict[str, Any]:
    """
    Write the event, or hand the request to whoever may be writing.

    Returns:
        `seq` of the event and None, or None and who the writer is.

    Raises:
        ProtocolMisuse: meanwhile it is not a committed checkpoint any more.
    """
    held = holder(disk, log, this_process())
    if held is None:
        try:
            return {"seq": _write(disk, log, request), "writer": None}
        except RunBusy:
            held = holder(disk, log, this_process())
    submit(disk, log, request)
    who = "another process" if held is None else f"process {held.pid} on {held.host}"
    return {"seq": None, "writer": who}


def _write(disk: Disk, log: str, request: Request) -> int:
    writer = LogWriter.open(
        disk, log, run_id=uuid.uuid4().hex, who=this_process(), clock=SystemClock(),
        background=False,
    )  # fmt: skip
    try:
        history = History()
        history.catch_up(disk, log)  # what was read before the claim may be old
        must_be_committed(history.state, request.ckpt_id, request.ckpt_id)
        return writer.append(Entry.of(request.event()), durable=True)
    finally:
        writer.close()


def _login() -> str:
    try:
        return getpass.getuser()[:255]
    except (OSError, KeyError):
        return "unknown"  # a container without a name for its user
