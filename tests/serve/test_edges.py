"""Edges of the service: workers without a master, redirects, streams of many parts, keys of other alphabets, ports that are none."""

import signal
import time

import httpx
import numpy as np
import pyarrow as pa
import pytest

from hushvec.cli import main
from hushvec.serve import bodies
from hushvec.serve.failures import ServiceError
from hushvec.serve.keys import new_key
from hushvec.serve.models import RemoteModel
from hushvec.serve.policy import OpenAIModel
from hushvec.serve.routes import accounts, explore
from serve.services import client_of, free_port, policy_fields, server, write_policy
from serve.test_reloading import workers_of


def test_workers_end_with_their_master(tmp_path):
    """They went on, without anybody who would stop or replace them."""
    port, policy = free_port(), write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite"))
    with server(policy, port, log=tmp_path / "log", workers=2) as process:
        workers = workers_of(process.pid)
        assert len(workers) == 2
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        until = time.monotonic() + 60
        while any(is_alive(pid) for pid in workers) and time.monotonic() < until:
            time.sleep(0.1)
        assert not any(is_alive(pid) for pid in workers)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{port}/healthz")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


PATHS = ["/healthz/", "/v1/embeddings/", "/v1/budgets/", "/v1/budgets/alpha/ledger/", "/page/", "/page"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nothing_is_redirected(tmp_path, path, method):
    """A redirect leads to the host that a client names, which a cache would give to others."""
    with client_of(policy_fields(tmp_path / "b.sqlite", key=new_key())) as client:
        answer = client.request(method, path, headers={"Host": "attacker.example"}, follow_redirects=False)
        assert answer.status_code in (401, 404, 405) and "location" not in answer.headers and "attacker" not in answer.text


def batches(count, rows=1):
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(4 * rows, np.float32)), 4)
    schema = pa.schema([("vector", column.type)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        batch = pa.record_batch([column], schema=schema)
        for _ in range(count):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("rows", [0, 1])
def test_streams_have_a_number_of_batches(monkeypatch, rows):
    """240,000 of them took minutes and a gigabyte."""
    monkeypatch.setattr(bodies, "MOST_BATCHES", 50)
    with pytest.raises(ServiceError) as error:
        bodies.read_vectors(batches(51, rows), 1_000_000)
    assert (error.value.status, error.value.message) == (413, "the stream must have at most 50 batches")
    assert len(bodies.read_vectors(batches(50), 1_000_000)[0]) == 50


def test_many_batches_take_little_time():
    body = batches(bodies.MOST_BATCHES)
    began = time.process_time()
    assert len(bodies.read_vectors(body, 100_000_000)[0]) == bodies.MOST_BATCHES
    assert time.process_time() - began < 10


@pytest.mark.parametrize("key", ["\u043a\u043b\u044e\u0447", "\U0001f511", "k\u00e9y", "key\n"])
def test_a_key_of_an_upstream_that_no_header_holds_is_named_and_not_shown(monkeypatch, key):
    monkeypatch.setenv("MODELS_KEY", f"hunter2{key}")
    settings = OpenAIModel(kind="openai", base_url="http://127.0.0.1:9/v1", model="m", api_key_env="MODELS_KEY")
    with pytest.raises(ValueError, match="the environment variable MODELS_KEY must hold a key of printable ASCII") as error:
        RemoteModel(settings)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("key", ["\u043a\u043b\u044e\u0447", "k\u00e9y", "\U0001f511", "\x00"])
def test_a_key_that_is_not_latin_is_a_wrong_key(tmp_path, key):
    with client_of(policy_fields(tmp_path / "b.sqlite", key=new_key())) as client:
        headers = {b"authorization": b"Bearer " + key.encode()}
        answer = client.get("/v1/budgets", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_check_finds_a_port_that_does_not_exist(tmp_path, capsys, port):
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "b.sqlite"))
    assert main(["serve", "--policy", str(policy), "--check", "--port", str(port)]) == 2
    assert f"port must be 0 to 65535, got {port}" in capsys.readouterr().err


def test_a_check_finds_a_certificate_that_is_none(tmp_path, capsys):
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "b.sqlite"))
    (tmp_path / "tls").write_text("no certificate")
    options = ["--certificate", str(tmp_path / "tls"), "--private-key", str(tmp_path / "tls")]
    assert main(["serve", "--policy", str(policy), "--check", *options]) == 2
    assert "certificate and private_key must be PEM files that belong together" in capsys.readouterr().err


def test_a_long_ledger_is_written_in_the_tenant_s_thread(tmp_path):
    """FastAPI would make the answer in the loop that all tenants share."""
    with client_of(policy_fields(tmp_path / "b.sqlite", limit=1e6)) as client:
        for path in ("/v1/budgets", "/v1/budgets/alpha", "/v1/budgets/alpha/ledger", "/v1/tenants", "/v1/explore"):
            answer = client.get(path)
            assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
            assert isinstance(answer.json(), dict)
    models = {route.path: route.response_model for module in (accounts, explore) for route in module.router.routes}
    assert models.pop("/v1/receipts/verify") is not None and set(models.values()) == {None}
