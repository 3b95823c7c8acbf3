"""Rows 1 and 2: the guard's cost a step, and its reads on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.adapters.torch.guard import Guard
from jumar.tools.bench.pairs import Row, ratios, row

LAYERS, WIDTH = 60, 256


def parameters() -> list[nn.Parameter]:
    """120 tensors, 4 M elements, as a small transformer has them; with gradients."""
    torch.manual_seed(0)
    made = [nn.Parameter(torch.zeros(WIDTH, WIDTH)) for _ in range(LAYERS)]
    made += [nn.Parameter(torch.zeros(WIDTH)) for _ in range(LAYERS)]
    for parameter in made:
        parameter.grad = torch.randn_like(parameter)
    return made


def cost() -> Row:
    """Guard and clip against clip_grad_norm_ alone."""
    ours, theirs = parameters(), parameters()
    guard, loss = Guard(), torch.tensor(1.0)
    found = ratios(
        lambda: guard.watch(parameters=ours, loss=loss, max_norm=1.0),
        lambda: nn.utils.clip_grad_norm_(theirs, 1.0, foreach=True),
        repeats=20,
    )
    against = "torch.nn.utils.clip_grad_norm_(foreach=True)"
    return row("guard + clip per step", 1.10, against, found)


class Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operators that bring a value to the host."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += "_local_scalar_dense" in str(func)
        return func(*args, **(kwargs or {}))


def host_reads() -> Row:
    """On a device without data any read raises; on the CPU path none is an operator."""
    on_meta = [nn.Parameter(torch.empty(8, 8, device="meta")) for _ in range(4)]
    for parameter in on_meta:
        parameter.grad = torch.empty(8, 8, device="meta")
    guard = Guard()
    with Reads() as mode:
        for _ in range(100):
            guard.watch(
                parameters=on_meta, loss=torch.empty((), device="meta"), max_norm=1.0
            )
    what = "host reads in 100 steps on a device"
    return Row(what, "0", "counted with a dispatch mode", str(mode.count), mode.count == 0)
