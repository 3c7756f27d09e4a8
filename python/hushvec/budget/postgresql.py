"""Ledgers in PostgreSQL, for several machines: one writer at a time per ledger."""

from __future__ import annotations

import contextlib
import os
import re
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from hushvec._util.lazy import needs_extra
from hushvec.budget import store
from hushvec.budget.rows import FIELDS

# A server that disappears without closing the connection is detected after about these times. libpq's names; the address may
# set its own.
PATIENCE = {"connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10", "tcp_user_timeout": "30000"}
MOST_CONNECTIONS = 8  # of a process to one address, whatever the number of its ledgers there; one that needs another waits for it
SCHEMA_LOCK = 0x6875736876656300  # any number that nobody else locks: "hushvec" in ASCII

_SCHEMA = (
    store.create_table("BIGINT"),
    f"""CREATE OR REPLACE FUNCTION {store.TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'a budget ledger is append-only'; END $$""",
    f"""CREATE TRIGGER {store.TABLE}_append_only BEFORE UPDATE OR DELETE ON {store.TABLE}
        FOR EACH ROW EXECUTE FUNCTION {store.TABLE}_refuse()""",
    f"""CREATE TRIGGER {store.TABLE}_no_truncate BEFORE TRUNCATE ON {store.TABLE}
        FOR EACH STATEMENT EXECUTE FUNCTION {store.TABLE}_refuse()""",
)

# A query of the catalog, which sees what was committed before it began. to_regclass would repeat its answer from before
# the wait for the lock.
_IS_THERE = f"""SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid
    WHERE c.relname = '{store.TABLE}' AND t.tgname = '{store.TABLE}_no_truncate' AND pg_catalog.pg_table_is_visible(c.oid))"""
# One statement, so one round trip: a commit that waits for the disk, a limit on waiting for other writers, and the lock
# locks themselves, which end with the transaction. Two calls take locks that they share in the same order, so neither waits for the
# other in a circle. An advisory lock needs no right to update rows, so a role may have INSERT and SELECT only.
_LOCK = """SELECT
    set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
               ELSE current_setting('synchronous_commit') END, true),
    set_config('lock_timeout', :wait_ms, true),
    pg_advisory_xact_lock(number) FROM (SELECT hashtextextended('hushvec budget ' || key, 0) AS number
    FROM unnest(CAST(:keys AS text[])) AS key ORDER BY number) AS in_order"""
_PERIOD, _CHARGE_ID = FIELDS.index("period"), FIELDS.index("charge_id")
_STATEMENTS = {**store.STATEMENTS, "lock": _LOCK, "lock schema": "SELECT pg_advisory_xact_lock(:number)"}


class PostgreSQLStore:
    """The ledgers of the database at postgresql://user:password@host:port/database?parameters (libpq's); its table is made if
    `create`."""

    def __init__(self, url: str, *, create: bool) -> None:
        with needs_extra("a budget in PostgreSQL", "postgresql"):
            import psycopg  # noqa: F401
            import sqlalchemy
            import sqlalchemy.exc
        self.address = url
        self._error: type[Exception] = sqlalchemy.exc.SQLAlchemyError
        self._text: Any = sqlalchemy.text
        self._statements = {name: self._text(statement) for name, statement in _STATEMENTS.items()}
        self._address = parsed(url)
        hidden = [name for name in self._address.query if name not in _SHOWN]
        shown = self._address.difference_update_query(hidden)
        self.name: str = shown.render_as_string(hide_password=True).replace("+psycopg", "")
        self._pool: _Pool | None = None
        self._create = create
        self._is_prepared = False
        self._in_use = False

    @contextlib.contextmanager
    def write(self, *keys: str, keep: bool = True) -> Iterator[list[_Transaction]]:
        with self._transaction(commits=keep) as connection:
            connection.execute(self._statements["lock"], {"keys": list(keys), "wait_ms": str(int(store.WAIT_SECONDS * 1000))})
            transactions = [_Transaction(connection, key, self._statements) for key in keys]
            yield transactions
            if new := [dict(zip(FIELDS, fields)) for transaction in transactions for fields in transaction.new]:
                connection.execute(self._statements["insert"], new)
            if not keep:
                connection.rollback()

    @contextlib.contextmanager
    def read(self, key: str) -> Iterator[_Transaction]:
        with self._transaction(commits=False) as connection:
            yield _Transaction(connection, key, self._statements)

    def close(self) -> None:
        if not self._in_use:
            self._pool = None

    @contextlib.contextmanager
    def _transaction(self, *, commits: bool) -> Iterator[Any]:
        if self._in_use:
            raise store.StoreFailure(f"{self.name}: another call of this process is not finished")
        if self._pool is None or self._pool.pid != os.getpid():
            self._pool = _Pool.of(self._address)
        engine = self._pool.engine
        committing = False
        self._in_use = True
        try:
            self._prepare(engine)
            with engine.connect() as connection:
                yield connection
                committing = commits
                connection.commit()
        except self._error as error:
            raise store.StoreFailure(f"{self.name}: {_first_line(error)}", unknown=committing) from error
        finally:
            self._in_use = False

    def _prepare(self, engine: Any) -> None:
        """Creates the table unless another process has."""
        if self._is_prepared:
            return
        if self._create:
            with engine.connect() as connection:
                if not connection.execute(self._text(_IS_THERE)).scalar():
                    connection.execute(self._statements["lock schema"], {"number": SCHEMA_LOCK})
                    there = connection.execute(self._text(_IS_THERE)).scalar()
                    for statement in () if there else _SCHEMA:
                        connection.execute(self._text(statement))
                connection.commit()
        self._is_prepared = True


class _Pool:
    """Connections of this process to one address, which all stores there share. They are closed when the last store lets go."""

    _shared: ClassVar[weakref.WeakValueDictionary[tuple[int, str], _Pool]] = weakref.WeakValueDictionary()

    def __init__(self, address: Any) -> None:
        import sqlalchemy

        # Connections are tested before each use: a server restart in between is not a failure.
        # READ COMMITTED, whatever the server's default: the statement behind the lock must see what was committed before it.
        self.pid = os.getpid()
        self.engine: Any = sqlalchemy.create_engine(
            address, pool_size=MOST_CONNECTIONS, max_overflow=0, pool_timeout=store.WAIT_SECONDS, pool_pre_ping=True,
            isolation_level="READ COMMITTED",
            connect_args={name: value for name, value in PATIENCE.items() if name not in address.query},
        )
        # Connections from before a fork belong to the parent.
        weakref.finalize(self, lambda engine, pid: engine.dispose(close=pid == os.getpid()), self.engine, self.pid)

    @classmethod
    def of(cls, address: Any) -> _Pool:
        key = os.getpid(), address.render_as_string(hide_password=False)
        return cls._shared.get(key) or cls._shared.setdefault(key, cls(address))


# Parameters of an address that say where a ledger is. Others may be passwords, and are not repeated.
_SHOWN = frozenset({"host", "hostaddr", "port", "dbname", "user", "sslmode", "target_session_attrs"})


def parsed(url: str) -> Any:
    """The address as SQLAlchemy takes it. Errors repeat nothing of one that is wrong: a password may be in any part of it."""
    import psycopg
    import sqlalchemy

    form = "store must be an address like postgresql://user:password@host:port/database"
    rest = url.partition("://")[2]
    if "@" in rest.replace("@", "", 1) or "@" in "".join(re.split("[/?]", rest, maxsplit=1)[1:]):
        raise ValueError(f"{form}, with %40 for @, %2F for / and so on in a name or a password")
    try:
        address = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
    except (sqlalchemy.exc.SQLAlchemyError, ValueError):
        raise ValueError(f"{form}, got another form") from None
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    if not known.issuperset(address.query):
        raise ValueError(f"{form}, and behind a question mark parameters that libpq knows, got another one")
    return address


class _Transaction(store.Transaction):
    """Rows wait until the end and go to the server together: one round trip for a batch instead of one each."""

    def __init__(self, connection: Any, key: str, statements: Mapping[str, Any]) -> None:
        super().__init__(connection, key, statements)
        self.new: list[store.Fields] = []

    def last(self) -> store.Fields | None:
        return self.new[-1] if self.new else super().last()

    def find(self, period: int, charge_id: str) -> store.Fields | None:
        for fields in self.new:
            if (fields[_PERIOD], fields[_CHARGE_ID]) == (period, charge_id):
                return fields
        return super().find(period, charge_id)

    def append(self, fields: store.Fields) -> None:
        self.new.append(fields)

    def rows(self, behind: int = 0, most: int = store.MOST_ROWS) -> Iterator[store.Fields]:
        options = {"stream_results": True, "yield_per": store.ROWS_AT_ONCE}
        asked = {"key": self._key, "behind": behind, "most": most}
        with self._connection.execute(self._statements["behind"], asked, execution_options=options) as found:
            yield from map(tuple, found)

    def keep_secret(self, key: str) -> None:
        self._run("lock schema", number=SCHEMA_LOCK)
        super().keep_secret(key)


def _first_line(error: Exception) -> str:
    """The driver's own message, without SQLAlchemy's statement and links below it."""
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__
