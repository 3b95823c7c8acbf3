"""`status`: one screen about a run, and what needs a look."""

from __future__ import annotations

from typing import Any

import attrs

from jumar.reducers import events as ev
from jumar.reducers.checkpoints import in_flight, latest, superseded
from jumar.reducers.ranking import best, best_rules
from jumar.reducers.state import State
from jumar.tools.views.refs import would_restart
from jumar.tools.views.story import Story


@attrs.frozen
class Status:
    """What `jumar status` says; `findings` is empty when all is well."""

    run_id: str
    attempt: int
    world: int
    phase: str
    records: int
    log_end: str
    policy: list[str]
    latest: str | None
    best: list[str]
    restart: str | None
    verdict: str
    kept: int
    superseded: int
    open: list[str]
    findings: list[str]

    def plain(self) -> dict[str, Any]:
        """The `--json` form."""
        return {"schema": "jumar.status/1", **attrs.asdict(self)}


def status(story: Story) -> Status:
    """The status of a run that is trusted."""
    state = story.state
    newest, restart = latest(state, "live"), would_restart(story)
    policy = state.policy.of("live") if state.policy else None
    return Status(
        run_id=state.run_id,
        attempt=state.attempt,
        world=state.world,
        phase="finished" if state.finished else _phase(state),
        records=story.reader.size,
        log_end=story.reader.end,
        policy=[str(rule) for rule in (policy.keep or ())] if policy else [],
        latest=newest.ckpt_id if newest else None,
        best=[c.ckpt_id for c in best(state, "live")]
        if policy and best_rules(policy)
        else [],
        restart=restart.ckpt_id if restart else None,
        verdict=_last_verdict(story),
        kept=sum(ckpt.committed for ckpt in state.ckpts.values()),
        superseded=len(superseded(state)),
        open=[ckpt.ckpt_id for ckpt in in_flight(state)],
        findings=_findings(
            story,
            newest.ckpt_id if newest else None,
            restart.ckpt_id if restart else None,
        ),
    )


def _phase(state: State) -> str:
    names = {"none": "never started", "begun": "opening", "selected": "running or killed",
             "ended": "ended"}  # fmt: skip
    return names[state.phase]


def _last_verdict(story: Story) -> str:
    verdicts = story.of(ev.GuardVerdict)
    if not verdicts:
        return "none yet"
    last = verdicts[-1][1]
    assert isinstance(last, ev.GuardVerdict)
    span = f"over ({last.from_done}, {last.to_done}]"
    return (
        f"{' and '.join(last.flagged)} not finite {span}"
        if last.flagged
        else f"finite {span}"
    )


def _findings(story: Story, newest: str | None, restart: str | None) -> list[str]:
    found = [
        f"{family} is rejected until something is restored ({n} in a row)"
        for family, n in sorted(story.state.refusals.items())
    ]
    for ckpt in story.state.ckpts.values():
        seen = story.damage(ckpt) if ckpt.committed else None
        if seen is not None:
            found.append(f"{ckpt.ckpt_id} is {seen[0]}: {seen[1]}")
    if newest != restart:
        found.append(
            f"a restart would load {restart or 'nothing'}, not the latest, {newest}"
        )
    return found
