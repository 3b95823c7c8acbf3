"""The events that the replay bench is made of are those that a run could have written."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

from jumar.reducers.checkpoints import branch
from jumar.reducers.fold import fold
from jumar.reducers.state import State
from jumar.tools.bench.replay import KEPT, make_log, peak_mib, replay, told


def test_the_made_up_run_folds_and_keeps_its_state_small() -> None:
    state, seen = State(), Counter[str]()
    for event in islice(told(), 5000):
        fold(state, event)
        seen[event.type] += 1

    assert len(branch(state)) == KEPT + 1 or len(branch(state)) == KEPT
    assert len(state.metrics) < 60
    assert seen["guard.verdict"] > 3000 and seen["ckpt.committed"] > 90


def test_what_is_made_is_what_is_replayed(tmp_path: Path) -> None:
    make_log(str(tmp_path), 3000)
    history = replay(str(tmp_path))

    assert history.size == 3001  # and the claim
    peak, rate = peak_mib(str(tmp_path))
    assert 0 < peak < 500 and rate > 0
