"""
A process that saves until it is killed, and says what was acknowledged.

    python child.py DIRECTORY [CALL]

With CALL it kills itself just before that many-th file-system call.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import attrs

from jumar import KeepBest, KeepLast, Policy
from jumar.engine.clock import SystemClock
from jumar.engine.coordinator import SingleProcess
from jumar.engine.exchange import drive
from jumar.engine.guard import NoGuard
from jumar.engine.log.claims import this_process
from jumar.engine.opening import Setup, open_steps
from jumar.engine.real_disk import RealDisk
from jumar.tools.harness.world import SimPayload

POLICY = Policy(keep=[KeepLast(2), KeepBest(1, metric="loss", direction="min")])


@attrs.define
class Deadly:
    """A disk, or a file of it, at whose n-th call the process is gone."""

    inner: Any
    left: list[int]

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)

        def counted(*arguments: Any, **rest: Any) -> Any:
            self.left[0] -= 1
            if self.left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            made = call(*arguments, **rest)
            return Deadly(made, self.left) if name == "create" else made

        return counted


def main() -> None:
    """`began STEP`, then one line per acknowledged save: `acked STEP STATUS`."""
    disk: Any = RealDisk()
    if len(sys.argv) > 2:
        disk = Deadly(disk, [int(sys.argv[2])])
    setup = Setup(
        directory=os.path.abspath(sys.argv[1]), policy=POLICY, payload=SimPayload(0),
        guard=NoGuard(), coordinator=SingleProcess(), disk=disk, clock=SystemClock(),
        who=this_process(),
    )  # fmt: skip
    with drive(open_steps(setup), setup.coordinator) as run:
        print(f"began {run.done}", flush=True)
        done = run.done
        while done < 10**9:
            done += 10
            outcome = run.save(done, metrics={"loss": float(done * 7919 % 1000)})
            print(f"acked {done} {outcome.status}", flush=True)


if __name__ == "__main__":
    main()
