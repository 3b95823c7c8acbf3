"""
What can be stored: tensors, numbers, strings and containers of them.

`torch.load(weights_only=True)` reads these back and executes nothing.  Anything else is
converted where a plain value says the same, or refused by its path: at the save, not
found at the restart.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from jumar.reducers.errors import JumarError

SCALARS: Final = (bool, int, float, str, bytes, type(None))
KINDS: Final = (OrderedDict, Counter)


class NotStorable(JumarError):
    """A value in a state that `torch.load(weights_only=True)` would not read back."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{path} cannot be stored",
            why=why,
            instead="keep tensors, numbers, strings and containers of them in a state_dict "
            "(torch.from_numpy for an array)",
            value=path,
        )


def storable(value: Any, path: str) -> Any:
    """
    The same state with tensors on the CPU, numbers, strings and containers only.

    Tensors on the CPU are not copied unless they are views of something bigger: write
    before the next update.

    Args:
        path: what the value is called in an error, e.g. `optimizer.state.0.hook`.

    Raises:
        NotStorable: anything else, named by its path.
    """
    if isinstance(value, Tensor):
        return _whole(value, path)
    if isinstance(value, Mapping):
        return _mapping(value, path)
    if type(value) in (list, tuple):
        return type(value)(storable(v, f"{path}.{i}") for i, v in enumerate(value))
    if type(value) in SCALARS:
        return value
    if getattr(value, "shape", None) == () and type(value.item()) in SCALARS:
        return value.item()  # a number of numpy
    kind = type(value).__name__
    raise NotStorable(path, f"torch.load(weights_only=True) does not read back a {kind}")


def _mapping(value: Mapping[Any, Any], path: str) -> dict[Any, Any]:
    """Of its own kind where a safe loader knows it, with a module's versions; else dict."""
    kind: Any = type(value) if type(value) in KINDS else dict
    copied = kind(
        {
            storable(key, f"{path} (a key)"): storable(inner, f"{path}.{key}")
            for key, inner in value.items()
        }
    )
    versions = getattr(value, "_metadata", None)
    if versions is not None and kind is OrderedDict:
        copied._metadata = storable(dict(versions), f"{path}._metadata")
    held: dict[Any, Any] = copied
    return held


def _whole(tensor: Tensor, path: str) -> Tensor:
    """Its own elements, on the CPU; a view does not drag its whole storage along."""
    if tensor.is_meta:
        raise NotStorable(path, "a tensor on the meta device has no elements")
    held = tensor.detach().cpu()
    if type(held) is not Tensor:
        kind = type(held).__name__
        raise NotStorable(
            path, f"a {kind} is not read back as the whole tensor it stands for"
        )
    is_view = held.layout == torch.strided and held.untyped_storage().nbytes() > held.nbytes
    return held.clone() if is_view else held
