"""What a script has prepared for the next save: faults, and where each rank meets them."""

from __future__ import annotations

import errno
import os
from typing import Final

import attrs

from jumar.tools.harness.cluster import Killed
from jumar.tools.harness.shapes import Op

NOT_COMING: Final = frozenset({"agree", "outcome"})
"""Phases in which a failing rank does not come to the exchange at all."""


@attrs.define
class Armed:
    """
    Attributes:
        fails: (rank, phase) -> errno name.
        odd: rank -> the step it says instead, None: it does not come.
        crash: the crash operation.
        bad_step: the latest step at which something bad was to happen; -1 for none.
        dead: ranks that died on the way.
    """

    fails: dict[tuple[int, str], str] = attrs.field(factory=dict)
    odd: dict[int, int | None] = attrs.field(factory=dict)
    crash: Op | None = None
    bad_step: int = -1
    dead: set[int] = attrs.field(factory=set)

    @property
    def ends_attempt(self) -> bool:
        """Whether the attempt is over after this save, whatever else it comes to."""
        return self.crash is not None or bool(self.dead)

    def at(self, rank: int, point: str) -> None:
        """The probe of every rank: kill or fail here when the script says so."""
        if rank in self.dead or self._crashes(rank, point):
            self.dead.add(rank)
            raise Killed
        error = self.fails.get((rank, point))
        if error is None:
            return
        if point in NOT_COMING:
            self.dead.add(rank)
            raise Killed
        code = getattr(errno, error)
        raise OSError(code, f"{os.strerror(code)} (planned by the scenario)")

    def _crashes(self, rank: int, point: str) -> bool:
        if self.crash is None or self.crash["phase"] != point:
            return False
        ranks = self.crash.get("ranks", "all")
        return ranks == "all" or rank in ranks
