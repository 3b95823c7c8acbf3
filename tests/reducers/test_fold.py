"""The fold: legal order as tables, state as a value, decisions from state alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.reducers import events as ev
from jumar.reducers.ballot import (
    NOTHING_WATCHED,
    Ballot,
    Lead,
    PartWish,
    Reading,
    StepFacts,
)
from jumar.reducers.checkpoints import at_step, branch, in_flight, latest, superseded, tip
from jumar.reducers.decide import Decision, decide
from jumar.reducers.errors import ProtocolMisuse
from jumar.reducers.fold import fold, fold_all
from jumar.reducers.lifecycle import ATTEMPT, CHECKPOINT
from jumar.reducers.policy import Policy
from jumar.reducers.ranking import best, ranked
from jumar.reducers.retention import plan
from jumar.reducers.rules import KeepBest, KeepLast
from jumar.reducers.state import State
from jumar.reducers.values import Candidate, ComponentVector, Metric

POLICY = Policy(keep=[KeepLast(2), KeepBest(1, metric="loss", direction="min")])
SHA = "cd" * 32


def started(policy: Policy = POLICY, world: int = 2) -> State:
    """A run whose first attempt has begun from nothing."""
    return fold_all(
        State(),
        [
            ev.RunStarted(run_id="0" * 32, version="0", layout="native"),
            ev.PolicyResolved(policy=policy),
            ev.AttemptStarted(attempt=0, world=world),
            ev.RestartSelected(attempt=0, ckpt_id=None, done=0, candidates=()),
        ],
    )


def facts(done: int, bad: str | None, replica: str = "") -> StepFacts:
    """What one rank saw in ten steps: `bad` names a component."""
    readings = tuple(
        Reading(
            name=name,
            fed=10,
            first_bad=done - 1 if bad == name else -1,
            bad=int(bad == name),
            where=(f"{name}.tensor",) if bad == name else (),
        )
        for name in ("grad", "loss")
    )
    return StepFacts(readings=readings, skipped=0, replica=replica)


def ballots(
    state: State, done: int, *, bad: dict[int, str] | None = None, revise: bool = False
) -> list[Ballot]:
    """One ballot a rank, all in step; `bad` names a component per rank."""
    assert state.policy is not None
    bad = bad or {}
    return [
        Ballot(
            attempt=state.attempt,
            done=done,
            families=("live",),
            revise=revise,
            reasons=("periodic",),
            policy=state.policy.digest(),
            state=state.digest(),
            order="",
            facts=facts(done, bad.get(rank)),
            parts=(PartWish(family="live", name=f"{rank}.bin", size_min=1),),
            error=None,
        )
        for rank in range(state.world)
    ]


def boundary(state: State, done: int, **options: Any) -> Decision:
    """Decide and fold, and commit whatever was accepted."""
    decision = decide(state, ballots(state, done, **options), Lead(clock_ns=done, epoch=1))
    fold_all(state, decision.events)
    for accepted in decision.accepted:
        fold(state, committed(accepted.ckpt_id))
    return decision


def committed(ckpt_id: str) -> ev.CkptCommitted:
    """A commit without parts."""
    return ev.CkptCommitted(ckpt_id=ckpt_id, manifest_sha256=SHA, parts=(), recovered=False)


def metric(done: int, value: float | None, attempt: int = 0) -> ev.MetricReported:
    """A loss."""
    return ev.MetricReported(
        attempt=attempt,
        done=done,
        name="loss",
        metric=Metric.of(value),
        data="",
        family=None,
    )


def restart(state: State, source: str | None) -> None:
    """A further attempt from a checkpoint, or from nothing."""
    attempt = state.attempt + 1
    done = state.ckpts[source].done if source else 0
    fold(state, ev.AttemptStarted(attempt=attempt, world=state.world))
    chosen = (Candidate(ckpt_id=source, chosen=True, reason="test"),) if source else ()
    fold(
        state,
        ev.RestartSelected(attempt=attempt, ckpt_id=source, done=done, candidates=chosen),
    )


def steps(found: list[Any]) -> list[int]:
    """Their completed steps."""
    return [ckpt.done for ckpt in found]


MOVES: dict[str, ev.Event] = {
    "ckpt.written": ev.CkptWritten(ckpt_id="live@10r0", ranks=()),
    "ckpt.committed": committed("live@10r0"),
    "ckpt.aborted": ev.CkptAborted(
        family="live",
        done=10,
        attempt=0,
        ckpt_id="live@10r0",
        phase="write",
        ranks=(),
        error="",
    ),
    "ckpt.merged": ev.CkptMerged(ckpt_id="live@10r0", attempt=0, reasons=()),
    "ckpt.observed": ev.CkptObserved(
        ckpt_id="live@10r0", name="", finding="missing", detail=""
    ),
    "ckpt.pinned": ev.CkptPinned(ckpt_id="live@10r0", who="", why=""),
    "ckpt.unpinned": ev.CkptUnpinned(ckpt_id="live@10r0", who=""),
    "ckpt.moved": ev.CkptMoved(ckpt_id="live@10r0", to="x"),
    "prune.started": ev.PruneStarted(ckpt_id="live@10r0", because="live@20r0"),
    "prune.done": ev.PruneDone(ckpt_id="live@10r0", already_gone=False),
    "prune.failed": ev.PruneFailed(ckpt_id="live@10r0", whole=False, error=""),
}
PATHS = {
    "absent": (),
    "accepted": ("accept",),
    "written": ("accept", "ckpt.written"),
    "committed": ("accept", "ckpt.committed"),
    "pruning": ("accept", "ckpt.committed", "prune.started"),
}


def in_status(status: str) -> State:
    """A state in which `live@10r0` has this status."""
    state = started()
    for step in PATHS[status]:
        if step == "accept":
            fold_all(
                state, decide(state, ballots(state, 10), Lead(clock_ns=1, epoch=1)).events
            )
        else:
            fold(state, MOVES[step])
    return state


@pytest.mark.parametrize("status", PATHS)
@pytest.mark.parametrize("name", MOVES)
def test_an_event_is_legal_where_the_table_says_and_else_changes_nothing(
    status: str, name: str
) -> None:
    state = in_status(status)
    before = state.digest()
    if name in CHECKPOINT.get(status, {}):
        fold(state, MOVES[name])
        return
    with pytest.raises(ProtocolMisuse, match=name):
        fold(state, MOVES[name])
    assert before == state.digest()


def test_a_checkpoint_that_is_gone_leaves_only_its_count() -> None:
    state = in_status("pruning")
    fold(state, MOVES["prune.done"])

    assert (state.ckpts, state.revisions) == ({}, {"live": {"10": 1}})


def test_a_prune_that_is_called_back_makes_it_a_checkpoint_again() -> None:
    state = in_status("pruning")
    fold(state, ev.PruneFailed(ckpt_id="live@10r0", whole=True, error="x"))

    assert steps(branch(state)) == [10]


@pytest.mark.parametrize("name", ["guard.verdict", "restart.selected"])
def test_nothing_happens_before_an_attempt_began(name: str) -> None:
    events: dict[str, ev.Event] = {
        "guard.verdict": ev.GuardVerdict(
            attempt=0,
            from_done=0,
            to_done=1,
            components=(),
            flagged=(),
            skipped=(),
            replicas=(),
        ),
        "restart.selected": ev.RestartSelected(
            attempt=0, ckpt_id=None, done=0, candidates=()
        ),
    }
    assert name not in ATTEMPT["none"]
    with pytest.raises(ProtocolMisuse):
        fold(State(), events[name])


def test_every_rank_decides_the_same_and_names_what_it_wrote_for() -> None:
    state = started()
    fold(state, metric(10, 0.5))
    decision = boundary(state, 10)
    kinds = [event.type for event in decision.events]

    assert kinds == ["guard.verdict", "ckpt.proposed", "ckpt.accepted"]
    (accepted,) = decision.accepted
    assert (accepted.ckpt_id, accepted.parent, accepted.verified) == (
        "live@10r0",
        None,
        True,
    )
    assert [r.ckpt_id for r in accepted.rankings[0].order] == ["live@10r0"]
    assert [(d.rank, d.name) for d in accepted.declared] == [(0, "0.bin"), (1, "1.bin")]


@pytest.mark.parametrize(
    ("field", "value"), [("done", 11), ("policy", SHA), ("attempt", 7), ("state", SHA)]
)
def test_a_rank_that_differs_is_named_and_nothing_is_decided(
    field: str, value: Any
) -> None:
    state = started(world=3)
    votes = ballots(state, 10)
    votes[2] = Ballot.from_plain({**votes[2].to_plain(), field: value})
    decision = decide(state, votes, Lead(clock_ns=1, epoch=1))

    assert [event.type for event in decision.events] == ["coll.mismatch"]
    assert decision.mismatch is not None
    assert (field, (2,)) == (decision.mismatch.field, decision.mismatch.odd)
    assert not decision.clears_guard


def test_an_error_on_one_rank_aborts_and_is_not_sticky() -> None:
    state = started()
    votes = ballots(state, 10)
    votes[1] = Ballot.from_plain({**votes[1].to_plain(), "error": "OSError: no"})
    decision = decide(state, votes, Lead(clock_ns=1, epoch=1))
    fold_all(state, decision.events)

    (event,) = decision.events
    assert isinstance(event, ev.CkptAborted)
    assert (event.phase, event.ranks, decision.clears_guard) == ("ballot", (1,), False)
    assert boundary(state, 10).accepted


def test_a_rejection_is_sticky_until_a_restart_and_counts() -> None:
    state = started()
    boundary(state, 10)
    boundary(state, 20, bad={1: "loss"})
    boundary(state, 30)
    assert state.refusals == {"live": 2}
    restart(state, "live@10r0")
    boundary(state, 20)

    assert steps(branch(state)) == [10, 20]


def test_the_culprit_is_whose_loss_was_bad_first() -> None:
    state = started()
    votes = ballots(state, 10, bad={0: "grad", 1: "loss"})
    decision = decide(state, votes, Lead(clock_ns=1, epoch=1))
    rejected = next(e for e in decision.events if isinstance(e, ev.CkptRejected))

    assert (
        rejected.ranks,
        rejected.components,
        rejected.first_bad,
    ) == ((1,), ("grad", "loss"), 9)


def test_a_step_that_is_committed_already_is_merged_without_a_verdict() -> None:
    state = started()
    boundary(state, 10)
    decision = boundary(state, 10)

    assert [event.type for event in decision.events] == ["ckpt.merged"]
    revised = boundary(state, 10, revise=True)
    assert [accepted.ckpt_id for accepted in revised.accepted] == ["live@10r1"]
    newest = at_step(state, "live", 10)
    assert newest is not None and newest.revision == 1


def test_a_later_revision_replaces_the_older_in_every_rule() -> None:
    state = started()
    fold(state, metric(10, 0.1))
    boundary(state, 10)
    boundary(state, 10, revise=True)
    planned = plan(state, state.ckpts["live@10r1"], 0)

    assert planned is not None
    assert [(v.ckpt_id, v.rule) for v in planned.victims] == [("live@10r0", "revised")]
    assert [c.ckpt_id for c in best(state, "live")] == ["live@10r1"]


def test_the_restart_source_is_protected_until_a_newer_commit() -> None:
    state = started(Policy(keep=[KeepLast(1)]))
    for done in (10, 20, 30):
        boundary(state, done)
    restart(state, "live@10r0")
    assert steps(superseded(state)) == [20, 30]
    assert tip(state) == "live@10r0"
    boundary(state, 15)
    planned = plan(state, state.ckpts["live@15r0"], 0)

    assert planned is not None
    assert [victim.ckpt_id for victim in planned.victims] == ["live@10r0"]


def test_an_unverified_newer_commit_does_not_free_the_last_verified_good() -> None:
    state = started(Policy(keep=[KeepLast(1)]))
    boundary(state, 10)
    blind = [
        Ballot.from_plain({**b.to_plain(), "facts": NOTHING_WATCHED.to_plain()})
        for b in ballots(state, 20)
    ]
    decision = decide(state, blind, Lead(clock_ns=1, epoch=1))
    fold_all(state, decision.events)
    fold(state, committed("live@20r0"))

    assert not decision.accepted[0].verified
    assert plan(state, state.ckpts["live@20r0"], 0) is None


def test_a_missing_checkpoint_holds_no_place_and_comes_back_when_it_is_whole() -> None:
    state = started(Policy(keep=[KeepLast(2)]))
    for done in (10, 20, 30):
        boundary(state, done)
    seen = {"ckpt_id": "live@30r0", "name": "", "detail": ""}
    fold(state, ev.CkptObserved(finding="missing", **seen))
    newest = latest(state, "live")
    assert newest is not None and newest.done == 20
    assert plan(state, newest, 0) is None, "10 and 20 are the last two that are there"
    fold(state, ev.CkptObserved(finding="whole", **seen))

    newest = latest(state, "live")
    assert newest is not None and newest.done == 30


def test_branches_follow_the_restarts() -> None:
    state = started()
    for done in (10, 20, 30):
        boundary(state, done)
    restart(state, "live@10r0")
    boundary(state, 20)
    assert (
        [c.ckpt_id for c in branch(state)],
        steps(superseded(state)),
    ) == (["live@10r0", "live@20r1"], [20, 30])
    restart(state, "live@30r0")
    assert steps(branch(state)) == [10, 20, 30]
    assert [c.ckpt_id for c in superseded(state)] == ["live@20r1"]
    restart(state, None)
    assert branch(state) == []
    assert tip(state) is None


def test_an_attempt_that_never_chose_a_source_moves_no_branch() -> None:
    state = started()
    boundary(state, 10)
    fold(state, ev.AttemptStarted(attempt=1, world=2))

    assert steps(branch(state)) == [10]


@pytest.mark.parametrize(
    ("values", "ties", "order"),
    [
        ([0.3, 0.1, 0.2], "oldest", [20, 30, 10]),
        ([0.1, 0.1, 0.1], "oldest", [10, 20, 30]),
        ([0.1, 0.1, 0.1], "newest", [30, 20, 10]),
        ([float("nan"), 0.4, None], "oldest", [20]),
        ([float("-inf"), float("inf"), 9.0], "oldest", [30]),
        ([0.0, -0.0, 1.0], "newest", [20, 10, 30]),
        ([None, None, None], "oldest", []),
    ],
)
def test_one_total_order(values: list[float | None], ties: str, order: list[int]) -> None:
    state = started(Policy(keep=[KeepLast(9)]))
    for done, value in zip((10, 20, 30), values, strict=True):
        fold(state, metric(done, value))
        boundary(state, done)
    rule = KeepBest(3, metric="loss", direction="min")
    opposite = KeepBest(3, metric="loss", direction="max")

    assert order == steps(ranked(state, rule, ties, branch(state)))
    assert set(order) == set(steps(ranked(state, opposite, ties, branch(state))))


def test_the_first_finite_value_stands() -> None:
    state = started()
    fold_all(state, [metric(10, float("nan")), metric(10, 0.5), metric(10, 0.1)])
    boundary(state, 10)

    assert {"0@10": {":loss": Metric.of(0.5)}} == state.metrics


@pytest.mark.parametrize(
    ("fed", "means"),
    [
        ([(1, 1), (1, 1)], True),
        ([(1, 1), (0, 0)], True),
        ([(1, 0), (0, 1)], True),
        ([(1, 0), (1, 0)], False),
        ([(1, 1), (1,)], True),
        ([(1,), (1, 1)], True),
        ([(0, 1), (1,)], True),
        ([(0, 1), (0,)], False),
        ([(), ()], False),
        ([], False),
    ],
)
def test_a_verdict_means_something_when_every_rank_fed_some_component(
    fed: list[tuple[int, ...]], means: bool
) -> None:
    vectors = tuple(
        ComponentVector(name=name, fed=steps, first_bad=(-1,) * len(steps))
        for name, steps in zip(("grad", "loss"), fed, strict=False)
    )
    state = started()
    clean = ev.GuardVerdict(
        attempt=0,
        from_done=0,
        to_done=10,
        components=vectors,
        flagged=(),
        skipped=(),
        replicas=(),
    )
    fold(state, clean)

    assert state.covered is means


SCRIPT = st.lists(
    st.tuples(st.sampled_from(["save", "bad", "metric", "restart", "fresh", "prune"]),
              st.integers(0, 3)),
    max_size=25,
)  # fmt: skip


def history(script: list[tuple[str, int]]) -> list[ev.Event]:
    """The events of a legal history that a script of acts leads to."""
    events: list[ev.Event] = []
    state = started()

    def keep(*new: ev.Event) -> None:
        events.extend(new)
        fold_all(state, new)

    done = 0
    for act, n in script:
        if act == "metric":
            keep(metric(done + 10, float(n), state.attempt))
        elif act in ("save", "bad"):
            done += 10
            votes = ballots(state, done, bad={n % 2: "grad"} if act == "bad" else {})
            decision = decide(state, votes, Lead(clock_ns=done, epoch=1))
            keep(*decision.events)
            keep(*(committed(one.ckpt_id) for one in decision.accepted))
        elif act == "prune":
            lives = branch(state)[:-2][: n + 1]
            keep(*(ev.PruneStarted(ckpt_id=c.ckpt_id, because=c.ckpt_id) for c in lives))
            keep(*(ev.PruneDone(ckpt_id=c.ckpt_id, already_gone=False) for c in lives))
        else:
            known = sorted(c.ckpt_id for c in state.ckpts.values() if c.committed)
            source = known[n % len(known)] if known and act == "restart" else None
            done = state.ckpts[source].done if source else 0
            number = state.attempt + 1
            keep(
                ev.AttemptStarted(attempt=number, world=2),
                ev.RestartSelected(
                    attempt=number, ckpt_id=source, done=done, candidates=()
                ),
            )
    return events


@given(script=SCRIPT, cut=st.integers(0, 60))
@settings(max_examples=80, derandomize=True, deadline=None)
def test_a_state_is_a_value_and_a_fold_can_be_cut_anywhere(
    script: list[tuple[str, int]], cut: int
) -> None:
    """fold(a + b) = fold(b from fold(a)), through the plain form; nothing is in flight."""
    events = history(script)
    whole = fold_all(started(), events)
    first = fold_all(started(), events[:cut])
    resumed = fold_all(State.from_plain(first.to_plain()), events[cut:])

    assert whole == resumed
    assert whole.digest() == resumed.digest()
    assert in_flight(whole) == []
    lives = branch(whole)
    assert steps(lives) == sorted(steps(lives)), "commit order is step order on a branch"
