"""
Global L2 norms of gradients that do not overflow, and clipping by them; no host reads.

Gradients are grouped by device and dtype once a step, and each group costs one foreach
kernel for the norm and one for the clipping.

Source of norm and clip coefficient: `torch.nn.utils.clip_grad_norm_`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

EPSILON: Final = 1e-6
"""Added to the norm, as `clip_grad_norm_` does."""

SMALL: Final = 1e-3
"""A coefficient below it is applied as two factors: float16 cannot hold it."""

Groups = list[list[Tensor]]
"""Non-empty gradients by device and dtype, as foreach kernels want them."""


def elements(grad: Tensor) -> Tensor:
    """
    The real elements that count, as a view: a sparse gradient's summed values.

    A sparse gradient is coalesced in place, so that what is clipped is what was measured.
    """
    if grad.layout == torch.sparse_coo:
        if not grad.is_coalesced():
            grad.data = grad.coalesce()
        grad = grad._values()
    return torch.view_as_real(grad) if grad.is_complex() else grad


def grouped(grads: Sequence[Tensor]) -> Groups:
    """Group the elements that count; gradients without elements are left out."""
    full = [values for grad in grads if (values := elements(grad)).numel()]
    if not full:
        return []
    by_kind = _group_tensors_by_device_and_dtype([full])  # type: ignore[list-item]
    return [[g for g in lists[0] if g is not None] for lists, _ in by_kind.values()]


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def _meeting(tensors: Sequence[Tensor]) -> torch.device:
    """Where values of several devices meet: never on the host if there is another."""
    devices = [tensor.device for tensor in tensors]
    return next((device for device in devices if device.type != "cpu"), devices[0])


def _total(norms: Sequence[Tensor]) -> Tensor:
    """The norm of norms (1-dim tensors)."""
    if not norms:
        return torch.zeros((), dtype=torch.float64)
    device = _meeting(norms)
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
    Global L2 norm that overflows only when the norm itself does.

    Every element is divided by the largest magnitude first.  A NaN gives NaN, an infinite
    element gives infinity (not NaN, as infinity over infinity would).
    """
    peaks = [torch.stack(torch._foreach_norm(g, math.inf)).max() for g in groups]
    if not peaks:
        return torch.zeros((), dtype=torch.float64)
    device = _meeting(peaks)
    dtype = _widest(device)
    peak = torch.stack([one.to(device=device, dtype=dtype) for one in peaks]).max()
    usable = torch.isfinite(peak) & (peak > 0)
    scale = torch.where(usable, peak, torch.ones_like(peak))
    # one gradient at a time: the rescue must not need a second copy of them all
    norms = [
        torch.linalg.vector_norm(grad.to(dtype) / scale.to(grad.device)).to(device)
        for group in groups
        for grad in group
    ]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms)) * scale
    return norm


def clip_(groups: Groups, norm: Tensor, max_norm: float) -> None:
    """Scale in place to `max_norm` when the norm is above it and finite."""
    coefficient = (max_norm / (norm + EPSILON)).clamp(max=1.0)
    coefficient = torch.where(torch.isfinite(norm), coefficient, torch.ones_like(norm))
    root = torch.where(coefficient < SMALL, coefficient.sqrt(), coefficient)
    rest = torch.where(coefficient < SMALL, root, torch.ones_like(root))
    for group in groups:
        half = group[0].dtype == torch.float16
        for factor in (root, rest) if half else (coefficient,):
            # in the gradients' own type: foreach kernels are fused for that one alone
            torch._foreach_mul_(group, factor.to(group[0]))
