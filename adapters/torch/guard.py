"""
The gradient guard: is anything non-finite, since which step, at no cost to the host.

One call a step after `backward()`.  The global L2 norm is overflow-safe: the fast norm
first and, when that is not finite, a scaled one.  On CPU tensors one scalar read a step
chooses between the two; on an accelerator everything stays on the device (norms
accumulate in float64, float64 gradients are scaled by their largest element), and the
flags come to the host in the one transfer of `read`.

Source of norm and clip coefficient: `torch.nn.utils.clip_grad_norm_`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import torch
from torch import Tensor
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

from jumar.reducers.ballot import Reading

EPSILON: Final = 1e-6
"""Added to the norm, as `clip_grad_norm_` does."""

SMALL: Final = 1e-3
"""A coefficient below it is applied as two factors: float16 cannot hold it."""


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
            has none), on the gradients' device.  Gradients are never altered when it is
            not finite.
        """
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
        first = self._first_bad.get(component, -1)
        if isinstance(bad, bool):
            if bad and isinstance(first, int) and first < 0:
                self._first_bad[component] = self.done
            return
        held = torch.as_tensor(first, device=bad.device)
        self._first_bad[component] = torch.where((held < 0) & bad, self.done, held)

    # --- the boundary ---

    def read(self) -> list[Reading]:
        """The one device-to-host transfer of a boundary; clears nothing."""
        names = sorted(self._fed)
        on_device = [n for n in names if isinstance(self._first_bad.get(n), Tensor)]
        values: dict[str, int] = {
            n: first for n, first in self._first_bad.items() if isinstance(first, int)
        }
        if on_device:
            held = [torch.as_tensor(self._first_bad[n]) for n in on_device]
            stacked = torch.stack([one.to(held[0].device) for one in held])
            values.update(zip(on_device, stacked.tolist(), strict=True))
        return [
            Reading(name=n, fed=self._fed[n], first_bad=int(values.get(n, -1)))
            for n in names
        ]

    def clear(self) -> None:
        """The verdict over these steps was agreed on: begin a new interval."""
        self._fed, self._first_bad = {}, {}


def diagnose(
    named: Iterable[tuple[str, Tensor]], *, limit: int = 20
) -> list[tuple[str, tuple[int, ...]]]:
    """
    (name, shape) of parameters whose current gradient holds a non-finite element.

    Local reads only; called after an agreed verdict, on every rank or on none.
    """
    found: list[tuple[str, tuple[int, ...]]] = []
    for name, parameter in named:
        grad = parameter.grad
        if grad is not None and not bool(torch.isfinite(_values(grad)).all()):
            found.append((name, tuple(parameter.shape)))
        if len(found) == limit:
            break
    return found


def _values(grad: Tensor) -> Tensor:
    """The elements that count: a sparse gradient's summed values, without autograd."""
    if grad.layout == torch.sparse_coo:
        if not grad.is_coalesced():
            merged = grad.coalesce()
            grad.data = merged  # equal elements in one place, so that they can be clipped
        values: Tensor = grad._values()
        return values
    return grad


Groups = list[list[Tensor]]
"""Non-empty gradients by device and dtype, as foreach kernels want them."""


def grouped(grads: Sequence[Tensor]) -> Groups:
    """Group the elements that count; a sparse gradient gives its summed values."""
    full = [values for grad in grads if (values := _values(grad)).numel()]
    if not full:
        return []
    by_kind = _group_tensors_by_device_and_dtype([full])  # type: ignore[list-item]
    return [[g for g in lists[0] if g is not None] for lists, _ in by_kind.values()]


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def _total(norms: Sequence[Tensor]) -> Tensor:
    """The norm of norms (1-dim tensors), on the first one's device."""
    if not norms:
        return torch.zeros((), dtype=torch.float64)
    device = norms[0].device
    wide = [norm.to(device=device, dtype=_widest(device)) for norm in norms]
    norm: Tensor = torch.linalg.vector_norm(torch.cat(wide))
    return norm


def fast_norm(groups: Groups, *, wide: bool) -> Tensor:
    """
    Global L2 norm, 0-dim.

    Args:
        wide: accumulate in float64, so that no narrower dtype overflows; float64 itself
            is scaled.  Otherwise the result may be infinite for large finite gradients.
    """
    norms: list[Tensor] = []
    for group in groups:
        if not wide:
            norms.append(torch.stack(torch._foreach_norm(group, 2)))
        elif group[0].dtype == torch.float64:
            norms.append(scaled_norm([group]).reshape(1))
        else:
            wider = _widest(group[0].device)
            norms.append(torch.stack(torch._foreach_norm(group, 2, dtype=wider)))
    return _total(norms)


def scaled_norm(groups: Groups) -> Tensor:
    """
    Global L2 norm that overflows only when the norm itself does; no host read.

    Every element is divided by the largest magnitude first.  A NaN gives NaN, an infinite
    element gives infinity (not NaN, as infinity over infinity would).
    """
    peaks = [torch.stack(torch._foreach_norm(g, math.inf)).max() for g in groups]
    if not peaks:
        return torch.zeros((), dtype=torch.float64)
    device = peaks[0].device
    dtype = _widest(device)
    peak = torch.stack([one.to(device=device, dtype=dtype) for one in peaks]).max()
    usable = torch.isfinite(peak) & (peak > 0)
    scale = torch.where(usable, peak, torch.ones_like(peak))
    norms = [
        torch.linalg.vector_norm(grad.to(dtype) / scale.to(grad.device)).to(device)
        for group in groups
        for grad in group
    ]
    norm = torch.linalg.vector_norm(torch.stack(norms)) * scale
    return torch.where(torch.isfinite(peak), norm, peak)


def clip_(groups: Groups, norm: Tensor, max_norm: float) -> None:
    """Scale in place to `max_norm` when the norm is above it and finite; no host read."""
    coefficient = (max_norm / (norm + EPSILON)).clamp(max=1.0)
    coefficient = torch.where(torch.isfinite(norm), coefficient, torch.ones_like(norm))
    root = torch.where(coefficient < SMALL, coefficient.sqrt(), coefficient)
    rest = torch.where(coefficient < SMALL, root, torch.ones_like(root))
    for group in groups:
        half = group[0].dtype == torch.float16
        for factor in (root, rest) if half else (coefficient,):
            # float32 as the gradients mostly are: a 0-dim float64 operand costs more
            narrow = factor if group[0].dtype == torch.float64 else factor.float()
            torch._foreach_mul_(group, narrow.to(group[0].device))
