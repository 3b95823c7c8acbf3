"""The gradient guard: norms that do not overflow, flags that cost no host read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.adapters.torch.guard import Guard, diagnose

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
    return {reading.name: reading.first_bad for reading in guard.read()}


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


@PATHS
def test_the_loss_is_flagged_on_its_own_and_only_the_first_bad_step_counts(
    host_reads: bool,
) -> None:
    guard = Guard(done=100, host_reads=host_reads)
    for loss in (1.0, math.nan, 1.0, math.inf):
        guard.watch(parameters=with_grads(torch.ones(2)), loss=torch.tensor(loss))

    assert flags(guard) == {"grad": -1, "loss": 102}
    assert [reading.fed for reading in guard.read()] == [4, 4]


@PATHS
def test_reading_clears_nothing_and_clearing_begins_anew(host_reads: bool) -> None:
    guard = Guard(host_reads=host_reads)
    guard.watch(parameters=with_grads(torch.tensor([math.nan])))
    assert {"grad": 1} == flags(guard) == flags(guard)
    guard.clear()
    assert guard.read() == []
    guard.watch(parameters=with_grads(torch.tensor([1.0])))
    guard.watch(parameters=with_grads(torch.tensor([math.inf])))

    assert flags(guard) == {"grad": 3}


class HostReads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what brings a value of a tensor to the host."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reads: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        if "_local_scalar_dense" in str(func) or "is_nonzero" in str(func):
            self.reads.append(str(func))
        return func(*args, **(kwargs or {}))


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
    ("host_reads", "bad", "most"), [(False, False, 0), (False, True, 0), (True, False, 0)]
)
def test_host_reads_of_a_step_are_counted(host_reads: bool, bad: bool, most: int) -> None:
    """On CPU the one read is a `tolist` of two values, which no operator carries out."""
    value = math.nan if bad else 1.0
    guard = Guard(host_reads=host_reads)
    parameters = with_grads(torch.full((8,), value), torch.ones(3))
    with HostReads() as mode:
        guard.watch(parameters=parameters, loss=torch.tensor(value), max_norm=1.0)

    assert len(mode.reads) <= most, mode.reads


def test_diagnosis_names_parameter_and_shape() -> None:
    net = nn.Linear(3, 2)
    net.weight.grad, net.bias.grad = torch.full((2, 3), math.nan), torch.ones(2)

    assert diagnose(net.named_parameters()) == [("weight", (2, 3))]
