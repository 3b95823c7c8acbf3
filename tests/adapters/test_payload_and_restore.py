"""What is stored is whole, plain and complete, and is restored in the one right order."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from jumar import KeepLast, Policy, RestoreError, SaveRejected, Schedule
from jumar.adapters.torch import TrainingRun
from jumar.adapters.torch.payload import TrainerPayload, canonical, model_state
from jumar.adapters.torch.plain import NotStorable, storable
from jumar.adapters.torch.restore import Restorer
from jumar.adapters.torch.rng import rng_state, set_rng_state
from jumar.reducers.errors import ProtocolMisuse

POLICY = Policy(keep=[KeepLast(2)])
SCHEDULE = Schedule(steps=40, save_every=5)


class Loader:
    """A data source whose order depends on its position and on the global generator."""

    def __init__(self) -> None:
        self.at = 0

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch."""
        self.at += 1
        x = torch.randn(4, 3) + self.at
        return x, x.sum(1, keepdim=True)

    def state_dict(self) -> dict[str, Any]:
        """The position."""
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on."""
        self.at = state["at"]


def factor(done: int) -> float:
    """A schedule with a different value at each step."""
    return 1 / (1 + done)


def leg(directory: Path, until: int, *, lr: float = 0.1, finish: bool = False) -> Any:
    """Train from wherever the log says to `until`; returns what there is to compare."""
    torch.manual_seed(7)
    with TrainingRun.open(directory, policy=POLICY, schedule=SCHEDULE) as run:
        net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        run.restore(model=net)
        opt = torch.optim.AdamW(net.parameters(), lr=lr)
        run.restore(optimizer=opt)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, factor, last_epoch=run.done - 1)
        data = Loader()
        run.restore(scheduler=sched, data=data)
        lrs = []
        for done in range(run.begin() + 1, until + 1):
            x, y = data.next()
            loss = (net(x) - y).square().mean()
            loss.backward()
            run.guard.watch(parameters=net.parameters(), loss=loss, max_norm=1.0)
            lrs.append(opt.param_groups[0]["lr"])
            opt.step()
            sched.step()
            opt.zero_grad()
            if run.due(done):
                run.save(done)
        if finish:
            run.finish(until)
        return {k: v.clone() for k, v in net.state_dict().items()}, lrs, run.done


@pytest.mark.parametrize("cuts", [(5,), (10, 20), (5, 10, 15, 20, 25)])
def test_a_run_cut_into_legs_equals_the_uncut_run_bitwise(
    tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    whole, lrs, _ = leg(tmp_path / "whole", 30)
    pieces: list[float] = []
    for until in (*cuts, 30):
        weights, piece, start = leg(tmp_path / "cut", until)
        assert len(pieces) == start
        pieces += piece

    assert lrs == pieces
    for name, tensor in whole.items():
        assert torch.equal(tensor, weights[name]), name


def test_the_learning_rate_equals_the_schedule_even_when_the_stored_base_is_stale(
    tmp_path: Path,
) -> None:
    leg(tmp_path, 10, lr=0.1)
    _, lrs, start = leg(tmp_path, 12, lr=0.5)

    assert start == 10
    assert lrs == pytest.approx([0.5 * factor(10), 0.5 * factor(11)], rel=1e-12)


def test_what_is_stored_is_read_by_a_loader_that_executes_nothing(tmp_path: Path) -> None:
    leg(tmp_path, 5)
    state = torch.load(tmp_path / "live/5/state.pt", weights_only=True)

    assert {"model", "optimizer", "scheduler", "data", "rng", "jumar"} == set(state)
    assert state["jumar"]["ckpt_id"] == "live@5r0"


def opened(directory: Path) -> TrainingRun:
    """A restart of a run that was left at step 5."""
    return TrainingRun.open(directory, policy=POLICY, schedule=SCHEDULE)


def test_a_component_out_of_order_or_twice_is_refused(tmp_path: Path) -> None:
    leg(tmp_path, 5)
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
    opt = torch.optim.AdamW(net.parameters())
    with opened(tmp_path) as run:
        run.restore(model=net, optimizer=opt)
        with pytest.raises(RestoreError, match="optimizer was restored already"):
            run.restore(model=net)
        with pytest.raises(RestoreError, match="optimizer was restored already"):
            run.restore(optimizer=opt)


def test_a_forgotten_component_is_named_and_can_be_left_out_on_purpose(
    tmp_path: Path,
) -> None:
    leg(tmp_path, 5)
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
    with opened(tmp_path) as run:
        run.restore(model=net)
        with pytest.raises(RestoreError, match="optimizer, scheduler, data"):
            run.begin()
        assert run.begin(skip=("optimizer", "scheduler", "data")) == 5


def test_another_model_is_refused_by_its_names(tmp_path: Path) -> None:
    leg(tmp_path, 5)
    with opened(tmp_path) as run, pytest.raises(RestoreError, match=r"0\.bias"):
        run.restore(model=nn.Linear(3, 1))


def test_another_shape_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    leg(tmp_path, 5)
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 2))
    weight = net.get_parameter("0.weight")
    before = weight.detach().clone()
    with opened(tmp_path) as run, pytest.raises(RestoreError, match=r"2\.weight: \(1, 8\)"):
        run.restore(model=net)
    assert torch.equal(weight, before)


def test_what_failed_to_restore_may_be_given_again(tmp_path: Path) -> None:
    leg(tmp_path, 5)
    with opened(tmp_path) as run:
        with pytest.raises(RestoreError, match=r"0\.bias"):
            run.restore(model=nn.Linear(3, 1))
        run.restore(model=nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1)))
        assert run.begin(skip=("optimizer", "scheduler", "data")) == 5


def test_nothing_is_restored_after_begin(tmp_path: Path) -> None:
    with TrainingRun.open(tmp_path, policy=POLICY) as run:
        run.begin()
        with pytest.raises(RestoreError, match="rng was restored already"):
            run.restore(model=nn.Linear(1, 1))


def test_restored_state_does_not_live_in_the_checkpoint_s_file(tmp_path: Path) -> None:
    """Overwrite the file after the restart: the moments of the optimizer stay."""
    leg(tmp_path, 5)
    with opened(tmp_path) as run:
        net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        run.restore(model=net)
        opt = torch.optim.AdamW(net.parameters(), lr=0.1)
        run.restore(optimizer=opt)
        held = [state["exp_avg"] for state in opt.state.values()]
        before = [tensor.clone() for tensor in held]
        path = tmp_path / "live/5/state.pt"
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))

        assert any(tensor.any() for tensor in before)
        assert all(torch.equal(a, b) for a, b in zip(held, before, strict=True))


def test_a_part_that_was_never_stored_is_named(tmp_path: Path) -> None:
    with TrainingRun.open(tmp_path, policy=POLICY) as run:
        run.restore(model=nn.Linear(1, 1))
        run.begin()
        run.save(1)
    with TrainingRun.open(tmp_path, policy=POLICY) as run:
        net = nn.Linear(1, 1)
        run.restore(model=net)
        with pytest.raises(RestoreError, match="holds no optimizer"):
            run.restore(optimizer=torch.optim.SGD(net.parameters(), lr=1.0))


def test_saving_before_begin_is_refused(tmp_path: Path) -> None:
    with TrainingRun.open(tmp_path, policy=POLICY) as run, pytest.raises(ProtocolMisuse):
        run.save(1)


def test_a_rejected_save_raises_and_the_restart_begins_before_it(tmp_path: Path) -> None:
    leg(tmp_path, 5)
    with opened(tmp_path) as run:
        net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        run.restore(model=net)
        run.begin(skip=("optimizer", "scheduler", "data"))
        run.guard.watch(parameters=net.parameters(), loss=torch.tensor(float("nan")))
        with pytest.raises(
            SaveRejected, match="loss not finite on rank 0, first at step 6"
        ):
            run.save(6)
        with pytest.raises(SaveRejected, match="2 in a row"):
            run.save(7)
    with opened(tmp_path) as run:
        assert run.done == 5


class Odd:
    """Something that no safe loader reads back."""


class Sub(torch.Tensor):
    """As a DTensor or a quantized one: it stands for more than its elements."""


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": Odd()}]}, r"x\.a\.1\.b"),
        ({"f": len}, r"x\.f"),
        ({"s": {1, 2}}, r"x\.s"),
        ({"array": np.ones(2)}, r"x\.array"),
        ({"one": np.ones(1)}, r"x\.one"),
        ({"long": np.longdouble(1)}, r"x\.long"),
        ({"meta": torch.ones(1, device="meta")}, r"x\.meta"),
        ({"sub": Sub(torch.ones(1))}, r"x\.sub"),
        ({Odd(): 1}, r"x \(a key\)"),
    ],
)
def test_what_cannot_be_read_back_is_refused_by_its_path(value: Any, path: str) -> None:
    with pytest.raises(NotStorable, match=path):
        storable(value, "x")


def test_numbers_of_numpy_become_plain() -> None:
    kept = storable([np.float64(0.5), np.int32(3), np.bool_(True), np.str_("a")], "x")

    assert [type(value) for value in kept] == [float, int, bool, str]


def test_a_view_does_not_drag_its_storage_and_strides_are_kept() -> None:
    """A fused optimizer needs its state laid out as the parameter is."""
    big = torch.zeros(1000)
    last = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    kept = storable({"view": big[:3], "turned": torch.ones(2, 3).T, "last": last}, "x")

    assert kept["view"].untyped_storage().nbytes() == 12
    assert kept["turned"].stride() == (1, 3)
    assert kept["last"].stride() == last.stride() and torch.equal(kept["last"], last)


def test_what_is_tied_is_stored_once(tmp_path: Path) -> None:
    one, two = nn.Linear(64, 64), nn.Linear(64, 64)
    net = nn.Sequential(one, two)
    two.weight = one.weight
    torch.save(storable(model_state(net), "model"), tmp_path / "tied")
    two.weight = nn.Parameter(one.weight.detach().clone())
    torch.save(storable(model_state(net), "model"), tmp_path / "apart")

    sizes = [(tmp_path / name).stat().st_size for name in ("tied", "apart")]
    assert sizes[1] - sizes[0] > 64 * 64 * 4 - 1024


def test_a_safe_loader_gives_back_the_bits_and_the_versions(tmp_path: Path) -> None:
    state = model_state(nn.BatchNorm1d(3))
    odd = {
        "half": torch.randn(5).to(torch.bfloat16),
        "nan": torch.tensor([float("nan"), -0.0]),
        "mask": torch.tensor([True, False]),
        "counted": Counter({3: 2}),
        "words": [b"\x00\xff", "é", None, 2**80, float("inf"), (1, 2.5)],
    }
    torch.save(
        {"model": storable(state, "model"), "odd": storable(odd, "odd")}, tmp_path / "s"
    )
    back = torch.load(tmp_path / "s", weights_only=True)

    assert back["model"]._metadata[""]["version"] == 2
    for name in ("half", "nan", "mask"):
        assert back["odd"][name].dtype == odd[name].dtype  # type: ignore[attr-defined]
        assert bits(back["odd"][name]) == bits(odd[name])
    assert back["odd"]["words"] == odd["words"]
    assert (
        back["odd"]["counted"] == odd["counted"] and type(back["odd"]["counted"]) is Counter
    )


def bits(tensor: Any) -> bytes:
    """The bytes of a tensor's elements."""
    return bytes(tensor.contiguous().view(torch.uint8).tolist())


def test_an_unstorable_state_aborts_the_save_and_names_itself(tmp_path: Path) -> None:
    class Bad(Loader):
        def state_dict(self) -> dict[str, Any]:
            return {"hook": Odd()}

    with TrainingRun.open(tmp_path, policy=POLICY) as run:
        run.restore(model=nn.Linear(1, 1), data=Bad())
        run.begin()
        outcome = run.save(1)

    assert outcome.status == "aborted" and "data.hook" in outcome.reason
    assert not (tmp_path / "live/1").exists()


def layers() -> nn.Sequential:
    """A layer that is called `module`, as the ones in a wrapper are."""
    net = nn.Sequential()
    net.add_module("module", nn.Linear(2, 2))
    net.add_module("norm", nn.BatchNorm1d(2))
    return net


def wrapped_whole(net: nn.Sequential) -> nn.Module:
    compiled = torch.compile(net)
    assert isinstance(compiled, nn.Module)
    return nn.DataParallel(compiled)


def wrapped_layer(net: nn.Sequential) -> nn.Module:
    compiled = torch.compile(net.get_submodule("norm"))
    assert isinstance(compiled, nn.Module)
    net.add_module("norm", compiled)
    return net


@pytest.mark.parametrize("wrap", [wrapped_whole, wrapped_layer])
def test_wrapped_models_have_canonical_names(wrap: Any) -> None:
    plain, wrapped = layers(), wrap(layers())
    name_of = canonical(wrapped)

    assert set(wrapped.state_dict()) != set(plain.state_dict())
    assert [name_of(name) for name in wrapped.state_dict()] == list(plain.state_dict())
    assert model_state(wrapped)._metadata.items() >= model_state(plain)._metadata.items()  # type: ignore[attr-defined]


class Upgrading(nn.Linear):
    """A layer that looks at the version which a state was written by."""

    _version = 3
    seen: Any = None

    def _load_from_state_dict(self, state: Any, prefix: str, meta: Any, *rest: Any) -> None:
        self.seen = meta.get("version")
        super()._load_from_state_dict(state, prefix, meta, *rest)


def test_a_layer_is_told_the_version_that_its_state_was_written_by() -> None:
    written = model_state(nn.Sequential(Upgrading(1, 1)))
    layer = Upgrading(1, 1)
    wrapped = wrapped_whole(nn.Sequential(layer))
    Restorer(TrainerPayload(0), {"model": written}, fresh=False).restore({"model": wrapped})

    assert layer.seen == 3


@pytest.mark.parametrize("wrap", [wrapped_whole, wrapped_layer])
@pytest.mark.parametrize("there", [True, False], ids=["saved wrapped", "restored wrapped"])
def test_a_wrapped_model_and_a_plain_one_restore_each_other(wrap: Any, there: bool) -> None:
    torch.manual_seed(1)
    source, target = (wrap(layers()) if w == there else layers() for w in (True, False))
    restorer = Restorer(TrainerPayload(0), {"model": model_state(source)}, fresh=False)
    restorer.restore({"model": target})

    pairs = zip(source.parameters(), target.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_random_numbers_go_on_where_they_were() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    state = storable(rng_state(), "rng")
    first = (
        random.random(),
        float(np.random.rand()),
        torch.rand(1).item(),
        random.gauss(0, 1),
    )
    set_rng_state(state)

    again = (
        random.random(),
        float(np.random.rand()),
        torch.rand(1).item(),
        random.gauss(0, 1),
    )
    assert first == again
