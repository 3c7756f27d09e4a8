"""Answers kept for clients that ask again: a request with an Idempotency-Key has one answer, through crashes and on any machine.

    1. claim    a row for the key: which period pays, and what was asked
    2. charge   in that period's ledger, under an id made of the key
    3. keep     the answer, in the same row, before it is sent

A repeated request finds the answer, or a charge without one. Then it is refused: a second draw would be a second release.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import PRIVATE, fault_of_place, private_file, private_folder
from hushvec.budget import file_of
from hushvec.budget.sqlite import LOGS
from hushvec.errors import BudgetError

KEPT_SECONDS = 24 * 3600
LONGEST_KEY = 255
MOST_CONNECTIONS = 4  # of a process to PostgreSQL, beside those of the ledgers

_TABLE = "hushvec_answers"
_SUFFIX = ".answers"

_PROBE = "probe"  # no name of a claim, which is a hash
_PROBE_BYTES = 16_000


@dataclass(frozen=True)
class Claim:
    period: str  # of the ledger that pays
    fingerprint: str  # of what was asked first
    body: bytes | None  # of the answer; None before it is kept, as the headers
    headers: dict[str, str] | None


def claim_name(tenant: str, key: str) -> str:
    """Return the name of a key in the store and in the ledger. Keys of clients may say something; hashes do not."""
    return hashlib.sha256(f"{tenant}\0{key}".encode()).hexdigest()


def fingerprint_of(secret: bytes, digest: bytes) -> str:
    """Tell two requests apart by their digests, without letting a reader of the store try out texts, who has no `secret`."""
    return hmac.new(secret, digest, hashlib.sha256).hexdigest()


def engine_of(store: str) -> Any:
    """Connect to the database of the ledgers, or to the file beside an SQLite ledger, which is made if there is none."""
    with needs_extra("serving", "serve"):
        import sqlalchemy as sql
    path = file_of(store)
    if path is None:
        from hushvec.budget.postgresql import parsed

        patience: dict[str, Any] = {"connect_timeout": 10, "options": "-c statement_timeout=10000"}
        pool = {"pool_size": MOST_CONNECTIONS, "max_overflow": 0}
        return sql.create_engine(parsed(store), pool_pre_ping=True, connect_args=patience, **pool)
    url = sql.URL.create("sqlite", database=str(_private_file_beside(path)))
    engine = sql.create_engine(url, pool_pre_ping=True, connect_args={"timeout": 10})
    sql.event.listen(engine, "connect", _durable)
    return engine


class AnswerStore:
    """Claims and answers in SQLite or PostgreSQL, for any number of processes: in the database of the ledgers, or beside an
    SQLite ledger in a file of its name and ".answers", which is its owner's alone."""

    def __init__(self, store: str) -> None:
        self._engine = engine_of(store)
        import sqlalchemy as sql

        self._sql = sql
        columns = [
            sql.Column("name", sql.String(64), primary_key=True),
            sql.Column("claimed", sql.Float, nullable=False, index=True),
            sql.Column("period", sql.String(16), nullable=False),
            sql.Column("fingerprint", sql.String(64), nullable=False),
            sql.Column("headers", sql.JSON),
            sql.Column("body", sql.LargeBinary),
            sql.Column("tenant", sql.String(64)),
            sql.Column("size", sql.Integer),
        ]
        self._table = sql.Table(_TABLE, sql.MetaData(), *columns, sql.Index(f"tenant_of_{_TABLE}", "tenant", "size"))
        try:
            try:
                self._table.metadata.create_all(self._engine)
            except sql.exc.DBAPIError:  # another process may have made it between the look and the making
                self._table.metadata.create_all(self._engine)
        except sql.exc.SQLAlchemyError as error:
            where = file_of(store) or "PostgreSQL"
            raise BudgetError(f"answers cannot be kept in {where}: {type(error).__name__}") from None

    def held_for(self, tenant: str) -> tuple[int, int]:
        """Return how many claims and bytes of answers a tenant has here."""
        table, sql = self._table.c, self._sql
        columns = sql.select(sql.func.count(), sql.func.coalesce(sql.func.sum(table.size), 0))
        with self._engine.connect() as connection:
            count, size = connection.execute(columns.where(table.tenant == tenant)).one()
        return count, int(size)

    def claim(self, name: str, period: str, fingerprint: str, tenant: str = "", size: int = 0) -> Claim:
        """Return the row of a name, or the one given here, with the size that its answer will have, if there was none."""
        row = {"name": name, "claimed": time.time(), "period": period, "fingerprint": fingerprint, "tenant": tenant, "size": size}
        insert = self._insert().values(row).on_conflict_do_nothing(index_elements=["name"])
        while (found := self.find(name)) is None:
            with self._engine.begin() as connection:
                if connection.execute(insert).rowcount == 1:
                    return Claim(period, fingerprint, None, None)
            # Another process has claimed it meanwhile, and may take its claim back before this one looks again.
        return found

    def find(self, name: str) -> Claim | None:
        table = self._table.c
        columns = self._sql.select(table.period, table.fingerprint, table.body, table.headers)
        with self._engine.connect() as connection:
            row = connection.execute(columns.where(table.name == name)).first()
        return None if row is None else Claim(*row)

    def keep(self, name: str, body: bytes | memoryview, headers: dict[str, str]) -> None:
        with self._engine.begin() as connection:
            kept = {"body": body, "headers": headers, "size": len(body)}
            connection.execute(self._table.update().where(self._table.c.name == name).values(kept))

    def drop(self, name: str, period: str) -> None:
        """Take back a claim on a period whose ledger has not paid."""
        table = self._table.c
        with self._engine.begin() as connection:
            connection.execute(self._table.delete().where(table.name == name, table.period == period, table.body.is_(None)))

    def probe(self) -> None:
        """Write something, which fails where an answer could not be kept."""
        row = {"claimed": time.time(), "period": "", "fingerprint": "", "body": bytes(_PROBE_BYTES)}
        insert = self._insert().values(name=_PROBE, **row)
        with self._engine.begin() as connection:
            connection.execute(insert.on_conflict_do_update(index_elements=["name"], set_=row))

    def forget_old(self, now: float | None = None) -> None:
        """Delete rows that are older than a day. A request with such a key is a new one."""
        before = (time.time() if now is None else now) - KEPT_SECONDS
        with self._engine.begin() as connection:
            connection.execute(self._table.delete().where(self._table.c.claimed < before))

    def close(self) -> None:
        self._engine.dispose()

    def _insert(self) -> Any:
        if self._engine.dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import insert
        else:
            from sqlalchemy.dialects.sqlite import insert
        return insert(self._table)


def _durable(connection: Any, record: Any) -> None:
    """Make a connection's writes durable: an answer that was sent must be found after a power cut."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _private_file_beside(ledger: Path) -> Path:
    """Return the file of answers, made if there is none. Who may write to the folder could have put a link or a second name there."""
    real = Path(os.path.realpath(ledger))
    path = real.with_name(real.name + _SUFFIX)
    try:
        private_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            private_file(path)
        for name in (path, *(path.with_name(path.name + suffix) for suffix in LOGS)):
            if fault_of_place(name):
                raise BudgetError(f"{name}: must be a plain file with one name")
        path.chmod(PRIVATE)
    except BudgetError:  # an OSError too
        raise
    except OSError as error:
        raise BudgetError(f"{path}: answers cannot be kept here: {error.strerror}") from None
    return path
