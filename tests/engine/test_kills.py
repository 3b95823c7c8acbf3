"""
Real processes on a real disk, killed at arbitrary moments.

A kill keeps what the kernel holds, so this proves the order of effects and the reopening,
not durability; `test_crashes.py` does that.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from jumar.engine.real_disk import RealDisk
from jumar.reducers.checkpoints import latest
from jumar.tools.views.story import Story
from jumar.tools.views.verify import verify

CHILD = Path(__file__).with_name("child.py")
KILLS = 150 if os.environ.get("JUMAR_SOAK") else 5


def killed_run(where: Path, lines: int, delay_s: float) -> list[int]:
    """Start the child, kill it a moment after so many lines; what it acknowledged."""
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(where)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(lines)]
    time.sleep(delay_s)  # the moment of the kill, not a wait for anything
    child.kill()
    said += child.stdout.readlines()
    child.wait(timeout=30)
    assert said[0].startswith("began "), said
    return [int(line.split()[1]) for line in said if line.endswith("committed\n")]


def suicide(where: Path, call: int) -> list[int]:
    """Let the child kill itself at a file-system call; what it acknowledged before."""
    child = subprocess.run(
        [sys.executable, str(CHILD), str(where), str(call)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert child.returncode == -signal.SIGKILL, child.stderr
    lines = child.stdout.splitlines()
    return [int(line.split()[1]) for line in lines if line.endswith("committed")]


def whole(where: Path, acked: list[int]) -> None:
    """The latest is never below what was acknowledged, and the log is whole."""
    if not (where / ".jumar/IDENTITY").exists():
        assert not acked
        return
    story = Story.read(RealDisk(), str(where))
    newest = latest(story.state, "live")
    assert not verify(story).problems
    assert (newest.done if newest else 0) >= max(acked, default=0)
    assert newest is None or story.damage(newest, digests=True) is None


def test_a_process_that_is_killed_again_and_again_loses_no_acknowledged_commit(
    tmp_path: Path,
) -> None:
    """At any moment."""
    where, chance, acked = tmp_path / "run", random.Random(11), [0]
    for _ in range(KILLS):
        acked += killed_run(where, chance.randint(1, 12), chance.random() * 0.02)
        whole(where, acked)
    assert acked == sorted(acked), "each start went on above what was acknowledged"
    assert len(set(acked)) == len(acked)


def test_a_process_that_dies_at_any_call_loses_no_acknowledged_commit(
    tmp_path: Path,
) -> None:
    """Just before a file-system call, in the open and in the saves behind it."""
    where, chance, acked = tmp_path / "run", random.Random(7), [0]
    for _ in range(KILLS):
        acked += suicide(
            where, chance.choice((chance.randint(1, 80), chance.randint(80, 900)))
        )
        whole(where, acked)
    assert acked == sorted(acked) and len(set(acked)) == len(acked)
    assert len(acked) > 5
