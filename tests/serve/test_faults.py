"""What is around the service fails: models, ledgers, disks, clients. One clear error each; nothing released, nothing charged."""

import asyncio
import resource
import signal
import socket
import sqlite3
import threading
import time

import httpx
import numpy as np
import pytest
from starlette.requests import Request

import hushvec.budget.sqlite
from hushvec.budget import PrivacyBudget
from hushvec.cli import TERMINATED
from hushvec.errors import BudgetError
from hushvec.serve import bodies
from hushvec.serve.failures import ServiceError
from serve.services import client_of, free_port, policy_fields, server, write_policy
from serve.upstream import ANSWERS, DIMENSION, upstream

BODY = {"input": ["canary one", "canary two"], "model": "far"}


def remote(tmp_path, address, **model):
    fields = policy_fields(tmp_path / "budget.sqlite", models=["far"])
    fields["models"] = {"far": {"kind": "openai", "base_url": address, "model": "m", **model}}
    return client_of(fields)


STATUS = {"slow": (504, "upstream_timeout"), "busy": (503, "upstream_busy")}


@pytest.mark.parametrize("kind", sorted(set(ANSWERS) - {"good", "in another order"}))
def test_a_model_elsewhere_that_fails(kind, tmp_path, caplog):
    with upstream(kind) as (address, _), remote(tmp_path, address, timeout=0.3) as client:
        answer = client.post("/v1/embeddings", json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == STATUS.get(kind, (502, "upstream_failed"))
        assert "canary" not in answer.text + caplog.text
        assert client.get("/v1/budgets").json()["charges"] == 0


def test_a_model_elsewhere_that_is_gone(tmp_path):
    with remote(tmp_path, f"http://127.0.0.1:{free_port()}/v1") as client:
        answer = client.post("/v1/embeddings", json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unreachable")
        assert client.get("/v1/budgets").json()["charges"] == 0


@pytest.mark.parametrize("kind", ["good", "in another order"])
def test_a_model_elsewhere(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("FAR_KEY", "k")
    with upstream(kind) as (address, seen), remote(tmp_path, address, api_key_env="FAR_KEY") as client:
        answer = client.post("/v1/embeddings", json=BODY).json()
        assert np.shape([one["embedding"] for one in answer["data"]]) == (2, DIMENSION)
    assert seen == [("Bearer k", {"model": "m", "input": BODY["input"], "encoding_format": "float"})]


def test_a_ledger_that_another_program_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(hushvec.budget.sqlite, "WAIT_SECONDS", 0.2)
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as client:
        assert client.get("/v1/budgets").status_code == 200
        with sqlite3.connect(tmp_path / "budget.sqlite", isolation_level=None) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            answer = client.post("/v1/embeddings", json={"input": "a"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ledger_unavailable")
            assert "data" not in answer.json() and answer.headers["retry-after"]
            holder.execute("ROLLBACK")
        assert client.post("/v1/embeddings", json={"input": "a"}).status_code == 200
        assert client.get("/v1/budgets").json()["charges"] == 1


@pytest.mark.parametrize("path", ["/v1/budgets", "/v1/budgets/alpha", "/v1/budgets/alpha/ledger", "/v1/tenants"])
def test_a_ledger_that_cannot_be_read(tmp_path, monkeypatch, path):
    """It was open, and fails now."""

    def fails(budget):
        raise BudgetError("the store failed")

    with client_of(policy_fields(tmp_path / "budget.sqlite")) as client:
        assert client.get(path).status_code == 200
        for name in ("state", "verify", "export"):
            monkeypatch.setattr(PrivacyBudget, name, fails)
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ledger_unavailable")
        assert answer.headers["retry-after"] and "the store failed" not in answer.text


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
def test_a_disk_that_is_full(tmp_path, headers):
    """A limit on the size of files, which needs no rights to set."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as client:
        assert client.post("/v1/embeddings", json={"input": "a"}).status_code == 200
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
            answer = client.post("/v1/embeddings", json={"input": "a"}, headers=headers)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ledger_unavailable")
        assert client.post("/v1/embeddings", json={"input": "a"}, headers=headers).status_code == 200
        assert client.get("/v1/budgets").json()["charges"] == 2


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    port = free_port()
    with server(write_policy(folder / "policy.yaml", policy_fields(folder / "budget.sqlite")), port, log=folder / "log"):
        yield port


def said(port, request, wait=2.0):
    """The first line that a server answers to these bytes; empty where it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as connection:
        connection.sendall(request)
        return connection.recv(4096).partition(b"\r\n")[0].decode()


RAW = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\r\n\r\n", "400"),
    "a line break in a header": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: b\rX: c\r\n\r\n", "400"),
    "a zero byte in a header": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: b\x00c\r\n\r\n", "400"),
    "two lengths": (b"POST /v1/redact HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "400"),
    "a negative length": (b"POST /v1/redact HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", "400"),
    "a length that says too much": (
        b"POST /v1/redact HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000000\r\n\r\n", "413"
    ),
}


@pytest.mark.parametrize("case", RAW)
def test_requests_that_are_none(case, port):
    request, status = RAW[case]
    assert said(port, request).startswith(f"HTTP/1.1 {status}")
    assert said(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == "HTTP/1.1 200 OK"


def test_a_body_in_pieces_without_a_length_has_a_limit(tmp_path):
    with client_of(policy_fields(tmp_path / "b.sqlite", limits={"body_bytes": 1000})) as client:
        pieces = (b" " * 100 for _ in range(20))
        answer = client.post("/v1/redact", content=pieces, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413


def test_a_hundred_megabytes(tmp_path):
    with client_of(policy_fields(tmp_path / "b.sqlite")) as client:
        answer = client.post("/v1/privatize", content=bytes(100_000_000), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413 and len(answer.text) < 300


async def test_a_client_that_sends_slowly(monkeypatch):
    monkeypatch.setattr(bodies, "SECONDS_TO_SEND", 0.1)

    async def receive():
        await asyncio.sleep(0.08)
        return {"type": "http.request", "body": b" ", "more_body": True}

    request = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(ServiceError) as error:
        await bodies.read_body(request, 1000)
    assert (error.value.status, error.value.code) == (408, "too_slow")


def test_a_socket_that_stops_sending(port):
    """The others are served meanwhile."""
    start = b"POST /v1/redact HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    try:
        for connection in waiting:
            connection.sendall(start)
        began = time.monotonic()
        assert said(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == "HTTP/1.1 200 OK"
        assert time.monotonic() - began < 2
    finally:
        for connection in waiting:
            connection.close()


def test_a_shutdown_answers_what_was_asked(tmp_path):
    """SIGTERM during a request: the answer comes, then the process ends."""
    with upstream("slow") as (address, _):
        fields = policy_fields(tmp_path / "budget.sqlite", models=["far"])
        fields["models"] = {"far": {"kind": "openai", "base_url": address, "model": "m"}}
        port = free_port()
        answers = []
        with server(write_policy(tmp_path / "policy.yaml", fields), port, log=tmp_path / "log") as process:
            ask = lambda: answers.append(httpx.post(f"http://127.0.0.1:{port}/v1/embeddings", json={"input": "a"}, timeout=30))
            thread = threading.Thread(target=ask)
            thread.start()
            time.sleep(0.4)
            process.send_signal(signal.SIGTERM)
            thread.join()
            assert process.wait(30) == TERMINATED
    assert answers[0].status_code == 200 and answers[0].json()["hushvec"]["receipt"]["charge"]["sequence"] == 2
