"""
Classes from declared fields: a frozen attrs class, a strict decoder and an encoder.

A wrong value is refused where it is built.  Nothing is coerced: `"1"`, `1.9` and `True`
are not an int, `1` is not a float, a list is not a tuple.  The three functions are
generated as straight-line code (as attrs does for `__init__`), since a replay runs them
once for each event of a log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar, dataclass_transform

import attrs

from jumar.reducers.errors import SchemaError
from jumar.reducers.fields import (
    Plain,
    Spec,
    choice,
    count,
    counts,
    flag,
    flags,
    many,
    maybe,
    maybe_count,
    maybe_real,
    maybe_text,
    one,
    real,
    text,
    texts,
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
    made: Any = attrs.frozen(kw_only=True, slots=True, weakref_slot=False)(source)
    fields = [f for f in attrs.fields(made) if "spec" in f.metadata]
    names: dict[str, Any] = {
        "_cls": made,
        "_refuse": _refuse,
        "_keys": _bad_keys,
        # The same slots, which may be set: objects of one class can become ones of another.
        "_open": type(cls.__name__, made.__bases__, {"__slots__": made.__slots__}),
    }
    for field in fields:
        names |= field.metadata["spec"].names
    names["_names"] = frozenset(f.name for f in fields)
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

    The decoder fills an object of a class with the same slots that is not frozen, and
    then says of which class it is: `__init__` of a frozen class costs several times as
    much, and a replay does it for every event of a log.
    """
    spec = {f.name: f.metadata["spec"] for f in fields}

    def check(name: str, good: str) -> str:
        wrong = f"_refuse(_cls, {name!r}, {name})"
        return "" if good == "True" else f"    if not ({good}): {wrong}"

    built = [f"    {n} = self.{n}\n{check(n, s.good.format(x=n))}" for n, s in spec.items()]
    read = [
        f"    {n} = {s.decode.format(x=f'p[{n!r}]')}\n{check(n, s.still.format(x=n))}"
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
            f"    if type(p) is not dict or len(p) != {len(spec)}: _keys(_cls, _names, p)",
            "    try:",  # as many keys as fields, and each of them there: no other one is
            *("    " + line.replace("\n", "\n    ") for line in read or ["    pass"]),
            "    except KeyError:",
            "        _keys(_cls, _names, p)",
            "    made = _open()",
            *(f"    made.{n} = {n}" for n in spec),
            "    made.__class__ = _cls",
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
