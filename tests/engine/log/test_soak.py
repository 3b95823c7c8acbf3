"""Many steps in the life of logs: a slice here, a million in `make soak`."""

from __future__ import annotations

import os
from collections import Counter

from jumar.tools.harness.log_soak import soak

STEPS = 1_000_000 if os.environ.get("JUMAR_SOAK") else 2_000
SOMETIMES = ("torn tail", "orphan segment", "bytes of a zombie", "zombie", "fork", "sealed",
             "crash inside recovery", "unsure and kept", "failed write", "failed sync",
             "failed sync_dir", "failed create", "failed link")  # fmt: skip


def test_no_acknowledged_record_is_lost_in_many_lives() -> None:
    """And everything was met: drafts have random names, so rare things may need more."""
    seen: Counter[str] = Counter()
    for part in range(6):
        seen += soak(STEPS, seed=1 + part * STEPS)
        if all(seen[name] for name in SOMETIMES):
            return
    assert [name for name in SOMETIMES if not seen[name]] == [], seen
