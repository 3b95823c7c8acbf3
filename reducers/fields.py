"""
Fields of events: type, unit and range, said once.

A field is declared with one of the functions below (`count`, `text`, ...); `making.py`
turns the declarations of a class into its checks and codecs.

"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import attrs

from jumar.reducers.errors import SchemaError

INT_MAX = 2**63 - 1
TEXT_MAX = 65_536
ITEMS_MAX = 1_000_000
"""Limits on every number, text and list: a log is read by people who did not write it."""

Plain = dict[str, Any]
"""What msgpack gives: dict, list, str, bytes, int, float, bool, None."""


@attrs.frozen
class Spec:
    """
    One field's rule, as source text over a variable `{x}`.

    Attributes:
        good: an expression that is true for an allowed value.
        says: the rule in words, for errors and docs.
        decode: expression from plain to field value; raises if the shape is wrong.
        read: an expression that is true for an allowed value that `decode` gave: what
            decoding made certain is not looked at again.
        encode: expression from field value to plain.
        names: objects that these expressions mention.
    """

    good: str
    says: str
    decode: str = "{x}"
    encode: str = "{x}"
    names: Mapping[str, object] = {}
    read: str | None = None

    @property
    def still(self) -> str:
        """What is left to check of a decoded value."""
        return self.good if self.read is None else self.read


def _field(spec: Spec, default: Any = attrs.NOTHING) -> Any:
    return attrs.field(default=default, kw_only=True, metadata={"spec": spec})


def _int(unit: str, lo: int, hi: int) -> Spec:
    return Spec(f"type({{x}}) is int and {lo} <= {{x}} <= {hi}", f"int, {unit}, {lo}..{hi}")


def _text(unit: str, size_max: int, pattern: str | None) -> Spec:
    good = f"type({{x}}) is str and len({{x}}) <= {size_max}"
    if pattern is None:
        return Spec(good, f"str, {unit}, at most {size_max} characters")
    name = f"_m{abs(hash(pattern))}"
    return Spec(
        f"{good} and {name}({{x}}) is not None",
        f"str, {unit}, matching {pattern}",
        names={name: re.compile(pattern, re.ASCII).fullmatch},
    )


def _optional(spec: Spec) -> Spec:
    return Spec(
        f"({{x}} is None or ({spec.good}))",
        f"{spec.says}, or None",
        f"(None if {{x}} is None else {spec.decode})",
        f"(None if {{x}} is None else {spec.encode})",
        spec.names,
        f"({{x}} is None or ({spec.still}))",
    )


def _items(spec: Spec, size_max: int) -> Spec:
    item = {"good": spec.good.format(x="i"), "decode": spec.decode.format(x="i")}
    plain = spec.decode == "{x}"
    each = f" and all([{item['good']} for i in {{x}}])" if plain else ""
    return Spec(
        f"type({{x}}) is tuple and len({{x}}) <= {size_max}"
        f" and all([{item['good']} for i in {{x}}])",
        f"tuple of at most {size_max} ({spec.says})",
        "tuple({x} if type({x}) is list else _list({x}))"
        if plain
        else f"tuple([{item['decode']} for i in _list({{x}})])",
        "list({x})" if plain else f"[{spec.encode.format(x='i')} for i in {{x}}]",
        {**spec.names, "_list": _list},
        f"len({{x}}) <= {size_max}{each}",
    )


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise SchemaError(
            "a list was expected",
            why=f"{type(value).__name__} is stored here",
            instead="read the log with the version that wrote it",
            value=value,
        )
    return value


def count(
    unit: str, *, lo: int = 0, hi: int = INT_MAX, default: Any = attrs.NOTHING
) -> Any:
    """An int in `lo..hi`."""
    return _field(_int(unit, lo, hi), default)


def maybe_count(unit: str, *, lo: int = 0, hi: int = INT_MAX) -> Any:
    """An int in `lo..hi`, or None."""
    return _field(_optional(_int(unit, lo, hi)))


def counts(unit: str, *, lo: int = 0, hi: int = INT_MAX) -> Any:
    """A tuple of ints, each in `lo..hi`."""
    return _field(_items(_int(unit, lo, hi), ITEMS_MAX))


def _real(unit: str) -> Spec:
    good = "type({x}) is float and _finite({x})"
    return Spec(good, f"finite float, {unit}", names={"_finite": math.isfinite})


def real(unit: str) -> Any:
    """A finite float."""
    return _field(_real(unit))


def maybe_real(unit: str) -> Any:
    """A finite float, or None."""
    return _field(_optional(_real(unit)))


def flag(unit: str) -> Any:
    """True or False."""
    return _field(Spec("type({x}) is bool", f"bool, {unit}"))


def flags(unit: str) -> Any:
    """A tuple of bools."""
    return _field(_items(Spec("type({x}) is bool", f"bool, {unit}"), ITEMS_MAX))


def text(unit: str, *, size_max: int = TEXT_MAX, pattern: str | None = None) -> Any:
    """A text of at most `size_max` characters, wholly matching `pattern`."""
    return _field(_text(unit, size_max, pattern))


def maybe_text(unit: str, *, size_max: int = TEXT_MAX, pattern: str | None = None) -> Any:
    """As `text`, or None."""
    return _field(_optional(_text(unit, size_max, pattern)))


def texts(unit: str, *, size_max: int = TEXT_MAX, pattern: str | None = None) -> Any:
    """A tuple of texts."""
    return _field(_items(_text(unit, size_max, pattern), ITEMS_MAX))


def _choice(options: tuple[str, ...]) -> Spec:
    name = f"_c{abs(hash(options))}"
    good = f"type({{x}}) is str and {{x}} in {name}"
    return Spec(good, f"one of {', '.join(options)}", names={name: frozenset(options)})


def choice(*options: str) -> Any:
    """One of these words."""
    return _field(_choice(options))


def one(cls: type) -> Any:
    """A nested value of this class."""
    return _field(_nested(cls))


def maybe(cls: type) -> Any:
    """A nested value of this class, or None."""
    return _field(_optional(_nested(cls)))


def many(cls: type) -> Any:
    """A tuple of nested values of this class."""
    return _field(_items(_nested(cls), ITEMS_MAX))


def _nested(cls: Any) -> Spec:
    name = f"_{cls.__name__}"
    return Spec(
        f"type({{x}}) is {name}",
        cls.__name__,
        f"{name}_of({{x}})",
        "{x}.to_plain()",
        {name: cls, f"{name}_of": cls.from_plain},
        "True",
    )
