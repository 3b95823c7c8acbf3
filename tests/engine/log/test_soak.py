"""Many steps in the life of logs: a slice here, a million in `make soak`."""

from __future__ import annotations

import os

from jumar.tools.harness.log_soak import soak

STEPS = 1_000_000 if os.environ.get("JUMAR_SOAK") else 2_000


def test_no_acknowledged_record_is_lost_in_many_lives() -> None:
    seen = soak(STEPS, seed=1)

    for name in ("torn tail", "orphan segment", "bytes of a zombie", "zombie", "fork",
                 "sealed", "crash inside recovery", "unsure and kept", "failed write",
                 "failed sync", "failed sync_dir", "failed create",
                 "failed link"):  # fmt: skip
        assert seen[name], (name, seen)
