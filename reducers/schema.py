"""
Stored values <-> events: strict, versioned, and never rewriting what is stored.

A stored event is (name, v, payload).  An old version is lifted step by step by the
upcaster table, after its bytes were hashed.  The stored name of an ignorable type ends
in `?`, so that a reader who does not know the type still knows what it may do: show it
and count it, but, for a critical one, derive no state and write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from jumar.reducers.errors import SchemaError
from jumar.reducers.events import TYPES, Event
from jumar.reducers.fields import Plain

IGNORABLE: Final = "?"

_STORED: Final = {
    name + mark: cls for name, cls in TYPES.items() for mark in ("", IGNORABLE)
}
"""Every known type by the names that it may be stored under."""

UPCASTERS: Final[Mapping[tuple[str, int], Callable[[Plain], Plain]]] = {
    ("writer.claimed", 1): lambda plain: {**plain, "fs": ""},
    ("evidence.sealed", 1): lambda plain: {
        "attempt": plain["attempt"],
        "journals": [
            {**{name: plain[name] for name in ("rank", "name", "sha256")}, "size": None}
        ],
    },
    ("guard.verdict", 1): lambda plain: {**plain, "skipped": [], "replicas": []},
    ("restart.component", 1): dict,  # more words for one field
    ("coll.mismatch", 1): dict,
    ("attempt.ended", 1): dict,
}
"""(type, v) -> a pure function from that version's payload to the next one's."""


@attrs.frozen
class Unknown:
    """An event of a type or version that this package does not know."""

    name: str
    v: int
    critical: bool
    payload: Plain


def encode(event: Event) -> tuple[str, int, Plain]:
    """The stored (name, v, payload) of an event."""
    mark = "" if event.critical else IGNORABLE
    return event.type + mark, event.v, event.to_plain()


def decode(name: str, v: int, payload: Any) -> Event | Unknown:
    """
    The event that is stored.

    Raises:
        SchemaError: a known type and version with fields that do not fit it.
    """
    cls = _STORED.get(name)
    if cls is not None and v == cls.v:
        return cls.from_plain(payload)
    bare = name.removesuffix(IGNORABLE)
    if cls is None or v > cls.v:
        return Unknown(bare, v, not name.endswith(IGNORABLE), payload)
    return cls.from_plain(lift(bare, v, cls.v, payload))


def lift(
    name: str,
    v: int,
    to: int,
    payload: Plain,
    table: Mapping[tuple[str, int], Callable[[Plain], Plain]] = UPCASTERS,
) -> Plain:
    """Bring an old payload up to version `to`, one version at a time."""
    while v < to:
        step = table.get((name, v))
        if step is None:
            raise SchemaError(
                f"{name} version {v} cannot be read",
                why="no upcaster leads from it to the next version",
                instead="read the log with the version that wrote it",
                value=(name, v),
            )
        payload, v = step(payload), v + 1
    return payload


def missing_upcasters() -> list[tuple[str, int]]:
    """Every released (type, v) below the current version that has no upcaster."""
    return [
        (name, v)
        for name, cls in TYPES.items()
        for v in range(1, cls.v)
        if (name, v) not in UPCASTERS
    ]
