"""Operators: keys that read the budgets and ledgers of every tenant, and release nothing."""

import hmac
import logging
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from hushvec.serve import keys
from hushvec.serve.app import create_app
from hushvec.serve.keys import hash_of, new_key
from hushvec.serve.policy import policy_of
from serve.services import client_of, policy_fields, write_policy

KEYS = {name: new_key() for name in ("alpha", "beta", "operator", "second")}
OPERATORS = ("operator", "second")


def fields_of(tmp_path):
    fields = policy_fields(tmp_path / "budget.sqlite", key=KEYS["alpha"], epsilon=1.0)
    budget = {"epsilon": 7.0, "renews": "monthly"}
    fields["tenants"]["beta"] = {**fields["tenants"]["alpha"], "keys": [hash_of(KEYS["beta"])], "budget": budget}
    fields["operators"] = {"keys": [hash_of(KEYS[name]) for name in OPERATORS]}
    return fields


@pytest.fixture
def client(tmp_path):
    with client_of(fields_of(tmp_path)) as made:
        yield made


def by(name):
    return {"Authorization": f"Bearer {KEYS[name]}"}


def test_an_operator_reads_every_budget_and_ledger(client):
    assert client.post("/v1/embeddings", json={"input": "a"}, headers=by("beta")).status_code == 200
    for operator in OPERATORS:
        found = client.get("/v1/tenants", headers=by(operator)).json()["tenants"]
        assert [(one["tenant"], one["limit"]["epsilon"], one["charges"]) for one in found] == [("alpha", 1000.0, 0), ("beta", 7.0, 1)]
        beta = found[1]
        assert (beta["consumed"]["epsilon"], beta["remaining"]["epsilon"]) == (1.0, 6.0)
        assert beta["renews_at"].endswith("-01T00:00:00+00:00")
        assert client.get("/v1/budgets/beta", headers=by(operator)).json() == beta
        assert client.get("/v1/budgets", headers=by("beta")).json() == beta
        ledger = client.get("/v1/budgets/beta/ledger", headers=by(operator)).json()
        assert ledger["holds"] and ledger == client.get("/v1/budgets/beta/ledger", headers=by("beta")).json()
        assert [row["kind"] for row in ledger["export"]["rows"]] == ["open", "charge"]


RELEASES = {
    "embeddings": {"input": "a"},
    "privatize": {"vectors": [[1.0, 2.0]]},
    "aggregate": {"kind": "mean", "vectors": [[1.0, 2.0]]},
    "rewrite": {"text": "a"},
    "ask": {"text": "a"},
    "rank": {"text": "a", "ids": [1], "vectors": [[1.0]]},
    "redact": {"text": "a"},
}


@pytest.mark.parametrize("path", RELEASES)
@pytest.mark.parametrize("more", [{}, {"Idempotency-Key": "k"}])
def test_an_operator_releases_nothing(client, path, more):
    answer = client.post(f"/v1/{path}", json=RELEASES[path], headers={**by("operator"), **more})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (403, "operator_key")
    assert error["message"] == "a tenant's key must be sent: an operator's key reads budgets and ledgers only"
    assert "hushvec-receipt" not in answer.headers
    assert [one["charges"] for one in client.get("/v1/tenants", headers=by("operator")).json()["tenants"]] == [0, 0]


def test_an_operator_has_no_budget_and_no_models(client):
    for path in ("/v1/budgets", "/v1/models"):
        answer = client.get(path, headers=by("operator"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "operator_key")


@pytest.mark.parametrize("name", ["nobody", "..%2Falpha", "alpha'%20OR%20'1'='1", "ALPHA", "(operator)"])
def test_a_tenant_that_does_not_exist(client, name):
    for path in (f"/v1/budgets/{name}", f"/v1/budgets/{name}/ledger"):
        assert client.get(path, headers=by("operator")).status_code == 404


def test_a_tenant_does_not_learn_of_others(client):
    answer = client.get("/v1/tenants", headers=by("alpha"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "operators_only")
    assert "beta" not in answer.text and "alpha" not in answer.text
    for path in ("/v1/budgets/beta", "/v1/budgets/beta/ledger"):
        assert client.get(path, headers=by("alpha")).status_code == 404


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer hv_wrong"}, {"Authorization": f"Basic {KEYS['operator']}"}])
def test_without_a_right_key_nothing_is_read(client, headers):
    for path in ("/v1/tenants", "/v1/budgets/alpha", "/v1/budgets/alpha/ledger"):
        answer = client.get(path, headers=headers)
        assert answer.status_code == 401 and "alpha" not in answer.text


def test_receipts_are_verified_for_operators_too(client):
    receipt = client.post("/v1/embeddings", json={"input": "a"}, headers=by("alpha")).json()["hushvec"]["receipt"]
    for who in ("operator", "beta"):
        assert client.post("/v1/receipts/verify", json={"receipt": receipt}, headers=by(who)).json()["status"] == "holds"
    assert client.post("/v1/receipts/verify", json={"receipt": 1}, headers=by("operator")).status_code == 400
    headers = {**by("operator"), "Content-Type": "application/json"}
    assert client.post("/v1/receipts/verify", content=b" " * 64_000_001, headers=headers).status_code == 413


def test_a_revoked_operator_is_refused_at_once(tmp_path):
    fields = fields_of(tmp_path)
    file = write_policy(tmp_path / "policy.yaml", fields)
    app = create_app(path=file)
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/v1/tenants", headers=by("operator")).status_code == 200
        fields["operators"]["keys"] = [hash_of(KEYS["second"])]
        write_policy(file, fields)
        app.state.service.reload()
        assert [client.get("/v1/tenants", headers=by(name)).status_code for name in OPERATORS] == [401, 200]
        del fields["operators"]
        write_policy(file, fields)
        app.state.service.reload()
        assert [client.get("/v1/tenants", headers=by(name)).status_code for name in (*OPERATORS, "alpha")] == [401, 401, 403]


def test_every_hash_of_a_policy_is_compared(client, monkeypatch):
    """In constant time, whoever asks: operators' hashes for tenants, tenants' for operators, all of them for a stranger."""
    compared = []
    spy = SimpleNamespace(compare_digest=lambda given, known: compared.append(known) or hmac.compare_digest(given, known))
    monkeypatch.setattr(keys, "hmac", spy)
    known = {hash_of(key).encode() for key in KEYS.values()}
    for headers in (by("alpha"), by("operator"), {"Authorization": "Bearer hv_wrong"}):
        compared.clear()
        client.get("/v1/budgets/alpha", headers=headers)
        assert set(compared) == known and len(compared) == len(known)


def test_without_keys_the_local_tenant_is_listed(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite", limit=5.0)) as client:
        found = client.get("/v1/tenants").json()["tenants"]
        assert [(one["tenant"], one["limit"]["epsilon"]) for one in found] == [("alpha", 5.0)]


WRONG = [
    (lambda fields: fields["operators"]["keys"].append(hash_of(KEYS["beta"])), "operators and tenants.beta must not share a key"),
    (lambda fields: fields["tenants"]["beta"].update(keys=[]), "tenants.beta.keys must not be empty with operators"),
    (lambda fields: fields["operators"].update(keys=[]), "operators.keys: List should have at least 1 item"),
    (lambda fields: fields["operators"].update(keys=["hv_secret"]), "operators.keys.0: String should match pattern"),
    (lambda fields: fields["operators"].update(tenants=["alpha"]), "operators.tenants: Extra inputs are not permitted"),
]


@pytest.mark.parametrize("change, rule", WRONG)
def test_what_a_policy_of_operators_may_not_say(tmp_path, change, rule):
    fields = fields_of(tmp_path)
    policy_of(fields, "policy")
    change(fields)
    with pytest.raises(ValueError, match=rule) as caught:
        policy_of(fields, "policy")
    assert "hv_secret" not in str(caught.value)


def test_keys_of_operators_are_not_logged(client, caplog):
    with caplog.at_level(logging.DEBUG):
        client.get("/v1/tenants", headers=by("operator"))
        client.post("/v1/rewrite", json={"text": "a"}, headers=by("operator"))
    assert KEYS["operator"] not in caplog.text and KEYS["operator"] not in client.get("/metrics").text
    assert 'tenant="(operator)"' in client.get("/metrics").text


def test_the_check_of_a_policy_counts_them(tmp_path, capsys):
    from hushvec.cli import main

    file = write_policy(tmp_path / "policy.yaml", fields_of(tmp_path))
    assert main(["serve", "--policy", str(file), "--check"]) == 0
    assert "operators: 2 keys, read every budget and release nothing" in capsys.readouterr().out


def test_the_openapi_document_has_the_endpoint(client):
    assert "get" in client.get("/openapi.json").json()["paths"]["/v1/tenants"]
