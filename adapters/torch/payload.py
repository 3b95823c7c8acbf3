"""
What a trainer saves: one `torch.save` file, and each further rank's own small one.

`state.pt` (rank 0) holds whole tensors under canonical names; `rank00001.pt` and so on
hold what is different on each rank: random number generators and the data position.
Stored are tensors, numbers, strings and containers of them, so that
`torch.load(weights_only=True)` reads them; anything else is refused by name at the save.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import attrs
import torch
from torch import Tensor, nn

from jumar.engine.payload import PartFile, Plan
from jumar.reducers.errors import JumarError

STATE: Final = "state.pt"
SCALARS: Final = (bool, int, float, str, bytes, type(None))
RECORDS: Final = "jumar"
"""The key of jumar's own records in `state.pt`."""


class NotStorable(JumarError):
    """A value in a state that `torch.load(weights_only=True)` would not read back."""


class Stateful(Protocol):
    """As torch.distributed.checkpoint.stateful.Stateful."""

    def state_dict(self) -> dict[str, Any]:
        """The state."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take a state over."""


def part_of(rank: int) -> str:
    """The file of one rank."""
    return STATE if rank == 0 else f"rank{rank:05d}.pt"


@attrs.define
class TrainerPayload:
    """
    The parts that were registered by `restore`, as a `Payload` of the engine.

    Attributes:
        parts: name -> object with `state_dict`; `model` is unwrapped when it is saved.
    """

    rank: int
    parts: dict[str, Any] = attrs.field(factory=dict)

    def declare(self, family: str) -> Mapping[str, int]:
        """This rank's one file."""
        return {part_of(self.rank): 1}

    def stage(self, plan: Plan, open_part: Callable[[str], PartFile]) -> None:
        """Collect and write; `torch.save` streams into the file as it goes."""
        state: dict[str, Any] = {"rng": rng_state()}
        if "data" in self.parts:
            state["data"] = storable(self.parts["data"].state_dict(), "data")
        if self.rank == 0:
            state |= {
                name: storable(self._state_of(name), name)
                for name in self.parts
                if name != "data"
            }
            state[RECORDS] = dict(plan.records)
        torch.save(state, open_part(part_of(self.rank)))  # type: ignore[arg-type]

    def _state_of(self, name: str) -> Mapping[str, Any]:
        part = self.parts[name]
        part = unwrapped(part) if isinstance(part, nn.Module) else part
        state: Mapping[str, Any] = part.state_dict()
        return state


def unwrapped(module: nn.Module) -> nn.Module:
    """The module itself, without DDP or torch.compile around it: keys are canonical."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(module, nn.parallel.DistributedDataParallel):
            inner = module.module
        if inner is None:
            return module
        module = inner


def storable(value: Any, path: str) -> Any:
    """
    A copy that holds tensors on the CPU, numbers, strings and containers only.

    Raises:
        NotStorable: anything else, named by its path, e.g. `optimizer.state.0.hook`.
    """
    if isinstance(value, Tensor):
        return _whole(value)
    if isinstance(value, Mapping):
        return {_key(k, path): storable(v, f"{path}.{k}") for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(storable(v, f"{path}.{i}") for i, v in enumerate(value))
    if type(value) in SCALARS:
        return value
    if hasattr(value, "item") and not hasattr(value, "state_dict"):
        return storable(value.item(), path)  # a numpy number
    raise NotStorable(
        f"{path} cannot be stored",
        why=f"a {type(value).__name__} is not read back by torch.load(weights_only=True)",
        instead="keep tensors, numbers, strings and containers of them in a state_dict",
        value=path,
    )


def _key(key: Any, path: str) -> Any:
    if type(key) in (int, str, bool):
        return key
    return storable(key, f"{path} (a key)")


def _whole(tensor: Tensor) -> Tensor:
    """Its own elements, on the CPU; a view does not drag its whole storage along."""
    held = tensor.detach().cpu()
    if held.layout == torch.strided and not held.is_contiguous():
        return held.contiguous()
    if held.layout == torch.strided and _is_part(held):
        return held.clone()
    return held


def _is_part(tensor: Tensor) -> bool:
    return tensor.untyped_storage().nbytes() > tensor.nbytes


# --- random numbers --------------------------------------------------------------------


def rng_state() -> dict[str, Any]:
    """This rank's generators: python, numpy when it is loaded, torch, and CUDA if used."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        state["numpy"] = [str(name), torch.from_numpy(keys.astype("int64")), *rest]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state: Mapping[str, Any]) -> None:
    """The inverse of `rng_state`; generators that this process does not have are passed."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    torch.set_rng_state(state["torch"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        name, keys, *rest = state["numpy"]
        numpy.random.set_state((name, keys.numpy().astype("uint32"), *rest))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])
