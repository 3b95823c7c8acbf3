"""`jumar verify`: the command; what it finds comes from `views/verify.py`."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click

from jumar.tools.shared import FINE, UNTRUSTED, as_json, emit, run_argument, story_of
from jumar.tools.views.anchors import outside as outside_heads
from jumar.tools.views.text import table
from jumar.tools.views.verify import verify as verify_of


@click.command()
@run_argument
@click.option(
    "--head", "heads", multiple=True, metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A head kept elsewhere: a copy of .jumar/heads/*.head or of a jumar.json.",
)  # fmt: skip
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64),
              help="Processes that check segments.")  # fmt: skip
@as_json
def verify(run: Path, heads: tuple[Path, ...], jobs: int, as_json: bool) -> None:
    """Check frames, chain, seals, heads and life cycle of a log.

    Records are anchored when a head that somebody else holds covers them (a checkpoint's
    manifest, or FILE), signed only when just a signed head beside the log does, and
    chained only otherwise: whoever can write the directory can rewrite those.
    """
    story = story_of(run)
    outside = outside_heads(heads)
    if jobs == 1:
        said = verify_of(story, outside)
    else:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            said = verify_of(story, outside, pool.map)
    if as_json:
        emit(said.plain())
    else:
        click.echo("\n".join(table(said.rows())))
    raise click.exceptions.Exit(UNTRUSTED if said.problems else FINE)
