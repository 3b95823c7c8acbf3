"""`verify`: frames, chain, seals, heads and life cycle, with where each finding is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from jumar.engine.log.audit import BESIDE, MANIFEST, OUTSIDE, Anchor, Apply, Audit, audit
from jumar.reducers import events as ev
from jumar.tools.views.anchors import beside, manifests
from jumar.tools.views.story import Story

Range = tuple[int, int]
_OPEN = {True: "OPEN: no terminal event", False: "an event says that the run is over"}


@attrs.frozen
class Verdict:
    """
    Attributes:
        anchored: records (first, behind the last) that a matching head in a manifest or
            from outside covers; `anchors` says how many of each.
        signed: those behind them that only a signed head beside the log covers; `signers`
            are the names of its keys, which were not checked.
        chained: the rest: only the chain holds them together.
        open: no event says that the run is over.
        problems: (where, what) that forbid trusting the log.
        warnings: (where, what) that do not.
    """

    records: int
    segments: int
    sealed: int
    head: str
    root: str
    end: str
    open: bool
    ignored: int
    anchored: Range
    anchors: dict[str, int]
    signed: Range
    signers: tuple[str, ...]
    chained: Range
    problems: tuple[tuple[str, str], ...]
    warnings: tuple[tuple[str, str], ...]

    def plain(self) -> dict[str, Any]:
        """The `--json` form."""
        return {"schema": "jumar.verify/1", **attrs.asdict(self)}

    def rows(self) -> list[tuple[str, str]]:
        """What people see."""
        near = f"{self.anchors[BESIDE]} heads beside the log match"
        by = f"{self.anchors[MANIFEST]} manifests, {self.anchors[OUTSIDE]} from outside"
        keys = ", ".join(self.signers)
        return [
            (
                "records",
                f"{self.records} in {self.segments} segments ({self.sealed} sealed), "
                f"chain to {self.head[:12]}…, root {self.root[:12]}…",
            ),
            (
                "ends",
                f"{self.end}; {'OPEN: no terminal event' if self.open else 'finished'}",
            ),
            ("anchored", _range(self.anchored, f"by {by}")),
            ("signed only", _range(self.signed, f"keys not checked: {keys}")),
            ("chained only", _range(self.chained, f"{near}, nothing elsewhere")),
            ("ignored", f"{self.ignored} records of unknown ignorable types"),
            *(("warning", f"{where}: {what}") for where, what in self.warnings),
            *(("problem", f"{where}: {what}") for where, what in self.problems),
            ("verdict", "not trusted" if self.problems else "ok"),
        ]


def _range(one: Range, what: str) -> str:
    return f"{one[0]} to {one[1] - 1} ({what})" if one[1] > one[0] else "none"


def verify(story: Story, outside: Sequence[Anchor] = (), apply: Apply = map) -> Verdict:
    """
    Everything that was found while reading, checking and folding.

    Args:
        outside: heads that were kept elsewhere.
        apply: maps the check over segments: `map`, or that of a pool of processes.
    """
    near, silent = beside(story)
    said = audit(story.disk, story.layout.log, [*near, *manifests(story), *outside], apply)
    found = [*_told(said, "error"), *((w, what) for _, w, what in story.problems)]
    anchored = _covered(said, MANIFEST, OUTSIDE)
    signed = max(anchored, max([a.size for a in said.matching if a.signers], default=0))
    return Verdict(
        records=said.size,
        segments=said.segments,
        sealed=said.sealed,
        head=said.last_hash,
        root=said.root,
        end=story.reader.end,
        open=not _terminal(story),
        ignored=sum(not unknown.critical for _, unknown in story.unknown),
        anchored=(0, anchored),
        anchors={
            where: sum(anchor.where == where for anchor in said.matching)
            for where in (MANIFEST, OUTSIDE, BESIDE)
        },
        signed=(anchored, signed),
        signers=tuple(sorted({name for a in said.matching for name in a.signers})),
        chained=(signed, said.size),
        problems=tuple(dict.fromkeys(found)),
        warnings=tuple(dict.fromkeys([*story.warnings, *_told(said, "warning"), *silent])),
    )


def _terminal(story: Story) -> bool:
    """Whether an event says that the run is over, and no attempt began after it."""
    told = story.of(ev.RunFinished, ev.RunFailed, ev.AttemptStarted)
    return bool(told) and not isinstance(told[-1][1], ev.AttemptStarted)


def _told(said: Audit, severity: str) -> list[tuple[str, str]]:
    return [
        (f"{one.segment} at byte {one.offset}", one.what)
        for one in said.findings
        if one.severity == severity
    ]


def _covered(said: Audit, *places: str) -> int:
    return max([a.size for a in said.matching if a.where in places], default=0)
