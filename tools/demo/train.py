"""
The training script of the demo: a small network on handwritten digits, DDP, two ranks.

    python -m jumar.tools.demo.train DIRECTORY [--poison STEP] [--die-at STEP]

It is an ordinary trainer; the two options stand for a broken batch and a power cut.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from jumar import AttemptOver, KeepBest, KeepLast, Policy, SaveRejected, Schedule
from jumar.adapters.torch import TrainingRun

STEPS, SAVE_EVERY, BATCH = 800, 100, 16
POLICY = Policy(keep=[KeepLast(3), KeepBest(2, metric="val/loss", direction="min")])
SCHEDULE = Schedule(steps=STEPS, save_every=SAVE_EVERY, validate_every=SAVE_EVERY)
REJECTED, LOST = 10, 11
"""Exit codes by which the demo's story knows how a leg ended."""


class Batches:
    """This rank's share of the training set, shuffled each epoch; its position is saved."""

    def __init__(self, images: Tensor, labels: Tensor, rank: int, world: int) -> None:
        self.images, self.labels = images[rank::world], labels[rank::world]
        self.epoch, self.at = 0, 0

    def next(self) -> tuple[Tensor, Tensor]:
        """The next batch."""
        if self.at + BATCH > len(self.labels):
            self.epoch, self.at = self.epoch + 1, 0
        order = torch.Generator().manual_seed(self.epoch)
        chosen = torch.randperm(len(self.labels), generator=order)[
            self.at : self.at + BATCH
        ]
        self.at += BATCH
        return self.images[chosen], self.labels[chosen]

    def state_dict(self) -> dict[str, Any]:
        """The position."""
        return {"epoch": self.epoch, "at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.at = state["epoch"], state["at"]


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(train images, train labels, validation images, validation labels)."""
    data = load_digits()
    images = torch.tensor(data.data, dtype=torch.float32) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return images[:1400], labels[:1400], images[1400:], labels[1400:]


def train(directory: str, poison: int, die_at: int) -> None:
    """One leg of the run, from wherever the log says."""
    torch.manual_seed(0)
    images, labels, val_images, val_labels = digits()
    with TrainingRun.open(directory, policy=POLICY, schedule=SCHEDULE, timeout_s=20) as run:
        net = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)
        )
        run.restore(model=net)
        model = DistributedDataParallel(net)
        opt = torch.optim.SGD(model.parameters(), lr=0.4, momentum=0.9)
        run.restore(optimizer=opt)
        decay = torch.optim.lr_scheduler.LambdaLR(
            opt, lambda done: 1 - 0.9 * done / STEPS, last_epoch=run.done - 1
        )
        data = Batches(images, labels, dist.get_rank(), dist.get_world_size())
        run.restore(scheduler=decay, data=data)
        run.run.probe = dying(run, die_at)
        for done in range(run.begin() + 1, STEPS + 1):
            x, y = data.next()
            if done == poison and run.rank == 1:
                x = x * float("nan")  # one broken file on one node
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            run.guard.watch(loss=loss, parameters=model.parameters(), max_norm=1.0)
            opt.step()
            decay.step()
            opt.zero_grad()
            if run.validate_due(done):
                run.report(
                    done, {"val/loss": validate(net, val_images, val_labels)}, data="val"
                )
            if run.due(done):
                run.save(done)
            progress(run.rank, done)
        run.finish(STEPS)


def validate(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Mean cross entropy on the held-out digits."""
    net.eval()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(net(images), labels).item()
    net.train()
    return loss


def dying(run: TrainingRun, die_at: int) -> Any:
    """A probe that kills rank 0 between the write and the commit of one save."""

    def probe(point: str) -> None:
        if point == "commit" and run.guard.done == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return probe


def progress(rank: int, done: int) -> None:
    """One word a step for whoever draws the bar."""
    if rank == 0 and done % 10 == 0:
        print(f"done {done}", flush=True)


def main() -> int:
    """Exit code 0 finished, 10 rejected, 11 a rank was lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--poison", type=int, default=0)
    parser.add_argument("--die-at", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        train(given.directory, given.poison, given.die_at)
    except SaveRejected as error:
        print(f"rank {dist.get_rank()}: {error.what}: {error.why}", flush=True)
        return REJECTED
    except AttemptOver as error:
        print(f"rank {dist.get_rank()}: {error.what}: {error.why}", flush=True)
        return LOST
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a process group with a dead peer cannot be taken down in order
