"""
Restoring in the one order that is right, as a table, with a ledger of what was restored.

    model -> optimizer (and initial_lr) -> scheduler -> data -> rng (at `begin`, last)

Whole weights are loaded before the model is distributed; the optimizer's state before a
scheduler is built on it with `last_epoch = done - 1`, so that the learning rate equals
schedule(done); random numbers last, since building a loader or a scheduler may draw some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import torch
from torch import nn

from jumar.adapters.torch.payload import (
    RECORDS,
    TrainerPayload,
    part_of,
    set_rng_state,
    unwrapped,
)
from jumar.engine.errors import RestoreError

ORDER: Final = ("model", "optimizer", "scheduler", "data", "rng")
"""A component is restored before every one that stands behind it."""


@attrs.define
class Restorer:
    """
    One restart's ledger on one rank.

    Attributes:
        stored: component -> its state, of the checkpoint; empty on a fresh start.
        fresh: nothing is restored, parts are only registered.
        ledger: (component, `restored` | `skipped` | `registered`, one line).
    """

    payload: TrainerPayload
    stored: dict[str, Any] = attrs.field(factory=dict)
    fresh: bool = True
    ledger: list[tuple[str, str, str]] = attrs.field(factory=list)
    _given: list[str] = attrs.field(factory=list)

    @classmethod
    def load(cls, payload: TrainerPayload, folder: str | None, world_then: int) -> Restorer:
        """
        Read the checkpoint's files; nothing in them is executed.

        Args:
            folder: of the restart source; None: a fresh start.
            world_then: how many ranks wrote it; a rank beyond them has no file of its own.
        """
        if folder is None:
            return cls(payload)
        stored = _read(f"{folder}/{part_of(0)}")
        stored.pop(RECORDS, None)
        mine = payload.rank
        if 0 < mine < world_then:
            stored |= _read(f"{folder}/{part_of(mine)}")
        elif mine >= world_then:
            stored = {k: v for k, v in stored.items() if k not in ("rng", "data")}
        return cls(payload, stored, fresh=False)

    def restore(self, parts: Mapping[str, Any]) -> None:
        """
        Register these parts, and load their state when there is one.

        Raises:
            RestoreError: out of order, given twice, or the checkpoint has no such part.
        """
        given = [name for name in ORDER if parts.get(name) is not None]
        for name in given:
            self._check(name)
            part = parts[name]
            self.payload.parts[name] = part
            self._given.append(name)
            if self.fresh:
                self.ledger.append((name, "registered", "a fresh start"))
            else:
                self._load(name, part)

    def _check(self, name: str) -> None:
        later = [g for g in self._given if ORDER.index(g) > ORDER.index(name)]
        if name in self._given or later:
            raise RestoreError(
                f"{name} cannot be restored now",
                why=f"{', '.join(later or [name])} was restored already",
                instead=f"keep the order {' -> '.join(ORDER[:-1])}; each once",
                value=name,
            )

    def _load(self, name: str, part: Any) -> None:
        if name not in self.stored:
            if name == "data":  # a rank that did not exist when it was saved
                self.ledger.append((name, "skipped", "this rank has no stored position"))
                return
            raise RestoreError(
                f"the checkpoint holds no {name}",
                why=f"it holds {', '.join(sorted(self.stored)) or 'nothing'}",
                instead="restart from a checkpoint of the family live that was saved with "
                f"restore({name}=...), or leave {name} out",
                value=name,
            )
        detail = _LOADERS[name](part, self.stored[name])
        self.ledger.append((name, "restored", detail))

    def begin(self, skip: tuple[str, ...]) -> None:
        """
        Close the ledger; random numbers last.

        Args:
            skip: stored components that are left out on purpose.

        Raises:
            RestoreError: a stored component that nobody restored.
        """
        left = [n for n in ORDER[:-1] if n in self.stored and n not in self._given]
        forgotten = [name for name in left if name not in skip]
        if forgotten:
            raise RestoreError(
                f"{', '.join(forgotten)} of the checkpoint was not restored",
                why="training would go on with a part of its state missing",
                instead=f"call restore({forgotten[0]}=...) before begin(), or "
                f"begin(skip=({forgotten[0]!r},))",
                value=forgotten,
            )
        self.ledger += [(name, "skipped", "left out on purpose") for name in left]
        if "rng" in self.stored:
            set_rng_state(self.stored["rng"])
            self.ledger.append(("rng", "restored", ", ".join(sorted(self.stored["rng"]))))
        self.stored = {}  # the memory of a second copy of the weights


def _read(path: str) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch raises many kinds; each means: not readable
        raise RestoreError(
            f"{path} cannot be read",
            why=f"{type(error).__name__}: {str(error)[:300]}",
            instead="restart='auto' walks back to the newest checkpoint that verifies",
            value=path,
        ) from error
    if not isinstance(state, dict):
        raise RestoreError(
            f"{path} holds no state",
            why=f"it is a {type(state).__name__}",
            instead="name a checkpoint that jumar wrote",
            value=path,
        )
    return state


def _load_model(module: nn.Module, state: Mapping[str, Any]) -> str:
    inner = unwrapped(module)
    have, stored = set(inner.state_dict()), set(state)
    if have != stored:
        raise RestoreError(
            "the model is not the one that was saved",
            why=f"missing in the checkpoint: {sorted(have - stored)[:5]}; "
            f"not in the model: {sorted(stored - have)[:5]}",
            instead="build the same model, or begin with restart='fresh'",
            value=len(have ^ stored),
        )
    inner.load_state_dict(dict(state))
    return f"{len(stored)} tensors"


def _load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> str:
    """The base learning rate is the configured one, not what an old run left behind."""
    base = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict(dict(state))
    for group, lr in zip(optimizer.param_groups, base, strict=True):
        group["initial_lr"] = lr
    return f"{len(base)} groups"


def _load_scheduler(scheduler: Any, state: Mapping[str, Any]) -> str:
    base = getattr(scheduler, "base_lrs", None)
    now = [group["lr"] for group in scheduler.optimizer.param_groups]
    scheduler.load_state_dict(dict(state))
    if base is not None:
        scheduler.base_lrs = base
    for group, lr in zip(scheduler.optimizer.param_groups, now, strict=True):
        group["lr"] = lr  # as the scheduler was built: schedule(done)
    scheduler._last_lr = now
    return f"last_epoch {scheduler.last_epoch}"


def _load_data(data: Any, state: Mapping[str, Any]) -> str:
    data.load_state_dict(dict(state))
    return "position"


_LOADERS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], str]]] = {
    "model": _load_model,
    "optimizer": _load_optimizer,
    "scheduler": _load_scheduler,
    "data": _load_data,
}
