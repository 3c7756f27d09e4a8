"""Metadata filters: equality, and the MongoDB operators that vector stores have in common.

    {"year": 2020}                                    equal; several fields: all of them
    {"year": {"$gte": 2020, "$lt": 2030}}             $eq $ne $gt $gte $lt $lte $in $nin $not
    {"$or": [{"year": 2020}, {"tag": "a"}]}           $and $or, of filters
    {"$not": {"year": 2020}}                          $not, of a filter

As in MongoDB: a field that is missing is None; a list matches where it equals the operand or one of its elements matches; $ne, $nin
and $not match what $eq, $in and their operand do not; values of different kinds are neither equal nor in order. True is not 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from hushvec._util import validate

Matches = Callable[[Mapping[str, Any]], bool]
_Test = Callable[[Any], bool]

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
FIELD_OPERATORS = ("$eq", "$ne", *_ORDERS, "$in", "$nin", "$not")
FILTER_OPERATORS = ("$and", "$or", "$not")


def matcher(where: Any, name: str = "where") -> Matches:
    """A function of a row's metadata that says whether a filter matches it; `name` is that of the argument, for errors."""
    try:
        return _filter(where, name)
    except RecursionError:
        raise ValueError(f"{name} must be a filter, got one that is nested too deeply") from None


def _filter(where: Any, name: str) -> Matches:
    validate.instance(name, where, Mapping, "a mapping, as {'year': {'$gte': 2020}}")
    return _all([_clause(key, value, name) for key, value in where.items()])


def _clause(key: Any, value: Any, name: str) -> Matches:
    if not isinstance(key, str):
        raise TypeError(f"{name} must have strings as keys, got {validate.kind(key)}")
    if not key.startswith("$"):
        test = _field(value, f"{name}[{key!r}]")
        return lambda fields: test(fields.get(key))
    _require_known(key, FILTER_OPERATORS, name)
    if key == "$not":
        denied = _filter(value, f"{name}['$not']")
        return lambda fields: not denied(fields)
    if not isinstance(value, list) or not value:
        raise TypeError(f"{name} must have a list of filters in {key!r}, got {_shown(value)}")
    parts = [_filter(part, f"{name}[{key!r}][{place}]") for place, part in enumerate(value)]
    return _all(parts) if key == "$and" else lambda fields: any(part(fields) for part in parts)


def _field(value: Any, name: str) -> _Test:
    if not isinstance(value, Mapping):
        return _equals(value, name)
    if not value:
        raise ValueError(f"{name} must have at least one operator, got {{}}")
    return _all([_operator(key, operand, name) for key, operand in value.items()])


def _operator(key: Any, operand: Any, name: str) -> _Test:
    _require_known(key, FIELD_OPERATORS, name)
    if key in _ORDERS:
        return _in_order(_ORDERS[key], operand, f"{key!r} of {name}")
    if key == "$not":
        validate.instance(f"'$not' of {name}", operand, Mapping, "a mapping of operators")
        return _denied(_field(operand, name))
    one_of = key in ("$in", "$nin")
    if one_of and not isinstance(operand, list):
        raise TypeError(f"{key!r} of {name} must be a list, got {validate.kind(operand)}")
    test = _equals(operand, f"{key!r} of {name}", one_of=one_of)
    return test if key in ("$eq", "$in") else _denied(test)


def _equals(operand: Any, name: str, *, one_of: bool = False) -> _Test:
    for one in operand if isinstance(operand, list) else [operand]:
        if one is not None and not isinstance(one, (str, int, float)):
            raise TypeError(f"{name} must be a str, int, float, bool or None, got {validate.kind(one)}")
    others = operand if one_of else [operand]
    return lambda value: any(_same(one, other) for one in _ways(value) for other in others)


def _in_order(compare: Callable[[Any, Any], bool], operand: Any, name: str) -> _Test:
    kind = str if isinstance(operand, str) else (int, float)
    validate.instance(name, operand, kind, "a number or a str", but=bool)
    return lambda value: any(isinstance(one, kind) and not isinstance(one, bool) and compare(one, operand) for one in _ways(value))


def _ways(value: Any) -> list[Any]:
    return [value, *value] if isinstance(value, list) else [value]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _denied(test: _Test) -> _Test:
    return lambda value: not test(value)


def _all(tests: list[Any]) -> Callable[[Any], bool]:
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def _require_known(key: Any, known: tuple[str, ...], name: str) -> None:
    if key not in known:
        raise ValueError(f"{name} must have operators among {', '.join(known)}, got {_shown(key)}")


def _shown(value: Any) -> str:
    return f"{value!r:.80}"
