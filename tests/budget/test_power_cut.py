"""A power cut keeps what was synced and any part of what was not. What was charged before must be there afterwards.

SQLite with a write-ahead log syncs the log at every commit. At the moment when `consume` returns, everything in the log up to
its present length is on the disk; behind it, after the cut, there may be any part of what was being written, or other bytes.
"""

import random
import shutil

import pytest

from hushvec.budget import PrivacyBudget, verify_ledger
from hushvec.budget.sqlite import SQLiteStore

CHARGES = 12
CUTS = 40


def test_the_log_is_synced_at_every_commit(tmp_path):
    store = SQLiteStore(tmp_path / "b.sqlite", create=True)
    connection = store._opened()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)
    store.close()
    reopened = SQLiteStore(tmp_path / "b.sqlite", create=False)  # synchronous is a setting of a connection, not of the file
    assert reopened._opened().execute("PRAGMA synchronous").fetchone() == (2,)
    reopened.close()


@pytest.fixture
def history(tmp_path):
    """(the database file, the log with everything, its length and head after each charge)."""
    path = tmp_path / "b.sqlite"
    log = tmp_path / "b.sqlite-wal"
    budget = PrivacyBudget(100.0, persist_key="k", store=path)
    moments = [(log.stat().st_size, budget.head())]
    for number in range(CHARGES):
        budget.consume(0.5, 1e-6, purpose="x" * (1 + 37 * number))
        moments.append((log.stat().st_size, budget.head()))
    shutil.copy(path, tmp_path / "at-the-cut")
    content = log.read_bytes()
    budget.close()
    return tmp_path / "at-the-cut", content, moments


def after_the_cut(history, tmp_path, log):
    database, _, _ = history
    path = tmp_path / "after" / "b.sqlite"
    path.parent.mkdir(exist_ok=True)
    for old in path.parent.iterdir():
        old.unlink()
    shutil.copy(database, path)
    path.with_name("b.sqlite-wal").write_bytes(log)
    return path


@pytest.mark.parametrize("tail", ["nothing", "part of the next", "other bytes", "zeros"])
def test_every_charge_that_returned_is_there(history, tmp_path, tail):
    _, content, moments = history
    generator = random.Random(7)
    for _ in range(CUTS):
        number = generator.randrange(CHARGES)
        length, head = moments[number]
        following = moments[number + 1][0]
        log = content[:length] + {
            "nothing": b"",
            "part of the next": content[length : generator.randrange(length, following)],
            "other bytes": generator.randbytes(generator.randrange(1, 9000)),
            "zeros": bytes(generator.randrange(1, 9000)),
        }[tail]
        path = after_the_cut(history, tmp_path, log)
        report = verify_ledger("k", store=path, heads=[head])
        assert report.holds, report
        assert report.rows == head.rows
        with PrivacyBudget(100.0, persist_key="k", store=path) as budget:
            assert budget.consume(0.25).sequence == head.rows + 1
            assert budget.verify([head]).holds


def test_a_log_that_was_not_synced_is_caught(history, tmp_path):
    """The check above can fail: with the end of the log missing, the last charge is."""
    _, content, moments = history
    path = after_the_cut(history, tmp_path, content[: moments[-1][0] - 1])
    report = verify_ledger("k", store=path, heads=[moments[-1][1]])
    assert (report.holds, report.first_wrong) == (False, CHARGES + 1)
