"""Released rows with their receipts, in the database of the ledgers, or in the file beside an SQLite ledger."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.errors import BudgetError
from hushvec.serve.answers import engine_of
from hushvec.serve.failures import ServiceError, too_large

_log = logging.getLogger("hushvec.serve")
_TABLE = "hushvec_released"
_KIND = "<f4"  # of a row in the database


class ReleasedRows:
    """The rows of all tenants, for any number of processes. The table is made when it is first asked for."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._opened: tuple[Any, Any] | None = None

    def keep(self, tenant: str, ids: list[str], rows: NDArray[np.float32], receipt: dict[str, Any], most: int) -> int:
        """Store rows in place of those with their ids, all or none; returns how many the tenant has then, `most` at most."""
        with self._table() as (sql, engine, table), engine.begin() as connection:
            mine, text = table.c.tenant == tenant, json.dumps(receipt)
            shared = {"tenant": tenant, "receipt": text}
            named = [{**shared, "id": name, "row": row.astype(_KIND).tobytes()} for name, row in zip(ids, rows)]
            connection.execute(table.delete().where(mine, table.c.id == sql.bindparam("name")), [{"name": name} for name in ids])
            connection.execute(table.insert(), named)
            kept = int(connection.execute(sql.select(sql.func.count()).where(mine)).scalar_one())
            if kept > most:
                raise too_large(f"the policy keeps at most {most:,} released rows", "vectors")
        return kept

    def of(self, tenant: str, dimension: int) -> tuple[list[str], NDArray[np.float32]]:
        """Return the ids and rows of a tenant that have so many columns, in the order of their ids."""
        with self._table() as (sql, engine, table), engine.connect() as connection:
            wanted = sql.select(table.c.id, table.c.row).where(table.c.tenant == tenant).order_by(table.c.id)
            found = [(name, row) for name, row in connection.execute(wanted) if len(row) == dimension * np.dtype(_KIND).itemsize]
        rows = np.frombuffer(b"".join(row for _, row in found), _KIND).reshape(-1, dimension)
        return [name for name, _ in found], rows.astype(np.float32)

    @contextlib.contextmanager
    def _table(self) -> Iterator[tuple[Any, Any, Any]]:
        import sqlalchemy as sql

        try:
            with self._lock:
                self._opened = self._opened or self._open(sql)
            yield (sql, *self._opened)
        except (sql.exc.SQLAlchemyError, BudgetError) as error:
            _log.error("the store of released rows cannot be used: %s", type(error).__name__)
            raise ServiceError(503, "store_unavailable", "the store of released rows cannot be used", retry_after=1) from None

    def _open(self, sql: Any) -> tuple[Any, Any]:
        columns = [
            sql.Column("tenant", sql.String(64), primary_key=True),
            sql.Column("id", sql.String(255), primary_key=True),
            sql.Column("row", sql.LargeBinary, nullable=False),
            sql.Column("receipt", sql.Text, nullable=False),
        ]
        engine, table = engine_of(self._store), sql.Table(_TABLE, sql.MetaData(), *columns)
        table.metadata.create_all(engine)
        return engine, table

    def close(self) -> None:
        if self._opened is not None:
            self._opened[0].dispose()
