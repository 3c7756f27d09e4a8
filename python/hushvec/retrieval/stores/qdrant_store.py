"""A Qdrant collection in a folder, without a server; each row is compared with every query."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import PRIVATE_FOLDER, private_folder
from hushvec.retrieval.stores.protocol import KeyedStore, Keys

# Points in one call; their elements travel as Python floats.
_AT_ONCE = 1024


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

    def add(self, rows: NDArray[np.float32]) -> None:
        keys = self.keys.next(len(rows))
        try:
            for first in range(0, len(rows), _AT_ONCE):
                part = slice(first, first + _AT_ONCE)
                points = self._models.Batch(ids=keys[part].tolist(), vectors=rows[part].tolist())
                self._client.upsert(self._collection, points, wait=True)
        except BaseException:
            with contextlib.suppress(Exception):  # no rows, or all of them
                self._client.delete(self._collection, self._models.PointIdsList(points=keys.tolist()), wait=True)
            raise
        self.keys.append(keys)

    def delete(self, places: NDArray[np.int64]) -> None:
        points = self._models.PointIdsList(points=self.keys.values[places].tolist())
        self._client.delete(self._collection, points, wait=True)
        self.keys.remove(places)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        requests = [self._models.QueryRequest(query=query.tolist(), limit=k) for query in queries]
        answers = [answer.points for answer in self._client.query_batch_points(self._collection, requests=requests)]
        keys = np.array([[int(point.id) for point in points] for points in answers], np.int64)
        scores = np.array([[point.score for point in points] for points in answers], np.float32)
        return self.keys.places(keys), scores

    def vectors(self) -> NDArray[np.float32]:
        rows = np.empty((len(self), self._columns), np.float32)
        for point in self._points(with_vectors=True):
            rows[self.keys.places(np.array([int(point.id)]))] = point.vector
        return rows

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        wanted, back = np.unique(self.keys.values[places], return_inverse=True)
        points = self._client.retrieve(self._collection, ids=wanted.tolist(), with_vectors=True, with_payload=False)
        of_key = {int(point.id): point.vector for point in points}
        return np.array([of_key[int(key)] for key in wanted], np.float32).reshape(len(wanted), self._columns)[back]

    def _points(self, *, with_vectors: bool) -> Iterator[Any]:
        offset = None
        while True:
            points, offset = self._client.scroll(
                self._collection, limit=_AT_ONCE, offset=offset, with_vectors=with_vectors, with_payload=False
            )
            yield from points
            if offset is None:
                return
