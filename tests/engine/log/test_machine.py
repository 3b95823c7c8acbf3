"""A search over the life of a log, and what it must have met."""

from __future__ import annotations

import os

from jumar.tools.harness.log_machine import SEEN, search

SOAK = bool(os.environ.get("JUMAR_SOAK"))
SOMETIMES = ("torn tail", "bytes of a zombie", "sealed", "crash inside recovery",
             "unsure and kept", "unsure and lost")  # fmt: skip
"""The rest, which chance meets less often, is asked of the longer run in `test_soak.py`."""


def test_the_log_agrees_with_a_plain_list_and_the_search_met_everything() -> None:
    """Goal: no acknowledged record lost.  What the search must have met is counted."""
    SEEN.clear()
    search(4000 if SOAK else 100)
    assert [name for name in SOMETIMES if not SEEN[name]] == [], SEEN
