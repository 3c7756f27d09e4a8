"""Stores on FAISS: every row, a graph, or cells."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.retrieval.stores import KeyedStore, Keys
from hushvec.retrieval.stores.numpy_flat import WholeMatrix, best_of_matrix

EXTRA = "faiss"

# IVF: about this times sqrt(n) cells for n rows, as FAISS's guide says; they are made again when the rows have grown fourfold.
_CELLS_FACTOR = 4
_GROWTH = 4
_ROWS_A_CELL = 8

# A graph is rebuilt once this share of its rows has been deleted.
_MOST_DELETED = 0.5


def is_installed() -> bool:
    return importlib.util.find_spec("faiss") is not None


def _faiss(feature: str) -> Any:
    with needs_extra(feature, EXTRA):
        import faiss
    return faiss


class FlatStore(WholeMatrix):
    """IndexFlatIP, whose rows are compared by hushvec's own products: a query then has the same answer alone and in a batch,
    which FAISS's search does not guarantee (docs/retrieval.md)."""

    def __init__(self, columns: int) -> None:
        self._faiss = _faiss("the store 'flat' on FAISS")
        self._columns = columns
        self._index = self._faiss.IndexFlatIP(columns)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, rows: NDArray[np.float32]) -> None:
        self._index.add(rows)

    def delete(self, places: NDArray[np.int64]) -> None:
        self._index.remove_ids(self._faiss.IDSelectorBatch(places))

    def matrix(self) -> NDArray[np.float32]:
        if not len(self):
            return np.empty((0, self._columns), np.float32)
        view: NDArray[np.float32] = self._faiss.rev_swig_ptr(self._index.get_xb(), len(self) * self._columns)
        return view.reshape(len(self), self._columns)


class _ApproximateStore(KeyedStore):
    """An index of FAISS that looks at a part of its rows."""

    suffix = ".faiss"
    _index: Any

    def __init__(self, name: str, columns: int) -> None:
        self._faiss = _faiss(f"the store {name!r}")
        self._columns = columns
        self.keys = Keys()

    def _found(
        self, queries: NDArray[np.float32], k: int, settings: Any, width: str, most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """A search that is widened while a query finds fewer than k rows: `width` is the field of its settings, of at most `most`."""
        scores, keys = self._index.search(queries, k, params=settings)
        while keys.min() < 0 and getattr(settings, width) < most:
            setattr(settings, width, min(most, 4 * getattr(settings, width)))
            scores, keys = self._index.search(queries, k, params=settings)
        if keys.min() < 0:  # rows that the index does not reach
            return best_of_matrix(self.vectors(), queries, k)
        return self.keys.places(keys), scores


class GraphStore(_ApproximateStore):
    """IndexHNSWFlat: a walk through a graph of near neighbors. Approximate. A key is a node of the graph.

    Deleted rows are skipped at once, and leave memory when the graph is built again, once half of the rows are deleted.
    """

    _selector: Any = None  # of nodes that are not deleted, made when a search first needs it

    def __init__(self, columns: int, *, neighbors: int = 32, ef_construction: int = 200, ef_search: int = 64) -> None:
        super().__init__("hnsw", columns)
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
        return self._found(queries, k, settings, "efSearch", total)

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


class CellStore(_ApproximateStore):
    """IndexIVFFlat: rows in cells around centers, of which the nearest to a query are looked into. Approximate.

    The centers are found by k-means on the rows that are there: on released rows, where documents get noise. They are found again
    whenever the rows have grown fourfold.
    """

    def __init__(self, columns: int, *, cells: int | None = None, probes: int | None = None) -> None:
        super().__init__("ivf", columns)
        self._cells = None if cells is None else validate.whole_number("cells", cells, at_least=1)
        self._probes = None if probes is None else validate.whole_number("probes", probes, at_least=1)
        self._trained_on = 0
        self._index = None

    def require_room(self, rows: int) -> None:
        if self._cells is not None and len(self) + rows < self._cells:
            raise ValueError(f"cells must be at most the {len(self) + rows} rows that find them, got {self._cells}")

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        cells = int(self._index.nlist)
        settings = self._faiss.SearchParametersIVF(nprobe=min(cells, self._probes or math.ceil(cells / 8)))
        return self._found(queries, k, settings, "nprobe", cells)

    def vectors(self) -> NDArray[np.float32]:
        rows = np.empty((len(self), self._columns), np.float32)
        for cell, keys in enumerate(self._cells_keys()):
            if len(keys):
                codes = self._faiss.rev_swig_ptr(self._index.invlists.get_codes(cell), len(keys) * self._columns * 4)
                rows[self.keys.places(keys)] = codes.view(np.float32).reshape(len(keys), self._columns)
        return rows

    def write(self, path: Path) -> None:
        self._faiss.write_index(self._index if self._index is not None else self._empty(1), str(path))

    def read(self, path: Path) -> None:
        self._index = self._faiss.read_index(str(path))
        self.keys = Keys(np.sort(np.concatenate(self._cells_keys())))
        self._trained_on = len(self)

    def _put(self, keys: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        total = len(self) + len(rows)
        if self._index is not None and total < _GROWTH * self._trained_on:
            self._index.add_with_ids(rows, keys)
            return
        together = np.concatenate([self.vectors(), rows])
        cells = self._cells or max(1, min(round(_CELLS_FACTOR * math.sqrt(total)), total // _ROWS_A_CELL))
        self._index = self._empty(cells)
        self._index.train(together)
        self._index.add_with_ids(together, np.concatenate([self.keys.values, keys]))
        self._trained_on = total

    def _drop(self, keys: NDArray[np.int64]) -> None:
        self._index.remove_ids(self._faiss.IDSelectorBatch(keys))

    def _fetched(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.vectors()[self.keys.places(keys)]

    def _empty(self, cells: int) -> Any:
        quantizer = self._faiss.IndexFlatIP(self._columns)
        index = self._faiss.IndexIVFFlat(quantizer, self._columns, cells, self._faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1  # says nothing on stderr where cells are small
        quantizer.this.disown()
        index.own_fields = True
        return index

    def _cells_keys(self) -> list[NDArray[np.int64]]:
        """The keys in each cell."""
        if self._index is None:
            return []
        lists = self._index.invlists
        sizes = (int(lists.list_size(cell)) for cell in range(int(self._index.nlist)))
        return [
            self._faiss.rev_swig_ptr(lists.get_ids(cell), size).copy() if size else np.empty(0, np.int64)
            for cell, size in enumerate(sizes)
        ]
