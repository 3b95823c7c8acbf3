"""One sentence per kind of event, for `why`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jumar.reducers import events as ev
from jumar.reducers.guard import flagged
from jumar.reducers.values import Kept, parse_ckpt_id
from jumar.tools.views.refs import Ref
from jumar.tools.views.story import Story
from jumar.tools.views.text import bytes_of, short

Says = tuple[str, str]
"""(what happened, what there is to say of it); nothing to say: no line."""


def refusal(event: ev.CkptRejected) -> str:
    """Why a save was rejected."""
    if event.cause == "sticky":
        count = f"{event.refusals} in a row"
        return f"rejected, since nothing was restored after an earlier rejection ({count})"
    if event.components == ("replica",):
        who = listed(event.ranks)
        return f"rejected: the parameters of rank {who} differ from those of its replicas"
    return (
        f"rejected: {' and '.join(event.components)} not finite on rank "
        f"{listed(event.ranks)}, first at step {event.first_bad}"
    )


def _metric(story: Story, ref: Ref, event: ev.MetricReported) -> Says:
    return "metric", f"{event.name} {event.metric}" + (
        f" on {event.data}" * bool(event.data)
    )


def listed(items: Sequence[object]) -> str:
    """Items with commas between."""
    return ", ".join(str(item) for item in items)


def _verdict(story: Story, ref: Ref, event: ev.GuardVerdict) -> Says:
    world = len(event.components[0].fed) if event.components else 0
    bad = {rank for vector in event.components for rank in flagged(vector)}
    names = f": {' and '.join(event.flagged)}" if event.flagged else ""
    span = f"over ({event.from_done}, {event.to_done}]"
    left_out = max(event.skipped, default=0)
    skipped = f"; {left_out} bad update{'s' * (left_out != 1)} left out" if left_out else ""
    if not event.components:
        return "verdict", f"nothing was watched {span}{skipped}"
    return "verdict", f"{world - len(bad)} of {world} ranks finite {span}{names}{skipped}"


def _found(story: Story, ref: Ref, event: ev.GuardFound) -> Says:
    more = event.bad - len(event.where)
    others = f" and {more} more" if more > 0 else ""
    return "found", (
        f"{event.component} on rank {event.rank} at step {event.first_bad}: "
        f"{listed(event.where)}{others}"
    )


def _accepted(story: Story, ref: Ref, event: ev.CkptAccepted) -> Says:
    places = []
    for ranking in event.rankings:
        ids = [place.ckpt_id for place in ranking.order]
        at = ids.index(event.ckpt_id) + 1 if event.ckpt_id in ids else None
        places.append(f"{ranking.rule}: {f'rank {at}' if at else 'unranked'}")
    return "accepted", "; ".join(places) or "no ranking"


def _written(story: Story, ref: Ref, event: ev.CkptWritten) -> Says:
    bad = {rank: one.error for rank, one in enumerate(event.ranks) if one.error}
    return "written", "; ".join(f"rank {rank}: {error}" for rank, error in bad.items())


def _committed(story: Story, ref: Ref, event: ev.CkptCommitted) -> Says:
    size = sum(part.size for part in event.parts)
    files = f"{len(event.parts)} file{'s' * (len(event.parts) != 1)}"
    how = "  recovered by the next open" if event.recovered else ""
    digest = short(event.parts[0].sha256 if event.parts else event.manifest_sha256)
    return "committed", f"{files}, {bytes_of(size)}  sha256 {digest}{how}"


def _planned(story: Story, ref: Ref, event: ev.PrunePlanned) -> Says:
    at = parse_ckpt_id(event.because)[1]
    kept = "; ".join(_kept(story, one) for one in event.kept)
    rule = next(v.rule for v in event.victims if v.ckpt_id == ref.ckpt_id)
    if rule in ("revised", "on_rewind=remove"):
        return "pruned", f"at {at}: {rule}"
    return "pruned", f"at {at}: {kept}"


def _kept(story: Story, one: Kept) -> str:
    rule, _, scope = one.rule.partition(" (")
    metric = scope.rpartition(" ")[0]
    return (
        f"{rule} kept {' '.join(_with_value(story, c, metric) for c in one.kept) or 'none'}"
    )


def _with_value(story: Story, ckpt_id: str, metric: str) -> str:
    family, done, revision = parse_ckpt_id(ckpt_id)
    name = f"{done}r{revision}" if revision else str(done)
    if not metric:
        return name
    values = [
        e.metric
        for _, e in story.of(ev.MetricReported)
        if isinstance(e, ev.MetricReported)
        and (e.done, e.name) == (done, metric)
        and e.metric.finite
        and e.family in (None, family)
    ]
    return f"{name} ({values[0]})" if values else name


SAYS: Final[Mapping[type, Callable[[Story, Ref, Any], Says]]] = {
    ev.MetricReported: _metric,
    ev.CkptProposed: lambda s, r, e: ("proposed", listed(e.reasons)),
    ev.GuardVerdict: _verdict,
    ev.GuardFound: _found,
    ev.CkptRejected: lambda s, r, e: ("rejected", refusal(e)),
    ev.GuardAction: lambda s, r, e: ("action", f"{e.action} after {e.refusals} in a row"),
    ev.CkptAccepted: _accepted,
    ev.CkptWritten: _written,
    ev.CkptCommitted: _committed,
    ev.CkptAborted: lambda s, r, e: ("aborted", f"in phase {e.phase}: {e.error}"),
    ev.CkptMerged: lambda s, r, e: ("merged", f"saved again: {listed(e.reasons)}"),
    ev.CkptObserved: lambda s, r, e: ("observed", f"{e.finding}: {e.detail}"),
    ev.CkptPinned: lambda s, r, e: ("pinned", f"by {e.who}: {e.why}"),
    ev.CkptUnpinned: lambda s, r, e: ("unpinned", f"by {e.who}"),
    ev.CkptMoved: lambda s, r, e: ("moved", f"to {e.to}"),
    ev.PrunePlanned: _planned,
    ev.PruneFailed: lambda s, r, e: ("failed", f"prune: {e.error}"),
    ev.PruneDone: lambda s, r, e: ("deleted", "it was gone already" * e.already_gone),
    ev.RestartSelected: lambda s, r, e: (
        "left",
        f"behind by attempt {e.attempt}, which began from {e.ckpt_id or 'nothing'}",
    ),
}  # fmt: skip
