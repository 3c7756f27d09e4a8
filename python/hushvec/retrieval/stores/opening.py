"""A store by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushvec import _validate
from hushvec.retrieval.stores.protocol import Store

STORES = ("flat", "numpy", "hnsw", "ivf", "lancedb", "qdrant")
ON_DISK = ("lancedb", "qdrant")
# Those whose rows are one array in memory: noise on scores needs it.
WITH_A_MATRIX = ("flat", "numpy")
# That whose searches look into cells of near rows.
CELLS = "ivf"

_OPTIONS: dict[str, tuple[str, ...]] = {
    "flat": (),
    "numpy": (),
    "hnsw": ("neighbors", "ef_construction", "ef_search"),
    "ivf": ("cells", "probes"),
    "lancedb": ("table",),
    "qdrant": ("collection",),
}


def open_store(
    name: str, columns: int, *, options: Mapping[str, Any] | None = None, path: str | os.PathLike[str] | None = None
) -> Store:
    """The store of that name for rows of so many elements, empty, or with what lies at `path`.

    Args:
        name: one of `STORES`.
        columns: elements in a row.
        options: of that store; docs/retrieval.md lists them.
        path: folder of a store on disk; None keeps such a store in memory.

    Raises:
        ValueError: an option that the store does not have, or out of its range; a path for a store in memory.
        TypeError: wrong kinds.
        MissingExtraError: the store's package is not installed.
    """
    _validate.choice("store", name, STORES)
    chosen = _checked_options(name, options)
    if name in ON_DISK:
        folder = None if path is None else Path(path)
        if name == "lancedb":
            from hushvec.retrieval.stores.lancedb_store import LanceStore

            return LanceStore(columns, folder, **chosen)
        from hushvec.retrieval.stores.qdrant_store import QdrantStore

        return QdrantStore(columns, folder, **chosen)
    if path is not None:
        raise ValueError(f"path must be None for store {name!r}, which lies in memory, got {os.fspath(path)!r}")
    return _in_memory(name, columns, chosen)


def _in_memory(name: str, columns: int, options: dict[str, Any]) -> Store:
    from hushvec.retrieval.stores.numpy_flat import NumpyStore

    if name == "numpy":
        return NumpyStore(columns)
    from hushvec.retrieval.stores import faiss_indexes

    if name == "flat":
        return faiss_indexes.FlatStore(columns) if faiss_indexes.is_installed() else NumpyStore(columns)
    return faiss_indexes.GraphStore(columns, **options) if name == "hnsw" else faiss_indexes.CellStore(columns, **options)


def _checked_options(name: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(f"store_options must be a mapping, got {_validate.kind(options)}")
    for option in options:
        if option not in _OPTIONS[name]:
            known = ", ".join(_OPTIONS[name]) or "none"
            raise ValueError(f"store_options must be among those of {name!r} ({known}), got {option!r}")
    return dict(options)
