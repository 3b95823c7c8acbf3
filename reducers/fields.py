"""
Fields of events: type, unit and range said once; checks and codecs made from that.

A field is declared with one of the functions below (`count`, `text`, ...).  The class
decorator `value` turns the declaration into a frozen attrs class that refuses a wrong
value where it is built, and into a strict decoder and encoder.  Nothing is coerced:
`"1"`, `1.9` and `True` are not an int, `1` is not a float, a list is not a tuple.

The three are generated as straight-line code (as attrs does for `__init__`), since a
replay runs them once for each event of a log.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, dataclass_transform

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
        encode: expression from field value to plain.
        names: objects that these expressions mention.
    """

    good: str
    says: str
    decode: str = "{x}"
    encode: str = "{x}"
    names: Mapping[str, object] = {}


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
    )


def _items(spec: Spec, size_max: int) -> Spec:
    item = {"good": spec.good.format(x="i"), "decode": spec.decode.format(x="i")}
    plain = spec.decode == "{x}"
    return Spec(
        f"type({{x}}) is tuple and len({{x}}) <= {size_max}"
        f" and all([{item['good']} for i in {{x}}])",
        f"tuple of at most {size_max} ({spec.says})",
        "tuple(_list({x}))"
        if plain
        else f"tuple([{item['decode']} for i in _list({{x}})])",
        "list({x})" if plain else f"[{spec.encode.format(x='i')} for i in {{x}}]",
        {**spec.names, "_list": _list},
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


def _nested(cls: type) -> Spec:
    name = f"_{cls.__name__}"
    return Spec(
        f"type({{x}}) is {name}",
        cls.__name__,
        f"{name}.from_plain({{x}})",
        "{x}.to_plain()",
        {name: cls},
    )


class Value:
    """What every class made by `value` can do."""

    __slots__ = ()

    @classmethod
    def from_plain(cls, plain: Plain) -> Self:
        """The strict decoder; raises `SchemaError`."""
        raise NotImplementedError(cls)

    def to_plain(self) -> Plain:
        """The encoder: dicts, lists and scalars only."""
        raise NotImplementedError(type(self))


T = TypeVar("T", bound=Value)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(count, maybe_count, counts, real, maybe_real, flag, flags, text,
                      maybe_text, texts, choice, one, maybe, many),
)  # fmt: skip
def value(cls: type[T]) -> type[T]:
    """Make a frozen, checked class with `from_plain` and `to_plain` from its fields."""
    source: Any = cls
    source.__attrs_post_init__ = lambda self: _CHECKS[made](self)
    made: Any = attrs.frozen(kw_only=True, slots=True)(source)
    fields = [f for f in attrs.fields(made) if "spec" in f.metadata]
    names: dict[str, Any] = {
        "_cls": made,
        "_refuse": _refuse,
        "_keys": _bad_keys,
        "_new": object.__new__,
    }
    for field in fields:
        names |= field.metadata["spec"].names
    names["_names"] = frozenset(f.name for f in fields)
    names |= {f"_set_{f.name}": getattr(made, f.name).__set__ for f in fields}
    exec(_source(fields), names)  # straight-line code from the declarations above
    _CHECKS[made] = names["check"]
    made.from_plain = staticmethod(names["decode"])
    made.to_plain = names["encode"]
    result: type[T] = made
    return result


_CHECKS: dict[type, Callable[[Any], None]] = {}


def _source(fields: list[attrs.Attribute[Any]]) -> str:
    """
    Three functions: the check of a built value, the decoder, the encoder.

    The decoder checks and fills the slots itself: going through `__init__` of a frozen
    class would cost twice as much, and a replay does it for every event of a log.
    """
    spec = {f.name: f.metadata["spec"] for f in fields}

    def check(name: str, x: str) -> str:
        return f"    if not ({spec[name].good.format(x=x)}): _refuse(_cls, {name!r}, {x})"

    built = [f"    {n} = self.{n}\n{check(n, n)}" for n in spec]
    read = [
        f"    {n} = {s.decode.format(x=f'p[{n!r}]')}\n{check(n, n)}"
        for n, s in spec.items()
    ]
    encoded = ", ".join(
        f"{n!r}: " + s.encode.format(x=f"self.{n}") for n, s in spec.items()
    )
    return "\n".join(
        [
            "def check(self):",
            *(built or ["    pass"]),
            "def decode(p):",
            "    if type(p) is not dict or p.keys() != _names: _keys(_cls, _names, p)",
            *read,
            "    made = _new(_cls)",
            *(f"    _set_{n}(made, {n})" for n in spec),
            "    return made",
            "def encode(self):",
            f"    return {{{encoded}}}",
        ]
    )


def _refuse(cls: Any, name: str, given: object) -> None:
    spec: Spec = attrs.fields_dict(cls)[name].metadata["spec"]
    raise SchemaError(
        f"{cls.__name__}.{name} was refused",
        why=f"it must be {spec.says}",
        instead="pass a value of that type and range; nothing is converted",
        value=given,
    )


def _bad_keys(cls: type, names: frozenset[str], given: object) -> None:
    found = set(given) if isinstance(given, dict) else set()
    raise SchemaError(
        f"the fields of {cls.__name__} do not match",
        why=f"missing {sorted(names - found)}, unknown {sorted(map(str, found - names))}",
        instead="read the log with a version that knows this form",
        value=given,
    )
