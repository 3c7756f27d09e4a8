"""A row of an open ledger that somebody changes, with the rights of the store's owner, is noticed at the next charge."""

import contextlib
import sqlite3

import pytest

from hushvec.budget import durable
from hushvec.budget.rows import FIELDS, entry_hash
from hushvec.budget.store import TABLE
from hushvec.errors import BudgetError

ROWS = 6


@contextlib.contextmanager
def owner_of(store):
    """A function that runs statements without the triggers that keep a ledger append-only."""
    if "://" in store:
        import psycopg

        with psycopg.connect(store, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE {TABLE} DISABLE TRIGGER ALL")
            try:
                yield lambda text, *values: connection.execute(text.replace("?", "%s"), values)
            finally:
                connection.execute(f"ALTER TABLE {TABLE} ENABLE TRIGGER ALL")
    else:
        with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as connection:
            (kept,) = zip(*connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall())
            for name in ("no_update", "no_delete", "at_the_end"):
                connection.execute(f"DROP TRIGGER IF EXISTS {TABLE}_{name}")
            yield lambda text, *values: connection.execute(text, values)
            for statement in kept:
                connection.execute(statement)


def changed(run, key, place, **fields):
    """The row with other fields and a hash that fits them."""
    found = run(f"SELECT {', '.join(FIELDS)} FROM {TABLE} WHERE budget_key = ? AND sequence = ?", key, place).fetchone()
    row = dict(zip(FIELDS, found))
    row.update(fields)
    row["entry_hash"] = entry_hash(tuple(row.values()))
    settings = ", ".join(f"{name} = ?" for name in (*fields, "entry_hash"))
    run(f"UPDATE {TABLE} SET {settings} WHERE budget_key = ? AND sequence = ?", *fields.values(), row["entry_hash"], key, place)


EDITS = {
    "an amount": lambda run, key, place: run(f"UPDATE {TABLE} SET epsilon = '0.5' WHERE budget_key = ? AND sequence = ?", key, place),
    "an amount, sealed again": lambda run, key, place: changed(run, key, place, epsilon="0.5"),
    "a total, sealed again": lambda run, key, place: changed(run, key, place, total_epsilon="0.5"),
    "a purpose, sealed again": lambda run, key, place: changed(run, key, place, purpose="another"),
    "taken out": lambda run, key, place: run(f"DELETE FROM {TABLE} WHERE budget_key = ? AND sequence = ?", key, place),
    "cut off": lambda run, key, place: run(f"DELETE FROM {TABLE} WHERE budget_key = ? AND sequence >= ?", key, place),
}


@pytest.fixture(autouse=True)
def at_every_charge(monkeypatch):
    monkeypatch.setattr(durable, "SECONDS_BETWEEN_LOOKS", 0.0)


@pytest.mark.parametrize("place", [2, 4, ROWS + 1])
@pytest.mark.parametrize("edit", EDITS)
def test_a_changed_row_is_noticed_at_the_next_charge(make_durable, edit, place):
    """The last row alone was looked at, and by its own hash: one that was sealed again was taken for the ledger's."""
    budget = make_durable(1000.0)
    for _ in range(ROWS):
        budget.consume(1.0)
    with owner_of(make_durable.store) as run:
        EDITS[edit](run, make_durable.key, place)
    with pytest.raises(BudgetError) as error:
        budget.consume(1.0)
    assert f"budget {make_durable.key!r}" in str(error.value) and not error.value.may_be_charged


@pytest.mark.parametrize("most", [2, 3])
def test_a_long_ledger_is_looked_through_in_turn(make_durable, monkeypatch, most):
    monkeypatch.setattr(durable, "ROWS_LOOKED_AT", most)
    budget = make_durable(1000.0)
    for _ in range(ROWS):
        budget.consume(1.0)
    with owner_of(make_durable.store) as run:
        changed(run, make_durable.key, 3, purpose="another")
    with pytest.raises(BudgetError, match=f"row 4 of budget {make_durable.key!r} is damaged: previous_hash"):
        [budget.consume(1.0) for _ in range(4 * ROWS)]


def test_rows_of_others_are_no_change(make_durable):
    one, other = make_durable(1000.0), make_durable(1000.0)
    for _ in range(ROWS):
        one.consume(1.0)
        other.consume(1.0)
        other.reset()
        other.consume(1.0)
    assert one.verify().holds and one.consumed() == 1.0
