"""A store by its name."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hushvec._util import validate
from hushvec.retrieval.stores.protocol import Store


class _Kind(NamedTuple):
    """How a store is opened.

    Args:
        module: in this package, imported when the store is.
        class_name: takes the columns, the place if it has one, and the options.
        place: what `path` is: "memory" for none, "folder" or "address".
        options: their names.
    """

    module: str
    class_name: str
    place: str = "memory"
    options: tuple[str, ...] = ()


_GRAPH = ("neighbors", "ef_construction", "ef_search")
_KINDS = {
    "flat": _Kind("faiss_indexes", "FlatStore"),
    "numpy": _Kind("numpy_flat", "NumpyStore"),
    "hnsw": _Kind("faiss_indexes", "GraphStore", options=_GRAPH),
    "ivf": _Kind("faiss_indexes", "CellStore", options=("cells", "probes")),
    "lancedb": _Kind("lancedb_store", "LanceStore", "folder", ("table",)),
    "qdrant": _Kind("qdrant_store", "QdrantStore", "folder", ("collection",)),
    "milvus": _Kind("milvus_store", "MilvusStore", "folder", ("collection",)),
    "pgvector": _Kind("pgvector_store", "PgVectorStore", "address", ("table", "index", *_GRAPH)),
}

STORES = tuple(_KINDS)
ON_DISK = tuple(name for name, kind in _KINDS.items() if kind.place == "folder")
# Behind a server: its rows lie where an address says.
BEHIND_AN_ADDRESS = tuple(name for name, kind in _KINDS.items() if kind.place == "address")
# Those whose rows are one array in memory: noise on scores needs it.
WITH_A_MATRIX = ("flat", "numpy")
# The store that searches cells of near rows.
CELLS = "ivf"

# A URL, of whose slashes pathlib drops one, or libpq's words. A drive's name has one letter.
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/|.*\bpassword\s*=", re.DOTALL)


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
    kind = _KINDS[validate.choice("store", name, STORES)]
    chosen = _checked_options(name, kind, options)
    if kind.place == "memory":
        if path is not None:
            raise ValueError(f"path must be None for store {name!r}, which lies in memory, got {shown(path)}")
        return _class(name, kind)(columns, **chosen)  # type: ignore[no-any-return]
    if kind.place == "folder" and path is not None:
        if _is_address(path):
            raise ValueError(f"path must be a folder for store {name!r}, got {shown(path)}")
        path = Path(path)
    return _class(name, kind)(columns, path, **chosen)  # type: ignore[no-any-return]


def shown(path: str | os.PathLike[str]) -> str:
    """A path as an error may print it. An address may hold a password."""
    return "an address" if _is_address(path) else repr(os.fspath(path))


def _is_address(path: str | os.PathLike[str]) -> bool:
    return _ADDRESS.match(os.fspath(path)) is not None


def _class(name: str, kind: _Kind) -> Any:
    """The store's class. Plain numpy stands in for "flat" where FAISS is not installed: they find the same rows."""
    module = importlib.import_module(f"hushvec.retrieval.stores.{kind.module}")
    if name == "flat" and not module.is_installed():
        return _class("numpy", _KINDS["numpy"])
    return getattr(module, kind.class_name)


def _checked_options(name: str, kind: _Kind, options: Mapping[str, Any] | None) -> dict[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(f"store_options must be a mapping, got {validate.kind(options)}")
    for option in options:
        if option not in kind.options:
            known = ", ".join(kind.options) or "none"
            raise ValueError(f"store_options must be among those of {name!r} ({known}), got {option!r}")
    return dict(options)
