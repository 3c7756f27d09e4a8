"""`ByIdentity`: a weak mapping for objects that compare by their elements, or not at all."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """A mapping keyed by object identity: tensors, modules, accountants. It holds weak references to its keys."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[ref[Any], Value]] = {}

    def get(self, key: object) -> Value | None:
        known = self._held.get(id(key))
        return known[1] if known is not None and known[0]() is key else None

    def __setitem__(self, key: object, value: Value) -> None:
        known = self._held.get(id(key))
        if known is None or known[0]() is not key:
            number = id(key)
            known = ref(key, lambda _: self._forget(number)), value
        self._held[id(key)] = known[0], value

    def _forget(self, number: int) -> None:
        known = self._held.get(number)
        if known is not None and known[0]() is None:
            del self._held[number]
