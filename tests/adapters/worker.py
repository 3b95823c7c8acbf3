"""
One rank of the two-process tests: plays named cases and prints what each came to.

    python worker.py DIRECTORY CASE [CASE ...]      (RANK, WORLD_SIZE, MASTER_* as usual)
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from jumar import JumarError, KeepLast, Policy, Schedule
from jumar.adapters.torch import TrainingRun
from jumar.adapters.torch.exchange import of_job

POLICY = Policy(keep=[KeepLast(2)])
SKIP = Policy(keep=[KeepLast(2)], on_reject="skip")
RANK = int(os.environ["RANK"])


class Position:
    """A data position whose saving can be made to fail on one rank."""

    def __init__(self) -> None:
        self.fails_with = 0

    def state_dict(self) -> dict[str, Any]:
        """Rank and nothing else."""
        if self.fails_with:
            raise OSError(self.fails_with, os.strerror(self.fails_with))
        return {"rank": RANK}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Each rank gets its own back."""
        assert state["rank"] == RANK, state


class Trainer:
    """A tiny DDP training over a run."""

    def __init__(self, directory: Path, policy: Policy = POLICY, **options: Any) -> None:
        torch.manual_seed(0)
        self.run = TrainingRun.open(
            directory, policy=policy, schedule=Schedule(steps=100, save_every=10),
            timeout_s=3.0, **options,
        )  # fmt: skip
        net = nn.Linear(4, 1)
        self.run.restore(model=net)
        self.model = DistributedDataParallel(net)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.data = Position()
        self.run.restore(optimizer=self.opt, data=self.data)
        self.done = self.run.begin()

    def to(self, done: int, *, bad_at: int = 0, bad_rank: int = 1) -> None:
        """Train up to and including an update."""
        while self.done < done:
            self.done += 1
            x = torch.ones(2, 4)
            if self.done == bad_at and bad_rank == RANK:
                x = x * float("inf")
            loss = self.model(x).square().mean()
            loss.backward()
            self.run.guard.watch(
                loss=loss, parameters=self.model.parameters(), max_norm=1.0
            )
            self.opt.step()
            self.opt.zero_grad()

    def save(self, done: int) -> dict[str, Any]:
        """The outcome as plain values."""
        outcome = self.run.save(done)
        return {
            "status": outcome.status,
            "ckpt_id": outcome.ckpt_id,
            "reason": outcome.reason,
        }


def caught(call: Callable[[], Any]) -> dict[str, Any]:
    """The result of a call, or its error as plain values, and how long it took."""
    begun = time.monotonic()
    try:
        value = call()
    except JumarError as error:
        value = {"error": type(error).__name__, "text": str(error)}
    return {"value": value, "took_s": time.monotonic() - begun}


def commit(where: Path) -> Any:
    """Two saves and a clean end."""
    trainer = Trainer(where)
    trainer.to(10)
    first = trainer.save(10)
    trainer.to(20)
    outcome = trainer.run.finish(20)
    return [first, outcome.status, trainer.run.run.source is None]


def restart(where: Path) -> Any:
    """A clean stop, and a second attempt."""
    trainer = Trainer(where)
    trainer.to(10)
    trainer.save(10)
    before = {k: v.clone() for k, v in trainer.model.module.state_dict().items()}
    trainer.run.close()
    again = Trainer(where)
    same = all(
        torch.equal(v, before[k]) for k, v in again.model.module.state_dict().items()
    )
    again.run.close()
    return [again.done, same]


def poisoned(where: Path) -> Any:
    """A batch of rank 1 alone is bad; the caller swallows it and saves again."""
    trainer = Trainer(where, SKIP)
    trainer.to(10)
    trainer.save(10)
    trainer.to(20, bad_at=15)
    refused = [trainer.save(20), trainer.save(21)]
    trainer.run.close()
    again = Trainer(where, SKIP)
    again.to(20)
    cured = again.save(20)
    again.run.close()
    return [*refused, again.run.done, cured]


def other_step(where: Path) -> Any:
    """Rank 1 saves at another step than rank 0; then both save at one."""
    trainer = Trainer(where)
    trainer.to(10)
    told = caught(lambda: trainer.save(10 + RANK))
    fine = trainer.save(10)
    trainer.run.close()
    return [told["value"], fine]


def write_fails(where: Path) -> Any:
    """A full disk on one rank, then on the other; training goes on."""
    trainer = Trainer(where)
    trainer.to(10)
    trainer.save(10)
    results = []
    for step, rank in ((20, 1), (30, 0)):
        trainer.to(step)
        trainer.data.fails_with = errno.ENOSPC if rank == RANK else 0
        results.append(trainer.save(step))
    trainer.data.fails_with = 0
    trainer.to(40)
    results.append(trainer.save(40))
    trainer.run.close()
    return results


def busy(where: Path) -> Any:
    """A second open of a run that is being written."""
    trainer = Trainer(where)
    told = caught(lambda: Trainer(where))
    trainer.to(10)
    fine = trainer.save(10)
    trainer.run.close()
    return [told["value"], fine]


def no_log(where: Path) -> Any:
    """A directory of somebody else's checkpoints."""
    if RANK == 0:
        where.mkdir()
        (where / "checkpoint-500").mkdir()
    dist.barrier()
    return caught(lambda: Trainer(where))["value"]


def damaged(where: Path) -> Any:
    """One flipped byte in the middle of the log."""
    trainer = Trainer(where)
    trainer.to(10)
    trainer.save(10)
    trainer.run.close()
    if RANK == 0:
        segment = min((where / ".jumar/seg").iterdir())
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 0xFF
        segment.write_bytes(data)
    dist.barrier()
    told = caught(lambda: Trainer(where))["value"]
    kept = sorted(p.name for p in (where / "live").iterdir())
    return [told, kept]


def other_policy(where: Path) -> Any:
    """The ranks were started with different arguments."""
    policy = POLICY if RANK == 0 else SKIP
    return caught(lambda: Trainer(where, policy))["value"]


def one_rank_only(where: Path) -> Any:
    """`save` is called on rank 0 alone; rank 1 waits outside."""
    trainer = Trainer(where)
    trainer.to(10)
    trainer.save(10)
    result = caught(lambda: trainer.save(11)) if RANK == 0 else None
    dist.barrier()
    return result


def killed(where: Path) -> Any:
    """Rank 1 dies in the middle of writing; rank 0 must not wait for ever."""
    trainer = Trainer(where)
    trainer.to(10)
    trainer.save(10)

    def die(point: str) -> None:
        if point == "write" and RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    trainer.run.run.probe = die
    return caught(lambda: trainer.save(20))


CASES: dict[str, Callable[[Path], Any]] = {
    case.__name__: case
    for case in (
        *(commit, restart, poisoned, other_step, write_fails, busy, no_log, damaged),
        *(other_policy, one_rank_only, killed),
    )
}


def main() -> None:
    """Play the cases in order, one line of JSON each."""
    torch.set_num_threads(1)
    if RANK == 0:
        of_job(1.0)  # what one process opened before it joined the job must not matter
    dist.init_process_group("gloo")
    for name in sys.argv[2:]:
        result = CASES[name](Path(sys.argv[1]) / name)
        print(json.dumps({"case": name, "result": result}), flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # a group with a dead peer cannot be taken down in order
