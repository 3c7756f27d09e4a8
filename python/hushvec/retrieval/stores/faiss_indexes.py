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
from hushvec.retrieval.stores.numpy_flat import WholeMatrix, best_of_matrix
from hushvec.retrieval.stores.protocol import Keys

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


class GraphStore:
    """IndexHNSWFlat: a walk through a graph of near neighbors. Approximate.

    Deleted rows are skipped at once, and leave memory when the graph is built again, once half of the rows are deleted.

    Args:
        neighbors: of a row in the graph, >= 2 (M of the paper).
        ef_construction: candidates while the graph is built, >= 1.
        ef_search: candidates while it is searched, >= 1; at least k are used.
    """

    suffix = ".faiss"

    def __init__(self, columns: int, *, neighbors: int = 32, ef_construction: int = 200, ef_search: int = 64) -> None:
        self._faiss = _faiss("the store 'hnsw'")
        self._columns = columns
        self._neighbors = validate.whole_number("neighbors", neighbors, at_least=2)
        self._ef_construction = validate.whole_number("ef_construction", ef_construction, at_least=1)
        self._ef_search = validate.whole_number("ef_search", ef_search, at_least=1)
        self._index = self._empty()
        self._live: NDArray[np.int64] = np.empty(0, np.int64)  # nodes of the graph that are not deleted
        self._selector: Any = None  # of those, made when a search first needs it

    def __len__(self) -> int:
        return len(self._live)

    def require_room(self, rows: int) -> None:
        pass

    def add(self, rows: NDArray[np.float32]) -> None:
        first = int(self._index.ntotal)
        self._index.add(rows)
        self._live = np.concatenate([self._live, np.arange(first, first + len(rows), dtype=np.int64)])
        self._selector = None

    def delete(self, places: NDArray[np.int64]) -> None:
        self._live = np.delete(self._live, places)
        self._selector = None
        if len(self) < (1 - _MOST_DELETED) * int(self._index.ntotal):
            self._build(self.vectors())

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        wide, total = max(self._ef_search, k), int(self._index.ntotal)
        settings = self._faiss.SearchParametersHNSW(efSearch=wide)
        if len(self) < total:
            if self._selector is None:
                self._selector = self._faiss.IDSelectorBatch(self._live)
            settings.sel = self._selector
        scores, nodes = self._index.search(queries, k, params=settings)
        while nodes.min() < 0 and settings.efSearch < total:
            settings.efSearch *= 4
            scores, nodes = self._index.search(queries, k, params=settings)
        if nodes.min() < 0:  # rows that the graph does not reach
            return best_of_matrix(self.vectors(), queries, k)
        return np.searchsorted(self._live, nodes).astype(np.int64, copy=False), scores

    def vectors(self) -> NDArray[np.float32]:
        total = int(self._index.ntotal)
        if not total:
            return np.empty((0, self._columns), np.float32)
        rows: NDArray[np.float32] = self._index.reconstruct_n(0, total)
        return rows if len(self) == total else rows[self._live]

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = self._index.reconstruct_batch(self._live[places])
        return rows

    def write(self, path: Path) -> None:
        if len(self) < int(self._index.ntotal):
            self._build(self.vectors())  # deleted rows are not written
        self._faiss.write_index(self._index, str(path))

    def read(self, path: Path) -> None:
        self._index = self._faiss.read_index(str(path))
        self._live = np.arange(self._index.ntotal, dtype=np.int64)

    def _empty(self) -> Any:
        index = self._faiss.IndexHNSWFlat(self._columns, self._neighbors, self._faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self._ef_construction
        return index

    def _build(self, rows: NDArray[np.float32]) -> None:
        self._index = self._empty()
        self._index.add(rows)
        self._live = np.arange(len(rows), dtype=np.int64)


class CellStore:
    """IndexIVFFlat: rows in cells around centers, of which the nearest to a query are looked into. Approximate.

    The centers are found by k-means on the rows that are there: on released rows, where documents get noise. They are found again
    whenever the rows have grown fourfold.

    Args:
        cells: number of centers; None for 4 sqrt(n), at most a cell for 8 rows.
        probes: cells looked into, >= 1; None for an eighth of them.
    """

    suffix = ".faiss"

    def __init__(self, columns: int, *, cells: int | None = None, probes: int | None = None) -> None:
        self._faiss = _faiss("the store 'ivf'")
        self._columns = columns
        self._cells = None if cells is None else validate.whole_number("cells", cells, at_least=1)
        self._probes = None if probes is None else validate.whole_number("probes", probes, at_least=1)
        self.keys = Keys()
        self._trained_on = 0
        self._index: Any = None

    def __len__(self) -> int:
        return len(self.keys)

    def require_room(self, rows: int) -> None:
        if self._cells is not None and len(self) + rows < self._cells:
            raise ValueError(f"cells must be at most the {len(self) + rows} rows that find them, got {self._cells}")

    def add(self, rows: NDArray[np.float32]) -> None:
        new = self.keys.next(len(rows))
        if self._index is not None and len(self) + len(rows) < _GROWTH * self._trained_on:
            self._index.add_with_ids(rows, new)
            self.keys.append(new)
            return
        together = np.concatenate([self.vectors(), rows]) if len(self) else rows
        self.keys.append(new)
        self._build(together)

    def delete(self, places: NDArray[np.int64]) -> None:
        self._index.remove_ids(self._faiss.IDSelectorBatch(self.keys.values[places]))
        self.keys.remove(places)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        cells = int(self._index.nlist)
        settings = self._faiss.SearchParametersIVF(nprobe=min(cells, self._probes or math.ceil(cells / 8)))
        scores, keys = self._index.search(queries, k, params=settings)
        while keys.min() < 0 and settings.nprobe < cells:  # fewer than k rows in the cells looked into
            settings.nprobe = min(cells, 4 * settings.nprobe)
            scores, keys = self._index.search(queries, k, params=settings)
        if keys.min() < 0:
            return best_of_matrix(self.vectors(), queries, k)
        return self.keys.places(keys), scores

    def vectors(self) -> NDArray[np.float32]:
        rows = np.empty((len(self), self._columns), np.float32)
        if self._index is None:
            return rows
        lists = self._index.invlists
        for cell in range(int(self._index.nlist)):
            keys = self._keys_of(lists, cell)
            if len(keys):
                codes = self._faiss.rev_swig_ptr(lists.get_codes(cell), len(keys) * self._columns * 4)
                rows[self.keys.places(keys)] = codes.view(np.float32).reshape(len(keys), self._columns)
        return rows

    def write(self, path: Path) -> None:
        self._faiss.write_index(self._index if self._index is not None else self._empty(1), str(path))

    def read(self, path: Path) -> None:
        self._index = self._faiss.read_index(str(path))
        lists = self._index.invlists
        keys = [self._keys_of(lists, cell) for cell in range(int(self._index.nlist))]
        self.keys = Keys(np.sort(np.concatenate(keys)))
        self._trained_on = len(self)

    def _build(self, rows: NDArray[np.float32]) -> None:
        cells = self._cells or max(1, min(round(_CELLS_FACTOR * math.sqrt(len(rows))), len(rows) // _ROWS_A_CELL))
        self._index = self._empty(cells)
        self._index.train(rows)
        self._index.add_with_ids(rows, self.keys.values)
        self._trained_on = len(rows)

    def _empty(self, cells: int) -> Any:
        quantizer = self._faiss.IndexFlatIP(self._columns)
        index = self._faiss.IndexIVFFlat(quantizer, self._columns, cells, self._faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1  # says nothing on stderr where cells are small
        quantizer.this.disown()
        index.own_fields = True
        return index

    def _keys_of(self, lists: Any, cell: int) -> NDArray[np.int64]:
        size = int(lists.list_size(cell))
        return self._faiss.rev_swig_ptr(lists.get_ids(cell), size).copy() if size else np.empty(0, np.int64)
