"""The k rows of a large public matrix that lie nearest to each query: by FAISS where it is installed, in numpy otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products
from hushvec.text.inverters.rows import Rows

_ELEMENTS = 2**22  # of one [queries, rows] array: 16 MB
_LISTS_PER_ROOT = 2  # lists of the index by sqrt(rows)
_LISTS_READ = 24  # of them, for each query
_SEED = 6
_TRAINED_ON = 64  # rows a list


class NearestRows:
    """Nearest rows by inner product.

    Args:
        rows: float32 [n, d].

    Guarantees:
        Without FAISS the k largest inner products; of equal ones the first row, for count = 1, and some of them otherwise. With it
        those of the lists that are nearest to the query, which are nearly always the same. Which lists those are FAISS decides with
        its own BLAS: on another processor, or with other queries in the call, a list at the edge may be another.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = np.ascontiguousarray(rows, np.float32)

    def search(self, queries: Rows, count: int) -> NDArray[np.int64]:
        """Indices of `count` rows for each query [b, count], in no particular order; count = 1: the nearest."""
        if self._index is None:
            return self._exact(queries, count)
        _, found = self._index.search(np.ascontiguousarray(queries, np.float32), count)
        missing = np.flatnonzero((found < 0).any(axis=1))  # so few rows in the lists that were read
        if len(missing):
            found[missing] = self._exact(queries[missing], count)
        return np.asarray(found, np.int64)

    def _exact(self, queries: Rows, count: int) -> NDArray[np.int64]:
        found = np.empty((len(queries), count), np.int64)
        for block in blocks(len(queries), len(self.rows)):
            scores = inner_products(queries[block], self.rows)
            found[block] = scores.argmax(axis=1)[:, None] if count == 1 else np.argpartition(-scores, count - 1, axis=1)[:, :count]
        return found

    @cached_property
    def _index(self) -> Any:
        """An inverted file over the rows; None without FAISS."""
        try:
            import faiss
        except ImportError:
            return None
        count, dimension = self.rows.shape
        lists = max(1, int(_LISTS_PER_ROOT * math.sqrt(count)))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed, index.cp.max_points_per_centroid, index.cp.niter = _SEED, _TRAINED_ON, 8
        index.cp.min_points_per_centroid = 1
        index.train(self.rows)
        index.add(self.rows)
        index.nprobe = min(lists, _LISTS_READ)
        return index


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of rows of which [rows, columns] floats fit into a few megabytes."""
    step = max(1, _ELEMENTS // columns)
    for start in range(0, rows, step):
        yield slice(start, start + step)
