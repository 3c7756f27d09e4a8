"""One Idempotency-Key, one charge, one release: repeated, reused, lost in a crash, and over the end of a day."""

import hashlib
import os
import sqlite3
from datetime import datetime, timezone
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from hushvec.errors import BudgetError
from hushvec.serve import releases
from hushvec.serve.answers import AnswerStore, claim_name, fingerprint_of
from serve.services import client_of, policy_fields

BODY = {"input": "a"}
KEY = {"Idempotency-Key": "order-17"}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def client(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as made:
        yield made


def charges(client):
    return client.get("/v1/budgets").json()["charges"]


def test_a_repeated_request_gets_the_same_release(client):
    first, second = (client.post("/v1/embeddings", json=BODY, headers=KEY) for _ in range(2))
    assert first.status_code == second.status_code == 200 and first.content == second.content
    assert first.headers["hushvec-receipt"] == second.headers["hushvec-receipt"]
    assert "idempotent-replayed" not in first.headers and second.headers["idempotent-replayed"] == "true"
    assert charges(client) == 1


def test_without_a_key_two_requests_are_two_releases(client):
    first, second = (client.post("/v1/embeddings", json=BODY) for _ in range(2))
    assert first.content != second.content and charges(client) == 2


def test_a_key_is_for_one_request(client):
    client.post("/v1/embeddings", json=BODY, headers=KEY)
    for path, body in (("/v1/embeddings", {"input": "b"}), ("/v1/rewrite", {"text": "a"})):
        refused = client.post(path, json=body, headers=KEY)
        assert refused.status_code == 422 and refused.json()["error"]["code"] == "idempotency_key_reused"
    assert charges(client) == 1


def test_a_release_that_was_charged_and_lost_is_not_drawn_again(client, monkeypatch):
    """The process stops between the charge and the answer."""
    monkeypatch.setattr(AnswerStore, "keep", lambda *arguments: (_ for _ in ()).throw(KeyError))
    assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 500
    monkeypatch.undo()
    for _ in range(2):
        lost = client.post("/v1/embeddings", json=BODY, headers=KEY)
        assert lost.status_code == 409 and lost.json()["error"]["code"] == "already_charged"
    assert charges(client) == 1


def test_a_request_that_failed_before_its_charge_may_be_repeated(client, monkeypatch):
    monkeypatch.setattr(releases, "ChargeOnce", lambda *arguments: (_ for _ in ()).throw(KeyError))
    assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 500
    monkeypatch.undo()
    assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 200
    assert charges(client) == 1


def test_a_key_that_was_lost_yesterday_stays_refused_today(client, monkeypatch):
    """The ledger of its own day knows the charge; today's would pay for a second draw."""
    day = lambda number: (lambda: datetime(2026, 11, number, 23, 59, tzinfo=timezone.utc))
    monkeypatch.setattr(releases, "now_utc", day(1))
    monkeypatch.setattr(AnswerStore, "keep", lambda *arguments: (_ for _ in ()).throw(KeyError))
    assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 500
    monkeypatch.undo()
    monkeypatch.setattr(releases, "now_utc", day(2))
    assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 409


def test_keys_of_tenants_are_apart():
    assert claim_name("a", "bc") != claim_name("ab", "c")


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
def test_keys_have_a_length_and_no_control_characters(client, key):
    refused = client.post("/v1/embeddings", json=BODY, headers={"Idempotency-Key": key})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "Idempotency-Key"
    assert charges(client) == 0


def test_answers_that_are_kept_have_a_size(client, monkeypatch):
    monkeypatch.setattr(releases, "MOST_KEPT_BYTES", 10)
    assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 413
    assert client.post("/v1/embeddings", json=BODY).status_code == 200


def test_an_exhausted_budget_says_what_is_left_and_when_it_renews(tmp_path):
    with client_of(policy_fields(tmp_path / "b.sqlite", epsilon=1.0, limit=2.5)) as client:
        assert [client.post("/v1/embeddings", json=BODY).status_code for _ in range(3)] == [200, 200, 402]
        error = client.post("/v1/embeddings", json=BODY, headers=KEY).json()["error"]
        assert error["code"] == "PRIVACY_BUDGET_EXHAUSTED" and error["remaining"]["epsilon"] == 0.5
        assert datetime.fromisoformat(error["renews_at"]) > datetime.now(timezone.utc)
        assert client.post("/v1/embeddings", json={**BODY, "epsilon": 0.5}).status_code == 200


def day(number):
    return lambda: datetime(2026, 11, number, 23, 59, tzinfo=timezone.utc)


def test_a_key_that_was_refused_yesterday_is_served_today(tmp_path, monkeypatch):
    """Yesterday's ledger was full and has not paid for it."""
    with client_of(policy_fields(tmp_path / "b.sqlite", epsilon=1.0, limit=1.0)) as client:
        monkeypatch.setattr(releases, "now_utc", day(1))
        assert client.post("/v1/embeddings", json=BODY).status_code == 200
        assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 402
        monkeypatch.setattr(releases, "now_utc", day(2))
        first, second = (client.post("/v1/embeddings", json=BODY, headers=KEY) for _ in range(2))
        assert first.status_code == 200 and first.content == second.content
        assert client.post("/v1/embeddings", json=BODY).status_code == 402


def test_a_claim_of_yesterday_that_was_never_charged_is_paid_today(tmp_path, monkeypatch):
    """The process ended between the claim and the charge, and then others used up yesterday's budget."""
    with client_of(policy_fields(tmp_path / "b.sqlite", epsilon=1.0, limit=1.0)) as client:
        monkeypatch.setattr(releases, "now_utc", day(1))
        monkeypatch.setattr(releases, "ChargeOnce", lambda *arguments: (_ for _ in ()).throw(KeyError))
        assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 500
        monkeypatch.undo()
        monkeypatch.setattr(releases, "now_utc", day(1))
        assert client.post("/v1/embeddings", json=BODY).status_code == 200
        monkeypatch.setattr(releases, "now_utc", day(2))
        assert client.post("/v1/embeddings", json=BODY, headers=KEY).status_code == 200


def test_an_answer_that_cannot_be_kept_is_sent_and_can_be_asked_for_again(client, monkeypatch, caplog):
    full = lambda *arguments: (_ for _ in ()).throw(OperationalError("", {}, Exception("disk full")))
    monkeypatch.setattr(AnswerStore, "keep", full)
    first, second = (client.post("/v1/embeddings", json=BODY, headers=KEY) for _ in range(2))
    assert first.status_code == second.status_code == 200 and first.content == second.content
    assert second.headers["idempotent-replayed"] == "true" and "an answer cannot be kept" in caplog.text
    assert client.post("/v1/embeddings", json={"input": "b"}, headers=KEY).status_code == 422
    monkeypatch.undo()
    third = client.post("/v1/embeddings", json=BODY, headers=KEY)
    client.app.state.service.releases._unkept.clear()   # the process ends
    assert client.post("/v1/embeddings", json=BODY, headers=KEY).content == third.content == first.content
    assert charges(client) == 1


def test_answers_in_memory_have_a_bound(client, monkeypatch):
    full = lambda *arguments: (_ for _ in ()).throw(OperationalError("", {}, Exception("disk full")))
    monkeypatch.setattr(AnswerStore, "keep", full)
    monkeypatch.setattr(releases, "MOST_UNKEPT_BYTES", 8_000)
    for number in range(10):
        assert client.post("/v1/embeddings", json=BODY, headers={"Idempotency-Key": f"k{number}"}).status_code == 200
    held = client.app.state.service.releases._unkept
    assert 1 < len(held) < 10 and sum(len(answer.body) for _, answer in held.values()) <= 8_000
    assert [client.post("/v1/embeddings", json=BODY, headers={"Idempotency-Key": f"k{n}"}).status_code for n in (0, 9)] == [409, 200]


def test_ledgers_in_one_folder_have_answers_of_their_own(tmp_path):
    bodies = []
    for name in ("a.sqlite", "b.sqlite"):
        with client_of(policy_fields(tmp_path / name)) as client:
            bodies.append(client.post("/v1/embeddings", json=BODY, headers=KEY).content)
            assert charges(client) == 1
    assert bodies[0] != bodies[1]
    (tmp_path / "c.sqlite").symlink_to(tmp_path / "a.sqlite")
    with client_of(policy_fields(tmp_path / "c.sqlite")) as client:
        assert client.post("/v1/embeddings", json=BODY, headers=KEY).content == bodies[0], "the same ledger by another name"


def test_answers_are_their_owner_s_alone(tmp_path):
    before = os.umask(0o022)
    try:
        with client_of(policy_fields(tmp_path / "new" / "b.sqlite")) as client:
            client.post("/v1/embeddings", json=BODY, headers=KEY)
            files = sorted((tmp_path / "new").iterdir())
            assert "b.sqlite.answers" in [file.name for file in files]
            assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
            assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("plant", [Path.symlink_to, Path.hardlink_to])
def test_answers_are_not_written_where_a_planted_name_leads(tmp_path, suffix, plant):
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    plant(tmp_path / f"b.sqlite.answers{suffix}", victim)
    with pytest.raises(BudgetError, match="must be a plain file with one name"):
        client_of(policy_fields(tmp_path / "b.sqlite"))
    assert victim.read_bytes() == b""


def test_what_was_asked_cannot_be_tried_out_in_the_store(client, tmp_path):
    """Without API keys the fingerprint has a key too, which is kept elsewhere."""
    client.post("/v1/embeddings", json=BODY, headers=KEY)
    with sqlite3.connect(tmp_path / "budget.sqlite.answers") as store:
        names, (fingerprint,) = store.execute("SELECT name FROM hushvec_answers").fetchall(), store.execute(
            "SELECT fingerprint FROM hushvec_answers WHERE fingerprint != ''").fetchone()
    assert (claim_name("alpha", KEY["Idempotency-Key"]),) in names
    body = client.build_request("POST", "/v1/embeddings", json=BODY).content
    digest = hashlib.sha256(b"/v1/embeddings\0" + body).digest()
    assert fingerprint != fingerprint_of(b"", digest)
    key = Path(os.environ["XDG_STATE_HOME"], "hushvec", releases.KEY_FILE)
    assert fingerprint == fingerprint_of(key.read_bytes(), digest)
    assert len(key.read_bytes()) == 32 and key.stat().st_mode & 0o777 == 0o600
