"""Errors as messages, so that every rank raises what one of them met."""

from __future__ import annotations

from typing import Any, Final

from jumar.engine import errors
from jumar.reducers.errors import JumarError, PolicyError

_SENT: Final[dict[str, type[JumarError]]] = {
    cls.__name__: cls
    for cls in (
        *(errors.RunBusy, errors.LogDamaged, errors.LogFailed, errors.RestoreError),
        *(errors.RankMismatch, PolicyError),
    )
}


def describe(error: Exception) -> dict[str, Any]:
    """An error as a message, so that every rank raises the same."""
    if isinstance(error, JumarError):
        said = {"what": error.what, "why": error.why, "instead": error.instead}
        plain = type(error.value) in (int, float, str, bool, type(None))
        value = error.value if plain else repr(error.value)
        return {"class": type(error).__name__, **said, "value": value}
    return {
        "class": "AttemptOver",
        "what": "rank 0 could not open the run",
        "why": f"{type(error).__name__}: {error}",
        "instead": "look at rank 0's own output",
        "value": "",
    }


def revive(plain: dict[str, Any]) -> JumarError:
    """The error that `describe` described."""
    cls = _SENT.get(plain["class"], errors.AttemptOver)
    return cls(
        plain["what"], why=plain["why"], instead=plain["instead"], value=plain["value"]
    )
