"""Transactions of ledgers in PostgreSQL, without a server: `postgres_stand_in.py` answers for one."""

import pytest

from budget.postgres_stand_in import StandIn
from hushvec.budget import PrivacyBudget, open_store, postgresql
from hushvec.budget.store import PROBE, StoreFailure
from hushvec.errors import BudgetError
from hushvec.extend import check_store

sqlalchemy = pytest.importorskip("sqlalchemy")


@pytest.fixture
def server(tmp_path, monkeypatch):
    return StandIn(tmp_path, monkeypatch, sqlalchemy)


def row(sequence, charge_id="", key="k"):
    numbers = dict(zip(postgresql.FIELDS, PROBE), budget_key=key, sequence=sequence, charge_id=charge_id or f"id-{sequence}")
    return tuple(numbers.values())


def test_it_keeps_what_a_store_of_ledgers_promises(server):
    assert len(check_store(lambda: open_store(server.url, create=True))) == 6


def test_a_transaction_finds_the_rows_that_it_has_not_sent_yet(server):
    with open_store(server.url, create=True).write("k") as (transaction,):
        assert transaction.last() is None
        for sequence in range(1, 5):
            transaction.append(row(sequence))
            assert transaction.last() == row(sequence)
            assert transaction.find(1, f"id-{sequence}") == row(sequence)
        assert transaction.find(1, "id-5") is transaction.find(2, "id-1") is None
        assert not any("INSERT INTO hushvec" in statement for statement in server.asked)
    assert sum("INSERT INTO hushvec" in statement for statement in server.asked) == 1
    with open_store(server.url, create=True).read("k") as transaction:
        assert transaction.last() == row(4) and list(transaction.rows(1, 2)) == [row(2), row(3)]


def test_the_table_is_made_once_with_its_triggers(server):
    made = [*map(str, postgresql._SCHEMA)]
    for _ in range(2):
        with open_store(server.url, create=True).read("k") as transaction:
            assert transaction.first() is None
    assert [statement for statement in server.asked if statement.startswith("CREATE")] == made


def test_the_table_is_not_made_again_where_another_process_was_faster(server):
    def another_process():
        server.before_locks = lambda: None
        with open_store(server.url, create=True).read("k"):
            pass

    server.before_locks = another_process
    with open_store(server.url, create=True).read("k"):
        pass
    assert sum("CREATE TRIGGER" in statement for statement in server.asked) == 2, "by the other process alone"
    assert sum("pg_catalog" in statement for statement in server.asked) == 4


def test_a_ledger_that_is_only_read_makes_no_table(server):
    with pytest.raises(BudgetError, match="no such table"):
        PrivacyBudget.reopen("k", store=server.url)
    assert not any(statement.startswith("CREATE") for statement in server.asked)


@pytest.mark.parametrize("unknown", [True, False])
def test_only_a_failure_of_the_commit_leaves_open_whether_rows_are_there(server, monkeypatch, unknown):
    def fail(*_, **__):
        raise sqlalchemy.exc.OperationalError("INSERT", {}, Exception("the server went away\nLINE 1: INSERT"))

    store = open_store(server.url, create=True)
    with store.read("k"):
        pass
    monkeypatch.setattr(sqlalchemy.Connection, "commit" if unknown else "execute", fail)
    with pytest.raises(StoreFailure) as failure, store.write("k") as (transaction,):
        transaction.append(row(1))
    assert str(failure.value) == f"postgresql://ann:***@{server.name}: the server went away"
    assert failure.value.unknown is unknown
    monkeypatch.undo()


def test_calls_of_a_store_come_one_at_a_time(server):
    store = open_store(server.url, create=True)
    not_finished = pytest.raises(StoreFailure, match=r"ledgers\d+: another call of this process is not finished$")
    with store.read("k"), not_finished, store.read("k"):
        pass
    with store.read("k") as transaction:
        assert transaction.first() is None


def test_stores_of_one_address_share_connections_with_the_patience_that_it_leaves_open(server):
    stores = [open_store(server.url + query, create=True) for query in ("", "", "?connect_timeout=3")]
    for store in stores:
        with store.read("k"):
            pass
    first, second = server.options
    assert first["connect_args"] == postgresql.PATIENCE
    assert second["connect_args"] == {name: value for name, value in postgresql.PATIENCE.items() if name != "connect_timeout"}
    assert first["isolation_level"] == "READ COMMITTED" and first["pool_pre_ping"] is True


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("postgresql://u:a@b@host/db", ", with %40 for @, %2F for / and so on in a name or a password"),
        ("postgresql://host/db?password=a@b", ", with %40 for @, %2F for / and so on in a name or a password"),
        ("postgresql://host/db?pasword=x", ", and behind a question mark parameters that libpq knows, got another one"),
        ("postgresql://host:port/db", ", got another form"),
    ],
)
def test_a_wrong_address_is_refused_before_anything_is_asked(server, address, reason):
    with pytest.raises(ValueError) as error:
        open_store(address, create=True)
    assert str(error.value) == "store must be an address like postgresql://user:password@host:port/database" + reason
    assert server.asked == []
