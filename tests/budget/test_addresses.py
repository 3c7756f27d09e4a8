"""Addresses of PostgreSQL: one pool a process for any number of ledgers, and no password in any text, whatever the address's form."""

import logging
import os
import threading
import time
import traceback
from urllib.parse import quote

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from evidence.reference.sizes import scaled
from hushvec.budget import PrivacyBudget, budget_keys, postgresql
from hushvec.budget.arguments import open_store
from hushvec.budget.store import PROBE, StoreFailure

SECRET = "hunter2"
ODD = "".join(map(chr, range(33, 127)))  # all signs that stand in addresses, and some that must not


@st.composite
def passwords(draw):
    """A password around a mark that must never be seen, plain or with signs that end a part of an address."""
    signs = st.text(st.sampled_from(ODD), max_size=3)
    return draw(signs) + SECRET + draw(signs)


def percent(text):
    return quote(text, safe="")


def as_it_is(text):
    return text


FORMS = {
    "userinfo": "postgresql://user:{}@127.0.0.1:9/db",
    "userinfo of another driver": "postgresql+psycopg://user:{}@127.0.0.1:9/db",
    "query": "postgresql://127.0.0.1:9/db?user=u&password={}",
    "query with more": "postgresql://127.0.0.1:9/db?password={}&connect_timeout=1&sslmode=disable",
    "another secret of the query": "postgresql://u@127.0.0.1:9/db?sslpassword={}&passfile={}",
    "twice in the query": "postgresql://u@127.0.0.1:9/db?password={}&password={}",
    "no host": "postgresql:///db?host=127.0.0.1&port=9&password={}",
    "no database": "postgresql://user:{}@127.0.0.1:9",
    "a slash too few": "postgresql:/user:{}@127.0.0.1:9/db",
    "no slash": "postgresql:user:{}@127.0.0.1:9/db",
    "keywords": "host=127.0.0.1 port=9 user=u password={} dbname=db",
    "keywords in quotes": "host=127.0.0.1 port=9 password = '{}'",
    "keywords of one": "password={}",
    "another database": "mysql://user:{}@127.0.0.1/db",
    "SQLite with a host": "sqlite://user:{}@127.0.0.1/db",
    "SQLite with a query": "sqlite:///db?password={}",
    "no scheme": "user:{}@127.0.0.1://db",
    "an IPv6 host": "postgresql://user:{}@[::1]:9/db",
    "in the user's name": "postgresql://us/er:{}@127.0.0.1:9/db",
}


def probe(store):
    with store.write("", keep=False) as (transaction,):
        transaction.append(PROBE)


def texts_of(store):
    """Whatever is said about an address that cannot be used: errors with those behind them, representations, logs."""
    said, records = [], []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    try:
        opened = open_store(store, create=True)
        said += [opened.name, repr(opened)]
        probe(opened)
        said.append("no error")
    except (ValueError, StoreFailure) as error:
        said += [str(error), repr(error), "".join(traceback.format_exception(error))]
    finally:
        logging.getLogger().removeHandler(handler)
    return [*said, *records]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("encode", [percent, as_it_is])
@settings(max_examples=scaled(8, 200), deadline=None)
@given(password=passwords())
def test_a_password_is_never_seen(tmp_path_factory, form, encode, password):
    """`&` in a password that is not encoded makes the rest of it a parameter, `@` a host, `/` a database: all were repeated."""
    os.chdir(tmp_path_factory.getbasetemp())
    before = set(os.listdir("."))
    store = FORMS[form].replace("{}", encode(password))
    said = texts_of(store)
    assert not [text for text in said if SECRET in text.replace(store, "")], said
    assert "no error" not in said and set(os.listdir(".")) == before


def test_where_a_ledger_is_stays_seen():
    address = "postgresql://ann@db.example:5433/budget?sslmode=require&sslpassword=hunter2&options=-c%20search_path%3Da"
    assert open_store(address, create=True).name == "postgresql://ann@db.example:5433/budget?sslmode=require"
    named = "postgresql:///budget?host=/run/postgresql&password=hunter2"
    assert open_store(named, create=True).name == "postgresql:///budget?host=%2Frun%2Fpostgresql"


WRONG = {
    "postgresql://u:a@b@host/db": ", with %40 for @, %2F for / and so on in a name or a password",
    "postgresql://host/db?pasword=x": ", and behind a question mark parameters that libpq knows, got another one",
    "postgresql://host/db?password=a@b": ", with %40 for @, %2F for / and so on in a name or a password",
    "postgresql://host:port/db": ", got another form",
}


@pytest.mark.parametrize("address", WRONG)
def test_an_address_with_a_mistake_is_one_sentence(address):
    with pytest.raises(ValueError) as error:
        open_store(address, create=True)
    assert str(error.value) == "store must be an address like postgresql://user:password@host:port/database" + WRONG[address]


def test_a_password_in_a_query_is_not_in_a_representation(postgres):
    address = f"{postgres.url}?password={SECRET}"
    with PrivacyBudget(1.0, persist_key="seen", store=address) as budget:
        budget.consume(0.5)
        assert SECRET not in repr(budget) + str(budget) + repr(budget.state()) and "postgresql://" in repr(budget)


# ---- one pool ----


def connections_to(postgres):
    """Those of the test below."""
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'of-many'")
        return found.fetchone()[0]


def test_the_ledgers_of_a_process_share_their_connections(postgres):
    """Each had one of its own: 60 tenants on two workers took all that a server has."""
    store = postgres.url + "?application_name=of-many"
    budgets = [PrivacyBudget(1000.0, persist_key=f"of-many-{number}", store=store) for number in range(40)]
    threads = [threading.Thread(target=budget.consume, args=(1.0,)) for budget in budgets for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [budget.consumed() for budget in budgets] == [3.0] * 40
    assert 1 <= connections_to(postgres) <= postgresql.MOST_CONNECTIONS
    for budget in budgets[1:]:
        budget.close()
    budgets[0].consume(1.0)
    assert connections_to(postgres) >= 1, "closing one ledger takes no connection from another"
    budgets[0].close()
    until = time.monotonic() + 10
    while connections_to(postgres) and time.monotonic() < until:
        time.sleep(0.02)
    assert connections_to(postgres) == 0


def test_ledgers_of_a_forked_process_have_connections_of_their_own(postgres):
    budgets = [PrivacyBudget(100.0, persist_key=f"forked-{number}", store=postgres.url) for number in range(3)]
    for budget in budgets:
        budget.consume(1.0)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for budget in budgets:
                budget.consume(1.0)
            for budget in budgets:
                budget.close()
            status = 0
        finally:
            os._exit(status)
    for budget in budgets:
        budget.consume(1.0)
    assert os.waitpid(child, 0)[1] == 0
    assert [budget.consumed() for budget in budgets] == [3.0] * 3
    for budget in budgets:
        budget.close()


# ---- what a release needs ----


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_probe_leaves_nothing(tmp_path, request, kind):
    address = str(tmp_path / "b.sqlite") if kind == "sqlite" else request.getfixturevalue("postgres").url
    store = open_store(address, create=True)
    before = budget_keys(address) if kind == "postgresql" else []
    for _ in range(3):
        probe(store)
    assert budget_keys(address) == before
    store.close()


def test_a_probe_fails_where_a_charge_would(postgres):
    """A role that may read the ledger and not write to it."""
    import psycopg

    with PrivacyBudget(9.0, persist_key="probed", store=postgres.url) as budget:
        budget.consume(1.0)
    reader = postgres.url.replace("hushvec@", "reader@")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON hushvec_budget_rows_v1 TO reader")
    store = open_store(reader, create=True)
    with store.read("probed") as transaction:
        assert transaction.last() is not None
    with pytest.raises(StoreFailure, match="permission denied for table hushvec_budget_rows_v1"):
        probe(store)
    store.close()
