"""Where each way to tamper with a log is found; the table in the docs is made from this."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import attrs
import pytest

from jumar.engine.log import heads
from jumar.engine.log.audit import OUTSIDE, Anchor
from jumar.engine.log.reader import LogReader
from jumar.tools.harness.life import ROOT, STEPS, Life
from jumar.tools.harness.tamper import EDITS, Edit, Files, disk_of, files_of
from jumar.tools.views.story import Story
from jumar.tools.views.verify import verify

README = Path(__file__).parents[3] / "engine/log/README.md"


@attrs.frozen
class Runs:
    """A run, the same one a save earlier, another one, and the head that somebody kept."""

    files: Files
    earlier: Files
    other: Files
    head: Anchor


@cache
def runs() -> Runs:
    life, other = Life(), Life()
    for one in (life, other):
        one.open()
        for done in STEPS[:3]:
            one.save(done)
    earlier = files_of(life.disk, ROOT)
    life.save(STEPS[3])
    for run in (*life.runs.values(), *other.runs.values()):
        run.close()
    newest = max(heads.ordinals(life.disk, f"{ROOT}/.jumar"))
    told = heads.read(life.disk, f"{ROOT}/.jumar", newest)
    assert told is not None
    head = Anchor(OUTSIDE, "kept", told.size, told.root, log_id=told.log_id)
    return Runs(files_of(life.disk, ROOT), earlier, files_of(other.disk, ROOT), head)


def found(files: Files) -> tuple[bool, bool, bool]:
    """By a reader, by `verify`, by `verify` with a head from outside."""
    disk = disk_of(files, ROOT)
    reader = LogReader(disk, f"{ROOT}/.jumar")
    for _ in reader:
        pass
    story = Story.read(disk, ROOT)
    alone, helped = verify(story), verify(story, [runs().head])
    return reader.end == "corrupt", bool(alone.problems), bool(helped.problems)


EXPECTED = {
    "T1 content of a record": (True, True, True),
    "T2 end cut off": (False, True, True),
    "T2 end cut off, heads removed": (False, False, True),
    "T3 record removed from the middle": (True, True, True),
    "T4 two records reordered": (True, True, True),
    "T5 record inserted": (True, True, True),
    "T6 record of another run": (True, True, True),
    "T7 record replayed": (True, True, True),
    "T8 metadata of a record": (True, True, True),
    "end rewritten, just as long": (False, True, True),
    "end rewritten, heads removed": (False, False, True),
    "T9 whole directory rolled back": (False, False, True),
}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_each_edit_is_found_where_the_table_says(edit: Edit) -> None:
    run = runs()
    changed = edit.make(run.files, run.earlier, run.other)

    assert changed != run.files
    assert EXPECTED[edit.name] == found(changed)


def test_a_log_that_nobody_touched_is_found_whole() -> None:
    assert found(runs().files) == (False, False, False)
    for name, data in runs().files.items():
        assert len(data) == len(disk_of(runs().files, ROOT).read(f"{ROOT}/{name}"))


def test_the_rewritten_end_is_as_long_as_the_one_it_replaces() -> None:
    edit = next(edit for edit in EDITS if edit.name == "end rewritten, just as long")
    changed = edit.make(runs().files, {}, {})

    assert [len(data) for data in changed.values()] == [
        len(data) for data in runs().files.values()
    ]


def test_the_table_in_the_docs_is_that_of_this_run() -> None:
    mark = {True: "found", False: "not found"}
    rows = [
        f"| {name} | {' | '.join(mark[one] for one in where)} |"
        for name, where in EXPECTED.items()
    ]
    table = "\n".join(
        [
            "| edit | any reader | `verify` | `verify --head` |",
            "|---|---|---|---|",
            *rows,
        ]
    )
    assert table in README.read_text(), table
