"""
The legal order of a checkpoint's and an attempt's events, as data.

A pair that is absent is illegal: the fold refuses it with `ProtocolMisuse`, and a log that
holds it was not written by this protocol.  A proposal or a rejection changes no
checkpoint, so neither stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from jumar.reducers.errors import ProtocolMisuse

Table = Mapping[str, Mapping[str, str]]

ABSENT, ACCEPTED, WRITTEN, COMMITTED, PRUNING, GONE = (
    "absent",
    "accepted",
    "written",
    "committed",
    "pruning",
    "gone",
)

CHECKPOINT: Final[Table] = {
    ABSENT: {"ckpt.accepted": ACCEPTED},
    ACCEPTED: {
        "ckpt.written": WRITTEN,
        "ckpt.committed": COMMITTED,  # recovered: `ckpt.written` may be lost in a crash
        "ckpt.aborted": GONE,
    },
    WRITTEN: {"ckpt.committed": COMMITTED, "ckpt.aborted": GONE},
    COMMITTED: {
        "prune.started": PRUNING,
        "prune.failed": COMMITTED,  # refused before it started
        "ckpt.merged": COMMITTED,
        "ckpt.observed": COMMITTED,
        "ckpt.pinned": COMMITTED,
        "ckpt.unpinned": COMMITTED,
        "ckpt.moved": COMMITTED,
        "pointer.moved": COMMITTED,
    },
    PRUNING: {
        "prune.done": GONE,
        "prune.failed": PRUNING,  # COMMITTED again when `whole`
        "ckpt.observed": PRUNING,
        "pointer.moved": PRUNING,
    },
}
"""status -> event type -> next status."""

NO_ATTEMPT, BEGUN, SELECTED, ENDED = "none", "begun", "selected", "ended"

ATTEMPT: Final[Table] = {
    NO_ATTEMPT: {"attempt.started": BEGUN},
    BEGUN: {
        "restart.requested": BEGUN,
        "restart.selected": SELECTED,
        "attempt.ended": ENDED,
        "run.failed": ENDED,
        "attempt.started": BEGUN,  # the one before died without a word
    },
    SELECTED: {
        "restart.component": SELECTED,
        "restart.completed": SELECTED,
        "guard.verdict": SELECTED,
        "ckpt.accepted": SELECTED,
        "attempt.ended": ENDED,
        "run.finished": ENDED,
        "run.failed": ENDED,
        "attempt.started": BEGUN,
    },
    ENDED: {"attempt.started": BEGUN, "attempt.ended": ENDED},
}
"""status -> event type -> next status; an event that stands nowhere here is free."""


def column(table: Table, name: str) -> dict[str, str]:
    """status -> next status for one event type; empty when it stands nowhere."""
    return {status: row[name] for status, row in table.items() if name in row}


def refuse(table: Table, status: str, name: str, of: str) -> NoReturn:
    """Raise `ProtocolMisuse` for a pair that the table does not have."""
    raise ProtocolMisuse(
        f"{name} is not legal for {of} in status {status}",
        why=f"legal here: {sorted(table.get(status, {})) or 'nothing'}",
        instead="a log with this order was not written by this protocol: run verify",
        value=of,
    )
