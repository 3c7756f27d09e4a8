"""Connections that send too much, too slowly or nothing, or never read: each is closed, and the others are served."""

import asyncio
import contextlib
import socket
import threading
import time

import pytest
import uvicorn

from hushvec.serve import bodies, connections
from hushvec.serve.app import create_app
from hushvec.serve.connections import Connection
from hushvec.serve.policy import policy_of
from hushvec.serve.server import _bounds_of_connections
from serve.services import policy_fields

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /v1/redact HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def short(monkeypatch):
    """Seconds that a test can wait for."""
    monkeypatch.setattr(connections, "SECONDS_FOR_HEAD", 0.3)
    monkeypatch.setattr(connections, "SECONDS_FOR_REST", 0.3)
    monkeypatch.setattr(connections, "SECONDS_TO_FETCH", 0.3)
    monkeypatch.setattr(bodies, "SECONDS_BETWEEN_PARTS", 0.3)


@contextlib.contextmanager
def serving(app):
    """A server in a thread, as `hushvec serve` sets it up; yields its port."""
    bounds = {"timeout_keep_alive": 60, "timeout_graceful_shutdown": 1, **_bounds_of_connections()}
    config = uvicorn.Config(app, access_log=False, log_level="error", **bounds)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def port(tmp_path):
    with serving(create_app(policy_of(policy_fields(tmp_path / "budget.sqlite"), "policy"))) as port:
        yield port


def connected(port, start=b"", wait=20):
    connection = socket.create_connection(("127.0.0.1", port), timeout=wait)
    connection.sendall(start)
    return connection


def everything(connection):
    """What a connection says until it is closed."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            said += part
    return said


def flooded(connection, part, most):
    """Bytes that could be sent before the connection was closed."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            connection.sendall(part)
            sent += len(part)
    return sent


FLOODS = {
    "one address": (b"GET /", b"a" * 65_536),
    "one header": (HEALTH[:-2] + b"X-A: ", b"a" * 65_536),
    "many headers": (HEALTH[:-2], (b"X-A: " + b"a" * 1000 + b"\r\n") * 64),
    "short headers": (HEALTH[:-2], b"a:\r\n" * 16_384),
    "empty lines": (b"", b"\r\n" * 32_768),
    "a trailer": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX-A: ", b"a" * 65_536),
    "requests": (b"", HEALTH * 2000),
}


@pytest.mark.parametrize("case", FLOODS)
def test_floods_are_cut(case, port):
    """Before, 84 MB of headers were taken, and would have been until the memory was full."""
    start, part = FLOODS[case]
    with connected(port, start) as connection:
        assert flooded(connection, part, 40_000_000) < 20_000_000   # buffers of the system take some of it
    with connected(port, HEALTH) as other:
        assert other.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("start", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"\r\n"])
def test_half_a_head_is_closed(short, port, start):
    with connected(port, start) as connection:
        assert everything(connection) == b""
    with connected(port, HEALTH) as again:   # on a connection that was used before
        assert again.recv(1000).startswith(b"HTTP/1.1 200")
        again.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        assert b"HTTP" not in everything(again)


def test_a_body_that_stalls_is_answered_and_closed(short, port):
    with connected(port, HEAD + b"Content-Length: 50\r\n\r\n{") as connection:
        said = everything(connection)
    assert said.startswith(b"HTTP/1.1 408") and b"0.3 s between its parts" in said


def test_the_rest_of_a_body_has_a_time(short, port):
    """One that was refused before it came: its sender may drip it, and is cut off."""
    with connected(port, HEAD.replace(b"application/json", b"text/plain") + b"Content-Length: 1000\r\n\r\n") as connection:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 20:
                connection.sendall(b"{")
                time.sleep(0.05)
        assert time.monotonic() - began < 10


def test_an_answer_that_nobody_reads_is_let_go(short):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"50000000")]})
            await send({"type": "http.response.body", "body": bytes(50_000_000)})

    with serving(app) as port:
        with connected(port, HEALTH) as idle, connected(port, HEALTH) as slow:
            read = 0
            for _ in range(10):   # slow, and not stuck
                time.sleep(0.1)
                read += len(slow.recv(1_000_000))
            idle_read = len(everything(idle))
            slow.settimeout(20)
            while read < 50_000_000 and (part := slow.recv(1_000_000)):
                read += len(part)
        assert idle_read < 50_000_000 <= read


STRANGERS = {
    "nothing": b"",
    "a request": HEALTH,
    "half a head": HEALTH[:-2],
    "half a body": HEAD + b"Content-Length: 50\r\n\r\n{",
}


@pytest.mark.parametrize("bound", ["MOST_CONNECTIONS", "MOST_OF_ADDRESS"])
@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_connections_have_a_number(monkeypatch, port, bound, stranger):
    """A thousand that a stranger kept open shut everybody out."""
    monkeypatch.setattr(connections, bound, 5)
    with contextlib.ExitStack() as stack:
        idle = []
        for _ in range(12):
            idle.append(stack.enter_context(connected(port, stranger)))
            time.sleep(0.03)   # so that one has waited for longer than the next
        for connection in idle:
            connection.settimeout(0.1)
        with connected(port, HEALTH) as one_more:
            assert one_more.recv(100).startswith(b"HTTP/1.1 200")
        closed = [is_closed(connection) for connection in idle]
        assert closed == sorted(closed, reverse=True) and 7 <= sum(closed) <= 8, "the oldest ones are closed"


def is_closed(connection):
    """After everything was read that came."""
    try:
        while connection.recv(65_536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_a_request_at_hand_is_not_dropped(monkeypatch):
    """It may have been charged: newcomers are refused instead."""
    gate = threading.Event()

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await asyncio.to_thread(gate.wait, 20)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})

    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    with serving(app) as port, contextlib.ExitStack() as stack:
        busy = [stack.enter_context(connected(port, HEALTH)) for _ in range(3)]
        time.sleep(0.2)
        for _ in range(5):
            with connected(port, HEALTH) as refused:
                assert everything(refused) == b""
        gate.set()
        for connection in busy:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_network_is_one_sender():
    same = {"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:2:3:4:5:6%eth0"}
    assert {connections.network_of(address) for address in same} == {"2001:0db8:0001:0002"}
    others = ["2001:db8:1:3::1", "::ffff:192.0.2.1", "::ffff:192.0.2.2", "192.0.2.1", "192.0.2.2", "", "a socket's path"]
    assert len({connections.network_of(address) for address in others}) == len(others)


def test_without_this_class_of_uvicorn_there_is_another(monkeypatch, caplog):
    """Its size is bounded, and the log says what is not."""
    import sys

    assert _bounds_of_connections()["http"] is Connection
    monkeypatch.setitem(sys.modules, "hushvec.serve.connections", None)
    assert _bounds_of_connections() == {"http": "h11", "ws": "none"} and "none of time" in caplog.text
