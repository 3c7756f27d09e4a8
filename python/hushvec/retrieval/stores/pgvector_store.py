"""A table in PostgreSQL with the extension pgvector.

Every piece of work is one transaction and may be repeated: keys of rows are never used again, and anything that a lost
transaction left under the keys of an `add` is deleted first. So a lost connection is opened again and the work is repeated once;
if that fails too, StoreError is raised, and the next call tries again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.budget.postgresql import PATIENCE
from hushvec.errors import StoreError
from hushvec.retrieval.stores import KeyedStore, Keys, when_gone

Answer = TypeVar("Answer")

ADDRESS_RULE = "path must be an address like postgresql://user@host/database for store 'pgvector'"
INDEXES = ("hnsw",)
# pgvector's own defaults, and its bounds.
_GRAPH = {"neighbors": (16, 2, 100), "ef_construction": (64, 4, 1000), "ef_search": (40, 1, 1000)}
LOCK_SECONDS = 30
_MOST_INDEXED = 2000
_SCHEMES = ("postgresql://", "postgres://")
_LONGEST_NAME = 58  # PostgreSQL cuts names at 63, and an index is named after its table

# One writer at a time; readers are not blocked. After a lost connection, the next writer waits until the lost transaction ends.
_LOCK = "LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"
_COLUMNS = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass({name}) AND attnum > 0 AND NOT attisdropped"""
_INDEX = """CREATE INDEX IF NOT EXISTS {name} ON {table} USING hnsw (embedding vector_ip_ops)
    WITH (m = {neighbors}, ef_construction = {ef_construction})"""
_SEARCH = """SELECT found.key, found.distance FROM unnest(%b::vector[]) WITH ORDINALITY AS asked (query, number)
    CROSS JOIN LATERAL (
        SELECT key, embedding <#> asked.query AS distance FROM {table} ORDER BY {order} LIMIT %s
    ) AS found ORDER BY asked.number, found.distance, found.key"""


class PgVectorStore(KeyedStore):
    """A table of (key, embedding). Exact unless it has an index. The address, which may hold a password, is kept in memory only."""

    def __init__(
        self, columns: int, address: Any, *, table: str = "documents", index: str | None = None, neighbors: int | None = None,
        ef_construction: int | None = None, ef_search: int | None = None,
    ) -> None:
        with needs_extra("the store 'pgvector'", "pgvector"):
            import psycopg
            import psycopg.sql
            from pgvector.psycopg import register_vector
        self._psycopg: Any = psycopg
        self._register = register_vector
        self._columns = columns
        parts = table.split(".") if isinstance(table, str) else []
        if not 1 <= len(parts) <= 2 or not all(0 < len(part.encode()) <= _LONGEST_NAME and "\0" not in part for part in parts):
            raise ValueError(f"table must be a name, or a schema's and a name with a dot between them, got {table!r:.80}")
        self._where = f"table {table!r} of PostgreSQL"
        given = {"neighbors": neighbors, "ef_construction": ef_construction, "ef_search": ef_search}
        graph = _graph_settings(index, given)
        if index is not None and columns > _MOST_INDEXED:
            raise ValueError(f"index must be None for more than {_MOST_INDEXED} columns, got {index!r} for {columns}")
        self._ef_search = graph["ef_search"]
        self._address, self._password = self._checked_address(address)
        self._table = self._psycopg.sql.Identifier(*parts)
        self._connection: Any = None
        self._pid = os.getpid()
        self._unsettled: tuple[int, int] | None = None  # keys under which a lost transaction may have left rows
        self._graph = None if index is None else {**graph, "name": self._psycopg.sql.Identifier(f"{parts[-1]}_hnsw")}
        self._run(self._make)
        self.keys = Keys(self._run(self._stored_keys))

    @property
    def outlives(self) -> bool:
        return True

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        found = self._run(partial(self._nearest, queries, k, is_exact=self._graph is None))
        if len(found) < len(queries) * k and self._graph is not None:
            found = self._run(partial(self._nearest, queries, k, is_exact=True))
        keys = np.array([key for key, _ in found], np.int64)
        self._require_same_rows(len(found) == len(queries) * k and self.keys.holds(keys))
        scores = np.array([-distance for _, distance in found], np.float32)
        return self.keys.places(keys).reshape(len(queries), k), scores.reshape(len(queries), k)

    def vectors(self) -> NDArray[np.float32]:
        return self._of_rows(self._sql("SELECT key, embedding FROM {table} ORDER BY key"), self.keys.values)

    def _put(self, keys: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        last = int(keys[-1]) if self._unsettled is None else max(int(keys[-1]), self._unsettled[1])
        self._unsettled = int(keys[0]), last
        self._run(partial(self._insert, keys, rows))

    def _drop(self, keys: NDArray[np.int64]) -> None:
        self._run(lambda connection: connection.execute(self._sql("DELETE FROM {table} WHERE key = ANY(%s)"), [keys.tolist()]))

    def _fetched(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._of_rows(self._sql("SELECT key, embedding FROM {table} WHERE key = ANY(%s) ORDER BY key"), keys, [keys.tolist()])

    def _of_rows(self, query: Any, keys: NDArray[np.int64], given: Any = None) -> NDArray[np.float32]:
        """The vectors that a query finds, which must be those of the keys."""
        found = self._run(lambda connection: connection.execute(query, given, binary=True).fetchall())
        self._require_same_rows(np.array_equal([key for key, _ in found], keys))
        rows = np.empty((len(keys), self._columns), np.float32)
        for place, (_, vector) in enumerate(found):
            rows[place] = vector.to_numpy()
        return rows

    # ---- what a transaction does ----

    def _make(self, connection: Any) -> None:
        kinds = dict(connection.execute(self._sql(_COLUMNS, name=self._table.as_string())).fetchall())
        wanted = {"key": "bigint", "embedding": f"vector({self._columns})"}
        if not kinds:
            create = "CREATE TABLE IF NOT EXISTS {table} (key bigint PRIMARY KEY, embedding {kind} NOT NULL)"
            connection.execute(self._sql(create, kind=self._psycopg.sql.SQL(wanted["embedding"])))
        elif kinds != wanted:
            raise ValueError(f"{self._where} must have rows of {self._columns} elements, and keys, got {kinds}")

    def _stored_keys(self, connection: Any) -> NDArray[np.int64]:
        found = connection.execute(self._sql("SELECT key FROM {table} ORDER BY key")).fetchall()
        return np.array([key for (key,) in found], np.int64)

    def _insert(self, keys: NDArray[np.int64], rows: NDArray[np.float32], connection: Any) -> None:
        with connection.cursor().copy(self._sql("COPY {table} (key, embedding) FROM STDIN (FORMAT BINARY)")) as copy:
            copy.set_types(["int8", "vector"])
            for key, row in zip(keys.tolist(), rows):
                copy.write_row((key, row))
        if self._graph is not None:  # not before the first rows: it would be built row by row
            connection.execute(self._sql(_INDEX, **self._graph))

    def _nearest(self, queries: NDArray[np.float32], k: int, connection: Any, *, is_exact: bool) -> list[tuple[int, float]]:
        """Keys and negative inner products, the queries one after the other."""
        chosen = {"enable_indexscan": "off"}
        if not is_exact:
            chosen = {"enable_seqscan": "off", "hnsw.ef_search": str(min(1000, max(self._ef_search, k)))}
        for name, value in chosen.items():
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])
        # An index is used for an order by distance alone.
        order = self._psycopg.sql.SQL("distance, key" if is_exact else "distance")
        found: list[tuple[int, float]] = connection.execute(self._sql(_SEARCH, order=order), [list(queries), k]).fetchall()
        return found

    def _sql(self, text: str, **parts: Any) -> Any:
        return self._psycopg.sql.SQL(text).format(table=self._table, **parts)

    def _require_same_rows(self, are_same: bool) -> None:
        if not are_same:
            raise StoreError(
                f"{self._where} must hold the rows of the index and no others: somebody else writes to it, or a deletion that failed "
                "has happened after all; delete those rows again, or load the index anew"
            )

    # ---- the connection ----

    def _run(self, work: Callable[[Any], Answer]) -> Answer:
        was_open = self._is_open
        try:
            return self._once(work)
        except self._psycopg.Error as error:
            if not was_open or self._is_open:
                raise self._failure(error) from None
        try:
            return self._once(work)
        except self._psycopg.Error as error:
            raise self._failure(error) from None

    def _once(self, work: Callable[[Any], Answer]) -> Answer:
        if not self._is_open:
            self._connect()
        with self._connection.transaction():
            if self._unsettled is not None:  # delete what may lie under the keys of an `add` whose outcome is unknown
                self._connection.execute(self._sql(_LOCK))
                self._connection.execute(self._sql("DELETE FROM {table} WHERE key BETWEEN %s AND %s"), self._unsettled)
            answer = work(self._connection)
        self._unsettled = None
        return answer

    @property
    def _is_open(self) -> bool:
        """Whether there is an open connection of this process: a fork must not use that of its parent."""
        return self._connection is not None and self._pid == os.getpid() and not self._connection.closed

    def _connect(self) -> None:
        named = self._psycopg.conninfo.conninfo_to_dict(self._address)
        patience = {name: value for name, value in PATIENCE.items() if name not in named}
        connection = self._psycopg.connect(self._address, autocommit=True, **patience)
        self._connection, self._pid = connection, os.getpid()
        when_gone(self, connection.close)
        connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
        if connection.execute("SELECT to_regtype('vector')").fetchone() == (None,):
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        self._register(connection)

    def _checked_address(self, address: Any) -> tuple[str, str]:
        """The address, which may hold a password; errors never repeat it."""
        if not isinstance(address, str) or not address.startswith(_SCHEMES):
            raise ValueError(ADDRESS_RULE)
        try:
            named = self._psycopg.conninfo.conninfo_to_dict(address)
        except self._psycopg.Error:
            raise ValueError(f"{ADDRESS_RULE}, with libpq's parameters and none other") from None
        misplaced = any("@" in str(named.get(name, "")) for name in ("host", "dbname"))
        if misplaced or not str(named.get("port", "0")).replace(",", "").isdigit():
            raise ValueError(f"{ADDRESS_RULE}; in a password / is written %2F and @ is written %40")
        return address, str(named.get("password", ""))

    def _failure(self, error: Exception) -> StoreError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0].replace(self._password, "***") if self._password else lines[0]
        return StoreError(f"{self._where}: {reason}")


def _graph_settings(index: Any, given: dict[str, int | None]) -> dict[str, int]:
    if index is None:
        named = next((name for name, value in given.items() if value is not None), None)
        if named is not None:
            raise ValueError(f"{named} must be left out without index='hnsw'")
    else:
        validate.choice("index", index, INDEXES)
    chosen = {}
    for name, (default, least, most) in _GRAPH.items():
        value = given[name]
        chosen[name] = validate.whole_number(name, default if value is None else value, at_least=least, at_most=most)
    if chosen["ef_construction"] < 2 * chosen["neighbors"]:
        raise ValueError(f"ef_construction must be >= twice the {chosen['neighbors']} neighbors, got {chosen['ef_construction']}")
    return chosen
