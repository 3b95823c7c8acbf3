"""
The gradient guard: is anything non-finite, since which step, at no cost to the host.

One call a step after `backward()`.  The global L2 norm is overflow-safe: the fast norm
first and, when that is not finite, a scaled one.  On CPU tensors one scalar read a step
chooses between the two; on an accelerator everything stays on the device (norms
accumulate in float64, float64 gradients are scaled by their largest element), and the
flags come to the host in the one transfer of `read`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor

from jumar.adapters.torch.clip import (
    EPSILON,
    Groups,
    clip_,
    elements,
    fast_norm,
    grouped,
    scaled_norm,
)
from jumar.reducers.ballot import Reading, StepFacts
from jumar.reducers.errors import ProtocolMisuse

NEVER: Final = -1
"""The first bad step of a component that was finite all along."""


class Guard:
    """
    Accumulates, per component, the first bad step since the last agreed verdict.

    Args:
        done: completed steps at the start; the next `watch` is of update `done + 1`.
        host_reads: let CPU tensors be read once a step; False: treat every device as an
            accelerator.
    """

    def __init__(self, done: int = 0, *, host_reads: bool = True) -> None:
        self.done = done
        self._host_reads = host_reads
        self._fed: dict[str, int] = {}
        self._first_bad: dict[str, int | Tensor] = {}

    @torch.no_grad()
    def watch(
        self,
        *,
        parameters: Iterable[Tensor],
        loss: Tensor | None = None,
        max_norm: float | None = None,
    ) -> Tensor:
        """
        Look at the gradients of one update, and clip them when `max_norm` is given.

        Args:
            parameters: whose `.grad` is looked at; those without one are passed over.
            loss: scalar of this rank's batch; under data parallelism only it names the
                rank whose batch was bad.
            max_norm: upper limit of the global L2 norm; None: no clipping.

        Returns:
            the global L2 norm before clipping: 0-dim, float64 (float32 where a device
            has none), on the gradients' device (an accelerator rather than the CPU).
            Gradients are never altered when it is not finite.

        Raises:
            ProtocolMisuse: `parameters` is one tensor, or `max_norm` is negative or NaN.
        """
        _check(parameters, max_norm)
        self.done += 1
        groups = grouped([grad for p in parameters if (grad := p.grad) is not None])
        on_host = self._host_reads and all(g[0].device.type == "cpu" for g in groups)
        norm = fast_norm(groups, wide=not on_host)
        if on_host:
            return self._watch_on_host(groups, norm, loss, max_norm)
        self._note("grad", ~torch.isfinite(norm))
        if loss is not None:
            self._note("loss", ~torch.isfinite(loss.detach()).all())
        if max_norm is not None:
            clip_(groups, norm, max_norm)
        return norm

    def _watch_on_host(
        self, groups: Groups, norm: Tensor, loss: Tensor | None, max_norm: float | None
    ) -> Tensor:
        """One scalar read for both components; clipping needs no tensor arithmetic then."""
        on_host = loss is not None and loss.device.type == "cpu"
        both = [
            norm,
            *([loss.detach().double().sum()] if loss is not None and on_host else []),
        ]
        values = torch.stack(both).tolist()
        if not math.isfinite(values[0]):
            norm = scaled_norm(groups)
            values[0] = norm.item()  # the rescue path: rare, and it may read again
        self._note("grad", not math.isfinite(values[0]))
        if loss is not None:
            bad = not math.isfinite(values[1]) if on_host else ~torch.isfinite(loss).all()
            self._note("loss", bad)
        if max_norm is not None and max_norm < values[0] + EPSILON < math.inf:
            clip_(groups, norm, max_norm)
        return norm

    def _note(self, component: str, bad: bool | Tensor) -> None:
        self._fed[component] = self._fed.get(component, 0) + 1
        first = self._first_bad.get(component, NEVER)
        if isinstance(bad, bool) and isinstance(first, int):
            self._first_bad[component] = self.done if bad and first == NEVER else first
            return
        # A component may change its device from step to step: what was seen goes along,
        # and never from an accelerator to the host.
        at = next(t.device for t in (first, bad) if isinstance(t, Tensor))
        if isinstance(bad, Tensor) and at.type == "cpu":
            at = bad.device
        held = torch.as_tensor(first, device=at)
        now_bad = torch.as_tensor(bad, device=at)
        self._first_bad[component] = torch.where((held == NEVER) & now_bad, self.done, held)

    # --- the boundary ---

    def read(self) -> StepFacts:
        """The one device-to-host transfer of a boundary; clears nothing."""
        on_device = {n: f for n, f in self._first_bad.items() if isinstance(f, Tensor)}
        values = {n: f for n, f in self._first_bad.items() if isinstance(f, int)}
        if on_device:
            held = list(on_device.values())
            stacked = torch.stack([one.to(held[0].device) for one in held])
            values.update(zip(on_device, stacked.tolist(), strict=True))
        readings = tuple(
            Reading(
                name=name,
                fed=self._fed[name],
                first_bad=int(values[name]),
                bad=int(values[name] != NEVER),
                where=(),
            )
            for name in sorted(self._fed)
        )
        return StepFacts(readings=readings, skipped=0, replica="")

    def clear(self) -> None:
        """The verdict over these steps was agreed on: begin a new interval."""
        self._fed, self._first_bad = {}, {}


def _check(parameters: object, max_norm: float | None) -> None:
    if isinstance(parameters, Tensor):
        raise ProtocolMisuse(
            "watch() was given one tensor",
            why="its rows would be taken for parameters, and none of them has a gradient",
            instead="pass [parameter], or model.parameters()",
            value=tuple(parameters.shape),
        )
    if max_norm is not None and not max_norm >= 0:
        raise ProtocolMisuse(
            "watch() cannot clip to this norm",
            why="a norm is never negative, and nothing is below NaN",
            instead="pass a positive max_norm, or None for no clipping",
            value=max_norm,
        )


@torch.no_grad()
def diagnose(
    named: Iterable[tuple[str, Tensor]], *, limit: int = 20
) -> list[tuple[str, float, tuple[int, ...], str]]:
    """
    Which parameters hold a non-finite element in their current gradient.

    Local reads only; called after an agreed verdict, on every rank or on none.

    Returns:
        (name, overflow-safe L2 norm: NaN or infinite, shape, dtype), `limit` at most.
    """
    found: list[tuple[str, float, tuple[int, ...], str]] = []
    for name, parameter in named:
        if len(found) == limit:
            break
        grad = parameter.grad
        if grad is not None and not bool(torch.isfinite(elements(grad)).all()):
            norm = scaled_norm([[elements(grad)]]).item()
            found.append((name, norm, tuple(parameter.shape), str(grad.dtype)))
    return found
