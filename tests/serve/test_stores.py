"""Where a service keeps its ledgers, which of them are open, and when a release would fail."""

import contextlib
import os
import resource
import signal
import sqlite3
import threading
from datetime import datetime, timezone

import pytest

from hushvec.budget import budget_keys
from hushvec.cli import main
from hushvec.serve import server, service
from hushvec.serve.answers import AnswerStore, Claim
from hushvec.serve.app import create_app
from hushvec.serve.policy import BudgetTerms, local_policy, policy_of
from hushvec.serve.releases import Ledgers
from serve.services import client_of, policy_fields, write_policy

BODY = {"input": "a"}
TERMS = BudgetTerms(epsilon=5)


@pytest.mark.parametrize(
    "periods",
    [
        ("2026-11-25", "2026-11-26", "2026-11-24"),   # the clock steps back
        ("2026-11-25", "2026-11-26", "2026-11", ""),  # monthly, then never
        ("", "2026-11", "2026-11-25", "2026-11-24", "2026-11-26", "2026-11-25"),
    ],
)
def test_the_ledger_that_was_asked_for_can_be_charged(tmp_path, periods):
    ledgers = Ledgers(str(tmp_path / "b.sqlite"))
    held = [ledgers.open("t", TERMS, period) for period in periods]
    assert [budget.consume(1.0).sequence for budget in held] == [2 + periods[:number].count(one) for number, one in enumerate(periods)]
    ledgers.close()


def test_ledgers_of_old_periods_are_let_go(tmp_path):
    ledgers = Ledgers(str(tmp_path / "b.sqlite"))
    descriptors = lambda: len(os.listdir("/proc/self/fd"))
    ledgers.open("t", TERMS, "0")
    before = descriptors()
    for number in range(50):
        ledgers.open("t", TERMS, str(number)).consume(0.1)
    import gc

    gc.collect()
    assert descriptors() < before + 20
    ledgers.close()


SECRET = "hunter2"
ADDRESSES = [f"mysql://user:{SECRET}@host/db", f"mongodb://user:{SECRET}@host/db", f"sqlite://user:{SECRET}@host/db"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_of_another_database_is_refused(tmp_path, monkeypatch, capsys, address):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="store must be") as error:
        policy_of({**policy_fields(tmp_path), "store": address}, "policy")
    assert SECRET not in str(error.value)
    assert main(["serve", "--store", address]) == 2
    monkeypatch.setenv("HUSHVEC_BUDGET_STORE", address)
    with pytest.raises(ValueError, match="store must be") as error:
        create_app(local_policy())
    assert SECRET not in str(error.value) + capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_addresses_of_postgresql_have_three_names(tmp_path, scheme):
    from hushvec.budget.arguments import file_of

    address = f"{scheme}://user@host/db"
    assert file_of(address) is None and policy_of({**policy_fields(tmp_path), "store": address}, "policy").store == address


def test_a_ledger_in_memory_is_refused(tmp_path):
    with pytest.raises(ValueError, match="store must be a file or a database: in memory"):
        policy_of({**policy_fields(tmp_path), "store": "memory"}, "policy")


def test_the_store_of_the_environment_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("HUSHVEC_BUDGET_STORE", str(tmp_path / "mine.sqlite"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fields = policy_fields("")
    del fields["store"]
    with client_of(fields) as client:
        assert client.post("/v1/embeddings", json=BODY, headers={"Idempotency-Key": "k"}).status_code == 200
    assert budget_keys(tmp_path / "mine.sqlite") == [f"serve/alpha/{datetime.now(timezone.utc):%Y-%m-%d}"]
    assert (tmp_path / "mine.sqlite.answers").exists() and not (tmp_path / "state" / "hushvec" / "budget.sqlite").exists()


FOLDERS = {
    "the policy": lambda path, fields: ["--policy", str(path)],
    "the store": lambda path, fields: ["--policy", str(write_policy(path / "p.yaml", {**fields, "store": str(path)}))],
    "the answers": lambda path, fields: (path / "b.sqlite.answers").mkdir()
    or ["--policy", str(write_policy(path / "p.yaml", {**fields, "store": str(path / "b.sqlite")}))],
    "a certificate": lambda path, fields: ["--certificate", str(path), "--private-key", str(path), "--store", str(path / "c.sqlite")],
}


@pytest.mark.parametrize("what", FOLDERS)
def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path, capsys, monkeypatch, what):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(["serve", *FOLDERS[what](tmp_path, policy_fields(tmp_path / "b.sqlite"))]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path) in said and "Traceback" not in said and len(said.splitlines()) <= 4, said


@pytest.mark.parametrize("port", [-1, 65536, 99999])
@pytest.mark.parametrize("command", ["serve", "ui"])
def test_a_port_that_does_not_exist_is_refused(capsys, command, port):
    assert main([command, "--port", str(port)]) == 2
    assert f"port must be 0 to 65535, got {port}" in capsys.readouterr().err


def test_no_worker_is_refused():
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        server.Listening(workers=0)


def test_the_server_keeps_connections_longer_than_clients(tmp_path, monkeypatch):
    """A client that sends on a connection which the server closes at that moment gets no answer, and may have been charged."""
    import httpx
    import uvicorn

    given = {}
    monkeypatch.setattr(uvicorn, "run", lambda *arguments, **options: given.update(options))
    for name in ("HOST", "STORE"):   # set by `run` for workers, restored by this test
        monkeypatch.setenv(f"HUSHVEC_SERVE_{name}", "")
    server.run(local_policy(str(tmp_path / "b.sqlite")), None, server.Listening())
    assert given["timeout_keep_alive"] >= 2 * httpx.Limits().keepalive_expiry


# ---- readiness ----


@pytest.fixture(autouse=True)
def checked_every_time(monkeypatch):
    monkeypatch.setattr(service, "SECONDS_BETWEEN_CHECKS", 0.0)
    monkeypatch.setattr(service, "SECONDS_BETWEEN_OPENINGS", 0.0)


def ready(client):
    return client.get("/readyz").status_code


def test_junk_in_the_ledger_is_not_ready(tmp_path, caplog):
    path = tmp_path / "b.sqlite"
    with client_of(policy_fields(path)) as client:
        assert client.post("/v1/embeddings", json=BODY).status_code == ready(client) == 200
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as junk:
            junk.execute("DROP TRIGGER hushvec_budget_rows_v1_no_update")
            junk.execute("UPDATE hushvec_budget_rows_v1 SET total_epsilon = 'junk'")
        assert client.post("/v1/embeddings", json=BODY).status_code == ready(client) == 503
        assert "tenant alpha: releases fail" in caplog.text


def test_a_store_that_was_replaced_is_not_ready(tmp_path):
    path = tmp_path / "b.sqlite"
    with client_of(policy_fields(path)) as client:
        assert ready(client) == 200
        for name in ("b.sqlite", "b.sqlite-wal", "b.sqlite-shm"):
            (tmp_path / name).unlink()
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE t (x)")
        assert client.post("/v1/embeddings", json=BODY).status_code == ready(client) == 503


@pytest.mark.parametrize("what", ["no right to add rows", "a lock that is held"])
def test_a_ledger_that_can_be_read_only_is_not_ready(tmp_path, monkeypatch, caplog, what):
    """It was read, and every release failed."""
    monkeypatch.setattr("hushvec.budget.sqlite.WAIT_SECONDS", 0.1)
    path = tmp_path / "b.sqlite"
    with client_of(policy_fields(path)) as client:
        assert client.post("/v1/embeddings", json=BODY).status_code == ready(client) == 200
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            if what == "a lock that is held":
                other.execute("BEGIN IMMEDIATE")
            else:
                rows = "hushvec_budget_rows_v1"
                other.execute(f"CREATE TRIGGER refused BEFORE INSERT ON {rows} BEGIN SELECT RAISE(ABORT, 'no right'); END")
            assert client.get("/v1/budgets").status_code == 200
            assert client.post("/v1/embeddings", json=BODY).status_code == ready(client) == 503
            assert "the store of ledgers and answers cannot be used" in caplog.text
            other.execute("ROLLBACK" if what == "a lock that is held" else "DROP TRIGGER refused")
        assert client.post("/v1/embeddings", json=BODY).status_code == ready(client) == 200
        assert client.get("/v1/budgets").json()["charges"] == 2


@contextlib.contextmanager
def full_disk(size):
    """No file of this process may grow beyond `size` bytes."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_not_ready(tmp_path):
    with client_of(policy_fields(tmp_path / "b.sqlite")) as client:
        assert ready(client) == 200
        with full_disk(1000):
            assert client.post("/v1/embeddings", json=BODY).status_code == ready(client) == 503
        assert client.post("/v1/embeddings", json=BODY).status_code == ready(client) == 200


def test_a_disk_with_room_for_the_charge_only_loses_nothing(tmp_path, monkeypatch):
    """The charge fits, the answer does not: it is sent, and kept once there is room."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    body, key = {"input": ["a"] * 1000}, {"Idempotency-Key": "k"}
    with client_of(policy_fields(tmp_path / "b.sqlite")) as client:
        assert client.post("/v1/embeddings", json=BODY, headers={"Idempotency-Key": "first"}).status_code == 200
        with full_disk(150_000):
            first = client.post("/v1/embeddings", json=body, headers=key)
            assert first.status_code == 200 and len(first.content) > 200_000
            assert client.post("/v1/embeddings", json=body, headers=key).content == first.content
        assert client.post("/v1/embeddings", json=body, headers=key).content == first.content
        assert client.get("/v1/budgets").json()["charges"] == 2
    with client_of(policy_fields(tmp_path / "b.sqlite")) as client:
        assert client.post("/v1/embeddings", json=body, headers=key).content == first.content


def test_a_codebook_that_is_missing_is_said_at_the_start(tmp_path, capsys):
    fields = policy_fields(tmp_path / "b.sqlite", mechanism="codebook", codebook=str(tmp_path / "none.npz"))
    assert main(["serve", "--policy", str(write_policy(tmp_path / "p.yaml", fields)), "--check"]) == 2
    assert "tenants.alpha.codebook: " in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"tenants\.alpha\.codebook: "):
        client_of(fields)


def test_one_damaged_ledger_does_not_stop_the_other_tenants(tmp_path, monkeypatch):
    fields = policy_fields(tmp_path / "b.sqlite", key="hv_a")
    fields["tenants"]["beta"] = {**fields["tenants"]["alpha"], "keys": []}
    policy = policy_of(fields, "policy")
    own = service.Service.budget_state
    with client_of(fields) as client:
        damaged = {"alpha"}

        def state(self, account):
            if account.name in damaged:
                raise service.ServiceError(503, "ledger_unavailable", "the ledger cannot be read")
            return own(self, account)

        monkeypatch.setattr(service.Service, "budget_state", state)
        assert ready(client) == 200
        damaged.add("beta")
        assert ready(client) == 503
    assert set(policy.tenants) == damaged


def test_without_any_model_the_service_is_not_ready(tmp_path, caplog):
    fields = policy_fields(tmp_path / "b.sqlite", models=["gone"])
    fields["models"] = {"gone": {"kind": "python", "object": "serve.no_such_module:model"}}
    with client_of(fields) as client:
        assert ready(client) == 503 and "model gone cannot be opened: ModuleNotFoundError" in caplog.text


def test_readiness_is_found_out_once_a_second(tmp_path, monkeypatch):
    """Whoever may ask cannot make the disk busy."""
    monkeypatch.setattr(service, "SECONDS_BETWEEN_CHECKS", 60.0)
    with client_of(policy_fields(tmp_path / "b.sqlite")) as client:
        calls = []
        monkeypatch.setattr(type(client.app.state.service.releases), "can_be_kept", lambda self: calls.append(1) or True)
        threads = [threading.Thread(target=ready, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ready(client) == 200 and len(calls) == 1


@pytest.mark.parametrize("model", ["leaves", "leaves_when_opened"])
def test_a_model_that_ends_the_program_is_a_failed_model(tmp_path, caplog, model):
    fields = policy_fields(tmp_path / "b.sqlite", models=["words", model])
    fields["models"] = {**fields["models"], model: {"kind": "python", "object": f"serve.toy_models:{model}"}}
    with client_of(fields) as client:
        answer = client.post("/v1/embeddings", json={"input": "canary", "model": model})
        assert answer.status_code in (502, 503) and "canary" not in answer.text + caplog.text
        assert client.post("/v1/embeddings", json=BODY).status_code == 200
        assert client.get("/v1/budgets").json()["charges"] == 1


def test_what_another_process_claims_and_takes_back_is_claimed_again(tmp_path, monkeypatch):
    ours, theirs = (AnswerStore(str(tmp_path / "b.sqlite")) for _ in range(2))
    find, looks = ours.find, []

    def looking(name):
        if len(looks) == 1:
            theirs.drop(name, "2026-11")
        looks.append(find(name))
        if len(looks) == 1:
            theirs.claim(name, "2026-11", "theirs")
        return looks[-1]

    monkeypatch.setattr(ours, "find", looking)
    assert ours.claim("a", "2026-11", "ours") == Claim("2026-11", "ours", None, None)
    assert looks == [None, None] and theirs.find("a") == Claim("2026-11", "ours", None, None)
    assert theirs.claim("a", "2026-12", "theirs") == Claim("2026-11", "ours", None, None)
    for store in (ours, theirs):
        store.close()


def test_services_that_begin_at_once_share_one_table(tmp_path):
    """Another process may make it after this one has looked for it."""
    import sqlalchemy

    store = str(tmp_path / "budget.sqlite")
    made = []

    def faster(*_, **__):
        if not made:
            made.append(1)
            made.append(AnswerStore(store))

    sqlalchemy.event.listen(sqlalchemy.Table, "before_create", faster)
    try:
        assert AnswerStore(store).find("") is None
    finally:
        sqlalchemy.event.remove(sqlalchemy.Table, "before_create", faster)
    assert len(made) == 2
