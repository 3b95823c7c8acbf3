"""
A process that saves until it is killed, and says what was acknowledged.

    python child.py DIRECTORY
"""

from __future__ import annotations

import sys

from jumar import KeepBest, KeepLast, Policy, open_run
from jumar.tools.harness.world import SimPayload

POLICY = Policy(keep=[KeepLast(2), KeepBest(1, metric="loss", direction="min")])


def main() -> None:
    """`began STEP`, then one line per acknowledged save: `acked STEP STATUS`."""
    with open_run(sys.argv[1], policy=POLICY, payload=SimPayload(0)) as run:
        print(f"began {run.done}", flush=True)
        done = run.done
        while done < 10**9:
            done += 10
            outcome = run.save(done, metrics={"loss": float(done * 7919 % 1000)})
            print(f"acked {done} {outcome.status}", flush=True)


if __name__ == "__main__":
    main()
