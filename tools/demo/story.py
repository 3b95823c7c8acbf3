"""
The demo: one run in three legs, with a poisoned batch and a kill, and then the questions.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import click

WORLD: Final = 2
LEG_TIMEOUT_S: Final = 120.0
STEPS: Final = 800


@attrs.frozen
class Leg:
    """One launch of the job: what is told, its options, and how each rank must end."""

    told: str
    options: tuple[str, ...]
    ends: tuple[int, ...]


LEGS: Final = (
    Leg(
        "1. train; at step 450 one batch of rank 1 is broken (NaN)",
        ("--poison", "450"),
        (10, 10),
    ),
    Leg(
        "2. restart; rank 0 is killed between write and commit of step 600",
        ("--die-at", "600"),
        (-9, 11),
    ),
    Leg("3. restart; train to the end", (), (0, 0)),
)
QUESTIONS: Final = (("status",), ("why", "200"), ("why", "live@600r0"))


def run_demo(directory: Path | None) -> int:
    """Play the legs, then ask `jumar`; returns the exit code."""
    missing = [
        name for name in ("torch", "sklearn") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise ModuleNotFoundError(f"no module {missing[0]}", name=missing[0])
    run = directory or Path(tempfile.mkdtemp(prefix="jumar-demo-")) / "run"
    click.echo(f"the run directory is {run}")
    for leg in LEGS:
        click.echo(f"\n{leg.told}")
        ends = _play(leg, run)
        if ends != leg.ends:
            click.echo(f"this leg ended with {ends}, not {leg.ends}", err=True)
            return 1
    answered = [_ask(question, run) for question in QUESTIONS]
    return 0 if all(answered) else 1


def _play(leg: Leg, run: Path) -> tuple[int, ...]:
    """Start the ranks, follow them, return their exit codes."""
    with _ranks(leg, run) as ranks:
        others = [threading.Thread(target=_tell, args=(rank,)) for rank in ranks[1:]]
        for thread in others:
            thread.start()
        _follow(ranks[0])
        for thread in others:
            thread.join()
        return tuple(rank.wait(timeout=LEG_TIMEOUT_S) for rank in ranks)


@contextlib.contextmanager
def _ranks(leg: Leg, run: Path) -> Iterator[list[subprocess.Popen[str]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "jumar.tools.demo.train", str(run), *leg.options]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(WORLD)}
    ranks = [
        subprocess.Popen(
            command,
            env={**os.environ, **shared, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if rank == 0 else subprocess.DEVNULL,
            text=True,
        )
        for rank in range(WORLD)
    ]
    deadline = threading.Timer(LEG_TIMEOUT_S, _kill, args=(ranks,))
    deadline.start()
    try:
        yield ranks
    finally:
        deadline.cancel()
        _kill(ranks)


def _kill(ranks: Sequence[subprocess.Popen[str]]) -> None:
    for rank in ranks:
        rank.kill()
        rank.wait()


def _follow(rank: subprocess.Popen[str]) -> None:
    """Rank 0: a bar from its `done` lines on a terminal; everything else is printed."""
    assert rank.stdout is not None
    at, said = 0, []
    quiet = not sys.stderr.isatty()
    with click.progressbar(
        length=STEPS, label="  steps", file=sys.stderr, hidden=quiet
    ) as bar:
        for line in rank.stdout:
            word, _, step = line.strip().partition(" ")
            if word == "done" and step.isdigit():
                bar.update(int(step) - at)
                at = int(step)
            else:
                said.append(line)
    _print(said)


def _tell(rank: subprocess.Popen[str]) -> None:
    assert rank.stdout is not None
    _print(list(rank.stdout))


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        if line.startswith("rank "):
            click.echo(f"  {line.rstrip()}")


def _ask(question: tuple[str, ...], run: Path) -> bool:
    verb, *refs = question
    click.echo(f"\n$ jumar {verb} {' '.join([str(run), *refs])}")
    command = [sys.executable, "-m", "jumar.tools.cli", verb, str(run), *refs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    click.echo(done.stdout, nl=False)
    click.echo(done.stderr, nl=False, err=True)
    return done.returncode == 0
