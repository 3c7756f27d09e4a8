"""The store on FAISS: a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.retrieval.stores import KeyedStore, Keys
from hushvec.retrieval.stores.numpy_flat import best_of_matrix

# A graph is rebuilt once this share of its rows has been deleted.
_MOST_DELETED = 0.5


class GraphStore(KeyedStore):
    """IndexHNSWFlat: a walk through a graph of near neighbors. Approximate. A key is a node of the graph.

    Deleted rows are skipped at once, and leave memory when the graph is built again, once half of the rows are deleted.
    """

    suffix = ".faiss"
    _selector: Any = None  # of nodes that are not deleted, made when a search first needs it

    def __init__(self, columns: int, *, neighbors: int = 32, ef_construction: int = 200, ef_search: int = 64) -> None:
        with needs_extra("the store 'hnsw'", "faiss"):
            import faiss
        self._faiss: Any = faiss
        self._columns = columns
        self._neighbors = validate.whole_number("neighbors", neighbors, at_least=2)
        self._ef_construction = validate.whole_number("ef_construction", ef_construction, at_least=1)
        self._ef_search = validate.whole_number("ef_search", ef_search, at_least=1)
        self._build(np.empty((0, columns), np.float32))

    def delete(self, places: NDArray[np.int64]) -> None:
        super().delete(places)
        if len(self) < (1 - _MOST_DELETED) * int(self._index.ntotal):
            self._build(self.vectors())

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        total = int(self._index.ntotal)
        settings = self._faiss.SearchParametersHNSW(efSearch=max(self._ef_search, k))
        if len(self) < total:
            if self._selector is None:
                self._selector = self._faiss.IDSelectorBatch(self.keys.values)
            settings.sel = self._selector
        scores, keys = self._index.search(queries, k, params=settings)
        while keys.min() < 0 and settings.efSearch < total:  # widened while a query finds fewer than k rows
            settings.efSearch = min(total, 4 * settings.efSearch)
            scores, keys = self._index.search(queries, k, params=settings)
        if keys.min() < 0:  # rows that the graph does not reach
            return best_of_matrix(self.vectors(), queries, k)
        return self.keys.places(keys), scores

    def vectors(self) -> NDArray[np.float32]:
        total = int(self._index.ntotal)
        if not total:
            return np.empty((0, self._columns), np.float32)
        rows: NDArray[np.float32] = self._index.reconstruct_n(0, total)
        return rows if len(self) == total else rows[self.keys.values]

    def write(self, path: Path) -> None:
        if len(self) < int(self._index.ntotal):
            self._build(self.vectors())  # deleted rows are not written
        self._faiss.write_index(self._index, str(path))

    def read(self, path: Path) -> None:
        self._index = self._faiss.read_index(str(path))
        self.keys = Keys(np.arange(self._index.ntotal, dtype=np.int64))

    def _put(self, keys: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        self._index.add(rows)
        self._selector = None

    def _drop(self, keys: NDArray[np.int64]) -> None:
        self._selector = None

    def _fetched(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = self._index.reconstruct_batch(keys)
        return rows

    def _build(self, rows: NDArray[np.float32]) -> None:
        self._index = self._faiss.IndexHNSWFlat(self._columns, self._neighbors, self._faiss.METRIC_INNER_PRODUCT)
        self._index.hnsw.efConstruction = self._ef_construction
        self._index.add(rows)
        self.keys = Keys(np.arange(len(rows), dtype=np.int64))
        self._selector = None
