"""
The root of all errors that jumar raises at its users, and the ones of the pure core.

An error says what happened, why, what to do instead, and the value that caused it.
"""

from __future__ import annotations


class JumarError(Exception):
    """
    Base of jumar's errors.

    Args:
        what: what was refused or went wrong, one clause.
        why: the reason, one clause.
        instead: what to do instead.
        value: the value that caused it, as it was given.
    """

    def __init__(self, what: str, *, why: str, instead: str, value: object = None) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.instead = instead
        self.value = value

    def __str__(self) -> str:
        return f"{self.what}: {self.why} (value: {self.value!r}); {self.instead}"


class PolicyError(JumarError):
    """A retention policy or schedule that cannot apply or contradicts itself."""


class SchemaError(JumarError):
    """A stored or built event that its declared fields do not allow."""


class ProtocolMisuse(JumarError):
    """A call, or an event, that the tables of legal order do not allow here."""
