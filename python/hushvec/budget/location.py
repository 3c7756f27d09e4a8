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
        store = default_store()
    if isinstance(store, os.PathLike):
        store = os.fspath(store)
    if not isinstance(store, str):
        raise TypeError(f"store must be a path or an address, got {validate.kind(store)}")
    path = file_of(store)
    if path is None:
        from hushvec.budget.postgresql import PostgreSQLStore

        return PostgreSQLStore(store, create=create)
    from hushvec.budget.sqlite import SQLiteStore

    return SQLiteStore(path, create=create)


def file_of(store: str) -> Path | None:
    """The SQLite file that a path or an address means; None for an address of PostgreSQL.

    Raises:
        ValueError: another kind of address, whose user and password are not repeated, or no path of a file.
    """
    scheme, separator, rest = store.partition("://")
    if not separator:
        path = store
    elif scheme == "sqlite":
        if not rest.startswith("/") or "?" in rest:
            got = "a question mark" if "?" in rest else "a host"
            raise ValueError(f"store must be sqlite:///relative/path or sqlite:////absolute/path, got {got} in it")
        from urllib.parse import unquote

        path = unquote(rest[1:])
    elif scheme in ("postgresql", "postgresql+psycopg"):
        return None
    else:
        raise ValueError(f"store must be a path, sqlite:///path or postgresql://..., got an address with {scheme!r}")
    if not path or "\0" in path:
        raise ValueError(f"store must be the path of a file, got {path!r}")
    return Path(path)


def default_store() -> str:
    """$HUSHVEC_BUDGET_STORE, or else the default file."""
    return os.environ.get("HUSHVEC_BUDGET_STORE") or default_file()


def default_file() -> str:
    """$XDG_STATE_HOME/hushvec/budget.sqlite, below ~/.local/state if that is not set."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return str(folder / "hushvec" / FILE_NAME)
