"""A Milvus Lite collection in a folder: every row is compared with every query.

The engine of Milvus Lite runs in this process: pymilvus would start a server on a port of this machine, without a password.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import PRIVATE_FOLDER, private_folder
from hushvec.errors import StoreError
from hushvec.retrieval.stores.protocol import KeyedStore, Keys, when_gone

Answer = TypeVar("Answer")

_KEY, _VECTOR = "key", "vector"
_REPEAT = "a deletion that failed has happened after all; delete those rows again"


class MilvusStore(KeyedStore):
    """A collection of (key, vector) without an index: exact. Without a folder it is in a temporary one, deleted with it."""

    _collection: Any

    def __init__(self, columns: int, folder: Path | None, *, collection: str = "documents") -> None:
        with needs_extra("the store 'milvus'", "milvus"):
            import milvus_lite
        if not isinstance(collection, str) or not collection or "/" in collection or collection.startswith("."):
            raise ValueError(f"collection must be a name, got {collection!r}")
        self._milvus = milvus_lite
        self._columns = columns
        self._name = collection
        self.folder = folder
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="hushvec-milvus-")
            when_gone(self, temporary.cleanup)  # last in, first out: the database is closed before
            self._place = Path(temporary.name)
        else:
            private_folder(folder)
            self._place = folder
        self._database: Any = None
        self._was_left = False  # by work that failed
        self._doubtful: NDArray[np.int64] = np.empty(0, np.int64)  # keys of a deletion, which may have failed
        self.keys = Keys()
        self.keys = Keys(self._done(self._stored_keys))
        fields = self._done(lambda: {field.name: (field.dtype.name, field.dim) for field in self._collection.schema.fields})
        if fields != {_KEY: ("INT64", None), _VECTOR: ("FLOAT_VECTOR", columns)}:
            raise ValueError(f"collection {collection!r} must have rows of {columns} elements, and keys, got {fields}")

    def add(self, rows: NDArray[np.float32]) -> None:
        keys = self.keys.next(len(rows))
        records = [{_KEY: key, _VECTOR: row} for key, row in zip(keys.tolist(), rows.tolist())]
        self._done(lambda: self._collection.insert(records), writes=True)  # one batch of its log: all of it, or nothing
        self.keys.append(keys)

    def delete(self, places: NDArray[np.int64]) -> None:
        self._doubtful = self.keys.values[places]
        self._done(lambda: self._collection.delete(self._doubtful.tolist()), writes=True)
        self.keys.remove(places)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        answers = self._done(lambda: self._collection.search(queries.tolist(), top_k=k, metric_type="IP", output_fields=[]))
        if any(len(hits) != k for hits in answers):
            raise StoreError(f"{self._place}: {_REPEAT}")
        keys = np.array([[hit["id"] for hit in hits] for hits in answers], np.int64)
        scores = np.array([[hit["distance"] for hit in hits] for hits in answers], np.float32)
        return self.keys.places(keys), scores

    def vectors(self) -> NDArray[np.float32]:
        found = self._done(lambda: self._collection.query(output_fields=[_KEY, _VECTOR], order_by_pk=True))
        if not np.array_equal([record[_KEY] for record in found], self.keys.values):
            raise StoreError(f"{self._place}: {_REPEAT}")
        rows = np.array([record[_VECTOR] for record in found], np.float32)
        return rows.reshape(len(self), self._columns)

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        wanted = self.keys.values[places].tolist()
        records = self._done(lambda: self._collection.get(wanted, output_fields=[_KEY, _VECTOR]))
        found = {record[_KEY]: record[_VECTOR] for record in records}
        if found.keys() != set(wanted):
            raise StoreError(f"{self._place}: {_REPEAT}")
        return np.array([found[key] for key in wanted], np.float32).reshape(len(wanted), self._columns)

    def _done(self, work: Callable[[], Answer], *, writes: bool = False) -> Answer:
        """Run work of the engine and sync what it writes. If it fails, the folder is reopened before the next call."""
        try:
            if self._database is None:
                self._open()
            answer = work()
            if writes:
                self._collection.flush()
        except BaseException as error:
            database, self._database, self._was_left = self._database, None, True
            if database is not None:
                database.close()
            if not isinstance(error, Exception):
                raise
            raise StoreError(f"{self._place}: {str(error) or type(error).__name__}") from error
        return answer

    def _open(self) -> None:
        milvus = self._milvus
        self._database = milvus.MilvusLite(str(self._place))
        when_gone(self, self._database.close)
        if self._database.has_collection(self._name):
            self._collection = self._database.get_collection(self._name)
        else:
            key = milvus.FieldSchema(name=_KEY, dtype=milvus.DataType.INT64, is_primary=True)
            vector = milvus.FieldSchema(name=_VECTOR, dtype=milvus.DataType.FLOAT_VECTOR, dim=self._columns)
            self._collection = self._database.create_collection(self._name, milvus.CollectionSchema(fields=[key, vector]))
        (self._place / "collections").chmod(PRIVATE_FOLDER)  # whichever call of the library created the folder
        if self._was_left:
            self._settle()

    def _settle(self) -> None:
        stored = self._stored_keys()
        left = stored[~np.isin(stored, self.keys.values)].tolist()
        if left:
            self._collection.delete(left)
            self._collection.flush()
        lost = int((~np.isin(self.keys.values, np.concatenate([stored, self._doubtful]))).sum())
        if lost:
            raise ValueError(f"{lost} rows of the index are gone")
        self._was_left = False

    def _stored_keys(self) -> NDArray[np.int64]:
        found = self._collection.query(output_fields=[_KEY])
        return np.sort(np.array([record[_KEY] for record in found], np.int64))
