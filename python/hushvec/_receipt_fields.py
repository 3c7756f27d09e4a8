"""What every kind of receipt shares: strict JSON objects, and the rules of their fields. A breach raises ReceiptError."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hushvec.errors import ReceiptError

ROUNDS = (8, 12, 20)

_MOST_CHARACTERS = 1 << 20


def json_object(text: str) -> Any:
    """The value of a JSON text without repeated fields and without NaN or Inf."""
    if len(text) > _MOST_CHARACTERS:
        raise ReceiptError(f"receipt must have at most {_MOST_CHARACTERS} characters, got {len(text)}")
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except ReceiptError:
        raise
    except (ValueError, RecursionError) as error:
        raise ReceiptError(f"receipt must be JSON: {error}") from None


def require_fields(fields: Any, known: Collection[str]) -> None:
    """Exactly the known fields, and notes in a list."""
    if not isinstance(fields, Mapping):
        raise ReceiptError(f"receipt must be an object with fields, got {type(fields).__name__}")
    for name in known:
        if name not in fields:
            raise ReceiptError(f"receipt must have the field {name!r}")
    for name in fields:
        if name not in known:
            raise ReceiptError(f"receipt must not have the field {name!r:.60}: it is unknown")
    if not isinstance(fields["notes"], (list, tuple)):
        raise ReceiptError("notes must be a list of strings")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ReceiptError("receipt must not have a field twice")
    return fields


def _refuse_constant(text: str) -> float:
    raise ReceiptError(f"receipt must hold finite numbers, got {text}")


class OneOf:
    def __init__(self, *accepted: str | int) -> None:
        self.accepted = accepted

    def __call__(self, name: str, value: Any) -> None:
        if isinstance(value, bool) or value not in self.accepted:
            raise ReceiptError(f"{name} must be one of {', '.join(map(repr, self.accepted))}, got {value!r:.60}")


class Number:
    def __init__(self, rule: str, holds: Callable[[float], bool], *, optional: bool = False) -> None:
        self.rule, self.holds, self.optional = rule, holds, optional

    def __call__(self, name: str, value: Any) -> None:
        if value is None and self.optional:
            return
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ReceiptError(f"{name} must be a number, got {type(value).__name__}")
        if not (_is_finite(value) and self.holds(value)):
            raise ReceiptError(f"{name} must be {self.rule}, got {value!r:.60}")


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond float64
        return False


class WholeNumber:
    def __init__(self, at_least: int, below: int = 2**63) -> None:
        self.at_least, self.below = at_least, below

    def __call__(self, name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ReceiptError(f"{name} must be a whole number, got {type(value).__name__}")
        if not self.at_least <= value < self.below:
            raise ReceiptError(f"{name} must be >= {self.at_least} and < {_power(self.below)}, got {value!r:.60}")


def _power(bound: int) -> str:
    return f"2^{bound.bit_length() - 1}" if bound.bit_count() == 1 else str(bound)


def boolean(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ReceiptError(f"{name} must be true or false, got {type(value).__name__}")


def string(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ReceiptError(f"{name} must be a string, got {type(value).__name__}")


def number_of_text(name: str, value: Any) -> int:
    """The whole number of a text of digits. A JSON number is refused: some reader may have rounded it."""
    string(name, value)
    if not re.fullmatch("0|[1-9][0-9]{0,19}", value):
        raise ReceiptError(f"{name} must be a whole number as text, got {value!r:.60}")
    return int(value)


def strings(name: str, value: Any) -> None:
    if not isinstance(value, tuple) or not all(isinstance(note, str) for note in value):
        raise ReceiptError(f"{name} must be a list of strings")


def digest(name: str, value: Any) -> None:
    string(name, value)
    if len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise ReceiptError(f"{name} must be 64 hexadecimal digits, got {value!r:.80}")


def optional_digest(name: str, value: Any) -> None:
    if value is not None:
        digest(name, value)
