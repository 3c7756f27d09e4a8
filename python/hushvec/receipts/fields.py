"""Shared by every kind of receipt: strict JSON objects, and the rules of their fields. A violation raises ReceiptError."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hushvec.errors import ReceiptError

# Of each cipher of the key stream.
ROUNDS = {"aes256": 14, "chacha20": 20, "chacha12": 12, "chacha8": 8}

_MOST_CHARACTERS = 1 << 20
MOST_EXPORT_CHARACTERS = 1 << 30


def json_object(text: str, what: str = "receipt", most_characters: int = _MOST_CHARACTERS) -> Any:
    """The value of a JSON text without repeated fields and without NaN or Inf.

    Args:
        what: the text is, for the message.
        most_characters: that it may have.
    """
    if len(text) > most_characters:
        raise ReceiptError(f"{what} must have at most {most_characters} characters, got {len(text)}")

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise ReceiptError(f"{what} must not have a field twice")
        return fields

    def refuse_constant(constant: str) -> float:
        raise ReceiptError(f"{what} must hold finite numbers, got {constant}")

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except ReceiptError:
        raise
    except (ValueError, RecursionError) as error:
        raise ReceiptError(f"{what} must be JSON: {error}") from None


def require_fields(fields: Any, known: Collection[str]) -> None:
    """Check that all fields are known and none is missing, and that notes are a list."""
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


class OneOf:
    """A value of a set, of the same kind as in it: 1.0 and True are not 1."""

    def __init__(self, *accepted: str | int) -> None:
        self.accepted = accepted

    def __call__(self, name: str, value: Any) -> None:
        if not any(type(value) is type(one) and value == one for one in self.accepted):
            raise ReceiptError(f"{name} must be one of {', '.join(map(repr, self.accepted))}, got {value!r:.60}")


class Number:
    """A finite float64. A whole number that float64 would round is refused."""

    def __init__(self, rule: str, holds: Callable[[float], bool], *, optional: bool = False) -> None:
        self.rule, self.holds, self.optional = rule, holds, optional

    def __call__(self, name: str, value: Any) -> None:
        if value is None and self.optional:
            return
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ReceiptError(f"{name} must be a number, got {type(value).__name__}")
        if not (_is_float64(value) and self.holds(value)):
            raise ReceiptError(f"{name} must be {self.rule}, got {value!r:.60}")


def _is_float64(value: int | float) -> bool:
    try:
        return math.isfinite(value) and float(value) == value
    except OverflowError:  # an int beyond float64
        return False


class WholeNumber:
    def __init__(self, at_least: int, below: int = 2**63, *, optional: bool = False) -> None:
        self.at_least, self.below, self.optional = at_least, below, optional

    def __call__(self, name: str, value: Any) -> None:
        if value is None and self.optional:
            return
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
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ReceiptError(f"{name} must be text that UTF-8 can hold, got {value!r:.60}") from None


def number_of_text(name: str, value: Any) -> int:
    """The whole number of a text of digits. A JSON number is refused: a reader may have rounded it."""
    string(name, value)
    if not re.fullmatch("0|[1-9][0-9]{0,19}", value):
        raise ReceiptError(f"{name} must be a whole number as text, got {value!r:.60}")
    return int(value)


def strings(name: str, value: Any) -> None:
    if not isinstance(value, tuple):
        raise ReceiptError(f"{name} must be a list of strings")
    for note in value:
        string(name, note)


def digest(name: str, value: Any, digits: int = 64) -> None:
    string(name, value)
    if len(value) != digits or set(value) - set("0123456789abcdef"):
        raise ReceiptError(f"{name} must be {digits} hexadecimal digits, got {value!r:.80}")


def optional_digest(name: str, value: Any) -> None:
    if value is not None:
        digest(name, value)
