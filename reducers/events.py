"""
The vocabulary: every event that can stand in an authoritative log.

One frozen class per type; its fields say type, unit and range and are refused where an
event is built.  `done` is always completed steps (optimizer updates applied).  A type's
dotted name is independent of its class name; `TYPES` is the registry.  Anything added to,
renamed in, or re-interpreted in a released type is a new version with an upcaster in
`schema.py`.

Flags of a type:
    critical  unknown to a reader, it forbids deriving state or writing
    barrier   durable before anything that depends on it may happen

Longer than 300 lines, since a vocabulary is looked up in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar, dataclass_transform

from jumar.reducers.fields import (
    choice,
    count,
    counts,
    flag,
    flags,
    many,
    maybe,
    maybe_count,
    maybe_text,
    one,
    text,
    texts,
)
from jumar.reducers.making import Value, value
from jumar.reducers.policy import Policy
from jumar.reducers.rules import Schedule
from jumar.reducers.values import (
    CKPT_ID,
    FAMILY,
    SHA256,
    Candidate,
    ComponentVector,
    Declared,
    Journaled,
    Kept,
    Metric,
    Part,
    Ranking,
    RankOutcome,
    Victim,
)


class Event(Value):
    """Base of all events; the three class attributes come from the registry."""

    __slots__ = ()
    type: ClassVar[str]
    v: ClassVar[int]
    critical: ClassVar[bool]
    barrier: ClassVar[bool]


TYPES: dict[str, type[Event]] = {}
"""Every known type by its dotted name."""

E = TypeVar("E", bound=Event)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(count, maybe_count, counts, flag, flags, text, maybe_text, texts,
                      choice, one, maybe, many),
)  # fmt: skip
def event(
    name: str, *, v: int = 1, critical: bool = True, barrier: bool = False
) -> Callable[[type[E]], type[E]]:
    """Register an event class under a dotted name that is never used again."""

    def register(cls: type[E]) -> type[E]:
        made = value(cls)
        made.type, made.v, made.critical, made.barrier = name, v, critical, barrier
        assert name not in TYPES, name
        TYPES[name] = made
        return made

    return register


# --- run -------------------------------------------------------------------------------


@event("run.started")
class RunStarted(Event):
    """A run directory was made."""

    run_id: str = text("uuid4 hex", pattern=r"[0-9a-f]{32}")
    version: str = text("jumar version that started it", size_max=64)
    layout: str = choice("native")


@event("policy.resolved")
class PolicyResolved(Event):
    """The retention policy in force from here on."""

    policy: Policy = one(Policy)


@event("schedule.resolved")
class ScheduleResolved(Event):
    """The length and cadence of the run from here on; None when the caller gave none."""

    schedule: Schedule | None = maybe(Schedule)


@event("attempt.started", barrier=True)
class AttemptStarted(Event):
    """One launch of the job; the same number on all ranks."""

    attempt: int = count("launches before this one")
    world: int = count("ranks", lo=1)


@event("attempt.ended", v=2)
class AttemptEnded(Event):
    """The launch came to an end that it could still write down."""

    attempt: int = count("attempt number")
    reason: str = choice(
        *("stopped", "finished", "rejected", "poisoned", "rank_lost", "error"),
        "preempted",
    )
    done: int = count("completed steps")
    detail: str = text("one line", size_max=4096)


@event("run.finished", barrier=True)
class RunFinished(Event):
    """The training effort is complete."""

    attempt: int = count("attempt number")
    done: int = count("completed steps")


@event("run.failed", barrier=True)
class RunFailed(Event):
    """The training effort was given up."""

    attempt: int = count("attempt number")
    done: int = count("completed steps")
    error: str = text("what went wrong", size_max=4096)


# --- log -------------------------------------------------------------------------------


@event("writer.claimed", v=2, critical=False)
class WriterClaimed(Event):
    """First record of an epoch: who writes from here on."""

    epoch: int = count("writer epochs before this one, plus 1", lo=1)
    host: str = text("host name", size_max=255)
    pid: int = count("process id")
    boot_id: str = text("kernel boot id", size_max=64)
    fs: str = text("file-system type that holds the log; empty: not noted", size_max=64)
    header: str = text("sha256 of the segment header", pattern=SHA256)


@event("writer.recovered", critical=False)
class WriterRecovered(Event):
    """The predecessor ended uncleanly; bytes after its valid count stay as evidence."""

    pred: str = text("segment name", size_max=255)
    valid_bytes: int = count("bytes that count")
    discarded_bytes: int = count("bytes after them")


@event("segment.opened", critical=False)
class SegmentOpened(Event):
    """First record of a further segment in one epoch."""

    header: str = text("sha256 of the segment header", pattern=SHA256)


@event("head.published", critical=False)
class HeadPublished(Event):
    """A head of this log was given to somebody outside it."""

    size: int = count("records")
    last_hash: str = text("hash of the last record", pattern=SHA256)
    where: str = text("who holds it", size_max=255)


@event("evidence.sealed", v=2, critical=False)
class EvidenceSealed(Event):
    """The evidence journals of an attempt, by digest; each rank's own file."""

    attempt: int = count("attempt number")
    journals: tuple[Journaled, ...] = many(Journaled)


@event("rank.joined", critical=False)
class RankJoined(Event):
    """First record of a rank's evidence journal: which process it is."""

    attempt: int = count("attempt number")
    world: int = count("ranks", lo=1)
    host: str = text("host name", size_max=255)
    pid: int = count("process id")
    boot_id: str = text("kernel boot id", size_max=64)


@event("rank.left", critical=False)
class RankLeft(Event):
    """Last record of a rank's evidence journal: its attempt is over."""

    attempt: int = count("attempt number")
    done: int = count("completed steps")
    reason: str = text("one line", size_max=4096)


@event("log.dropped", critical=False)
class LogDropped(Event):
    """Evidence that was not kept, by count."""

    rank: int = count("rank")
    dropped: int = count("records", lo=1)


@event("note.correction", critical=False)
class NoteCorrection(Event):
    """A person's correction of an earlier record; both stay."""

    target: int = count("seq of the corrected record")
    field: str = text("field name", size_max=64)
    correction: str = text("the right value", size_max=4096)
    reason: str = text("why", size_max=4096)
    who: str = text("who says so", size_max=255)


# --- guard and metric ------------------------------------------------------------------


@event("guard.verdict", v=2)
class GuardVerdict(Event):
    """The agreed guard outcome over the steps `(from_done, to_done]`, with all ranks."""

    attempt: int = count("attempt number")
    from_done: int = count("completed steps at the previous verdict")
    to_done: int = count("completed steps now")
    components: tuple[ComponentVector, ...] = many(ComponentVector)
    flagged: tuple[str, ...] = texts("components with a flag on any rank", size_max=32)
    skipped: tuple[int, ...] = counts("bad updates that each rank left out")
    replicas: tuple[str, ...] = texts(
        "<group>:<digest> of each rank's parameters; none: not looked at", size_max=128
    )


@event("guard.found", critical=False)
class GuardFound(Event):
    """Where a component of a bad rank was not finite first, as its own flags tell."""

    attempt: int = count("attempt number")
    done: int = count("completed steps at the verdict")
    component: str = text("component", size_max=32)
    rank: int = count("rank")
    first_bad: int = count("first bad step, completed steps")
    bad: int = count("tensors that were bad then")
    where: tuple[str, ...] = texts("some of their names", size_max=512)


@event("guard.action")
class GuardAction(Event):
    """What was done about a verdict, other than rejecting one save."""

    attempt: int = count("attempt number")
    action: str = choice("skip", "stop", "repair", "escalate")
    family: str = text("family", pattern=FAMILY)
    done: int = count("completed steps")
    refusals: int = count("refusals in a row")


@event("metric.reported")
class MetricReported(Event):
    """A measured value; it ranks the checkpoints of that step and no others."""

    attempt: int = count("attempt number")
    done: int = count("completed steps that were measured")
    name: str = text("metric name", size_max=255)
    metric: Metric = one(Metric)
    data: str = text("data set", size_max=255)
    family: str | None = maybe_text("family it was measured on; None: any", pattern=FAMILY)


# --- checkpoint ------------------------------------------------------------------------


@event("ckpt.proposed")
class CkptProposed(Event):
    """The wish to write a checkpoint; it changes nothing."""

    family: str = text("family", pattern=FAMILY)
    done: int = count("completed steps")
    attempt: int = count("attempt number")
    reasons: tuple[str, ...] = texts("triggers that fell on this step", size_max=64)


@event("ckpt.rejected", barrier=True)
class CkptRejected(Event):
    """Vetoed by the verdict, or by an earlier rejection that nothing has cured."""

    family: str = text("family", pattern=FAMILY)
    done: int = count("completed steps")
    attempt: int = count("attempt number")
    cause: str = choice("verdict", "sticky")
    components: tuple[str, ...] = texts("flagged components that veto", size_max=32)
    ranks: tuple[int, ...] = counts("flagged ranks")
    first_bad: int | None = maybe_count("first bad step, completed steps")
    refusals: int = count("refusals in a row, this one included", lo=1)


@event("ckpt.accepted", barrier=True)
class CkptAccepted(Event):
    """It passed preflight on every rank; what goes into the bytes is fixed here."""

    ckpt_id: str = text("<family>@<done>r<revision>", pattern=CKPT_ID)
    family: str = text("family", pattern=FAMILY)
    done: int = count("completed steps")
    revision: int = count("accepted proposals of this family and step before it")
    attempt: int = count("attempt number")
    epoch: int = count("writer epoch, part of the staging name", lo=1)
    parent: str | None = maybe_text("commit before it on its branch", pattern=CKPT_ID)
    verified: bool = flag("every fed component was finite on every rank, one at least fed")
    clock_ns: int = count("wall clock of rank 0, ns since 1970")
    reasons: tuple[str, ...] = texts("triggers that fell on this step", size_max=64)
    declared: tuple[Declared, ...] = many(Declared)
    rankings: tuple[Ranking, ...] = many(Ranking)


@event("ckpt.written")
class CkptWritten(Event):
    """What every rank wrote, or why it could not."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    ranks: tuple[RankOutcome, ...] = many(RankOutcome)


@event("ckpt.committed", barrier=True)
class CkptCommitted(Event):
    """Every part is durable and in place: latest, ranked and restorable from here on."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    manifest_sha256: str = text("digest of the manifest", pattern=SHA256)
    parts: tuple[Part, ...] = many(Part)
    recovered: bool = flag("finished by a later open")


@event("ckpt.aborted", barrier=True)
class CkptAborted(Event):
    """A save that began and was not finished; what was committed before stands."""

    family: str = text("family", pattern=FAMILY)
    done: int = count("completed steps")
    attempt: int = count("attempt number")
    ckpt_id: str | None = maybe_text("the accepted checkpoint, if any", pattern=CKPT_ID)
    phase: str = choice("ballot", "agree", "write", "outcome", "commit", "rename", "open")
    ranks: tuple[int, ...] = counts("ranks at fault; empty if unknown")
    error: str = text("what went wrong", size_max=8192)


@event("ckpt.merged")
class CkptMerged(Event):
    """Saved again at a step that is committed already: only the reasons are added."""

    ckpt_id: str = text("the existing checkpoint", pattern=CKPT_ID)
    attempt: int = count("attempt number")
    reasons: tuple[str, ...] = texts("triggers that fell on this step", size_max=64)


@event("ckpt.observed")
class CkptObserved(Event):
    """What somebody saw on the disk that the log did not say."""

    ckpt_id: str | None = maybe_text("checkpoint, None for a foreign name", pattern=CKPT_ID)
    name: str = text("name in the run directory", size_max=1024)
    finding: str = choice("missing", "damaged", "foreign", "whole")
    detail: str = text("one line", size_max=4096)


@event("ckpt.pinned")
class CkptPinned(Event):
    """Held against every rule until unpinned."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    who: str = text("who asked", size_max=255)
    why: str = text("what for", size_max=4096)


@event("ckpt.unpinned")
class CkptUnpinned(Event):
    """No longer held."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    who: str = text("who asked", size_max=255)


@event("ckpt.moved", critical=False)
class CkptMoved(Event):
    """A superseded checkpoint was put out of the way, whole (`on_rewind=quarantine`)."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    to: str = text("place in the run directory", size_max=1024)


@event("pointer.moved", critical=False)
class PointerMoved(Event):
    """A name that outsiders read points at this checkpoint; never read as truth."""

    family: str = text("family", pattern=FAMILY)
    pointer: str = text("name in the family's folder", size_max=255)
    to: str = text("checkpoint", pattern=CKPT_ID)


# --- prune -----------------------------------------------------------------------------


@event("prune.planned")
class PrunePlanned(Event):
    """A retention decision: what each rule kept, what is protected, who loses."""

    family: str = text("family", pattern=FAMILY)
    because: str = text("the commit after which it ran", pattern=CKPT_ID)
    clock_ns: int = count("wall clock that ages were taken from, ns since 1970")
    kept: tuple[Kept, ...] = many(Kept)
    protected: tuple[Kept, ...] = many(Kept)
    victims: tuple[Victim, ...] = many(Victim)


@event("prune.started", barrier=True)
class PruneStarted(Event):
    """From here on this checkpoint is on its way out."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    because: str = text("the commit it was pruned for", pattern=CKPT_ID)


@event("prune.done")
class PruneDone(Event):
    """Its files are gone."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    already_gone: bool = flag("nothing was there to remove")


@event("prune.failed")
class PruneFailed(Event):
    """It could not be removed: called back when whole, else retried."""

    ckpt_id: str = text("checkpoint", pattern=CKPT_ID)
    whole: bool = flag("still whole in its place, so a checkpoint again")
    error: str = text("what went wrong", size_max=4096)


# --- restart and collective ------------------------------------------------------------


@event("restart.requested")
class RestartRequested(Event):
    """How the caller asked to begin."""

    attempt: int = count("attempt number")
    mode: str = choice("auto", "fresh", "new", "at")
    at: str | None = maybe_text("the checkpoint asked for, mode at", pattern=CKPT_ID)


@event("restart.selected", barrier=True)
class RestartSelected(Event):
    """The decision: which checkpoint the attempt begins from, and why not the others."""

    attempt: int = count("attempt number")
    ckpt_id: str | None = maybe_text("None: from nothing", pattern=CKPT_ID)
    done: int = count("completed steps it begins with")
    candidates: tuple[Candidate, ...] = many(Candidate)


@event("sharding.resolved", critical=False)
class ShardingResolved(Event):
    """How state is spread over the ranks, and so how it is collected."""

    attempt: int = count("attempt number")
    requested: int | None = maybe_count("stage asked for; None: as the trainer built it")
    stage: int = count("stage in force: 0 nothing, 1 optimizer, 2 and 3 parameters too")
    wrapper: str = choice("none", "ddp", "fsdp2")
    payload: str = choice("whole", "safetensors", "sharded")
    reason: str = text("why the stage is not the one asked for", size_max=255)


@event("restart.component", v=2)
class RestartComponent(Event):
    """One declared part of the state: restored, or why not."""

    attempt: int = count("attempt number")
    name: str = text("component", size_max=64)
    action: str = choice("restored", "skipped", "registered", "initialised")
    detail: str = text("one line", size_max=4096)


@event("restart.completed")
class RestartCompleted(Event):
    """Every declared part was accounted for; training begins."""

    attempt: int = count("attempt number")
    done: int = count("completed steps")


@event("coll.mismatch", v=2, critical=False)
class CollMismatch(Event):
    """The ranks did not say the same at a boundary; nothing was decided."""

    attempt: int = count("attempt number")
    field: str = choice("done", "families", "policy", "attempt", "state", "order")
    odd: tuple[int, ...] = counts("ranks that differ from the majority")
    said: tuple[str, ...] = texts("what each rank said, in rank order", size_max=255)


@event("coll.waiting", critical=False)
class CollWaiting(Event):
    """An exchange ended without these ranks."""

    attempt: int = count("attempt number")
    phase: str = text("exchange", size_max=64)
    late: tuple[int, ...] = counts("ranks that did not come")
    waited_ms: int = count("milliseconds without a sign of life")
