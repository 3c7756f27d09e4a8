"""A LanceDB table: rows in a folder, each compared with every query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import PRIVATE_FOLDER, private_folder
from hushvec.retrieval.stores.protocol import KeyedStore, Keys

# A list of more than one key for so many rows takes longer to look up than all rows to read.
_LONG_LIST = 8

_KEY, _VECTOR, _DISTANCE, _QUERY = "key", "vector", "_distance", "query_index"


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
        self.keys = Keys(np.sort(self._column(_KEY).to_numpy()))

    def add(self, rows: NDArray[np.float32]) -> None:
        keys = self.keys.next(len(rows))
        vectors = self._arrow.FixedSizeListArray.from_arrays(self._arrow.array(rows.ravel()), self._columns)
        self._table.add(self._arrow.table({_KEY: self._arrow.array(keys), _VECTOR: vectors}, schema=self._schema))
        self.keys.append(keys)

    def delete(self, places: NDArray[np.int64]) -> None:
        self._table.delete(f"{_KEY} IN ({', '.join(map(str, self.keys.values[places]))})")
        self.keys.remove(places)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        found = (
            self._table.search(queries, vector_column_name=_VECTOR)
            .distance_type("dot")
            .limit(k)
            .select([_KEY, _DISTANCE])
            .to_arrow()
        )
        scores = (1 - found[_DISTANCE].to_numpy()).astype(np.float32)
        query = found[_QUERY].to_numpy() if len(queries) > 1 else np.zeros(len(scores), np.int64)
        order = np.lexsort((-scores, query))
        places = self.keys.places(found[_KEY].to_numpy()[order])
        return places.reshape(len(queries), k), scores[order].reshape(len(queries), k)

    def vectors(self) -> NDArray[np.float32]:
        rows = np.empty((len(self), self._columns), np.float32)
        flat = self._column(_VECTOR).combine_chunks().flatten().to_numpy()
        rows[self.keys.places(self._column(_KEY).to_numpy())] = flat.reshape(len(self), self._columns)
        return rows

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        if not 0 < _LONG_LIST * len(places) <= len(self):
            return self.vectors()[places]
        wanted, back = np.unique(self.keys.values[places], return_inverse=True)
        found = self._table.search().where(f"{_KEY} IN ({', '.join(map(str, wanted))})").limit(len(wanted)).to_arrow()
        order = np.argsort(found[_KEY].to_numpy())
        rows: NDArray[np.float32] = found[_VECTOR].combine_chunks().flatten().to_numpy().reshape(len(wanted), self._columns)
        return rows[order[back]]

    def _column(self, name: str) -> Any:
        return self._table.to_arrow().column(name)
