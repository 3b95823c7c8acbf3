"""The gradient guard: norms that do not overflow, flags that cost no host read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from jumar.adapters.torch.guard import Guard, diagnose
from jumar.reducers.errors import ProtocolMisuse

PATHS = pytest.mark.parametrize("host_reads", [True, False], ids=["host", "device"])


def with_grads(*grads: Tensor | None) -> list[nn.Parameter]:
    """Parameters with these gradients."""
    made = []
    for grad in grads:
        parameter = nn.Parameter(torch.zeros(grad.shape if grad is not None else (2,)))
        if grad is not None:
            parameter.data = parameter.data.to(grad.dtype)
            parameter.grad = grad
        made.append(parameter)
    return made


def flags(guard: Guard) -> dict[str, int]:
    """Component -> first bad step."""
    return {reading.name: reading.first_bad for reading in guard.read().readings}


@PATHS
@pytest.mark.parametrize("max_norm", [0.5, 1e6, None])
def test_norm_and_clip_agree_with_torch(host_reads: bool, max_norm: float | None) -> None:
    torch.manual_seed(0)
    grads = [torch.randn(7, 5), torch.randn(40), torch.randn(3, 2, 2)]
    ours, theirs = (with_grads(*[g.clone() for g in grads]) for _ in range(2))

    norm = Guard(host_reads=host_reads).watch(parameters=ours, max_norm=max_norm)

    limit = math.inf if max_norm is None else max_norm
    expected = torch.nn.utils.clip_grad_norm_(theirs, limit, foreach=True)
    torch.testing.assert_close(norm.float(), expected)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    assert norm.dim() == 0 and norm.dtype in (torch.float32, torch.float64)


@PATHS
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_gradients_at_the_maximum_of_their_type_are_finite_and_clipped(
    host_reads: bool, dtype: torch.dtype
) -> None:
    top = torch.finfo(dtype).max / 4
    (parameter,) = with_grads(torch.full((4,), top, dtype=dtype))
    guard = Guard(host_reads=host_reads)

    norm = guard.watch(parameters=[parameter], max_norm=1.0)

    assert norm.item() == pytest.approx(2 * float(top), rel=1e-2)
    assert flags(guard) == {"grad": -1}
    assert parameter.grad is not None
    assert parameter.grad.double().norm().item() == pytest.approx(1.0, rel=1e-2)


@PATHS
@pytest.mark.parametrize(
    ("bad", "is_as_expected"),
    [(math.inf, math.isinf), (math.nan, math.isnan)],
    ids=["inf", "nan"],
)
def test_a_non_finite_component_alters_no_gradient(
    host_reads: bool, bad: float, is_as_expected: Callable[[float], bool]
) -> None:
    grads = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, bad])]
    before = [g.clone() for g in grads]
    guard = Guard(done=9, host_reads=host_reads)

    norm = guard.watch(parameters=with_grads(*grads), max_norm=0.1)

    assert is_as_expected(norm.item())
    for grad, same in zip(grads, before, strict=True):
        torch.testing.assert_close(grad, same, equal_nan=True)
    assert flags(guard) == {"grad": 10}


@PATHS
def test_nothing_to_watch_is_a_norm_of_zero(host_reads: bool) -> None:
    for parameters in (
        [],
        with_grads(None, None),
        with_grads(torch.zeros(0), torch.zeros(3)),
        with_grads(torch.zeros(3, dtype=torch.float64)),
    ):
        guard = Guard(host_reads=host_reads)
        assert guard.watch(parameters=parameters, max_norm=1.0).item() == 0.0
        assert flags(guard) == {"grad": -1}


@PATHS
def test_a_sparse_gradient_counts_and_is_clipped(host_reads: bool) -> None:
    """The same row twice: its elements add up before they are squared."""
    embedding = nn.Embedding(5, 2, sparse=True)
    embedding(torch.tensor([1, 1, 3])).sum().backward()
    guard = Guard(host_reads=host_reads)

    norm = guard.watch(parameters=embedding.parameters(), max_norm=1.0)

    assert norm.item() == pytest.approx(math.sqrt(4 + 4 + 1 + 1), rel=1e-5)
    assert embedding.weight.grad is not None
    clipped = embedding.weight.grad.to_dense()
    assert clipped.norm().item() == pytest.approx(1.0, rel=1e-4)


@PATHS
def test_mixed_types_have_one_norm(host_reads: bool) -> None:
    grads = [torch.ones(4, dtype=d) for d in (torch.float16, torch.float32, torch.float64)]

    norm = Guard(host_reads=host_reads).watch(parameters=with_grads(*grads))

    assert norm.item() == pytest.approx(math.sqrt(12), rel=1e-4)


def test_norms_of_two_devices_never_meet_on_the_host() -> None:
    elsewhere = nn.Parameter(torch.ones(2, device="meta"))
    elsewhere.grad = torch.ones(2, device="meta")
    parameters = [elsewhere, *with_grads(torch.ones(2))]

    assert Guard().watch(parameters=parameters).device.type == "meta"


@PATHS
def test_the_loss_is_flagged_on_its_own_and_only_the_first_bad_step_counts(
    host_reads: bool,
) -> None:
    guard = Guard(done=100, host_reads=host_reads)
    for loss in (1.0, math.nan, 1.0, math.inf):
        guard.watch(parameters=with_grads(torch.ones(2)), loss=torch.tensor(loss))

    assert flags(guard) == {"grad": -1, "loss": 102}
    assert [reading.fed for reading in guard.read().readings] == [4, 4]


@PATHS
def test_reading_clears_nothing_and_clearing_begins_anew(host_reads: bool) -> None:
    guard = Guard(host_reads=host_reads)
    guard.watch(parameters=with_grads(torch.tensor([math.nan])))
    assert {"grad": 1} == flags(guard) == flags(guard)
    guard.clear()
    assert guard.read().readings == ()
    guard.watch(parameters=with_grads(torch.tensor([1.0])))
    guard.watch(parameters=with_grads(torch.tensor([math.inf])))

    assert flags(guard) == {"grad": 3}


@pytest.mark.parametrize("order", [(True, False), (False, True)])
@pytest.mark.parametrize("bad", [1, 2])
def test_a_component_may_change_its_device_between_steps(
    order: tuple[bool, bool], bad: int
) -> None:
    """A flag that is held as a tensor and one that is held on the host are one flag."""
    guard = Guard()
    for step, host_reads in enumerate(order, start=1):
        guard._host_reads = host_reads
        value = math.nan if step == bad else 1.0
        guard.watch(parameters=with_grads(torch.tensor([value])))

    assert flags(guard) == {"grad": bad}


@PATHS
def test_complex_gradients_count_with_both_their_parts(host_reads: bool) -> None:
    (parameter,) = with_grads(torch.full((2,), 3 + 4j))

    norm = Guard(host_reads=host_reads).watch(parameters=[parameter], max_norm=1.0)

    assert norm.item() == pytest.approx(math.sqrt(50))
    assert parameter.grad is not None
    assert parameter.grad.abs().square().sum().item() == pytest.approx(1.0, rel=1e-4)


def test_one_tensor_is_not_taken_for_a_list_of_parameters() -> None:
    (parameter,) = with_grads(torch.full((3,), math.nan))

    with pytest.raises(ProtocolMisuse, match="one tensor"):
        Guard().watch(parameters=parameter)


@pytest.mark.parametrize("max_norm", [math.nan, -1.0])
def test_a_limit_that_is_none_is_refused_before_anything_is_scaled(max_norm: float) -> None:
    (parameter,) = with_grads(torch.ones(3))

    with pytest.raises(ProtocolMisuse, match="clip"):
        Guard().watch(parameters=[parameter], max_norm=max_norm)
    assert parameter.grad is not None and parameter.grad.sum().item() == 3.0


HOST_READS = {
    *("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__"),
    *("to", "copy_", "nonzero", "equal", "allclose"),
}
"""Methods that may bring a value to the host; `to` and `copy_` count when they go there."""


class HostReads(TorchFunctionMode):
    """Counts calls that bring a value of a tensor to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        moved = name in ("to", "copy_")
        if name in HOST_READS and not (moved and result.device == args[0].device):
            self.reads.append(name)
        return result


def test_the_accelerator_path_reads_nothing_on_the_host() -> None:
    """On a meta device any host read raises, so the whole path is proved at once."""
    parameters = [nn.Parameter(torch.empty(3, 2, device="meta")) for _ in range(3)]
    for parameter in parameters:
        parameter.grad = torch.empty(3, 2, device="meta")
    guard = Guard()

    for _ in range(3):
        guard.watch(
            parameters=parameters, loss=torch.empty((), device="meta"), max_norm=1.0
        )


def test_a_host_read_on_that_path_would_be_noticed() -> None:
    with pytest.raises(RuntimeError):
        torch.empty((), device="meta").item()


@pytest.mark.parametrize(
    ("host_reads", "bad", "reads"),
    [
        (False, False, []),
        (False, True, []),
        (True, False, ["tolist"]),
        (True, True, ["tolist", "item"]),
    ],
    ids=["device", "device, bad", "host", "host, rescue"],
)
def test_host_reads_of_a_step_are_counted(
    host_reads: bool, bad: bool, reads: list[str]
) -> None:
    """One a step on CPU tensors, for both components; the rescue has its own."""
    value = math.nan if bad else 1.0
    guard = Guard(host_reads=host_reads)
    parameters = with_grads(torch.full((8,), value), torch.ones(3))
    with HostReads() as mode:
        for _ in range(2):
            guard.watch(parameters=parameters, loss=torch.tensor(value), max_norm=1.0)
        assert mode.reads == 2 * reads
        guard.read()

    assert mode.reads == 2 * reads + ([] if host_reads else ["tolist"])


def test_diagnosis_names_parameter_norm_shape_and_type_and_stops_at_its_limit() -> None:
    net = nn.Linear(3, 2)
    net.weight.grad, net.bias.grad = torch.full((2, 3), math.inf), torch.ones(2)
    found = [("weight", math.inf, (2, 3), "torch.float32")]

    assert diagnose(net.named_parameters()) == found
    assert diagnose(net.named_parameters(), limit=0) == []
    net.bias.grad[0] = math.nan
    assert [name for name, *_ in diagnose(net.named_parameters())] == ["weight", "bias"]
