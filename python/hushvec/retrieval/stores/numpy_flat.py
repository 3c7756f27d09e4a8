"""All rows in one array, each compared with every query: the store that needs nothing but numpy."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushvec.retrieval.stores.blocks import best_of_matrix
from hushvec.retrieval.stores.keys import ArrayFile


class WholeMatrix(ArrayFile):
    """A `MatrixStore`: every row is compared with every query. Exact; equal scores come in the order of the rows."""

    @abstractmethod
    def matrix(self) -> NDArray[np.float32]: ...

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return best_of_matrix(self.matrix(), queries, k)

    def vectors(self) -> NDArray[np.float32]:
        return self.matrix().copy()

    def write(self, path: Path) -> None:
        np.save(path, self.matrix())


class NumpyStore(WholeMatrix):
    """All rows in one array."""

    def __init__(self, columns: int) -> None:
        self._rows = np.empty((0, columns), np.float32)  # with room behind the first _count
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: NDArray[np.float32]) -> None:
        needed = self._count + len(rows)
        if needed > len(self._rows):
            # Twice as much where rows come few at a time, so that each is copied a bounded number of times.
            grown = np.empty((max(needed, 2 * self._count), self._rows.shape[1]), np.float32)
            grown[: self._count] = self.matrix()
            self._rows = grown
        self._rows[self._count : needed] = rows
        self._count = needed

    def delete(self, places: NDArray[np.int64]) -> None:
        self._rows = np.delete(self.matrix(), places, axis=0)
        self._count = len(self._rows)

    def matrix(self) -> NDArray[np.float32]:
        return self._rows[: self._count]
