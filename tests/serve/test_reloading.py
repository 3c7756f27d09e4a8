"""The policy in force: what a bad edit of its file does, and what a worker that starts later takes."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from hushvec.serve import app, reloading
from hushvec.serve.keys import hash_of, new_key
from hushvec.serve.policy import policy_of, read_policy
from hushvec.serve.reloading import PolicyInForce, keep_policy, watch
from serve.services import free_port, policy_fields, server, write_policy

FIRST, SECOND = new_key(), new_key()
BODY = {"input": "a"}


def fields_with(tmp_path, *keys, **tenant):
    fields = policy_fields(tmp_path / "budget.sqlite", **tenant)
    fields["tenants"]["alpha"]["keys"] = [hash_of(key) for key in keys]
    return fields


def bearer(key):
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def with_edit(path, fields, edit):
    """The policy's file with more text in it, which is wrong."""
    write_policy(path, fields)
    path.write_text(path.read_text() + edit)


DEEP = "canary: " + "[" * 3000
TWICE = "version: 1\n"
EDITS = {"canary: !!bool maybe\n": "is not YAML", DEEP: "is not YAML", "canary: [\n": "is not YAML", TWICE: "repeats a key"}


@pytest.mark.parametrize("edit", EDITS, ids=["a bool that is none", "too deep", "a bracket", "a key twice"])
def test_whatever_is_wrong_with_a_file_is_one_sentence(tmp_path, edit):
    path = tmp_path / "policy.yaml"
    with_edit(path, fields_with(tmp_path, FIRST), edit)
    with pytest.raises(ValueError, match=EDITS[edit]) as error:
        read_policy(path)
    assert "canary" not in str(error.value) and len(str(error.value)) < 200


def test_a_tenant_twice_is_refused(tmp_path):
    """PyYAML would take the last one, and drop the keys and the budget of the first."""
    path = tmp_path / "policy.yaml"
    text = write_policy(path, fields_with(tmp_path, FIRST)).read_text()
    tenant = text[text.index("  alpha:"):text.index("version:")]
    path.write_text(text.replace(tenant, 2 * tenant))
    with pytest.raises(ValueError, match=r"policy.yaml: line \d+ repeats a key"):
        read_policy(path)


def test_aliases_and_merges_are_no_repetition(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(
        "version: 1\nmodels: {m: {kind: minilm}}\ntenants:\n"
        "  a: &a {models: [m], epsilon: 1.0, budget: {epsilon: 2.0}}\n  b: &b {<<: *a, epsilon: 0.5}\n  c: {<<: *b, epsilon: 0.25}\n"
    )
    assert [tenant.epsilon for tenant in read_policy(path).tenants.values()] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize("error", [KeyError("maybe"), RecursionError(), SystemExit("text"), ValueError("rule"), OSError("gone")])
async def test_no_error_ends_the_watch(tmp_path, monkeypatch, caplog, error):
    monkeypatch.setattr(reloading, "SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr(reloading, "SECONDS_BETWEEN_TRIES", 0.05)
    calls = []

    def reload():
        calls.append(1)
        if len(calls) < 3:
            raise error
        return True

    path = tmp_path / "policy.yaml"
    path.write_text("")
    task = asyncio.create_task(watch(path, reload))
    for _ in range(200):
        await asyncio.sleep(0.02)
        if "read again" in caplog.text:
            break
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert len(calls) == 3, "it is tried again after an error, and then not again"
    shown = str(error) if isinstance(error, ValueError | OSError) else type(error).__name__
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert lines == [f"policy: the old one stays in force: {shown}"]


def test_keys_that_are_gone_from_a_bad_file_are_refused_after_a_minute(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(reloading.time, "monotonic", lambda: now[0])
    path = tmp_path / "policy.yaml"
    in_force = PolicyInForce(policy_of(fields_with(tmp_path, FIRST, SECOND), "policy"), path)
    valid = lambda: {known for _, known in in_force.valid_keys_of(in_force.policy)}
    with_edit(path, fields_with(tmp_path, FIRST), f"canary: [  # {hash_of(SECOND)}\n")
    for passed in (0.0, 30.0, 59.0):
        now[0] = 1000.0 + passed
        with pytest.raises(ValueError, match="is not YAML"):
            in_force.reload()
        assert valid() == {hash_of(FIRST), hash_of(SECOND)}
    now[0] = 1000.0 + reloading.SECONDS_UNTIL_REFUSED
    assert valid() == {hash_of(FIRST)}
    with_edit(path, fields_with(tmp_path, FIRST, SECOND), "canary: [\n")
    with pytest.raises(ValueError, match="is not YAML"):
        in_force.reload()
    assert valid() == {hash_of(FIRST), hash_of(SECOND)}, "the edit that took it out was taken back"
    path.unlink()
    with pytest.raises(OSError):
        in_force.reload()
    now[0] += reloading.SECONDS_UNTIL_REFUSED - 1
    assert valid() == {hash_of(FIRST), hash_of(SECOND)}
    now[0] += 1
    assert valid() == set(), "a file that cannot be read is one without keys"


def test_a_revoked_key_is_refused_though_the_edit_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(reloading, "SECONDS_UNTIL_REFUSED", 0.0)
    path = write_policy(tmp_path / "policy.yaml", fields_with(tmp_path, FIRST, SECOND))
    with TestClient(app.create_app(path=path), base_url="http://localhost") as client:
        assert client.get("/v1/budgets", headers=bearer(SECOND)).status_code == 200
        with_edit(path, fields_with(tmp_path, FIRST), "canary: !!bool maybe\n")
        with pytest.raises(ValueError):
            client.app.state.service.in_force.reload(seconds_until_refused=0.0)
        assert client.get("/v1/budgets", headers=bearer(SECOND)).status_code == 401
        assert client.get("/v1/budgets", headers=bearer(FIRST)).status_code == 200


def later_worker(tmp_path, monkeypatch, kept):
    """A client of a worker that starts when `kept` is in force, whatever the file says by now."""
    keep_policy(policy_of(kept, "policy"), tmp_path / "kept.json")
    monkeypatch.setenv(app.POLICY_VARIABLE, str(tmp_path / "policy.yaml"))
    monkeypatch.setenv(app.KEPT_VARIABLE, str(tmp_path / "kept.json"))
    monkeypatch.setenv(app.HOST_VARIABLE, "127.0.0.1")
    made = app.app_of_environment()
    made.state.owns_process = False   # but this test's
    return TestClient(made, base_url="http://localhost")


WORSE = {
    "no keys": lambda tmp_path: fields_with(tmp_path),
    "another store": lambda tmp_path: {**fields_with(tmp_path, FIRST), "store": str(tmp_path / "other.sqlite")},
    "no policy": lambda tmp_path: {"tenants": {}},
    "a codebook that is missing": lambda tmp_path: fields_with(tmp_path, FIRST, mechanism="codebook", codebook="nowhere.npz"),
}


@pytest.mark.parametrize("edit", WORSE)
def test_a_worker_that_starts_later_refuses_what_the_others_refused(tmp_path, monkeypatch, edit):
    write_policy(tmp_path / "policy.yaml", WORSE[edit](tmp_path))
    with later_worker(tmp_path, monkeypatch, fields_with(tmp_path, FIRST)) as client:
        assert [client.post("/v1/embeddings", json=BODY).status_code for _ in range(3)] == [401] * 3
        # A key that stands nowhere in the file is refused at once by a worker that starts after the edit.
        known = 200 if edit in ("another store", "a codebook that is missing") else 401
        assert client.post("/v1/embeddings", json=BODY, headers=bearer(FIRST)).status_code == known
        assert client.app.state.service.policy.store == str(tmp_path / "budget.sqlite")


def test_a_worker_that_starts_later_takes_what_is_right(tmp_path, monkeypatch):
    write_policy(tmp_path / "policy.yaml", fields_with(tmp_path, SECOND))
    with later_worker(tmp_path, monkeypatch, fields_with(tmp_path, FIRST)) as client:
        assert client.post("/v1/embeddings", json=BODY, headers=bearer(FIRST)).status_code == 401
        assert client.post("/v1/embeddings", json=BODY, headers=bearer(SECOND)).status_code == 200
    assert reloading.kept_policy(tmp_path / "kept.json") == read_policy(tmp_path / "policy.yaml")
    assert Path(tmp_path / "kept.json").stat().st_mode & 0o777 == 0o600


def test_without_a_known_address_keys_are_needed(tmp_path, monkeypatch):
    monkeypatch.setenv(app.POLICY_VARIABLE, str(write_policy(tmp_path / "policy.yaml", fields_with(tmp_path))))
    monkeypatch.delenv(app.HOST_VARIABLE, raising=False)
    monkeypatch.delenv(app.KEPT_VARIABLE, raising=False)
    with pytest.raises(ValueError, match=r"host must be a loopback address while tenants\.alpha has no keys, got 'an unknown one'"):
        app.app_of_environment()


def test_a_reload_that_lets_others_in_is_refused(tmp_path):
    """A service that began with one tenant, whose file gets a second one without keys."""
    path = write_policy(tmp_path / "policy.yaml", fields_with(tmp_path, FIRST))
    in_force = PolicyInForce(read_policy(path), path, "0.0.0.0")
    fields = fields_with(tmp_path, FIRST)
    fields["tenants"]["beta"] = {**fields["tenants"]["alpha"], "keys": []}
    write_policy(path, fields)
    with pytest.raises(ValueError, match=r"tenants\.beta\.keys must not be empty"):
        in_force.reload()


def test_one_model_that_is_missing_does_not_stop_the_others(tmp_path):
    path = write_policy(tmp_path / "policy.yaml", fields_with(tmp_path, FIRST))
    with TestClient(app.create_app(path=path), base_url="http://localhost") as client:
        fields = fields_with(tmp_path, FIRST, models=["gone", "words"])
        gone = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m", "api_key_env": "NOT_SET"}
        fields["models"] = {**fields["models"], "gone": gone}
        write_policy(path, fields)
        assert client.app.state.service.reload()
        assert client.get("/readyz").status_code == 200
        ask = lambda model: client.post("/v1/embeddings", json={**BODY, "model": model}, headers=bearer(FIRST))
        assert ask("words").status_code == 200
        assert (ask("gone").status_code, ask("gone").json()["error"]["code"]) == (503, "model_unavailable")


def test_a_worker_that_dies_is_replaced_by_one_that_asks_for_keys(tmp_path):
    """As processes: the keys are taken out of the file, which is refused, and then a worker is killed."""
    port, policy = free_port(), write_policy(tmp_path / "policy.yaml", fields_with(tmp_path, FIRST))
    log = tmp_path / "log"
    with server(policy, port, log=log, workers=2) as process:
        ask = lambda key: httpx.post(f"http://127.0.0.1:{port}/v1/embeddings", json=BODY, headers=bearer(key), timeout=30).status_code
        assert ask(None) == 401
        write_policy(policy, fields_with(tmp_path))
        until = time.monotonic() + 30
        while "keys must not be empty" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.1)
        workers = workers_of(process.pid)
        os.kill(workers[0], signal.SIGKILL)
        until = time.monotonic() + 60
        while (len(set(workers_of(process.pid)) - set(workers)) == 0 or log.read_text().count("startup complete") < 3) and (
            time.monotonic() < until
        ):
            time.sleep(0.2)
        assert log.read_text().count("startup complete") >= 3, log.read_text()[-3000:]
        assert {ask(None) for _ in range(40)} == {401}


def workers_of(parent):
    """The processes that answer, without the one that multiprocessing starts beside them."""
    children = [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
