"""Stores that identify rows by keys: the keys, and what such stores have in common."""

from __future__ import annotations

import contextlib
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Keys:
    """The keys of the rows that are there, ascending, in the order of the rows. No key is ever used twice."""

    def __init__(self, keys: NDArray[np.int64] | None = None) -> None:
        self.values: NDArray[np.int64] = np.empty(0, np.int64) if keys is None else keys
        self._next = int(self.values[-1]) + 1 if len(self.values) else 0

    def __len__(self) -> int:
        return len(self.values)

    def next(self, rows: int) -> NDArray[np.int64]:
        """Keys for new rows; call `append` once the rows are stored."""
        return np.arange(self._next, self._next + rows, dtype=np.int64)

    def append(self, keys: NDArray[np.int64]) -> None:
        self.values = np.concatenate([self.values, keys])
        self._next += len(keys)

    def remove(self, places: NDArray[np.int64]) -> None:
        self.values = np.delete(self.values, places)

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of keys that are there."""
        return np.searchsorted(self.values, keys).astype(np.int64, copy=False)

    def holds(self, keys: NDArray[np.int64]) -> bool:
        """Whether all of these are there."""
        if not len(self):
            return not len(keys)
        return bool((self.values[np.minimum(self.places(keys), len(self) - 1)] == keys).all())


def when_gone(store: object, close: Callable[[], Any]) -> None:
    """Call `close` when the store is garbage-collected or at exit; last in, first out, and never in a forked child."""
    weakref.finalize(store, _closed, close, os.getpid())


def _closed(close: Callable[[], Any], pid: int) -> None:
    if pid == os.getpid():
        with contextlib.suppress(Exception):
            close()


class ArrayFile(ABC):
    """A `Store` whose file is the array of its rows."""

    suffix = ".npy"

    def require_room(self, rows: int) -> None:  # noqa: B027  (nothing to check is intended)
        """Nothing to check: such a store grows with its rows."""

    @abstractmethod
    def add(self, rows: NDArray[np.float32]) -> None: ...

    @abstractmethod
    def vectors(self) -> NDArray[np.float32]: ...

    def write(self, path: Path) -> None:
        np.save(path, self.vectors())

    def read(self, path: Path) -> None:
        self.add(np.load(path, allow_pickle=False))


class KeyedStore(ArrayFile):
    """The part of a `Store` with keys that does not depend on what holds the rows."""

    keys: Keys
    folder: Path | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def outlives(self) -> bool:
        return self.folder is not None
