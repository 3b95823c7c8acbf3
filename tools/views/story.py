"""
A whole log as a story: each event with its record, and where each checkpoint occurs.

Read once, without torch and without writing.  What is readable is kept even when the log
is damaged or speaks of unknown types; `trusted` then says why nothing may be derived.
"""

from __future__ import annotations

import attrs

from jumar.engine import manifest
from jumar.engine.disk import Disk
from jumar.engine.layout import Layout
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import BadRecord, Record, refuse_extensions
from jumar.engine.publish import Publisher
from jumar.engine.storage import no_beat
from jumar.reducers import events as ev
from jumar.reducers.errors import JumarError
from jumar.reducers.fold import fold
from jumar.reducers.schema import Unknown, decode
from jumar.reducers.state import Ckpt, State

Told = tuple[Record, ev.Event]


@attrs.define
class Story:
    """
    Attributes:
        told: every readable record with its event, in order.
        unknown: records of types that this version does not know.
        problems: (seq or -1, where, what) that forbid trusting the log.
        warnings: (where, what) that do not.
        state: the fold, up to the first problem.
    """

    disk: Disk
    layout: Layout
    told: list[Told] = attrs.field(factory=list)
    unknown: list[tuple[Record, Unknown]] = attrs.field(factory=list)
    problems: list[tuple[int, str, str]] = attrs.field(factory=list)
    warnings: list[tuple[str, str]] = attrs.field(factory=list)
    state: State = attrs.field(factory=State)
    reader: LogReader = attrs.field(init=False)
    _about: dict[str, list[Told]] = attrs.field(factory=dict)

    @classmethod
    def read(cls, disk: Disk, root: str) -> Story:
        """Read a run's log; LogDamaged when there is none."""
        story = cls(disk, Layout(root))
        story.reader = LogReader(disk, story.layout.log, mode="salvage")
        for record in story.reader:
            story._take(record)
        for finding in story.reader.findings:
            where = f"{finding.segment} at byte {finding.offset}"
            if finding.severity == "error":
                story.problems.append((-1, where, finding.what))
            else:
                story.warnings.append((where, finding.what))
        return story

    def _take(self, record: Record) -> None:
        where = f"seq {record.seq}"
        try:
            event = decode(record.type, record.v, record.payload)
            if isinstance(event, Unknown):
                refuse_extensions(record.payload)  # what is shown must be plain values
        except (JumarError, BadRecord, RecursionError) as error:
            self.problems.append((record.seq, where, str(error)))
            return
        if isinstance(event, Unknown):
            self.unknown.append((record, event))
            if event.critical:
                what = f"unknown critical type {event.name} version {event.v}"
                self.problems.append((record.seq, where, what))
            return
        self.told.append((record, event))
        named = getattr(event, "ckpt_id", None)
        if named is not None:
            self._about.setdefault(named, []).append((record, event))
        if self.problems or self.reader.end == "corrupt":
            return  # nothing is derived from what follows a problem
        try:
            fold(self.state, event)
        except JumarError as error:
            self.problems.append((record.seq, where, str(error)))

    @property
    def trusted(self) -> bool:
        """Whether state may be derived from this log."""
        return not self.problems

    def of(self, *types: type[ev.Event]) -> list[Told]:
        """The records of these types."""
        return [one for one in self.told if isinstance(one[1], types)]

    def about(self, ckpt_id: str) -> list[Told]:
        """The records that name a checkpoint as their subject."""
        return self._about.get(ckpt_id, [])

    def accepted(self, ckpt_id: str) -> ev.CkptAccepted | None:
        """The acceptance of a checkpoint, if it ever was."""
        for _, event in self.about(ckpt_id):
            if isinstance(event, ev.CkptAccepted):
                return event
        return None

    def folder(self, ckpt: Ckpt) -> str:
        """Where a committed checkpoint lies."""
        return Publisher(self.disk, self.layout, 0, lambda _: None, no_beat).where(ckpt)

    def damage(self, ckpt: Ckpt, *, digests: bool = False) -> tuple[str, str] | None:
        """What the disk says against a checkpoint, by size or by digest."""
        return manifest.damage(
            self.disk, self.folder(ckpt), ckpt, no_beat if digests else None
        )
