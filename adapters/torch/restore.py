"""
Restoring in the one order that is right, as a table, with a ledger of what was restored.

    model -> optimizer (and initial_lr) -> scheduler -> data -> rng (at `begin`, last)

Whole weights are loaded before the model is distributed; the optimizer's state before a
scheduler is built on it with `last_epoch = done - 1`, so that the learning rate equals
schedule(done); random numbers last, since building a loader or a scheduler may draw some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import torch

from jumar.adapters.torch.loaders import LOADERS, register_optimizer
from jumar.adapters.torch.payload import RECORDS, TrainerPayload, part_of
from jumar.adapters.torch.rng import set_rng_state
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
        newcomer: this rank did not exist when the checkpoint was written, so nothing of
            its own (random numbers, data position) is stored.
        ledger: (component, `restored` | `skipped` | `registered`, one line).
    """

    payload: TrainerPayload
    stored: dict[str, Any] = attrs.field(factory=dict)
    fresh: bool = True
    newcomer: bool = False
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
        if mine > 0:  # what is rank 0's own is not this rank's
            stored = {k: v for k, v in stored.items() if k not in ("rng", "data")}
        if 0 < mine < world_then:
            stored |= _read(f"{folder}/{part_of(mine)}")
        return cls(payload, stored, fresh=False, newcomer=mine >= world_then)

    def restore(self, parts: Mapping[str, Any]) -> None:
        """
        Register these parts, and load their state when there is one.

        Raises:
            RestoreError: out of order, given twice, or the checkpoint has no such part.
        """
        take = self._register if self.fresh else self._load
        for name in (name for name in ORDER if parts.get(name) is not None):
            self._check(name)
            action, detail = take(name, {**self.payload.parts, name: parts[name]})
            self.ledger.append((name, action, detail))
            self.payload.parts[name] = parts[name]
            self._given.append(name)

    def _check(self, name: str) -> None:
        later = [g for g in self._given if ORDER.index(g) > ORDER.index(name)]
        if name in self._given or later:
            raise RestoreError(
                f"{name} cannot be restored now",
                why=f"{', '.join(later or [name])} was restored already",
                instead=f"keep the order {' -> '.join(ORDER[:-1])}; each once",
                value=name,
            )

    def _register(self, name: str, known: Mapping[str, Any]) -> tuple[str, str]:
        if name == "optimizer":
            register_optimizer(known[name])
        return "registered", "a fresh start"

    def _load(self, name: str, known: Mapping[str, Any]) -> tuple[str, str]:
        if name in self.stored:
            return "restored", LOADERS[name](known, self.stored)
        if name == "data" and self.newcomer:
            return "skipped", "this rank has no stored position"
        raise RestoreError(
            f"the checkpoint holds no {name}",
            why=f"it holds {', '.join(sorted(self.stored)) or 'nothing'}",
            instead="restart from a checkpoint of the family live that was saved with "
            f"restore({name}=...), or leave {name} out",
            value=name,
        )

    def begin(self, skip: tuple[str, ...]) -> None:
        """
        Close the ledger; random numbers last.

        Args:
            skip: stored components that are left out on purpose, `rng` among them.

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
        if not self.fresh:
            self.ledger.append(("rng", *self._random_numbers(skip)))
        self._given.append("rng")
        self.stored = {}  # the memory of a second copy of the weights

    def _random_numbers(self, skip: tuple[str, ...]) -> tuple[str, str]:
        if "rng" in skip:
            return "skipped", "left out on purpose"
        if "rng" not in self.stored:
            return "skipped", "this rank has no stored generators"
        set_rng_state(self.stored["rng"])
        return "restored", ", ".join(sorted(self.stored["rng"]))


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
