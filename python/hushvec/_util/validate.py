"""Checks of scalar arguments. Every refusal names the argument, the rule and the value.

TypeError for the wrong kind of thing, ValueError for the wrong value. A bool is not a number here.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping
from math import isfinite
from numbers import Real
from typing import Any

from hushvec._util.recording import require_no_recorder

__all__ = [
    "choice", "clip_norm", "column", "delta", "fields", "flag", "instance", "keep_floats", "kind", "listed", "nearest",
    "nearest_of", "not_negative", "number", "positive", "probability", "rounding_to_nearest", "sampling_probability",
    "strings", "whole_number",
]

SMALLEST_NORM = 2.0**-100
LARGEST_NORM = 2.0**100
SMALLEST_SAMPLING_PROBABILITY = 2.0**-64

# Not literals in the sum: the compiler would compute it itself, in its own mode.
_ONE = 1.0
_TINY = 2.0**-55


def rounding_to_nearest() -> None:
    """Refuse a thread in which Python's own floats round up, down or towards zero.

    The core sets its modes in every call. Bounds that Python and numpy compute are proved for rounding to nearest, and could come
    out too small in a thread where someone called fesetround.
    """
    if _ONE + _TINY != _ONE or _ONE - _TINY != _ONE:
        raise RuntimeError(
            "floating-point numbers must be rounded to nearest in this thread, got another rounding mode "
            "(other code set it: fesetround(FE_TONEAREST) puts it back)"
        )


def number(name: str, value: Any) -> float:
    """A finite float."""
    # Most values are floats, and Real is an abstract class: asking it takes a twentieth of the time of a small call.
    converted: float = value if type(value) is float else _as_float(name, value)
    if not isfinite(converted):
        raise ValueError(f"{name} must be finite, got {converted!r}")
    return converted


def _as_float(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {kind(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be finite, got {value!r:.40}") from None


def keep_floats(frozen: Any, *names: str) -> None:
    """Make numbers of a frozen dataclass Python floats: a value that JSON cannot write must be refused before a charge. None stays."""
    for name in names:
        value = getattr(frozen, name)
        if value is not None:
            object.__setattr__(frozen, name, number(name, value))


def positive(name: str, value: Any) -> float:
    converted = number(name, value)
    if converted <= 0:
        raise ValueError(f"{name} must be > 0, got {converted!r}")
    return converted


def not_negative(name: str, value: Any) -> float:
    converted = number(name, value)
    if converted < 0:
        raise ValueError(f"{name} must be >= 0, got {converted!r}")
    return converted


def probability(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    converted = number(name, value)
    if not 0 < converted < 1:
        raise ValueError(f"{name} must be > 0 and < 1, got {converted!r}")
    return converted


def sampling_probability(value: Any) -> float:
    """Probability that an example is in a batch: a multiple of 2^-64 once rounded down, and 1 for full batches."""
    converted = positive("sampling_probability", value)
    if converted < SMALLEST_SAMPLING_PROBABILITY:
        raise ValueError(f"sampling_probability must be >= 2^-64, got {converted!r}")
    if converted > 1:
        raise ValueError(f"sampling_probability must be > 0 and <= 1, got {converted!r}")
    return converted


def delta(value: Any, *, zero_allowed: bool = False) -> float:
    """A probability below 1 and above 0, or 0 itself for the mechanisms that need no delta."""
    converted = number("delta", value)
    if zero_allowed and converted == 0:
        return converted
    return probability("delta", converted)


def clip_norm(value: Any) -> float:
    converted = number("clip_norm", value)
    if not SMALLEST_NORM <= converted <= LARGEST_NORM:
        positive("clip_norm", converted)
        raise ValueError(f"clip_norm must be in [2^-100, 2^100], got {converted!r}")
    return converted


def whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got bool")
    try:
        converted = operator.index(value)
    except TypeError:
        require_no_recorder()  # a recorder's stand-in is not a number
        raise TypeError(f"{name} must be a whole number, got {kind(value)}") from None
    if converted < at_least:
        raise ValueError(f"{name} must be >= {at_least}, got {converted}")
    if at_most is not None and converted > at_most:
        raise ValueError(f"{name} must be <= {at_most}, got {converted}")
    return converted


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {kind(value)}")
    return value


def choice(name: str, value: Any, accepted: Collection[str]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {kind(value)}")
    if value not in accepted:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, accepted))}, got {value!r}")
    return value


def column(name: str, value: Any) -> Any:
    """A column of Arrow, pandas or polars, or an array of strings, as a list; anything else as it is."""
    if hasattr(value, "asstr"):
        raise TypeError(f"{name} must be strings, got an HDF5 data set, which holds bytes (pass {name}.asstr()[:])")
    ways = (getattr(value, way, None) for way in ("to_pylist", "to_list", "tolist"))
    way = None if isinstance(value, type) or getattr(value, "ndim", 1) != 1 else next(filter(callable, ways), None)
    return value if way is None else way()


def strings(name: str, value: Any) -> list[str]:
    """The strings of a sequence or column, which one string is not."""
    if isinstance(value, str):
        raise TypeError(f"{name} must be a sequence of strings, got str")
    listed = list(column(name, value))
    for one in listed:
        if not isinstance(one, str):
            raise TypeError(f"{name} must be a sequence of strings, got {kind(one)} in it")
    return listed


def listed(name: str, value: Any) -> list[Any]:
    """The elements of an array or of any other iterable that is no text, as a list."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence, got {kind(value)}")
    return list(value)


def fields(what: str, value: Any, names: Collection[str]) -> None:
    """A mapping with exactly these names."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be an object with fields, got {kind(value)}")
    for name in names:
        if name not in value:
            raise ValueError(f"{what} must have the field {name!r}")
    for name in value:
        if name not in names:
            raise ValueError(f"{what} must not have the field {name!r:.60}: it is unknown")


def instance(name: str, value: Any, kinds: Any, rule: str, *, but: Any = ()) -> Any:
    """The value, if it is of these kinds, `but` not of those; `rule` has them in words."""
    if not isinstance(value, kinds) or isinstance(value, but):
        raise TypeError(f"{name} must be {rule}, got {kind(value)}")
    return value


def kind(value: Any) -> str:
    """The name of a value's type as an error shows it, with its library where several have a type of that name."""
    name = type(value).__name__
    return f"{type(value).__module__.partition('._')[0]}.{name}" if name in _HOMONYMS else name


_HOMONYMS = frozenset({"Array", "Dataset", "Embeddings", "Generator", "Table"})


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that is most like a name, if one is near: what was probably meant."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), list(choices), n=1, cutoff=0.5)
    return near[0] if near else None


def nearest_of(name: str, choices: Iterable[str]) -> str:
    """`, did you mean 'email'?` for the end of an error, or nothing where no choice is near."""
    near = nearest(name, choices)
    return f", did you mean {near!r}?" if near else ""
