"""The interface of a ledger's database, its failures, and ledgers over a fork."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from hushvec._util.os_files import call_around_fork
from hushvec.budget.rows import FIELDS, NUMBERS
from hushvec.errors import HushvecError

TABLE = "hushvec_budget_rows_v1"
KEYS = "hushvec_budget_keys_v1"  # the secret key of each ledger that counts by person; made with the first of them
COLUMNS = ", ".join(FIELDS)
WAIT_SECONDS = 30.0  # for other writers, before a call gives up
ROWS_AT_ONCE = 1000

Fields = tuple[Any, ...]

PROBE: Fields = tuple(1 if name in NUMBERS else "" for name in FIELDS)  # a row that no ledger has


def create_table(integer: str) -> str:
    """The statement that makes the table; `integer` is the database's type for 64 bits."""
    columns = ", ".join(f"{name} {integer if name in NUMBERS else 'TEXT'} NOT NULL" for name in FIELDS)
    keys = "PRIMARY KEY (budget_key, sequence), UNIQUE (budget_key, period, charge_id)"
    return f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}, {keys})"


class StoreFailure(HushvecError):
    """An operation on a store failed; `unknown`: while it was committing, so the rows may or may not be there."""

    def __init__(self, reason: str, *, unknown: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unknown = unknown


_OF_KEY = f"SELECT {COLUMNS} FROM {TABLE} WHERE budget_key = :key"
# What a transaction says in SQL, by name, with parameters as SQLite and SQLAlchemy write them.
STATEMENTS = {
    "first": f"{_OF_KEY} ORDER BY sequence LIMIT 1",
    "last": f"{_OF_KEY} ORDER BY sequence DESC LIMIT 1",
    "find": f"{_OF_KEY} AND period = :period AND charge_id = :charge_id",
    "behind": f"{_OF_KEY} AND sequence > :behind ORDER BY sequence LIMIT :most",
    "insert": f"INSERT INTO {TABLE} ({COLUMNS}) VALUES ({', '.join(f':{name}' for name in FIELDS)})",
    "secret": f"SELECT key FROM {KEYS} WHERE budget_key = :key",
    "create keys": f"CREATE TABLE IF NOT EXISTS {KEYS} (budget_key TEXT PRIMARY KEY, key TEXT NOT NULL)",
    "keep secret": f"INSERT INTO {KEYS} VALUES (:key, :secret)",
    "keys": f"SELECT DISTINCT budget_key FROM {TABLE}",
}
MOST_ROWS = 2**63 - 1


class Transaction:
    """Reads and writes of one transaction on a ledger. Nobody else writes it until the transaction ends."""

    def __init__(self, connection: Any, key: str, statements: Mapping[str, Any] = STATEMENTS) -> None:
        self._connection, self._key, self._statements = connection, key, statements

    def first(self) -> Fields | None:
        """The first row of the ledger, or None."""
        return self._one("first")

    def last(self) -> Fields | None:
        """The last row of the ledger, or None."""
        return self._one("last")

    def find(self, period: int, charge_id: str) -> Fields | None:
        """The row with this charge id in this period, or None."""
        return self._one("find", period=period, charge_id=charge_id)

    def append(self, fields: Fields) -> None:
        """Add a row."""
        self._run("insert", **dict(zip(FIELDS, fields)))

    def rows(self, behind: int = 0, most: int = MOST_ROWS) -> Iterator[Fields]:
        """The rows behind this sequence that were there when the transaction began, in order; the first ones of them if `most`."""
        found = self._run("behind", behind=behind, most=most)
        while some := found.fetchmany(ROWS_AT_ONCE):
            yield from some

    def secret(self) -> str | None:
        """The key of the ledger's people, as `keep_secret` got it, or None. StoreFailure if the store never got any."""
        found = self._one("secret")
        return None if found is None else found[0]

    def keep_secret(self, key: str) -> None:
        """Keep the key of the ledger's people."""
        self._run("create keys")
        self._run("keep secret", secret=key)

    def keys(self) -> list[str]:
        """The keys of all ledgers in the store, sorted."""
        return sorted(key for (key,) in self._run("keys"))

    def _run(self, statement: str, **values: Any) -> Any:
        return self._connection.execute(self._statements[statement], {"key": self._key, **values})

    def _one(self, statement: str, **values: Any) -> Fields | None:
        row = self._run(statement, **values).fetchone()
        return None if row is None else tuple(row)


@runtime_checkable
class Store(Protocol):
    """A database with the rows of any number of ledgers. Calls come one at a time. Every method raises StoreFailure.

    docs/extend.md has one of your own, and `hushvec.extend.check_store` tries it.
    """

    name: str  # in errors: a path or an address, never a password
    address: Any  # what another process passes as `store`

    def write(self, *keys: str, keep: bool = True) -> AbstractContextManager[Sequence[Transaction]]:
        """One transaction on these ledgers. Leaving it normally commits, and returns when the rows are on stable storage; without
        `keep`, it takes back what was written."""

    def read(self, key: str) -> AbstractContextManager[Transaction]:
        """One ledger's current state, without blocking writers."""

    def close(self) -> None:
        """Close the connection. The next call opens another one."""


class Forkable:
    """A ledger around a fork of its process."""

    def before_fork(self) -> None:
        """Let calls of other threads finish, block new ones, close connections."""

    def after_fork_in_parent(self) -> None:
        """Let calls in again."""

    def after_fork_in_child(self) -> None:
        """Replace locks: the threads that held them do not exist here."""


_living: weakref.WeakSet[Forkable] = weakref.WeakSet()
_living_lock = threading.RLock()
_crossing: list[Forkable] = []  # strong references between the two halves of a fork


def watch(ledger: Forkable) -> None:
    """Call the ledger's methods around every fork of this process, for as long as it lives."""
    with _living_lock:
        _living.add(ledger)


def _before() -> None:
    _living_lock.acquire()
    _crossing.extend(_living)
    for ledger in _crossing:
        ledger.before_fork()


def _after_in_parent() -> None:
    for ledger in _crossing:
        ledger.after_fork_in_parent()
    _crossing.clear()
    _living_lock.release()


def _after_in_child() -> None:
    global _living_lock
    for ledger in _crossing:
        ledger.after_fork_in_child()
    _crossing.clear()
    _living_lock = threading.RLock()


call_around_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
