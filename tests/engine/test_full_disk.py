"""A full disk ends the attempt with words, and takes nothing that was committed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import attrs
import pytest

from jumar.engine.errors import LogFailed
from jumar.engine.log import reserve
from jumar.reducers import events as ev
from jumar.reducers.checkpoints import branch
from jumar.tools.harness.cluster import Exchange
from jumar.tools.harness.life import ROOT, STEPS, WORLD, Life, boundary, check
from jumar.tools.harness.tamper import files_of
from jumar.tools.harness.world import sim_writer
from jumar.tools.views.story import Story
from jumar.tools.views.verify import verify

LOG = f"{ROOT}/.jumar"
RESERVE = reserve.path_of(LOG)


def full(life: Life, code: int = errno.ENOSPC) -> Callable[[str, str], None]:
    """No byte and no name more, until somebody deletes the reserve."""

    def refusing(name: str, path: str) -> None:
        hook, life.disk.before = life.disk.before, None
        held = life.disk.stat(RESERVE) is not None
        life.disk.before = hook
        if held and name in ("write", "create", "mkdir", "link", "symlink"):
            raise OSError(code, os.strerror(code), path)

    return refusing


def saved(life: Life, done: int) -> list[BaseException | None]:
    calls = {r: (lambda run=run: boundary(run, done)) for r, run in life.runs.items()}
    ended = Exchange(calls, WORLD).run()
    return [ended[rank].value.error for rank in range(WORLD)]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_run_failed_and_the_next_open_goes_on(code: int) -> None:
    life = Life()
    life.open()
    for done in STEPS[:2]:
        life.save(done)
    life.disk.before = full(life, code)

    assert all(isinstance(error, LogFailed) for error in saved(life, STEPS[2]))

    life.disk.before = None
    story = Story.read(life.disk, ROOT)
    failed = [event for _, event in story.of(ev.RunFailed)]
    assert [os.strerror(code) in str(event) for event in failed] == [True]
    assert not verify(story).open and not verify(story).problems
    assert life.disk.stat(RESERVE) is None, "it was spent"
    life.runs = {}
    life.open()
    check(life)
    assert {100, 200} == {ckpt.done for ckpt in branch(life.runs[0].current())}
    assert life.disk.stat(RESERVE) is not None, "and set aside again"
    assert verify(Story.read(life.disk, ROOT)).open


def test_the_last_words_are_said_by_a_process_that_knows_itself_to_be_alive() -> None:
    """Its own dead claim does not hold it off, and the disk took no name before."""
    life = Life()
    with pytest.MonkeyPatch.context() as patch:
        alive = attrs.evolve(sim_writer(), alive=lambda claim: True)
        patch.setattr("jumar.tools.harness.life.sim_writer", lambda: alive)
        life.open()
        life.save(STEPS[0])
        life.disk.before = full(life)
        assert all(isinstance(error, LogFailed) for error in saved(life, STEPS[1]))
        life.disk.before = None
        assert len(Story.read(life.disk, ROOT).of(ev.RunFailed)) == 1
        life.runs = {}
        life.open()
        check(life)


def test_a_disk_without_even_the_reserve_ends_the_attempt_all_the_same() -> None:
    life = Life()
    life.open()
    life.save(STEPS[0])
    life.disk.unlink(RESERVE)

    def refusing(name: str, path: str) -> None:
        if name in ("write", "create", "link"):
            raise OSError(errno.ENOSPC, "planned", path)

    life.disk.before = refusing
    assert all(isinstance(error, LogFailed) for error in saved(life, STEPS[1]))
    life.disk.before = None
    life.runs = {}
    life.open()
    check(life)


def test_a_disk_that_fills_up_at_any_byte_is_a_clean_end_and_a_clean_beginning() -> None:
    """The disk takes so many bytes more: parts, manifest, log or names run out first."""
    ends = set()
    for room in range(0, 4000, 97):
        life = Life()
        life.open()
        for done in STEPS[:2]:
            life.save(done)
        used = sum(map(len, files_of(life.disk, ROOT).values()))
        life.disk.capacity = used + room
        errors = [type(error).__name__ for error in saved(life, STEPS[2])]
        assert len(set(errors)) == 1, errors
        ends.add(errors[0])
        said = Story.read(life.disk, ROOT)
        assert said.trusted, said.problems
        life.disk.capacity = None
        life.runs = {}
        life.open()
        check(life)
    assert ends == {"LogFailed", "NoneType"}


@pytest.mark.parametrize("size", [0, 1, reserve.SIZE - 1])
def test_a_reserve_that_was_cut_short_is_made_anew(size: int) -> None:
    life = Life()
    life.open()
    life.disk.truncate(RESERVE)
    node = life.disk._node(RESERVE)
    del node.data[size:]
    life.runs = {}
    life.open()
    stat = life.disk.stat(RESERVE)
    assert stat is not None and stat.size == reserve.SIZE


def test_a_disk_that_cannot_set_space_aside_still_opens_and_keeps_no_half_of_it() -> None:
    life = Life()

    def refusing(name: str, path: str) -> None:
        if name == "write" and path == RESERVE:
            raise OSError(errno.ENOSPC, "planned", path)

    life.disk.before = refusing
    life.open()
    assert life.save(STEPS[0]) == "committed"
    assert life.disk.stat(RESERVE) is None
