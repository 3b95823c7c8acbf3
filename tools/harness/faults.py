"""Where a machine stops: at the n-th file-system call of an act."""

from __future__ import annotations

from collections.abc import Callable

from jumar.tools.harness.disk import Crash, SimDisk


def dies_at(disk: SimDisk, at: int, act: Callable[[], object]) -> bool:
    """
    Stop the machine at the `at`-th call of an act; False when the act has fewer.

    What the power then leaves is the caller's to say.
    """
    until = disk.calls + at

    def dying(name: str, path: str) -> None:
        if disk.calls >= until:
            raise Crash

    disk.before = dying
    try:
        act()
    except Crash:
        return True
    finally:
        disk.before = None
    return False
