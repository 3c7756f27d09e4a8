"""Stores as fixtures: `make` opens budgets in memory, in an SQLite file, and in a PostgreSQL server of the tests' own."""

import itertools

import pytest

from hushvec.budget import PrivacyBudget
from postgres_server import PostgresServer, why_not

STORES = ("memory", "sqlite", "postgresql")
_keys = itertools.count()


@pytest.fixture(scope="session")
def postgres():
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with PostgresServer() as server:
        yield server


@pytest.fixture
def sqlite_path(tmp_path):
    return tmp_path / "state" / "budget.sqlite"


def _opener(store, opened):
    key = f"key-{next(_keys)}"

    def make(*limits, key=key, reopen=False, **options):
        budget = (
            PrivacyBudget.reopen(key, store=store)
            if reopen
            else PrivacyBudget(*limits, persist_key=key, store=store, **options)
        )
        opened.append(budget)
        return budget

    make.store, make.key = store, key
    return make


@pytest.fixture(params=STORES)
def make(request, tmp_path):
    """Opens budgets with one fresh key in one of the stores: make(max_epsilon, ...), make(reopen=True)."""
    yield from _make(request, tmp_path, request.param)


@pytest.fixture(params=STORES[1:])
def make_durable(request, tmp_path):
    """`make` for the stores that outlive a process."""
    yield from _make(request, tmp_path, request.param)


def _make(request, tmp_path, kind):
    store = {
        "memory": lambda: "memory",
        "sqlite": lambda: str(tmp_path / "budget.sqlite"),
        "postgresql": lambda: request.getfixturevalue("postgres").url,
    }[kind]()
    opened = []
    yield _opener(store, opened)
    for budget in opened:
        budget.close()
