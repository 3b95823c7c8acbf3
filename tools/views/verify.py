"""`verify`: frames, chain and life cycle of a log, with where each finding is."""

from __future__ import annotations

from typing import Any

import attrs

from jumar.tools.views.story import Story


@attrs.frozen
class Verdict:
    """
    Attributes:
        problems: (where, what) that forbid trusting the log.
        warnings: (where, what) that do not.
    """

    records: int
    segments: int
    head: str
    end: str
    open: bool
    ignored: int
    problems: tuple[tuple[str, str], ...]
    warnings: tuple[tuple[str, str], ...]

    def plain(self) -> dict[str, Any]:
        """The `--json` form."""
        return {"schema": "jumar.verify/1", **attrs.asdict(self)}


def verify(story: Story) -> Verdict:
    """Everything that was found while reading and folding."""
    return Verdict(
        records=story.reader.size,
        segments=len(story.reader.chain),
        head=story.reader.last.hex(),
        end=story.reader.end,
        open=not story.state.finished,
        ignored=sum(not unknown.critical for _, unknown in story.unknown),
        problems=tuple((where, what) for _, where, what in story.problems),
        warnings=tuple(story.warnings),
    )
