"""A store by its name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec.retrieval.stores.protocol import Store

STORES = ("flat", "numpy", "hnsw", "ivf", "lancedb", "qdrant", "milvus", "pgvector")
ON_DISK = ("lancedb", "qdrant", "milvus")
# Behind a server: its rows lie where an address says.
BEHIND_AN_ADDRESS = ("pgvector",)
# Those whose rows are one array in memory: noise on scores needs it.
WITH_A_MATRIX = ("flat", "numpy")
# That whose searches look into cells of near rows.
CELLS = "ivf"

# A URL, of whose slashes pathlib drops one, or libpq's words. A drive's name has one letter.
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/|.*\bpassword\s*=", re.DOTALL)

_OPTIONS: dict[str, tuple[str, ...]] = {
    "flat": (),
    "numpy": (),
    "hnsw": ("neighbors", "ef_construction", "ef_search"),
    "ivf": ("cells", "probes"),
    "lancedb": ("table",),
    "qdrant": ("collection",),
    "milvus": ("collection",),
    "pgvector": ("table", "index", "neighbors", "ef_construction", "ef_search"),
}


def open_store(
    name: str, columns: int, *, options: Mapping[str, Any] | None = None, path: str | os.PathLike[str] | None = None
) -> Store:
    """The store of that name for rows of so many elements, empty, or with what lies at `path`.

    Args:
        options: of that store; docs/retrieval.md lists them.
        path: folder of a store on disk, None keeps such a store in memory; or address of a database.

    Raises:
        TypeError, ValueError: an option that the store does not have, or out of its range; a path for a store in memory.
        StoreError: what lies at `path` cannot be used.
        MissingExtraError: the store's package is not installed.
    """
    validate.choice("store", name, STORES)
    chosen = _checked_options(name, options)
    if name in BEHIND_AN_ADDRESS:
        from hushvec.retrieval.stores.pgvector_store import PgVectorStore

        return PgVectorStore(columns, path, **chosen)
    if name in ON_DISK:
        if path is not None and _is_address(path):
            raise ValueError(f"path must be a folder for store {name!r}, got {shown(path)}")
        return _on_disk(name, columns, None if path is None else Path(path), chosen)
    if path is not None:
        raise ValueError(f"path must be None for store {name!r}, which lies in memory, got {shown(path)}")
    return _in_memory(name, columns, chosen)


def shown(path: str | os.PathLike[str]) -> str:
    """A path as an error may print it. An address may hold a password."""
    return "an address" if _is_address(path) else repr(os.fspath(path))


def _is_address(path: str | os.PathLike[str]) -> bool:
    return _ADDRESS.match(os.fspath(path)) is not None


def _on_disk(name: str, columns: int, folder: Path | None, options: dict[str, Any]) -> Store:
    if name == "lancedb":
        from hushvec.retrieval.stores.lancedb_store import LanceStore

        return LanceStore(columns, folder, **options)
    if name == "milvus":
        from hushvec.retrieval.stores.milvus_store import MilvusStore

        return MilvusStore(columns, folder, **options)
    from hushvec.retrieval.stores.qdrant_store import QdrantStore

    return QdrantStore(columns, folder, **options)


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
        raise TypeError(f"store_options must be a mapping, got {validate.kind(options)}")
    for option in options:
        if option not in _OPTIONS[name]:
            known = ", ".join(_OPTIONS[name]) or "none"
            raise ValueError(f"store_options must be among those of {name!r} ({known}), got {option!r}")
    return dict(options)
