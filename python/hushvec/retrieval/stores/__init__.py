"""Where the rows of an index lie and how they are looked up: five stores behind one protocol (docs/retrieval.md)."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate

__all__ = ["BEHIND_AN_ADDRESS", "ON_DISK", "OWN", "STORES", "WITH_A_MATRIX", "KeyedStore", "Store", "open_store", "shown"]

_GRAPH = ("neighbors", "ef_construction", "ef_search")
# Stores whose rows are one array in memory: noise on scores needs it.
WITH_A_MATRIX = ("flat", "numpy")
# A URL, of whose slashes pathlib drops one, or libpq's words. A drive's name has one letter.
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/|.*\bpassword\s*=", re.DOTALL)


class Keys:
    """The keys of the rows that are there, ascending, in the order of the rows. No key is ever used twice."""

    def __init__(self, keys: NDArray[np.int64] | None = None) -> None:
        self.values: NDArray[np.int64] = np.empty(0, np.int64) if keys is None else keys
        self._next = int(self.values[-1]) + 1 if len(self.values) else 0

    def __len__(self) -> int:
        return len(self.values)

    def next(self, rows: int) -> NDArray[np.int64]:
        """Keys for new rows; call `append` once the rows are stored."""
        return np.arange(self._next, self._next + rows, dtype=np.int64)

    def append(self, keys: NDArray[np.int64]) -> None:
        self.values = np.concatenate([self.values, keys])
        self._next += len(keys)

    def remove(self, places: NDArray[np.int64]) -> None:
        self.values = np.delete(self.values, places)

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of keys that are there."""
        return np.searchsorted(self.values, keys).astype(np.int64, copy=False)

    def holds(self, keys: NDArray[np.int64]) -> bool:
        """Whether all of these are there."""
        if not len(self):
            return not len(keys)
        return bool((self.values[np.minimum(self.places(keys), len(self) - 1)] == keys).all())


def when_gone(store: object, close: Callable[[], Any]) -> None:
    """Call `close` when the store is garbage-collected or at exit; last in, first out, and never in a forked child."""
    pid = os.getpid()

    def closed() -> None:
        if pid == os.getpid():
            with contextlib.suppress(Exception):
                close()

    weakref.finalize(store, closed)


@runtime_checkable
class Store(Protocol):
    """Rows in the order in which they came. A place is a row's number in that order, among the rows that are there.

    docs/extend.md has one of your own, and `hushvec.extend.check_store` tries it.
    """

    suffix: str = ".npy"  # of the file that `write` makes
    folder: Path | None = None  # where rows on disk lie

    def __len__(self) -> int: ...

    @property
    def outlives(self) -> bool:
        """Whether the rows are still there when the store is opened again."""
        return self.folder is not None

    def add(self, rows: NDArray[np.float32]) -> None:
        """Append rows, float32 [n, columns] in C order, finite."""

    def delete(self, places: NDArray[np.int64]) -> None:
        """Delete rows; places are ascending and distinct."""

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Places and inner products, [m, k], largest first; 1 <= k <= len."""

    def vectors(self) -> NDArray[np.float32]:
        """All rows in order, a new array."""

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The rows at these places, in their order, a new array; a place may come several times."""

    def write(self, path: Path) -> None:
        """All rows into a new file, here as an array."""
        np.save(path, self.vectors())

    def read(self, path: Path) -> None:
        """The rows that `write` wrote, into a store without rows."""
        self.add(np.load(path, allow_pickle=False))


class KeyedStore(Store):
    """The part of a store whose rows have keys that does not depend on what holds the rows."""

    keys: Keys

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, rows: NDArray[np.float32]) -> None:
        keys = self.keys.next(len(rows))
        self._put(keys, rows)
        self.keys.append(keys)

    def delete(self, places: NDArray[np.int64]) -> None:
        self._drop(self.keys.values[places])
        self.keys.remove(places)

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        wanted, back = np.unique(self.keys.values[places], return_inverse=True)
        return self._fetched(wanted)[back]

    @abstractmethod
    def _put(self, keys: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Store rows under new keys: all of them or none."""

    @abstractmethod
    def _drop(self, keys: NDArray[np.int64]) -> None: ...

    @abstractmethod
    def _fetched(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """The rows [n, columns] of keys that are there, ascending and distinct."""


class _Kind(NamedTuple):
    """How a store is opened."""

    module: str  # in this package, imported when the store is
    class_name: str  # takes the columns, the place if it has one, and the options
    place: str = "memory"  # what `path` is: "memory" for none, "folder" or "address"
    options: tuple[str, ...] = ()


_KINDS = {
    "flat": _Kind("numpy_flat", "NumpyStore"),
    "numpy": _Kind("numpy_flat", "NumpyStore"),  # the same by another name
    "hnsw": _Kind("faiss_indexes", "GraphStore", options=_GRAPH),
    "lancedb": _Kind("folders", "LanceStore", "folder", ("table",)),
    "qdrant": _Kind("folders", "QdrantStore", "folder", ("collection",)),
    "pgvector": _Kind("pgvector_store", "PgVectorStore", "address", ("table", "index", *_GRAPH)),
}

STORES = tuple(_KINDS)
OWN = "own"  # what settings call a store that the caller made
ON_DISK = tuple(name for name, kind in _KINDS.items() if kind.place == "folder")
# Behind a server: its rows lie where an address says.
BEHIND_AN_ADDRESS = tuple(name for name, kind in _KINDS.items() if kind.place == "address")


def open_store(
    name: str, columns: int, *, options: Mapping[str, Any] | None = None, path: str | os.PathLike[str] | None = None,
    own: Store | None = None,
) -> Store:
    """The store of that name for rows of so many elements, empty, or with what lies at `path`.

    `options` are of that store: docs/retrieval.md lists them. `path` is the folder of a store on disk, None keeps it in memory; or the
    address of a database. `own` is the store itself where the name is OWN. StoreError: what lies there cannot be used.
    """
    if own is None and name == OWN:
        raise ValueError("store must be the object where it is one of your own, got none")
    if own is not None and name != OWN:
        raise ValueError(f"store must be None for an index that was saved with {name!r}, got {validate.kind(own)}")
    if own is not None:
        if options is not None or path is not None:
            raise ValueError("store_options and path must be None with a store of your own, which has its own")
        return own
    kind = _KINDS[validate.choice("store", name, STORES)]
    validate.instance("store_options", options, Mapping | None, "a mapping")
    chosen = {} if options is None else dict(options)
    for option in chosen:
        if option not in kind.options:
            known = ", ".join(kind.options) or "none"
            raise ValueError(f"store_options must be among those of {name!r} ({known}), got {option!r}")
    if kind.place == "memory":
        if path is not None:
            raise ValueError(f"path must be None for store {name!r}, which lies in memory, got {shown(path)}")
        return _class(kind)(columns, **chosen)  # type: ignore[no-any-return]
    if kind.place == "folder" and path is not None:
        if _is_address(path):
            raise ValueError(f"path must be a folder for store {name!r}, got {shown(path)}")
        path = Path(path)
    return _class(kind)(columns, path, **chosen)  # type: ignore[no-any-return]


def shown(path: str | os.PathLike[str]) -> str:
    """A path as an error may print it. An address may hold a password."""
    return "an address" if _is_address(path) else repr(os.fspath(path))


def _is_address(path: str | os.PathLike[str]) -> bool:
    return _ADDRESS.match(os.fspath(path)) is not None


def _class(kind: _Kind) -> Any:
    return getattr(importlib.import_module(f"hushvec.retrieval.stores.{kind.module}"), kind.class_name)
