"""What the commands share: options, exit codes, the story of a run, and how to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from jumar.engine.real_disk import RealDisk
from jumar.reducers.errors import JumarError
from jumar.tools.views.story import Story
from jumar.tools.views.text import clean

FINE, FINDINGS, USAGE, UNTRUSTED, BUSY = 0, 1, 2, 3, 4
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
run_argument = click.argument("run", type=click.Path(path_type=Path))
ref_argument = click.argument("ref")


def told_error(error: JumarError) -> str:
    """An error as people read it: what, why, and what to do instead."""
    said = f"error: {error.what}\n  why:     {error.why}\n  instead: {error.instead}"
    return "\n".join(clean(line) for line in said.split("\n"))


def emit(plain: Any) -> None:
    """Print the `--json` form."""
    click.echo(json.dumps(plain, indent=2, sort_keys=False, allow_nan=False))


def must_be_run(run: Path) -> None:
    """UsageError for a directory that is no run."""
    if not (run / ".jumar" / "IDENTITY").exists():
        raise click.UsageError(
            f"{str(run)!r} is not a run directory: it holds no .jumar/IDENTITY. "
            "Name the directory that training was given."
        )


def story_of(run: Path) -> Story:
    """The story of a run; UsageError when there is none."""
    must_be_run(run)
    return Story.read(RealDisk(), str(run))


def end(story: Story, code: int) -> None:
    """Leave with the code, or with 3 and the reason when the log cannot be trusted."""
    if story.trusted:
        raise click.exceptions.Exit(code)
    for _, where, what in story.problems:
        click.echo(clean(f"not trusted: {where}: {what}"), err=True)
    raise click.exceptions.Exit(UNTRUSTED)


def must_trust(story: Story) -> None:
    """Leave with 3 where nothing may be derived."""
    if not story.trusted:
        end(story, UNTRUSTED)
