"""
What a trainer saves: one `torch.save` file, and each further rank's own small one.

`state.pt` (rank 0) holds whole tensors under canonical names; `rank00001.pt` and so on
hold what is different on each rank: random number generators and the data position.
`plain.py` says what can be stored at all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import attrs
import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from jumar.adapters.torch.plain import storable
from jumar.adapters.torch.rng import rng_state
from jumar.engine.payload import Declaration, PartFile, Plan

STATE: Final = "state.pt"
RECORDS: Final = "jumar"
"""The key of jumar's own records in `state.pt`."""


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
        parts: name -> object with `state_dict`; `model` is saved under canonical names.
    """

    rank: int
    parts: dict[str, Any] = attrs.field(factory=dict)

    def declare(self, family: str) -> Declaration:
        """This rank's one file."""
        return Declaration({part_of(self.rank): 1})

    def stage(self, plan: Plan, open_part: Callable[[str], PartFile]) -> None:
        """
        Collect and write; `torch.save` streams into the file as it goes.

        Raises:
            NotStorable: a state holds what `weights_only` would not read back.
        """
        state: dict[str, Any] = {"rng": rng_state()}
        for name in self.parts if self.rank == 0 else self.parts.keys() & {"data"}:
            part = self.parts[name]
            held = _STATES[name](part) if name in _STATES else part.state_dict()
            state[name] = storable(held, name)
        if self.rank == 0:
            state[RECORDS] = dict(plan.records)
        torch.save(state, open_part(part_of(self.rank)))  # type: ignore[arg-type]


def model_state(module: nn.Module) -> dict[str, Any]:
    """Its state_dict under canonical names, with the versions of its modules."""
    held, name_of = module.state_dict(), canonical(module)
    versions = getattr(held, "_metadata", {})
    state = OrderedDict((name_of(key), value) for key, value in held.items())
    state._metadata = {name_of(path): v for path, v in versions.items()}  # type: ignore[attr-defined]
    return state


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Its state_dict; a setting that is a tensor (`lr` of a capturable one) as a number."""
    held = optimizer.state_dict()
    groups = [
        {key: value.item() if _is_number(value) else value for key, value in group.items()}
        for group in held["param_groups"]
    ]
    return held | {"param_groups": groups}


def _is_number(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0


_STATES: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "model": model_state,
    "optimizer": optimizer_state,
}


def canonical(module: nn.Module) -> Callable[[str], str]:
    """
    From a dotted name in this module to the one without DDP or torch.compile around a part.

    Either may be around the whole model or around single layers; what stands inside a
    wrapper is found by looking at the modules, so a layer that is called `module` keeps
    its name.
    """
    wrapped = {
        f"{path}.{attribute}".lstrip(".")
        for path, part in module.named_modules(remove_duplicate=False)
        if (attribute := _inside(part))
    }

    def name_of(name: str) -> str:
        words = name.split(".")
        paths = (".".join(words[: n + 1]) for n in range(len(words)))
        return ".".join(
            w for w, path in zip(words, paths, strict=True) if path not in wrapped
        )

    return name_of if wrapped else str


def _inside(module: nn.Module) -> str | None:
    """Where a wrapper keeps what it is around; None: it is no wrapper."""
    if isinstance(module, DataParallel | DistributedDataParallel):
        return "module"
    return "_orig_mod" if "_orig_mod" in module._modules else None
