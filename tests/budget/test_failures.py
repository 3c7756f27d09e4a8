"""Stores that fail: one clear BudgetError, nothing released, and nothing charged that the caller takes for not charged."""

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from fractions import Fraction
from types import SimpleNamespace
from urllib.parse import quote

import pytest

import hushvec.budget.sqlite
from budget.cutting_proxy import CuttingProxy
from hushvec.budget import PrivacyBudget, verify_ledger
from hushvec.budget.store import TABLE
from hushvec.errors import BudgetError

NOBODY = 65534


def assert_clear(error, *parts):
    """One line that names the store."""
    text = str(error)
    assert "\n" not in text and len(text) < 600
    for part in parts:
        assert part in text


def charge_until_it_fails(budget):
    """(charges that were reported, the error)."""
    reported = []
    for number in range(100_000):
        try:
            reported.append(budget.consume(0.001, 1e-9, charge_id=f"charge-{number}", purpose="x" * 500))
        except BudgetError as error:
            return reported, error
    raise AssertionError("the store never failed")


def assert_nothing_lost(budget, reported, error):
    """After the store works again: what was reported is there, and at most the failed charge beside it."""
    assert budget.verify((charge.sequence, charge.entry_hash) for charge in reported).holds
    extra = budget.state().rows - 1 - len(reported)
    assert extra in ((0, 1) if error.may_be_charged else (0,))
    assert Fraction(budget.state().consumed_texts["epsilon"]) == Fraction(len(reported) + extra, 1000)
    again = budget.consume(0.001, 1e-9, charge_id=error.charge_id)
    assert again.repeated == bool(extra)


class TestFullDisk:
    def test_a_full_file_system(self, tmp_path):
        folder = tmp_path / "small"
        folder.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder], capture_output=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"a small file system cannot be mounted (run as root): {mounted.stderr.decode().strip()}")
        try:
            with PrivacyBudget(1e6, persist_key="k", store=folder / "b.sqlite") as budget:
                reported, error = charge_until_it_fails(budget)
                assert len(reported) > 10
                assert_clear(error, "b.sqlite", "disk is full", f"repeat with charge_id='charge-{len(reported)}'")
                subprocess.run(["mount", "-o", "remount,size=8m", folder], check=True)
                assert_nothing_lost(budget, reported, error)
        finally:
            subprocess.run(["umount", folder], check=True)

    def test_a_file_that_may_not_grow(self, tmp_path):
        """A limit on file size, which needs no rights to set."""
        before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with PrivacyBudget(1e6, persist_key="k", store=tmp_path / "b.sqlite") as budget:
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
                reported, error = charge_until_it_fails(budget)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
                signal.signal(signal.SIGXFSZ, handler)
            assert len(reported) > 3
            assert_clear(error, "b.sqlite")
            assert_nothing_lost(budget, reported, error)


class TestReadOnly:
    def test_a_read_only_file(self, tmp_path_factory):
        """As a user who may not write, in a process of its own: root may write everywhere."""
        folder = tmp_path_factory.mktemp("readonly")
        path = folder / "b.sqlite"
        with PrivacyBudget(1.0, persist_key="k", store=path) as budget:
            budget.consume(0.25)
        code = f"""
import os, sqlite3, sys
from hushvec.budget import PrivacyBudget
from hushvec.budget import sqlite
from hushvec.errors import BudgetError
os.chdir({str(folder)!r})
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
try:
    with PrivacyBudget(1.0, persist_key="k", store="b.sqlite") as budget:
        budget.consume(0.5)
except BudgetError as error:
    print(error)
"""
        for parent in [folder, *folder.parents]:
            if parent.stat().st_mode & 0o001:  # others may pass from here on
                break
            parent.chmod(0o755)
        path.chmod(0o444)
        folder.chmod(0o555)
        try:
            finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        finally:
            folder.chmod(0o755)
            path.chmod(0o644)
        assert finished.returncode == 0, finished.stderr
        assert "b.sqlite: attempt to write a readonly database" in finished.stdout or "b.sqlite: unable to open" in finished.stdout
        assert "(its folder must be writable, even to read: SQLite keeps its log there)" in finished.stdout
        assert finished.stdout.count("\n") == 1
        with PrivacyBudget(1.0, persist_key="k", store=path) as budget:
            assert budget.consumed() == 0.25

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(BudgetError) as caught:
            PrivacyBudget(1.0, persist_key="k", store=tmp_path / "file" / "b.sqlite")
        assert_clear(caught.value, str(tmp_path / "file" / "b.sqlite"), f"File exists: {tmp_path / 'file'}")

    def test_a_folder_in_place_of_a_file(self, tmp_path):
        with pytest.raises(BudgetError, match="must be a file, is a folder"):
            PrivacyBudget(1.0, persist_key="k", store=tmp_path)


class TestDamage:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "b.sqlite"
        with PrivacyBudget(10.0, persist_key="k", store=path) as budget:
            for _ in range(50):
                budget.consume(0.125, purpose="x" * 200)
        return path

    def assert_unusable(self, path, *parts):
        with pytest.raises(BudgetError) as caught, PrivacyBudget(10.0, persist_key="k", store=path) as budget:
            budget.consume(0.125)
        assert_clear(caught.value, str(path), *parts)

    def change(self, path, statement):
        """As whoever owns the file can: without the triggers."""
        with sqlite3.connect(path) as connection:
            for trigger in ("no_update", "no_delete", "at_the_end"):
                connection.execute(f"DROP TRIGGER {TABLE}_{trigger}")
            connection.execute(statement)
        connection.close()

    def test_no_database(self, path):
        path.write_bytes(b"this is no database" * 100)
        self.assert_unusable(path, "file is not a database")

    def test_a_damaged_page(self, path):
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xa5" * (len(content) - 4096)
        path.write_bytes(content)
        self.assert_unusable(path, "malformed")

    def test_a_cut_file(self, path):
        path.write_bytes(path.read_bytes()[: 4096 + 1000])
        self.assert_unusable(path)

    def test_another_table_of_that_name(self, tmp_path):
        path = tmp_path / "other.sqlite"
        with sqlite3.connect(path) as connection:
            connection.execute(f"CREATE TABLE {TABLE} (a)")
        connection.close()
        self.assert_unusable(path)

    @pytest.mark.parametrize(
        "change",
        ["total_epsilon = '0'", "epsilon = '0.001'", "total_epsilon = 'x'", "entry_hash = ''", "sequence = 1000", "period = 'x'"],
    )
    def test_an_edited_last_row_stops_the_ledger(self, path, change):
        self.change(path, f"UPDATE {TABLE} SET {change} WHERE sequence = 51")
        self.assert_unusable(path, "of budget 'k' is damaged")
        assert verify_ledger("k", store=path).first_wrong == 51

    def test_an_edited_limit_stops_the_ledger(self, path):
        self.change(path, f"UPDATE {TABLE} SET epsilon = '100' WHERE sequence = 1")
        self.assert_unusable(path, "row 1 of budget 'k' is damaged")
        assert verify_ledger("k", store=path).first_wrong == 1

    def test_a_deleted_first_row_stops_the_ledger(self, path):
        self.change(path, f"DELETE FROM {TABLE} WHERE sequence = 1")
        self.assert_unusable(path, "row 1 of budget 'k' is gone")
        with pytest.raises(BudgetError, match="row 1 of budget 'k' is gone"):
            PrivacyBudget.charge_many(["k"], 0.125, store=path)

    def test_an_edited_row_in_the_middle_is_found_by_verify(self, path):
        self.change(path, f"UPDATE {TABLE} SET epsilon = '0.001' WHERE sequence = 20")
        with PrivacyBudget(10.0, persist_key="k", store=path) as budget:
            assert budget.verify().first_wrong == 20

    def test_deleted_rows(self, path):
        with PrivacyBudget(10.0, persist_key="k", store=path) as budget:
            head = budget.head()
        self.change(path, f"DELETE FROM {TABLE} WHERE sequence > 40")
        with PrivacyBudget(10.0, persist_key="k", store=path) as budget:
            assert budget.verify().holds  # docs/budget.md: a chain cannot know its own end
            assert budget.verify([head]).first_wrong == 41

    @pytest.mark.parametrize(
        "statement",
        [
            f"UPDATE {TABLE} SET epsilon = '0.001'",
            f"DELETE FROM {TABLE}",
            f"INSERT OR REPLACE INTO {TABLE} SELECT * FROM {TABLE} WHERE sequence = 51",
        ],
    )
    def test_the_table_is_append_only(self, path, statement):
        connection = sqlite3.connect(path)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
        connection.close()

    @pytest.mark.parametrize("statement", ["UPDATE {} SET epsilon = '0.001'", "DELETE FROM {}", "TRUNCATE {}"])
    def test_the_table_is_append_only_in_postgresql(self, postgres, statement):
        import psycopg

        with PrivacyBudget(9.0, persist_key="append-only", store=postgres.url) as budget:
            budget.consume(0.5)
        with psycopg.connect(postgres.url) as connection, pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            connection.execute(statement.format(TABLE))


class TestTheFileGoesAway:
    def test_a_removed_file(self, tmp_path):
        path = tmp_path / "b.sqlite"
        with PrivacyBudget(1.0, persist_key="k", store=path) as budget:
            budget.consume(0.5)
            path.unlink()
            with pytest.raises(BudgetError, match=r"removed or replaced.*nothing was charged"):
                budget.consume(0.25)

    def test_a_replaced_file(self, tmp_path):
        path, other = tmp_path / "b.sqlite", tmp_path / "other.sqlite"
        PrivacyBudget(1.0, persist_key="k", store=other).close()
        with PrivacyBudget(1.0, persist_key="k", store=path) as budget:
            budget.consume(0.5)
            other.rename(path)
            with pytest.raises(BudgetError, match="removed or replaced"):
                budget.consume(0.25)

    def test_a_ledger_that_is_gone(self, tmp_path):
        path = tmp_path / "b.sqlite"
        with PrivacyBudget(1.0, persist_key="k", store=path) as budget:
            with sqlite3.connect(path) as connection:
                connection.execute(f"DROP TABLE {TABLE}")
            connection.close()
            with pytest.raises(BudgetError, match="nothing was charged"):
                budget.consume(0.25)


def test_another_writer_that_never_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(hushvec.budget.sqlite, "WAIT_SECONDS", 0.2)
    path = tmp_path / "b.sqlite"
    with PrivacyBudget(1.0, persist_key="k", store=path) as budget:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BudgetError, match="database is locked; nothing was charged"):
            budget.consume(0.5)
        other.execute("ROLLBACK")
        other.close()
        assert budget.consume(0.5).sequence == 2


class TestLostConnection:
    def test_nobody_listens(self):
        pytest.importorskip("sqlalchemy")
        pytest.importorskip("psycopg")
        with pytest.raises(BudgetError) as caught:
            PrivacyBudget(1.0, persist_key="k", store="postgresql://user:secret@127.0.0.1:9/db")
        assert_clear(caught.value, "postgresql://user:***@127.0.0.1:9/db", "refused")
        assert "secret" not in str(caught.value)

    def test_the_server_is_killed_in_the_middle(self, postgres):
        """Eight threads charge while the server gets SIGKILL. After its restart everything reported is there."""
        budget = PrivacyBudget(1e6, persist_key="killed", store=postgres.url)
        reported, errors, enough = [], [], threading.Event()

        def charge():
            while True:
                try:
                    reported.append(budget.consume(0.001))
                except BudgetError as error:
                    errors.append(error)
                    return
                if len(reported) > 100:
                    enough.set()

        threads = [threading.Thread(target=charge) for _ in range(8)]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        postgres.kill()
        for thread in threads:
            thread.join(60)
        postgres.start()
        assert len(errors) == 8
        for error in errors:
            assert_clear(error, "postgresql://hushvec@127.0.0.1")
        assert budget.verify((charge.sequence, charge.entry_hash) for charge in reported).holds
        recorded = budget.state().rows - 1
        repeats = [budget.consume(0.001, charge_id=error.charge_id).repeated for error in errors]
        assert recorded == len(reported) + sum(repeats)
        assert all(error.may_be_charged for error, repeated in zip(errors, repeats) if repeated)
        assert Fraction(budget.state().consumed_texts["epsilon"]) == Fraction(len(reported) + 8, 1000)
        budget.close()

    @pytest.mark.parametrize(("lost", "was_charged"), [("request", False), ("answer", True)])
    def test_a_commit_whose_answer_is_lost(self, postgres, lost, was_charged):
        port = int(postgres.url.split(":")[-1].split("/")[0])
        with CuttingProxy(port) as proxy:
            address = postgres.url.replace(f":{port}/", f":{proxy.port}/") + "?sslmode=disable&gssencmode=disable"
            with PrivacyBudget(1.0, persist_key=f"lost-{lost}", store=address) as budget:
                budget.consume(0.25)
                proxy.arm(lost)
                with pytest.raises(BudgetError) as caught:
                    budget.consume(0.5, charge_id="release-7")
                error = caught.value
                assert_clear(error, "postgresql://", "repeat with charge_id='release-7' to learn whether it was charged")
                assert error.may_be_charged
                assert budget.consumed() == (0.75 if was_charged else 0.25)
                assert budget.consume(0.5, charge_id="release-7").repeated == was_charged
                assert budget.consumed() == 0.75
                assert budget.verify().holds

    def test_a_restart_in_between_is_no_failure(self, postgres):
        with PrivacyBudget(1.0, persist_key="restarted", store=postgres.url) as budget:
            budget.consume(0.25)
            postgres.kill()
            postgres.start()
            assert budget.consume(0.25).sequence == 3


def test_nothing_is_released_when_the_store_fails(tmp_path):
    import numpy as np

    import hushvec as hv

    path = tmp_path / "b.sqlite"
    with PrivacyBudget(10.0, persist_key="k", store=path) as budget:
        os.unlink(path)
        with pytest.raises(BudgetError):
            hv.privatize(np.ones((2, 8), np.float32), epsilon=1.0, budget=budget)


class Answering:
    """A connection to a file that fails a number of times with the same words, and then has a write-ahead log."""

    def __init__(self, text, times):
        self.text, self.left = text, times

    def execute(self, statement):
        if self.left:
            self.left -= 1
            raise sqlite3.OperationalError(self.text)
        return self

    def fetchone(self):
        return ("wal",)


@pytest.mark.parametrize(
    ("text", "seconds", "left"),
    [("database is locked", 3, 4), ("database is locked", 30, 0), ("disk I/O error", 30, 99)],
    ids=["busy beyond the deadline", "busy for a while", "broken"],
)
def test_a_busy_file_is_asked_again_until_the_deadline_and_a_broken_one_is_not(monkeypatch, text, seconds, left):
    """A clock that goes one second with each look: at 0 it begins, and each further answer comes a second later."""
    clock, pauses = iter(range(1000)), []
    monkeypatch.setattr(hushvec.budget.sqlite, "WAIT_SECONDS", seconds)
    monkeypatch.setattr(hushvec.budget.sqlite, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=pauses.append))
    connection = Answering(text, 100 if "I/O" in text else 8)
    if left == 0:
        assert hushvec.budget.sqlite._use_write_ahead_log(connection) == "wal"
    else:
        with pytest.raises(sqlite3.OperationalError, match=f"^{text}$"):
            hushvec.budget.sqlite._use_write_ahead_log(connection)
    assert connection.left == left
    assert all(0 < pause < 0.01 for pause in pauses), "the other process is done in milliseconds"


class FailingAt:
    """A connection on which the statements that begin with some words fail."""

    def __init__(self, connection, words):
        self._connection, self._words = connection, words

    def execute(self, statement, *values):
        if statement.startswith(self._words):
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self._connection, name)


@pytest.mark.parametrize(("words", "may_be_charged"), [("BEGIN", False), ("INSERT", False), ("COMMIT", True)])
def test_a_charge_may_be_there_only_where_its_commit_failed(tmp_path, words, may_be_charged):
    with PrivacyBudget(1.0, persist_key="k", store=tmp_path / "b.sqlite") as budget:
        store = budget._ledger._store
        store._connection = FailingAt(store._opened(), words)
        with pytest.raises(BudgetError) as caught:
            budget.consume(0.25, charge_id="x")
        assert caught.value.may_be_charged is may_be_charged
        store._connection = FailingAt(store._opened(), "COMMIT")
        with pytest.raises(BudgetError) as caught:
            budget.state()
        assert not caught.value.may_be_charged, "nothing was written"
        assert not budget.consume(0.25, charge_id="x").repeated


def test_folders_of_a_ledger_are_made_and_are_its_owners_alone(tmp_path):
    path = tmp_path / "a" / "b" / "c" / "b.sqlite"
    with PrivacyBudget(1.0, persist_key="k", store=path) as budget:
        budget.consume(0.25)
    assert [stat.S_IMODE(folder.stat().st_mode) & 0o077 for folder in (path.parent, path)] == [0, 0]


def test_a_ledger_is_opened_as_it_is_named_and_never_made_by_sqlite(tmp_path, monkeypatch):
    """By a URI with mode=rw, for a name with any signs, however SQLite was built: one build takes URIs without being asked."""
    asked, connect = [], sqlite3.connect

    def recorded(name, **options):
        asked.append((name, options["uri"]))
        return connect(name, **options)

    monkeypatch.setattr(hushvec.budget.sqlite.sqlite3, "connect", recorded)
    path = tmp_path / "100 % #1?mode=memory.sqlite"
    with PrivacyBudget(1.0, persist_key="k", store=path) as budget:
        budget.consume(0.25)
    assert asked == [(f"file:{quote(str(path))}?mode=rw", True)] and path.stat().st_size > 0
