"""Ledgers in an SQLite file: write-ahead log, full sync, one writer at a time over threads and processes of one machine."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from hushvec._util.os_files import holding, mounts
from hushvec._util.publish import PRIVATE_FOLDER, fault_of_place, private_file, sync_folder
from hushvec.budget.store import TABLE, WAIT_SECONDS, StoreFailure, Transaction, create_table

# SQLite puts a ledger's log and the index of the log beside the path that it is opened by. They are part of the ledger: a
# process that opens the file by a path with other logs beside it does not see its charges.
LOGS = ("-wal", "-shm")

# Types of file systems that several machines write at once. SQLite's locks and the shared index of its log do not work across
# machines.
NETWORK_FILE_SYSTEMS = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gpfs", "lustre"}
    | {"nfs", "nfs4", "remote", "smb3"}
)

_SCHEMA = (
    f"{create_table('INTEGER')} WITHOUT ROWID",
    f"""CREATE TRIGGER IF NOT EXISTS {TABLE}_no_update BEFORE UPDATE ON {TABLE}
        BEGIN SELECT RAISE(ABORT, 'a budget ledger is append-only'); END""",
    f"""CREATE TRIGGER IF NOT EXISTS {TABLE}_no_delete BEFORE DELETE ON {TABLE}
        BEGIN SELECT RAISE(ABORT, 'a budget ledger is append-only'); END""",
    # INSERT OR REPLACE would overwrite without firing the trigger above
    f"""CREATE TRIGGER IF NOT EXISTS {TABLE}_at_the_end BEFORE INSERT ON {TABLE}
        WHEN NEW.sequence != 1 + (SELECT COALESCE(MAX(sequence), 0) FROM {TABLE} WHERE budget_key = NEW.budget_key)
        BEGIN SELECT RAISE(ABORT, 'a budget ledger is append-only'); END""",
)

BUSY = "database is locked"  # SQLITE_BUSY, of which Python 3.10 gives only the text
PAUSE_SECONDS = 0.002

_Identity = tuple[tuple[int, int, int], ...]

# Closing any descriptor of a file drops all locks that the process has on it, so while one thread creates a file no other
# thread may open it.
_creating = threading.Lock()


class SQLiteStore:
    """The ledgers of one file, which is made with its folder if `create`."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self._path = Path(os.path.abspath(path))
        self.name = self.address = str(self._path)
        self._create = create
        self._connection: sqlite3.Connection | None = None
        self._files: tuple[str, ...] = ()  # of the open connection: the database and its logs, without symbolic links
        self._is_given_real = False
        self._identity: _Identity = ()
        self._database: _Identity = ()  # of the first connection: a later one must be to the same file
        self._pid = os.getpid()
        self._in_use = False

    @contextlib.contextmanager
    def write(self, *keys: str, keep: bool = True) -> Iterator[list[Transaction]]:
        with self._transaction("BEGIN IMMEDIATE", "COMMIT" if keep else "ROLLBACK") as connection:
            yield [Transaction(connection, key) for key in keys]

    @contextlib.contextmanager
    def read(self, key: str) -> Iterator[Transaction]:
        with self._transaction("BEGIN") as connection:
            yield Transaction(connection, key)

    def close(self) -> None:
        if self._in_use:
            return  # a signal handler forks in the middle of a call: the connection stays with this process
        self._give_up()

    @contextlib.contextmanager
    def _transaction(self, begin: str, end: str = "COMMIT") -> Iterator[sqlite3.Connection]:
        if self._in_use:
            raise StoreFailure(f"{self.name}: another call of this process is not finished")
        committing = False
        self._in_use = True
        try:
            connection = self._opened()
            connection.execute(begin)
            self._require_same_file()
            yield connection
            committing = begin != "BEGIN" and end == "COMMIT"
            connection.execute(end)
        except sqlite3.Error as error:
            self._give_up()
            raise StoreFailure(f"{self.name}: {error}{self._reason()}", unknown=committing) from error
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._in_use = False

    def _reason(self) -> str:
        """A hint that SQLite does not give where it cannot write."""
        writable = os.access(self._path.resolve().parent, os.W_OK)
        return "" if writable else " (its folder must be writable, even to read: SQLite keeps its log there)"

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None:
            if self._pid != os.getpid():
                raise StoreFailure(f"{self.name}: the process was forked in the middle of a call, open the budget again")
            return self._connection
        self._pid = os.getpid()
        with _creating:
            real = self._require_file()
            self._files = (real, *(real + suffix for suffix in LOGS))
            self._is_given_real = real == str(self._path)
            self._require_one_view()
            database = _identity_of(self._files[:1])
            if self._database and database != self._database:
                raise StoreFailure(f"{self.name}: the file was replaced, open the budget again")
            try:
                connection = sqlite3.connect(
                    f"file:{quote(real)}?mode=rw", uri=True, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
                )
            except sqlite3.Error as error:
                raise StoreFailure(f"{self.name}: {error}") from error
        try:
            self._prepare(connection)
            self._identity = _identity_of(self._files)
            self._require_plain_files()
            if self._identity[:1] != database:
                raise StoreFailure(f"{self.name}: the file was replaced while it was opened")
        except BaseException:
            connection.close()
            raise
        self._connection, self._database = connection, database
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Durability is set on every connection; the log mode and the tables are in the file."""
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        if self._create:
            mode = _use_write_ahead_log(connection)
            if mode != "wal":
                raise StoreFailure(f"{self.name}: the write-ahead log cannot be used here, journal mode stays {mode!r}")
            (there,) = connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE name LIKE ?", (f"{TABLE}%",)).fetchone()
            if there < len(_SCHEMA):
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("COMMIT")
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()  # the logs are open from the first read on
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            self._files = self._files[:1]  # a copy by SQLite's own tools has no log until someone may write to it

    def _require_file(self) -> str:
        """The file's path without symbolic links; made if it may be. An existing file is not opened here: see `_creating`."""
        try:
            real = Path(os.path.realpath(self._path))
            if real.is_dir():
                raise StoreFailure(f"{self.name}: must be a file, is a folder")
            if real.exists():
                return str(real)
            if not self._create or self._database:
                raise StoreFailure(f"{self.name}: there is no such file")
            real.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                private_file(real)
            sync_folder(real.parent)  # or a power failure loses the name of a file whose content is safe
            return str(real)
        except OSError as error:
            raise StoreFailure(f"{self.name}: {error.strerror}: {error.filename}") from error

    def _require_one_view(self) -> None:
        """Everyone who opens the ledger must find the same log beside it: no second name, no mount of the file alone, one machine."""
        self._require_plain_files()
        try:
            seen = mounts(self._files[0])
        except OSError as error:
            raise StoreFailure(f"{self.name}: mounts must be known: {error.strerror}: {error.filename}") from error
        for path in self._files:
            if any(point == path for point, _ in seen):
                raise StoreFailure(
                    f"{self.name}: {os.path.basename(path)} is a mount of its own, and other paths to the file have another log "
                    "beside them: mount its folder"
                )
        mount = holding(self._files[0], seen)
        if mount is not None and mount[1] in NETWORK_FILE_SYSTEMS:
            raise StoreFailure(
                f"{self.name}: {mount[0]} is a network file system ({mount[1]}), which locks cannot be trusted on: "
                "use a local disk or PostgreSQL"
            )

    def _require_plain_files(self) -> None:
        for path in self._files:
            if fault := fault_of_place(path):
                why = "each name of a ledger has a log of its own, and charges by one are not seen by the other"
                more = f": {why}" if fault.startswith("must have one name") else ""
                raise StoreFailure(f"{self.name}: {os.path.basename(path)} {fault}{more}")

    def _require_same_file(self) -> None:
        """Charges to a file that was moved away or replaced, or that got a second name, would be seen by nobody else."""
        if _identity_of(self._files) == self._identity and self._leads_there():
            return
        self._give_up()
        self._require_plain_files()
        raise StoreFailure(f"{self.name}: the file or its log was removed or replaced while it was open")

    def _leads_there(self) -> bool:
        """Whether the path as it was given, if it is another one, still leads to the file."""
        if self._is_given_real:
            return True
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity[0][:2]

    def _roll_back(self) -> None:
        try:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._give_up()

    def _give_up(self) -> None:
        """Close the connection, which rolls back. The next call opens another one and reads everything again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _identity_of(paths: tuple[str, ...]) -> _Identity:
    """Device, number and how many names each file has; nothing where one is missing. Called for every charge, so it is fast."""
    try:
        return tuple([(status.st_dev, status.st_ino, status.st_nlink) for status in map(os.lstat, paths)])
    except OSError:
        return ()


def _use_write_ahead_log(connection: sqlite3.Connection) -> str:
    """The journal mode after asking for the write-ahead log: while another process changes it, SQLite answers "busy" at once."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return str(mode)
        except sqlite3.OperationalError as error:
            if str(error) != BUSY or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_SECONDS)
