"""Who may do what: keys, tenants apart, and where a service without keys may listen."""

import hmac
from types import SimpleNamespace

import pytest

from hushvec.serve import keys
from hushvec.serve.keys import hash_of, new_key, owner_of
from hushvec.serve.policy import is_loopback, policy_of, require_keys_beyond_loopback
from serve.services import client_of, policy_fields

KEYS = {"alpha": new_key(), "beta": new_key()}


def two_tenants(tmp_path):
    fields = policy_fields(tmp_path / "budget.sqlite", key=KEYS["alpha"])
    fields["tenants"]["beta"] = {**fields["tenants"]["alpha"], "keys": [hash_of(KEYS["beta"])], "budget": {"epsilon": 7.0}}
    return fields


@pytest.fixture
def client(tmp_path):
    with client_of(two_tenants(tmp_path)) as made:
        yield made


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


WRONG = [{}, bearer(""), bearer("hv_wrong"), {"Authorization": f"Basic {KEYS['alpha']}"}, bearer(hash_of(KEYS["alpha"]))]
PATHS = [f"/v1/{name}" for name in ("embeddings", "privatize", "aggregate", "redact", "rewrite", "ask", "rank", "receipts/verify")]


@pytest.mark.parametrize("headers", WRONG)
@pytest.mark.parametrize("path", PATHS)
def test_a_missing_or_wrong_key_gets_one_answer(client, path, headers):
    answer = client.post(path, json={}, headers=headers)
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "invalid_api_key"


def test_reading_needs_a_key_too(client):
    for path in ("/v1/models", "/v1/budgets", "/v1/budgets/alpha", "/v1/budgets/alpha/ledger"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=bearer(KEYS["alpha"])).status_code == 200


def test_tenants_do_not_see_each_other(client):
    assert client.get("/v1/budgets", headers=bearer(KEYS["beta"])).json()["limit"]["epsilon"] == 7.0
    for name in ("alpha", "nobody", "..%2Falpha", "alpha'%20OR%20'1'='1", "%2e%2e", "ALPHA"):
        for path in (f"/v1/budgets/{name}", f"/v1/budgets/{name}/ledger"):
            answer = client.get(path, headers=bearer(KEYS["beta"]))
            assert answer.status_code == 404 and "epsilon" not in answer.text, path


def test_one_tenant_s_idempotency_key_is_not_another_s(client):
    body, key = {"input": "a"}, {"Idempotency-Key": "k"}
    answers = [client.post("/v1/embeddings", json=body, headers={**bearer(KEYS[name]), **key}) for name in KEYS]
    assert [answer.status_code for answer in answers] == [200, 200] and answers[0].content != answers[1].content


def test_a_revoked_key_is_refused_at_once(tmp_path):
    from starlette.testclient import TestClient

    from hushvec.serve.app import create_app
    from serve.services import write_policy

    fields = two_tenants(tmp_path)
    file = write_policy(tmp_path / "policy.yaml", fields)
    app = create_app(path=file)
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/v1/budgets", headers=bearer(KEYS["beta"])).status_code == 200
        fields["tenants"]["beta"]["keys"] = [hash_of(new_key())]
        write_policy(file, fields)
        app.state.service.reload()
        assert client.get("/v1/budgets", headers=bearer(KEYS["beta"])).status_code == 401
        file.write_text("tenants: [")
        with pytest.raises(ValueError, match="is not YAML"):
            app.state.service.reload()
        fields["tenants"]["beta"]["keys"] = []
        write_policy(file, fields)
        with pytest.raises(ValueError, match=r"tenants\.beta\.keys must not be empty"):
            app.state.service.reload()
        assert client.get("/v1/budgets", headers=bearer(KEYS["alpha"])).status_code == 200


def test_every_hash_is_compared_in_constant_time(monkeypatch):
    compared = []
    spy = SimpleNamespace(compare_digest=lambda given, known: compared.append(known) or hmac.compare_digest(given, known))
    monkeypatch.setattr(keys, "hmac", spy)
    pairs = [(name, hash_of(key)) for name, key in KEYS.items()]
    assert owner_of(KEYS["alpha"], pairs) == "alpha" and len(compared) == len(pairs)
    assert owner_of("hv_", pairs) is None and len(compared) == 2 * len(pairs)


def test_keys_are_long_and_random():
    made = {new_key() for _ in range(100)}
    assert len(made) == 100 and all(len(key) >= 46 for key in made)


def test_without_keys_the_service_is_for_this_machine(tmp_path):
    policy = policy_of(policy_fields(tmp_path / "b.sqlite"), "policy")
    for host in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        assert is_loopback(host)
        require_keys_beyond_loopback(policy, host)
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        with pytest.raises(ValueError, match="host must be a loopback address"):
            require_keys_beyond_loopback(policy, host)
        require_keys_beyond_loopback(policy_of(two_tenants(tmp_path), "policy"), host)


def test_without_keys_other_names_are_refused(tmp_path):
    """A page that points its own name at this machine (DNS rebinding)."""
    with client_of(policy_fields(tmp_path / "b.sqlite")) as client:
        for host in ("evil.example", "evil.example:8321", "localhost.evil.example"):
            assert client.get("/v1/budgets", headers={"Host": host}).status_code == 421
        for host in ("localhost:8321", "127.0.0.1:8321", "[::1]:8321"):
            assert client.get("/v1/budgets", headers={"Host": host}).status_code == 200


def test_a_form_of_another_page_is_refused(tmp_path):
    """What browsers send without asking first: text, forms."""
    with client_of(policy_fields(tmp_path / "b.sqlite")) as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            answer = client.post("/v1/embeddings", content=b'{"input": "a"}', headers={"Content-Type": kind})
            assert answer.status_code == 415
        assert client.options("/v1/embeddings", headers={"Origin": "https://evil.example"}).status_code == 405
        assert client.get("/v1/budgets").json()["charges"] == 0
