"""`list`, `show` and `log`: checkpoints and events as rows."""

from __future__ import annotations

import json
from typing import Any

from jumar.reducers import events as ev
from jumar.reducers.checkpoints import metric_of
from jumar.reducers.lineage import on_branch, reach
from jumar.reducers.ranking import best_rules
from jumar.reducers.state import Ckpt
from jumar.tools.views.refs import Ref
from jumar.tools.views.story import Story, Told
from jumar.tools.views.text import bytes_of, short, time_of

COLUMNS = ("checkpoint", "state", "attempt", "size", "metric", "sha256")


def rows(story: Story, *, everything: bool) -> list[dict[str, Any]]:
    """Each checkpoint as a plain row; those that are gone only with `everything`."""
    found = []
    for _, event in story.of(ev.CkptAccepted):
        assert isinstance(event, ev.CkptAccepted)
        ckpt = story.state.ckpts.get(event.ckpt_id)
        if ckpt is not None or everything:
            found.append(_row(story, event, ckpt))
    return found


def _row(story: Story, accepted: ev.CkptAccepted, ckpt: Ckpt | None) -> dict[str, Any]:
    committed = next(
        (e for _, e in story.about(accepted.ckpt_id) if isinstance(e, ev.CkptCommitted)),
        None,
    )
    parts = committed.parts if committed else ()
    return {
        "ckpt_id": accepted.ckpt_id,
        "family": accepted.family,
        "done": accepted.done,
        "revision": accepted.revision,
        "attempt": accepted.attempt,
        "state": _state(story, ckpt, committed is not None),
        "bytes": sum(part.size for part in parts),
        "metrics": _metrics(story, ckpt),
        "sha256": parts[0].sha256 if parts else "",
        "pinned": bool(ckpt and ckpt.pinned),
    }


def _state(story: Story, ckpt: Ckpt | None, was_committed: bool) -> str:
    if ckpt is None:
        return "pruned" if was_committed else "aborted"
    if not ckpt.committed:
        return "pruning" if ckpt.on_disk else "in flight"
    if ckpt.observed:
        return ckpt.observed
    return "live" if on_branch(ckpt, reach(story.state)) else "superseded"


def _metrics(story: Story, ckpt: Ckpt | None) -> dict[str, Any]:
    if ckpt is None or story.state.policy is None:
        return {}
    rules = best_rules(story.state.policy.of(ckpt.family))
    named = {rule.metric: metric_of(story.state, ckpt, rule.metric) for rule in rules}
    return {name: metric.to_plain() for name, metric in named.items()}


def cells(row: dict[str, Any]) -> list[str]:
    """One row of `list` as text."""
    metric = " ".join(
        f"{name} {'-' if one['value'] is None else format(one['value'], '.6g')}"
        for name, one in row["metrics"].items()
    )
    state = row["state"] + (", pinned" if row["pinned"] else "")
    size = bytes_of(row["bytes"]) if row["bytes"] else "-"
    return [
        row["ckpt_id"],
        state,
        str(row["attempt"]),
        size,
        metric or "-",
        short(row["sha256"]),
    ]


def shown(story: Story, ref: Ref) -> dict[str, Any]:
    """Everything that the log holds about one reference, as plain values."""
    told = story.about(ref.ckpt_id) if ref.ckpt_id else []
    return {
        "schema": "jumar.show/1",
        "ckpt_id": ref.ckpt_id,
        "family": ref.family,
        "done": ref.done,
        "events": [event_row(one) for one in told],
    }


def event_row(told: Told) -> dict[str, Any]:
    """One record as plain values."""
    record, event = told
    return {
        "seq": record.seq,
        "epoch": record.epoch,
        "time": time_of(record.wall_ns),
        "type": event.type,
        "v": record.v,
        "hash": record.hash.hex(),
        "payload": event.to_plain(),
    }


def one_line(told: Told) -> list[str]:
    """One record as columns: seq, time, type, its payload in short."""
    record, event = told
    said = {k: v for k, v in event.to_plain().items() if v not in (None, [], "", {})}
    text = " ".join(f"{key}={_short(value)}" for key, value in said.items())
    return [str(record.seq), time_of(record.wall_ns), event.type, text[:160]]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 40 else f"{text[:39]}…"
