"""One Idempotency-Key, one charge, one release: repeated, reused, lost in a crash, and over the end of a day."""

from datetime import datetime, timezone

import pytest

from hushvec.serve import releases
from hushvec.serve.answers import AnswerStore, claim_name
from serve.services import client_of, policy_fields

BODY = {"input": "a"}
KEY = {"Idempotency-Key": "order-17"}


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
