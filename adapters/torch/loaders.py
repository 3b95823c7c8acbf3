"""
How each part takes its stored state over, and refuses one that is not its own.

Learning rates: every parameter group remembers the rate that it was configured with.
While that is unchanged the stored rates stand, so a restart goes on bit for bit.  When it
was changed for the restart, `initial_lr` becomes the new one and the rate is what the
schedule says for its position from there, where a schedule can say so.

Source: `torch.optim.lr_scheduler` (`initial_lr`, `base_lrs`, `_last_lr`, closed forms).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from jumar.adapters.torch.payload import canonical
from jumar.engine.errors import RestoreError

CONFIGURED: Final = "configured_lr"
"""The key in a parameter group for the rate that its optimizer was built with."""

SCHEDULED: Final = ("momentum", "betas")
"""What some schedulers set beside `lr`, already when they are built."""

States = Mapping[str, Any]
"""By component: the live parts, or what the checkpoint holds of them."""


def register_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Note what each group was configured with; a scheduler may stand on it already."""
    for group in optimizer.param_groups:
        group[CONFIGURED] = float(group.get("initial_lr", group["lr"]))


def load_model(parts: States, stored: States) -> str:
    """
    Copy whole tensors in.

    Raises:
        RestoreError: other names or shapes; nothing was copied then.
    """
    module, state = parts["model"], stored["model"]
    held, name_of = module.state_dict(), canonical(module)
    names = {name: name_of(name) for name in held}
    have = set(names.values())
    if have != set(state):
        raise _not_the_same(
            f"missing in the checkpoint: {sorted(have - set(state))[:5]}; "
            f"not in the model: {sorted(set(state) - have)[:5]}",
            len(have ^ set(state)),
        )
    shapes = {
        names[name]: (_shape(state[names[name]]), _shape(held[name])) for name in held
    }
    told = [
        f"{n}: {then} then, {now} now" for n, (then, now) in shapes.items() if then != now
    ]
    if told:
        raise _not_the_same("; ".join(told[:5]), len(told))
    taken = OrderedDict((name, state[canon]) for name, canon in names.items())
    versions = getattr(state, "_metadata", {})
    paths = [path for path in getattr(held, "_metadata", {}) if name_of(path) in versions]
    taken._metadata = {path: versions[name_of(path)] for path in paths}  # type: ignore[attr-defined]
    module.load_state_dict(taken)
    return f"{len(state)} tensors"


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, Tensor) else None


def _not_the_same(why: str, value: object) -> RestoreError:
    return RestoreError(
        "the model is not the one that was saved",
        why=why,
        instead="build the same model, or begin with restart='fresh'",
        value=value,
    )


def load_optimizer(parts: States, stored: States) -> str:
    """
    Take state and rates over; see the head of this file for what `initial_lr` becomes.

    Raises:
        RestoreError: other parameter groups than those that were saved.
    """
    optimizer, state = parts["optimizer"], stored["optimizer"]
    register_optimizer(optimizer)
    now = [group[CONFIGURED] for group in optimizer.param_groups]
    cells = [group["lr"] for group in optimizer.param_groups]
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    then = [len(group["params"]) for group in state["param_groups"]]
    if sizes != then:
        raise RestoreError(
            "the optimizer is not the one that was saved",
            why=f"its groups have {sizes} parameters, those of the checkpoint {then}",
            instead="build it over the same parameters, or leave it out: "
            "begin(skip=('optimizer',))",
            value=sizes,
        )
    optimizer.load_state_dict(_owned(state))
    for group, configured, cell in zip(optimizer.param_groups, now, cells, strict=True):
        if group.get(CONFIGURED, configured) != configured:
            group["initial_lr"] = configured
        group.setdefault("initial_lr", configured)
        group[CONFIGURED] = configured
        rate, group["lr"] = group["lr"], cell
        set_rate(group, rate)
    return f"{len(now)} groups"


def _owned(value: Any) -> Any:
    """
    A copy of each tensor: the file is mapped, and an optimizer keeps what it is given.

    Without it a pruned or damaged checkpoint would reach into the running training.
    """
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return type(value)({key: _owned(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return type(value)(_owned(inner) for inner in value)
    return value


def load_scheduler(parts: States, stored: States) -> str:
    """
    Take the position over; the rate becomes schedule(position).

    Raises:
        RestoreError: it was built for another position, or it cannot say what its rate
            would have been under the newly configured one.
    """
    scheduler, state = parts["scheduler"], stored["scheduler"]
    _check_position(getattr(scheduler, "last_epoch", 0), state.get("last_epoch", 0))
    optimizer = parts.get("optimizer", getattr(scheduler, "optimizer", None))
    groups = optimizer.param_groups if optimizer is not None else []
    then = stored.get("optimizer", {}).get("param_groups", [])
    kept = then if len(then) == len(groups) else groups
    base = [float(group.get("initial_lr", group["lr"])) for group in groups]
    scheduler.load_state_dict(_owned(state))
    rates = _rates(scheduler, state, base, [float(group["lr"]) for group in kept])
    if hasattr(scheduler, "base_lrs"):
        scheduler.base_lrs = base
    if isinstance(scheduler, LRScheduler):
        scheduler._last_lr = [*rates]
    for group, old, rate in zip(groups, kept, rates, strict=True):
        group |= {key: old[key] for key in SCHEDULED if key in old and key in group}
        set_rate(group, rate)
    return f"learning rate {', '.join(f'{rate:g}' for rate in rates)}"


def _check_position(built: int, stored: int) -> None:
    if built > 0 and built != stored:
        raise RestoreError(
            "the scheduler was built for another position",
            why=f"it stands at {built} and the checkpoint at {stored}",
            instead="build it with last_epoch=run.done - 1 when it steps once an update, "
            "or without last_epoch: the stored position is taken over",
            value=built,
        )


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set a group's learning rate; a tensor stays the one that a captured step reads."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _rates(
    scheduler: Any, state: Mapping[str, Any], base: list[float], kept: list[float]
) -> list[float]:
    """schedule(position) of each group from these base rates; `kept`: as it was stored."""
    if type(scheduler) is LambdaLR:  # depends on base and position alone
        pairs = zip(base, scheduler.lr_lambdas, strict=True)
        return [float(rate * factor(scheduler.last_epoch)) for rate, factor in pairs]
    then = _base_of(state)
    if then is None or then == base:
        return kept
    if hasattr(scheduler, "_get_closed_form_lr"):
        scheduler.base_lrs = base
        return [float(rate) for rate in scheduler._get_closed_form_lr()]
    raise RestoreError(
        "the learning rate was changed and this scheduler cannot follow",
        why=f"a {type(scheduler).__name__} does not say what its rate would be now "
        f"if it had begun at {base} instead of {then}",
        instead="configure the old rate, or leave it out: begin(skip=('scheduler',))",
        value=base,
    )


def _base_of(state: Mapping[str, Any]) -> list[float] | None:
    """The base rates; a SequentialLR or ChainedScheduler has those of its first one."""
    if "base_lrs" in state:
        return [float(rate) for rate in state["base_lrs"]]
    inner = state.get("_schedulers")
    return _base_of(inner[0]) if inner else None


def load_data(parts: States, stored: States) -> str:
    """Go on at the stored position."""
    parts["data"].load_state_dict(_owned(stored["data"]))
    return "position"


LOADERS: Final[Mapping[str, Callable[[States, States], str]]] = {
    "model": load_model,
    "optimizer": load_optimizer,
    "scheduler": load_scheduler,
    "data": load_data,
}
"""Each is given all parts that are there so far, and all states of the checkpoint."""
