"""
`jumar VERB RUN [REF..] [options]`: what people type.

Data goes to stdout, progress and errors to stderr.  Exit codes: 0 answered and fine;
1 findings or differences; 2 usage; 3 the log cannot be trusted or understood (what is
readable is still printed); 4 busy or a lost rank.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import structlog

from jumar.engine.errors import AttemptOver, LogDamaged, RunBusy
from jumar.engine.layout import Layout
from jumar.engine.real_disk import RealDisk
from jumar.reducers.errors import JumarError
from jumar.tools.check import verify
from jumar.tools.operate import pin, unpin
from jumar.tools.shared import (
    BUSY,
    FINDINGS,
    FINE,
    UNTRUSTED,
    USAGE,
    as_json,
    emit,
    end,
    must_be_run,
    must_trust,
    ref_argument,
    run_argument,
    story_of,
    told_error,
)
from jumar.tools.views import events, listing, refs
from jumar.tools.views.status import status as status_of
from jumar.tools.views.text import clean, table
from jumar.tools.views.why import why as why_of

_CODES: Final[tuple[tuple[type[JumarError], int], ...]] = (
    (LogDamaged, UNTRUSTED),
    (RunBusy, BUSY),
    (AttemptOver, BUSY),
)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 88}
)
@click.version_option(package_name="jumar", message="jumar %(version)s")
def cli() -> None:
    """Say what happened to the checkpoints of a training run.

    RUN is a run directory, the one that holds .jumar.  REF names a checkpoint: latest,
    best, best~2, restart, 400, live@400r0, @seq:93, or the beginning of a digest.
    """
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


cli.add_command(verify)
cli.add_command(pin)
cli.add_command(unpin)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: errors become one clear text and an exit code."""
    try:
        # Without standalone mode click returns the code of an Exit instead of raising it.
        code = cli.main(args=arguments, prog_name="jumar", standalone_mode=False)
        sys.exit(code or FINE)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except click.Abort:
        sys.exit(130)
    except JumarError as error:
        click.echo(told_error(error), err=True)
        sys.exit(next((code for kind, code in _CODES if isinstance(error, kind)), USAGE))
    except BrokenPipeError:
        sys.exit(FINE)  # the reader of our output went away, as `head` does


@cli.command()
@run_argument
@as_json
def status(run: Path, as_json: bool) -> None:
    """One screen: latest, best, what a restart would load, and what needs a look."""
    story = story_of(run)
    must_trust(story)
    said = status_of(story)
    if as_json:
        emit(said.plain())
    else:
        rows = [
            ("run", f"{said.run_id}  {said.phase}"),
            ("attempt", f"{said.attempt} with {said.world} ranks"),
            ("policy", ", ".join(said.policy)),
            ("latest", said.latest or "none"),
            ("best", ", ".join(said.best) or "none"),
            ("restart", said.restart or "from nothing"),
            ("verdict", said.verdict),
            ("kept", f"{said.kept}, of them {said.superseded} superseded"),
            ("log", f"{said.records} records, {said.log_end}"),
            *(("open", one) for one in said.open),
            *(("finding", one) for one in said.findings),
        ]
        click.echo("\n".join(table(rows)))
    end(story, FINDINGS if said.findings else FINE)


@cli.command("list")
@run_argument
@click.option("--all", "everything", is_flag=True, help="Also those that are gone.")
@as_json
def list_(run: Path, everything: bool, as_json: bool) -> None:
    """The checkpoints of a run."""
    story = story_of(run)
    found = listing.rows(story, everything=everything)
    if as_json:
        emit({"schema": "jumar.list/1", "checkpoints": found})
    else:
        click.echo("\n".join(table([listing.COLUMNS, *map(listing.cells, found)])))
    end(story, FINE)


@cli.command()
@run_argument
@click.argument("ref", required=False)
@click.option("--type", "types", multiple=True, help="Only this event type (repeatable).")
@click.option("--step", type=int, help="Only at this step.")
@click.option("--since", type=int, default=0, help="Only from this sequence number on.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many.")
@click.option("--full", is_flag=True, help="Whole payloads.")
@as_json
def log(run: Path, full: bool, as_json: bool, **wished: Any) -> None:
    """The events, one a line; with REF those about one checkpoint.

    What is picked out is looked up in an index and read from the log.  Its life cycle is
    then not judged: `verify` and `log` without options do that.
    """
    must_be_run(run)
    wish, story = events.Wish(**wished), None
    disk, root = RealDisk(), Layout(str(run)).log
    told = events.looked_up(disk, root, disk.fs_kind(root), wish)
    if told is None:
        story = story_of(run)
        told = events.told(story, wish)
    if as_json:
        emit({"schema": "jumar.log/1", "events": [listing.event_row(one) for one in told]})
    elif full:
        for one in told:
            click.echo(clean(json.dumps(listing.event_row(one), allow_nan=False)))
    else:
        click.echo("\n".join(table([listing.one_line(one) for one in told])))
    if story is not None:
        for record, unknown in story.unknown:
            text = f"unknown: seq {record.seq} {unknown.name} v{unknown.v}"
            click.echo(clean(text), err=True)
        end(story, FINE)


@cli.command()
@run_argument
@ref_argument
@as_json
def show(run: Path, ref: str, as_json: bool) -> None:
    """Everything that the log holds about one checkpoint."""
    story = story_of(run)
    found = refs.resolve(story, ref)
    said = listing.shown(story, found)
    if as_json:
        emit(said)
    else:
        click.echo(clean(f"{found.ckpt_id or f'{found.family}@{found.done}'}"))
        for row in said["events"]:
            click.echo(clean(f"  seq {row['seq']}  {row['time']}  {row['type']}"))
            for key, value in row["payload"].items():
                click.echo(clean(f"      {key}: {json.dumps(value)}"))
    end(story, FINE)


@cli.command()
@run_argument
@ref_argument
@as_json
def why(run: Path, ref: str, as_json: bool) -> None:
    """Why a checkpoint is gone, kept, or was never there."""
    story = story_of(run)
    answer = why_of(story, refs.resolve(story, ref))
    if as_json:
        emit(answer.plain(ref))
    else:
        click.echo(clean(answer.head))
        rows = [(f"  {line.what}", line.says, f"seq {line.seq}") for line in answer.lines]
        click.echo("\n".join(table(rows)))
    end(story, FINE if answer.fine else FINDINGS)


@cli.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@as_json
def simulate(file: Path, as_json: bool) -> None:
    """Run a scenario file through the real engine over a simulated cluster and disk.

    Exit 0 when all that its `expect` names holds, 1 with the difference otherwise, 2 on
    an error that the file does not expect.
    """
    from jumar.tools.harness.command import judge

    verdict = judge(file.read_text(encoding="utf-8", errors="replace"))
    if as_json:
        emit(verdict.plain())
    elif verdict.error is not None:
        click.echo(told_error(verdict.error), err=verdict.exit != FINE)
    else:
        click.echo("\n".join(table([(k, json.dumps(v)) for k, v in verdict.final.items()])))
        for key, (wish, found) in verdict.differs.items():
            click.echo(
                f"differs: {key} was expected {json.dumps(wish)}, is {json.dumps(found)}"
            )
    raise click.exceptions.Exit(verdict.exit)


@cli.command()
@click.argument("directory", type=click.Path(path_type=Path), default=None, required=False)
def demo(directory: Path | None) -> None:
    """A real training on two processes: a bad batch, a kill, a restart, and the answers.

    Needs the extra `demo` (torch, scikit-learn).  DIRECTORY is where the run goes; a new
    temporary one if left out.
    """
    from jumar.tools.demo.story import run_demo

    try:
        code = run_demo(directory)
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"the demo needs {error.name}; install it with pip install 'jumar[demo]'"
        ) from error
    raise click.exceptions.Exit(code)


if __name__ == "__main__":
    main()
