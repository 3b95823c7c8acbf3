"""After a restart the learning rate is the schedule's, whichever way it is built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim import lr_scheduler as lrs

from jumar import RestoreError
from jumar.adapters.torch.payload import TrainerPayload, part_of
from jumar.adapters.torch.restore import Restorer
from jumar.engine.payload import Plan

DONE, MORE = 6, 8
"""On an edge of the steps below: a rate that is computed once too often shows."""

SCHEDULERS: dict[str, Callable[[Optimizer, int], Any]] = {
    "lambda": lambda o, e: lrs.LambdaLR(o, lambda at: 1 / (1 + at), last_epoch=e),
    "multiplicative": lambda o, e: lrs.MultiplicativeLR(o, lambda _: 0.9, last_epoch=e),
    "step": lambda o, e: lrs.StepLR(o, 3, 0.5, last_epoch=e),
    "multistep": lambda o, e: lrs.MultiStepLR(o, [3, 6, 9], 0.5, last_epoch=e),
    "exponential": lambda o, e: lrs.ExponentialLR(o, 0.9, last_epoch=e),
    "constant": lambda o, e: lrs.ConstantLR(o, 0.5, 6, last_epoch=e),
    "linear": lambda o, e: lrs.LinearLR(o, 0.1, 1.0, 10, last_epoch=e),
    "polynomial": lambda o, e: lrs.PolynomialLR(o, 20, 2.0, last_epoch=e),
    "cosine": lambda o, e: lrs.CosineAnnealingLR(o, 20, last_epoch=e),
    "warm restarts": lambda o, e: lrs.CosineAnnealingWarmRestarts(o, 4, 2, last_epoch=e),
    "one cycle": lambda o, e: lrs.OneCycleLR(o, 1.0, 30, last_epoch=e),
    "cyclic": lambda o, e: lrs.CyclicLR(o, 0.2, 1.0, 4, last_epoch=e),
    "sequential": lambda o, e: lrs.SequentialLR(
        o, [lrs.LinearLR(o, 0.1, 1.0, 4), lrs.CosineAnnealingLR(o, 16)], [4], last_epoch=e
    ),
    "chained": lambda o, e: lrs.ChainedScheduler(
        [lrs.ConstantLR(o, 0.5, 4), lrs.ExponentialLR(o, 0.9)]
    ),
    "plateau": lambda o, e: lrs.ReduceLROnPlateau(o, patience=1),
}
CLOSED = ("lambda", "step", "multistep", "exponential", "linear", "polynomial", "cosine")
FROM_THE_START = -1


def sgd(lr: float | torch.Tensor = 0.1) -> Optimizer:
    """An optimizer whose parameter never moves."""
    parameter = nn.Parameter(torch.ones(1))
    parameter.grad = torch.zeros(1)
    return SGD([parameter], lr=lr, momentum=0.9)


def steps(optimizer: Optimizer, scheduler: Any, count: int) -> list[tuple[float, float]]:
    """(learning rate, momentum) after each of these updates."""
    seen = []
    group = optimizer.param_groups[0]
    for _ in range(count):
        optimizer.step()
        plateau = isinstance(scheduler, lrs.ReduceLROnPlateau)
        scheduler.step(*((1.0,) if plateau else ()))
        seen.append((float(group["lr"]), group["momentum"]))
    return seen


def saved(folder: Path, optimizer: Optimizer, make: Callable[[Optimizer, int], Any]) -> Any:
    """A fresh run up to `DONE`, saved; returns its optimizer and scheduler."""
    restorer = Restorer(TrainerPayload(0))
    restorer.restore({"optimizer": optimizer})
    scheduler = make(optimizer, FROM_THE_START)
    restorer.restore({"scheduler": scheduler})
    steps(optimizer, scheduler, DONE)
    plan = Plan(ckpt_id=f"live@{DONE}r0", family="live", done=DONE, records={})
    with (folder / part_of(0)).open("wb") as file:
        restorer.payload.stage(plan, lambda _: file)
    return scheduler


def restarted(
    folder: Path, optimizer: Optimizer, make: Callable[[Optimizer, int], Any], at: int
) -> Any:
    """A restart; returns its scheduler."""
    restorer = Restorer.load(TrainerPayload(0), str(folder), world_then=1)
    restorer.restore({"optimizer": optimizer})
    scheduler = make(optimizer, at)
    restorer.restore({"scheduler": scheduler})
    return scheduler


@pytest.mark.parametrize(
    "at", [DONE - 1, FROM_THE_START], ids=["at done", "from the start"]
)
@pytest.mark.parametrize("kind", SCHEDULERS)
def test_a_restarted_schedule_goes_on_bit_for_bit(
    tmp_path: Path, kind: str, at: int
) -> None:
    make, first, second = SCHEDULERS[kind], sgd(), sgd()
    scheduler = saved(tmp_path, first, make)
    again = restarted(tmp_path, second, make, at)
    group = second.param_groups[0]

    now = (group["lr"], group["momentum"])
    assert now == (first.param_groups[0]["lr"], first.param_groups[0]["momentum"])
    assert steps(second, again, MORE) == steps(first, scheduler, MORE)


@pytest.mark.parametrize(
    "at", [DONE - 1, FROM_THE_START], ids=["at done", "from the start"]
)
@pytest.mark.parametrize("kind", CLOSED)
def test_a_newly_configured_rate_is_followed_from_where_the_schedule_stands(
    tmp_path: Path, kind: str, at: int
) -> None:
    """`initial_lr` of the checkpoint is stale then."""
    make, whole, second = SCHEDULERS[kind], sgd(0.5), sgd(0.5)
    saved(tmp_path, sgd(0.1), make)
    expected = steps(whole, make(whole, FROM_THE_START), DONE + MORE)
    again = restarted(tmp_path, second, make, at)

    rates = [second.param_groups[0]["lr"], *(lr for lr, _ in steps(second, again, MORE))]
    assert rates == pytest.approx([lr for lr, _ in expected[DONE - 1 :]], rel=1e-12)
    assert second.param_groups[0]["initial_lr"] == 0.5


@pytest.mark.parametrize("kind", ["sequential", "warm restarts", "multiplicative"])
def test_a_schedule_that_cannot_follow_a_new_rate_says_so(
    tmp_path: Path, kind: str
) -> None:
    saved(tmp_path, sgd(0.1), SCHEDULERS[kind])

    with pytest.raises(RestoreError, match="does not say what its rate would be"):
        restarted(tmp_path, sgd(0.5), SCHEDULERS[kind], FROM_THE_START)


def test_a_schedule_at_another_position_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, sgd(), SCHEDULERS["cosine"])

    with pytest.raises(
        RestoreError, match=f"stands at {DONE + 1} and the checkpoint at {DONE}"
    ):
        restarted(tmp_path, sgd(), SCHEDULERS["cosine"], DONE)


def test_all_at_once_with_a_scheduler_that_begins_low(tmp_path: Path) -> None:
    """It stands on the optimizer before either is registered: its warm-up is no base."""
    make = SCHEDULERS["linear"]
    first, second = sgd(), sgd()
    scheduler = saved(tmp_path, first, make)
    again = make(second, FROM_THE_START)
    restorer = Restorer.load(TrainerPayload(0), str(tmp_path), world_then=1)
    restorer.restore({"optimizer": second, "scheduler": again})

    assert second.param_groups[0]["lr"] == first.param_groups[0]["lr"]
    assert steps(second, again, MORE) == steps(first, scheduler, MORE)


def test_a_rate_that_is_a_tensor_is_stored_as_a_number_and_stays_that_tensor(
    tmp_path: Path,
) -> None:
    """A compiled or captured step reads the tensor that it was built with."""
    make = SCHEDULERS["exponential"]
    saved(tmp_path, sgd(torch.tensor(0.1)), make)
    stored = torch.load(tmp_path / part_of(0), weights_only=True)
    cell = torch.tensor(0.1)
    restarted(tmp_path, second := sgd(cell), make, DONE - 1)

    assert type(stored["optimizer"]["param_groups"][0]["lr"]) is float
    assert second.param_groups[0]["lr"] is cell
    assert cell.item() == pytest.approx(0.1 * 0.9**DONE, rel=1e-6)


def test_other_parameter_groups_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, sgd(), SCHEDULERS["step"])
    other = AdamW([nn.Parameter(torch.ones(1)) for _ in range(2)])

    with pytest.raises(
        RestoreError, match=r"\[2\] parameters, those of the checkpoint \[1\]"
    ):
        restarted(tmp_path, other, SCHEDULERS["step"], DONE - 1)


class Place:
    """A data position."""

    def __init__(self, at: int) -> None:
        self.at = at

    def state_dict(self) -> dict[str, Any]:
        """Where."""
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go there."""
        self.at = state["at"]


def of_two_ranks(folder: Path, *positions: int | None) -> None:
    """What two ranks stored, with these data positions."""
    plan = Plan(ckpt_id="live@1r0", family="live", done=1, records={})
    for rank, position in enumerate(positions):
        payload = TrainerPayload(rank)
        if position is not None:
            payload.parts["data"] = Place(position)
        with (folder / part_of(rank)).open("wb") as file:
            payload.stage(plan, lambda _, file=file: file)  # type: ignore[misc]


def test_each_rank_gets_its_own_position_and_a_new_one_none(tmp_path: Path) -> None:
    of_two_ranks(tmp_path, 10, 11)
    places = [Place(-1) for _ in range(3)]
    ledgers = []
    for rank, place in enumerate(places):
        restorer = Restorer.load(TrainerPayload(rank), str(tmp_path), world_then=2)
        restorer.restore({"data": place})
        restorer.begin(())
        ledgers.append([(name, action) for name, action, _ in restorer.ledger])

    assert [place.at for place in places] == [10, 11, -1]
    restored, skipped = (
        [("data", action), ("rng", action)] for action in ("restored", "skipped")
    )
    assert ledgers == [restored, restored, skipped]


def test_a_rank_does_not_take_the_position_of_rank_0_for_its_own(tmp_path: Path) -> None:
    of_two_ranks(tmp_path, 10, None)
    restorer = Restorer.load(TrainerPayload(1), str(tmp_path), world_then=2)

    with pytest.raises(RestoreError, match="holds no data"):
        restorer.restore({"data": Place(-1)})


def test_random_numbers_may_be_left_out_on_purpose(tmp_path: Path) -> None:
    of_two_ranks(tmp_path, None, None)
    restorer = Restorer.load(TrainerPayload(0), str(tmp_path), world_then=2)
    torch.manual_seed(5)
    restorer.begin(("rng",))

    assert torch.initial_seed() == 5
    assert restorer.ledger == [("rng", "skipped", "left out on purpose")]
