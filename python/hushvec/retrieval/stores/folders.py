"""Stores that lie in a folder, each row compared with every query: LanceDB, and Qdrant without a server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import PRIVATE_FOLDER, private_folder
from hushvec.retrieval.stores import KeyedStore, Keys

_KEY, _VECTOR, _DISTANCE, _QUERY = "key", "vector", "_distance", "query_index"
# LanceDB: a list of more than one key for so many rows takes longer to look up than all rows to read.
_LONG_LIST = 8
# Qdrant: points in one call; their elements travel as Python floats.
_AT_ONCE = 1024


class LanceStore(KeyedStore):
    """A table of (key, vector). Exact: no vector index is made. Scores are 1 - distance, as LanceDB computes it."""

    def __init__(self, columns: int, folder: Path | None, *, table: str = "documents") -> None:
        with needs_extra("the store 'lancedb'", "lancedb"):
            import lancedb
            import pyarrow
        self._arrow = pyarrow
        self._columns = columns
        if not isinstance(table, str) or not table:
            raise ValueError(f"table must be a name, got {table!r}")
        self.folder = folder
        self._schema = pyarrow.schema(
            [pyarrow.field(_KEY, pyarrow.int64()), pyarrow.field(_VECTOR, pyarrow.list_(pyarrow.float32(), columns))]
        )
        if folder is not None:
            private_folder(folder)
        database: Any = lancedb.connect("memory://" if folder is None else str(folder))
        try:
            self._table = database.create_table(table, schema=self._schema, exist_ok=True)
        except ValueError as error:
            raise ValueError(f"table {table!r} must have rows of {columns} elements, and keys: {error}") from None
        if folder is not None:
            (folder / f"{table}.lance").chmod(PRIVATE_FOLDER)  # whichever call of the library created the folder
        self.keys = Keys(np.sort(self._table.to_arrow()[_KEY].to_numpy()))

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        wanted = self._table.search(queries, vector_column_name=_VECTOR).distance_type("dot").limit(k)
        found = wanted.select([_KEY, _DISTANCE]).to_arrow()
        scores = (1 - found[_DISTANCE].to_numpy()).astype(np.float32)
        query = found[_QUERY].to_numpy() if len(queries) > 1 else np.zeros(len(scores), np.int64)
        order = np.lexsort((-scores, query))
        places = self.keys.places(found[_KEY].to_numpy()[order])
        return places.reshape(len(queries), k), scores[order].reshape(len(queries), k)

    def vectors(self) -> NDArray[np.float32]:
        return self._in_order(self._table.to_arrow())

    def _put(self, keys: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        vectors = self._arrow.FixedSizeListArray.from_arrays(self._arrow.array(rows.ravel()), self._columns)
        self._table.add(self._arrow.table({_KEY: self._arrow.array(keys), _VECTOR: vectors}, schema=self._schema))

    def _drop(self, keys: NDArray[np.int64]) -> None:
        self._table.delete(_among(keys))

    def _fetched(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        if not 0 < _LONG_LIST * len(keys) <= len(self):
            return self.vectors()[self.keys.places(keys)]
        return self._in_order(self._table.search().where(_among(keys)).limit(len(keys)).to_arrow())

    def _in_order(self, table: Any) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = table[_VECTOR].combine_chunks().flatten().to_numpy().reshape(len(table), self._columns)
        return rows[np.argsort(table[_KEY].to_numpy())]


def _among(keys: NDArray[np.int64]) -> str:
    return f"{_KEY} IN ({', '.join(map(str, keys))})"


class QdrantStore(KeyedStore):
    """A collection of points whose id is the row's key. Exact, as Qdrant's local mode is."""

    def __init__(self, columns: int, folder: Path | None, *, collection: str = "documents") -> None:
        with needs_extra("the store 'qdrant'", "qdrant"):
            import qdrant_client
        if not isinstance(collection, str) or not collection:
            raise ValueError(f"collection must be a name, got {collection!r}")
        self._models = qdrant_client.models
        self.folder = folder
        self._columns = columns
        self._collection = collection
        if folder is not None:
            private_folder(folder)
        client = qdrant_client.QdrantClient(":memory:") if folder is None else qdrant_client.QdrantClient(path=str(folder))
        self._client = client
        wanted = self._models.VectorParams(size=columns, distance=self._models.Distance.DOT)
        if not client.collection_exists(collection):
            client.create_collection(collection, vectors_config=wanted)
        if folder is not None:
            (folder / "collection" / collection).chmod(PRIVATE_FOLDER)  # whichever call of the library created the folder
        there = client.get_collection(collection).config.params.vectors
        if not (isinstance(there, type(wanted)) and there.size == columns and there.distance == wanted.distance):
            raise ValueError(f"collection {collection!r} must have inner products of {columns} elements, got {there}")
        self.keys = Keys(np.sort(np.array([int(point.id) for point in self._points(with_vectors=False)], np.int64)))

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        requests = [self._models.QueryRequest(query=query.tolist(), limit=k) for query in queries]
        answers = [answer.points for answer in self._client.query_batch_points(self._collection, requests=requests)]
        keys = np.array([[int(point.id) for point in points] for points in answers], np.int64)
        scores = np.array([[point.score for point in points] for points in answers], np.float32)
        return self.keys.places(keys), scores

    def vectors(self) -> NDArray[np.float32]:
        return self._of_points(self._points(with_vectors=True), self.keys.values)

    def _put(self, keys: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        try:
            for first in range(0, len(rows), _AT_ONCE):
                part = slice(first, first + _AT_ONCE)
                points = self._models.Batch(ids=keys[part].tolist(), vectors=rows[part].tolist())
                self._client.upsert(self._collection, points, wait=True)
        except BaseException:
            with contextlib.suppress(Exception):  # no rows, or all of them
                self._drop(keys)
            raise

    def _drop(self, keys: NDArray[np.int64]) -> None:
        self._client.delete(self._collection, self._models.PointIdsList(points=keys.tolist()), wait=True)

    def _fetched(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        points = self._client.retrieve(self._collection, ids=keys.tolist(), with_vectors=True, with_payload=False)
        return self._of_points(points, keys)

    def _of_points(self, points: Any, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of points in the order of their keys, which are these."""
        rows = np.empty((len(keys), self._columns), np.float32)
        for point in points:
            rows[np.searchsorted(keys, int(point.id))] = point.vector
        return rows

    def _points(self, *, with_vectors: bool) -> Iterator[Any]:
        offset = None
        while True:
            points, offset = self._client.scroll(
                self._collection, limit=_AT_ONCE, offset=offset, with_vectors=with_vectors, with_payload=False
            )
            yield from points
            if offset is None:
                return
