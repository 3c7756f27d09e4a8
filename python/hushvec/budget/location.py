"""Where ledgers are kept: from the arguments `persist_key` and `store` to a database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec.budget.store import Store

MEMORY = "memory"
DEFAULT_KEY = "default"
FILE_NAME = "budget.sqlite"


def is_memory(persist_key: str | None, store: Any) -> bool:
    """Whether the ledger is in memory: asked for, or neither a key nor a store is named."""
    return store == MEMORY or (store is None and persist_key is None)


def open_store(store: Any, *, create: bool) -> Store:
    """The database of an argument `store`.

    Args:
        store: a path, sqlite:///path, postgresql://..., or None for the default file.
        create: make what is missing.
    """
    if store is None:
        store = os.environ.get("HUSHVEC_BUDGET_STORE") or default_file()
    if isinstance(store, os.PathLike):
        store = os.fspath(store)
    if not isinstance(store, str):
        raise TypeError(f"store must be a path or an address, got {validate.kind(store)}")
    scheme, separator, rest = store.partition("://")
    if not separator:
        return _file(store, create)
    if scheme == "sqlite":
        if not rest.startswith("/") or "?" in rest:
            raise ValueError(f"store must be sqlite:///relative/path or sqlite:////absolute/path, got {store!r}")
        from urllib.parse import unquote

        return _file(unquote(rest[1:]), create)
    if scheme in ("postgresql", "postgresql+psycopg"):
        from hushvec.budget.postgresql import PostgreSQLStore

        return PostgreSQLStore(store, create=create)
    raise ValueError(f"store must be a path, sqlite:///path or postgresql://..., got an address with {scheme!r}")


def default_file() -> str:
    """$XDG_STATE_HOME/hushvec/budget.sqlite, below ~/.local/state if that is not set."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return str(folder / "hushvec" / FILE_NAME)


def _file(path: str, create: bool) -> Store:
    from hushvec.budget.sqlite import SQLiteStore

    if not path or "\0" in path:
        raise ValueError(f"store must be the path of a file, got {path!r}")
    return SQLiteStore(Path(path), create=create)
