"""Opening a run: what is refused, on every rank, and what nothing is lost by."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from jumar import JumarError, KeepLast, Policy, RunBusy, open_run
from jumar.engine import effects as fx
from jumar.engine.disk import Disk, Stat
from jumar.engine.errors import LogDamaged, RankMismatch, RestoreError
from jumar.engine.history import History
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.engine.opening import Setup, open_steps
from jumar.engine.real_disk import RealDisk
from jumar.engine.recover import Recovery
from jumar.engine.run import Run
from jumar.reducers import events as ev
from jumar.reducers.checkpoints import at_step
from jumar.tools.harness.cluster import Ended, Exchange, SimCoordinator
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.life import ROOT, STEPS, Life
from jumar.tools.harness.world import SimClock, SimGuard, SimPayload, sim_writer
from jumar.tools.views.story import Story

POLICY = Policy(keep=[KeepLast(3)])
WORLD = 2


def opened(shared: Disk, **changes: Any) -> dict[int, Ended]:
    """How the open ended on each rank; `changes` may hold a list with a value a rank."""
    made = {}
    for rank in range(WORLD):
        own = {k: v[rank] if isinstance(v, list) else v for k, v in changes.items()}
        setup = Setup(
            **{
                "directory": "run",
                "policy": POLICY,
                "payload": SimPayload(rank),
                "guard": SimGuard(since=0),
                "coordinator": SimCoordinator(rank, WORLD),
                "disk": shared,
                "clock": SimClock(),
                "who": sim_writer(),
                "background": False,
                **own,
            }
        )
        made[rank] = partial(open_steps, setup)
    return Exchange(made, WORLD).run()


def saved(disk: SimDisk, *steps: int) -> None:
    """An attempt that saves these steps and is closed."""
    runs = {rank: one.value for rank, one in opened(disk).items()}
    for done in steps:
        calls = {}
        for rank, run in runs.items():
            run.guard.done = done
            request = run.request(done, families=("live",), reason=None, revise=False)
            calls[rank] = partial(run.save_steps, request)
        Exchange(calls, WORLD).run()
    for run in runs.values():
        run.close()


def refusal(ended: dict[int, Ended]) -> JumarError:
    """The one error that every rank raised."""
    errors = [one.error for one in ended.values()]
    assert all(isinstance(error, JumarError) for error in errors), errors
    assert len({(type(error), str(error)) for error in errors}) == 1, errors
    assert isinstance(errors[0], JumarError)
    return errors[0]


def append_raw(disk: SimDisk, name: str) -> None:
    """A record of a type that this version does not know."""
    log = LogWriter.open(disk, "run/.jumar", run_id="", who=sim_writer(), clock=SimClock(),
                         background=False)  # fmt: skip
    log.append(Entry(name, 1, {"x": 1}), durable=True)
    log.close()


def test_an_unknown_critical_type_is_refused_on_every_rank_and_nothing_is_written() -> None:
    disk = SimDisk()
    saved(disk, 10)
    append_raw(disk, "future.decision")
    claims = disk.listdir("run/.jumar/claims")

    error = refusal(opened(disk))

    assert isinstance(error, LogDamaged) and "future.decision" in str(error)
    assert claims == disk.listdir("run/.jumar/claims"), "not even a claim"
    assert disk.listdir("run/live") == ["10", "latest"]


def test_an_unknown_ignorable_type_is_passed_over() -> None:
    disk = SimDisk()
    saved(disk, 10)
    append_raw(disk, "future.remark?")

    assert opened(disk)[1].value.done == 10
    assert len(Story.read(disk, "run").unknown) == 1


def test_a_record_that_does_not_fit_its_type_is_refused() -> None:
    disk = SimDisk()
    saved(disk, 10)
    append_raw(disk, "prune.done")

    assert "cannot be decoded" in str(refusal(opened(disk)))


@pytest.mark.parametrize(
    "name",
    [
        *("checkpoint-500", "iter_0000010", "step_9000", "epoch3", "global_step12", "x.pt"),
        *("m.pth", "e.ckpt", "pytorch_model.bin", "a.safetensors", "__0_0.distcp"),
        *("sub/checkpoint-1", "sub/x.safetensors"),
    ],
)
def test_checkpoints_of_somebody_else_are_never_started_over(name: str) -> None:
    disk = SimDisk()
    folder, _, file = f"run/{name}".rpartition("/")
    disk.foreign_tree(folder, {file: b"precious"})

    error = refusal(opened(disk))

    assert isinstance(error, RestoreError)
    assert name in str(error) and "jumar import" in error.instead
    assert disk.stat("run/.jumar") is None


@pytest.mark.parametrize("name", ["notes.txt", "config.yaml", "wandb/run.log"])
def test_other_files_do_not_keep_a_run_from_starting(name: str) -> None:
    disk = SimDisk()
    folder, _, file = f"run/{name}".rpartition("/")
    disk.foreign_tree(folder, {file: b""})

    assert isinstance(opened(disk)[0].value, Run)


def test_new_refuses_a_directory_that_holds_a_run() -> None:
    disk = SimDisk()
    assert isinstance(opened(disk, restart="new")[0].value, Run)

    assert "holds a run already" in str(refusal(opened(disk, restart="new")))


@pytest.mark.parametrize("restart", ["latest", -1, True, 1.5, None])
def test_a_restart_that_means_nothing_is_refused_before_anything_happens(
    restart: Any,
) -> None:
    with pytest.raises(RestoreError):
        opened(SimDisk(), restart=restart)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"policy": [POLICY, Policy(keep=[KeepLast(9)])]}, "policy"),
        ({"restart": ["auto", "fresh"]}, "restart"),
    ],
)
def test_ranks_with_different_arguments_are_told_so(
    changes: Mapping[str, Any], word: str
) -> None:
    error = refusal(opened(SimDisk(), **changes))

    assert isinstance(error, RankMismatch)
    assert f"rank 1 opened with another {word}" in str(error)


@pytest.mark.parametrize("step", [30, 15])
def test_a_restart_from_what_is_not_there_names_it(step: int) -> None:
    disk = SimDisk()
    saved(disk, 10, 20)

    assert f"no checkpoint of step {step}" in str(refusal(opened(disk, restart=step)))
    assert opened(disk)[0].value.done == 20, "the refused open did no harm"


@attrs.frozen
class Blind:
    """A rank's view of a disk on which one name cannot be seen."""

    disk: SimDisk
    hidden: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk, name)

    def stat(self, path: str) -> Stat | None:
        """Nothing under the hidden name."""
        return None if self.hidden in path else self.disk.stat(path)


def test_all_ranks_walk_back_together_when_one_cannot_read_the_newest() -> None:
    disk = SimDisk()
    saved(disk, 10, 20)
    ended = opened(disk, disk=[disk, Blind(disk, "live/20")])

    assert [one.value.done for one in ended.values()] == [10, 10]
    selected = Story.read(disk, "run").of(ev.RestartSelected)[-1][1]
    assert isinstance(selected, ev.RestartSelected)
    assert "rank 1 cannot read it" in selected.candidates[0].reason


def test_a_run_without_torch_saves_and_goes_on_and_has_one_writer(tmp_path: Path) -> None:
    """The torch-free surface on a real disk."""
    where = str(tmp_path / "run")
    with open_run(where, policy=POLICY, payload=SimPayload(0)) as run:
        assert run.save(5, metrics={"loss": 1.0}).status == "committed"
        with pytest.raises(RunBusy):
            open_run(where, policy=POLICY, payload=SimPayload(0))
        run.finish(7)
    with open_run(where, policy=POLICY, payload=SimPayload(0)) as run:
        assert run.done == 7

    assert Story.read(RealDisk(), where).trusted


def test_what_was_read_before_a_takeover_left_it_behind_is_forgotten() -> None:
    """The log is read before the claim; another writer may put others in their place."""
    life = Life()
    life.open()
    life.save(STEPS[0])
    log = f"{ROOT}/.jumar"
    early = copy.deepcopy(life.disk)
    life.save(STEPS[1])
    history = History()
    history.catch_up(life.disk, log)
    assert at_step(history.state, "live", STEPS[1]) is not None

    other = Life(disk=early)
    other.open()
    other.save(STEPS[2])
    history.catch_up(early, log)
    fresh = History()
    fresh.catch_up(early, log)

    assert history.state.digest() == fresh.state.digest() and history.size == fresh.size
    assert at_step(history.state, "live", STEPS[1]) is None
    size = history.size
    history.catch_up(early, log)
    assert history.size == size and history.last == fresh.last


def test_an_interrupt_in_a_recovery_lets_go_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that the same, living process can open again."""
    alive = attrs.evolve(sim_writer(), alive=lambda claim: True)
    monkeypatch.setattr("jumar.tools.harness.life.sim_writer", lambda: alive)
    life = Life()
    right = Recovery.run

    def interrupted(self: Recovery) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recovery, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        life.open()
    monkeypatch.setattr(Recovery, "run", right)
    life.open()
    assert life.save(STEPS[0]) == "committed"


def test_an_open_that_is_thrown_away_writes_nothing_more() -> None:
    """A crash is simulated by forgetting the steps of a process."""
    life = Life()
    life.open()
    life.save(STEPS[0])
    steps = open_steps(life._setup(0, SimGuard(since=0)))
    hello: Any = next(steps)
    steps.send(fx.Gathered([hello.message] * WORLD))
    wish: Any = steps.send(None)
    assert wish.phase == "read", "the log is open, and rank 0 waits for the others"
    before = life.disk.calls
    steps.close()
    assert before == life.disk.calls
