"""`python -m jumar.tools.bench`: the budgets, each as a ratio or a count, in one run."""

from __future__ import annotations

import sys

import torch

from jumar.tools.bench import boundary, guard, log, replay
from jumar.tools.bench.pairs import Row
from jumar.tools.views.text import table

MEASURES = (guard.cost, guard.host_reads, log.durable, log.queued, boundary.syncs,
            replay.speed, replay.memory)  # fmt: skip


def main() -> int:
    """Print the table; exit 1 when a bar was not met in this run."""
    torch.set_num_threads(1)
    rows: list[Row] = []
    for measure in MEASURES:
        print(f"measuring {measure.__module__}.{measure.__name__}", file=sys.stderr)
        rows.append(measure())
    cells = [[one.what, one.bar, one.seen, "yes" if one.holds else "NO", one.against]
             for one in rows]  # fmt: skip
    print("\n".join(table([["what", "bar", "seen", "holds", "against"], *cells])))
    return 0 if all(one.holds for one in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
