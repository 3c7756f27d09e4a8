"""The protocol of stores."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hushvec.retrieval.stores.keys import Keys


class Store(Protocol):
    """Rows in the order in which they came. A place is a row's number in that order, among the rows that are there."""

    suffix: str  # of the file that `write` makes

    def __len__(self) -> int: ...

    def require_room(self, rows: int) -> None:
        """Raise what would keep so many rows from being added, before anything is charged for them."""

    def add(self, rows: NDArray[np.float32]) -> None:
        """Append rows, float32 [n, columns] in C order, finite."""

    def delete(self, places: NDArray[np.int64]) -> None:
        """Delete rows; places are ascending and distinct."""

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Places and inner products, [m, k], largest first; 1 <= k <= len."""

    def vectors(self) -> NDArray[np.float32]:
        """All rows in order, a new array."""

    def write(self, path: Path) -> None:
        """All rows into a new file."""

    def read(self, path: Path) -> None:
        """The rows that `write` wrote, into a store without rows."""


@runtime_checkable
class MatrixStore(Protocol):
    """A store that has all its rows in one array: what noise on scores needs."""

    def matrix(self) -> NDArray[np.float32]:
        """The rows themselves, float32 [n, columns] in C order, not a copy; valid until the next add or delete."""


@runtime_checkable
class RowStore(Protocol):
    """A store that can read some of its rows without the others. Of other stores `vectors` is read."""

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The rows at these places, in their order, a new array; a place may come several times."""


@runtime_checkable
class DiskStore(Protocol):
    """A store whose rows may lie in a folder or a database and outlive it."""

    folder: Path | None
    keys: Keys

    @property
    def outlives(self) -> bool:
        """Whether the rows are still there when the store is opened again."""
