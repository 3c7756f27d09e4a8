"""Keys of rows in stores that know rows by a number of their own."""

from __future__ import annotations

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
        """Keys of rows that come; `append` them once the rows are there."""
        return np.arange(self._next, self._next + rows, dtype=np.int64)

    def append(self, keys: NDArray[np.int64]) -> None:
        self.values = np.concatenate([self.values, keys])
        self._next += len(keys)

    def remove(self, places: NDArray[np.int64]) -> None:
        self.values = np.delete(self.values, places)

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of keys that are there."""
        return np.searchsorted(self.values, keys).astype(np.int64, copy=False)
