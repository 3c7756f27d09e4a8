"""What hushvec's PostgreSQL store asks of a server, answered by SQLite: its transactions run where no server is.

SQLAlchemy is the real one. Statements in PostgreSQL's own words are kept as they were asked, and answered so that they mean the
same: a lock lasts until the end of the transaction, and triggers are there once they were made.
"""

import itertools
import sqlite3
import sys
from types import ModuleType, SimpleNamespace

LOCKS = ("SELECT\n    set_config", "SELECT pg_advisory_xact_lock")
TRIGGERS = ("CREATE TRIGGER", "CREATE OR REPLACE FUNCTION")
_numbers = itertools.count()


class StandIn:
    """Takes the place of `sqlalchemy.create_engine` and of psycopg for a test; addresses of one database lead to one file.

    Attributes:
        asked: the statements that came, in order.
        options: those of each engine that was made.
        before_locks: called when a lock of the schema is asked for, as another process that was faster.
    """

    def __init__(self, folder, monkeypatch, sqlalchemy):
        self.name = f"127.0.0.1:9/ledgers{next(_numbers)}"   # stores of one address share connections, over tests too
        self.url = f"postgresql://ann:hunter2@{self.name}"
        self.asked, self.options, self.before_locks = [], [], lambda: None
        self._folder, self._sqlalchemy, self._make = folder, sqlalchemy, sqlalchemy.create_engine
        monkeypatch.setattr(sqlalchemy, "create_engine", self.create_engine)
        psycopg = ModuleType("psycopg")
        known = ("host", "port", "user", "password", "dbname", "connect_timeout", "application_name")
        options = [SimpleNamespace(keyword=name.encode()) for name in known]
        psycopg.pq = SimpleNamespace(Conninfo=SimpleNamespace(get_defaults=lambda: options))
        monkeypatch.setitem(sys.modules, "psycopg", psycopg)
        with sqlite3.connect(self.file) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE stand_in (trigger TEXT)")
        connection.close()

    @property
    def file(self):
        return self._folder / "ledgers.sqlite"

    def create_engine(self, address, **options):
        self.options.append(options)
        event, engine = self._sqlalchemy.event, self._make(f"sqlite:///{self.file}", pool_size=8)
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "begin", self._begun)
        event.listen(engine, "before_cursor_execute", self._translated, retval=True)
        return engine

    @staticmethod
    def _connected(connection, _):
        connection.isolation_level = None   # transactions begin and end where SQLAlchemy says
        connection.execute("PRAGMA busy_timeout = 30000")

    @staticmethod
    def _begun(connection):
        connection.info["locked"] = False
        connection.exec_driver_sql("BEGIN")

    def _translated(self, connection, cursor, statement, parameters, context, executemany):
        if statement != "BEGIN":
            self.asked.append(statement)
        if statement.startswith(LOCKS):
            if "set_config" not in statement:
                self.before_locks()
            if connection.info["locked"]:
                return "SELECT 1", ()
            connection.info["locked"] = True
            cursor.execute("COMMIT")   # of reads alone: the next statement sees what others committed in between
            return "BEGIN IMMEDIATE", ()
        if statement.startswith(TRIGGERS):
            return "INSERT INTO stand_in VALUES (?)", (statement,)
        if "pg_catalog" in statement:
            return "SELECT EXISTS (SELECT 1 FROM stand_in WHERE trigger LIKE '%no_truncate%')", ()
        return statement, parameters
