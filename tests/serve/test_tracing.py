"""Spans as a collector of OpenTelemetry gets them from a running service, and what is in none of them."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from hushvec.serve.keys import new_key
from serve.services import free_port, policy_fields, server, write_policy

ExportTraceServiceRequest = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="opentelemetry is not installed: pip install '.[telemetry]'"
).ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status  # noqa: E402

CANARY = "canary-4151"
KEY = new_key()
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@contextmanager
def collector():
    """An address that takes traces, and the bodies that came."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}", bodies
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """What came to the collector from a few requests: the bytes, and the spans in them."""
    folder, port = tmp_path_factory.mktemp("service"), free_port()
    headers = {
        "Authorization": f"Bearer {KEY}",
        "traceparent": f"00-{TRACE}-{PARENT}-01",
        "tracestate": f"vendor={CANARY}",
        "baggage": f"note={CANARY}",
        "User-Agent": CANARY,
        "Idempotency-Key": CANARY,
    }
    with pytest.MonkeyPatch.context() as environment, collector() as (address, bodies):
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        policy = write_policy(folder / "policy.yaml", policy_fields(folder / "budget.sqlite", key=KEY))
        with server(policy, port, log=folder / "log"), httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
            assert client.post("/v1/embeddings", json={"input": [CANARY, "b"]}).status_code == 200
            assert client.post("/v1/embeddings", json={"input": CANARY, "model": "broken"}).status_code == 422
            other = {"Idempotency-Key": "other"}
            assert client.post("/v1/embeddings", json={"input": CANARY, "model": "broken"}, headers=other).status_code == 502
            assert client.post(f"/v1/{CANARY}?q={CANARY}").status_code == 404
            assert client.request(CANARY.upper(), "/healthz").status_code in (400, 405)
        # The service has ended: its last spans have come.
        requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    scopes = [scope for request in requests for resource in request.resource_spans for scope in resource.scope_spans]
    return b"".join(bodies), [span for scope in scopes for span in scope.spans]


def values(span):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}


def of_route(spans, status):
    return next(span for span in spans if values(span).get("http.response.status_code") == status and "embeddings" in span.name)


def test_a_request_is_one_span_in_the_caller_s_trace(exported):
    request = of_route(exported[1], 200)
    assert request.name == "POST /v1/embeddings" and request.kind == Span.SPAN_KIND_SERVER
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert values(request) == {
        "http.request.method": "POST",
        "http.route": "/v1/embeddings",
        "http.response.status_code": 200,
        "hushvec.tenant": "alpha",
    }


def test_the_model_and_the_release_are_in_it(exported):
    request = of_route(exported[1], 200)
    parts = {span.name: span for span in exported[1] if span.parent_span_id == request.span_id}
    assert set(parts) == {"embed", "release"}
    assert values(parts["embed"]) == {"hushvec.texts": 2}
    assert parts["embed"].end_time_unix_nano <= parts["release"].start_time_unix_nano


def test_a_failure_is_marked_and_not_described(exported):
    request = of_route(exported[1], 502)
    assert request.status.code == Status.STATUS_CODE_ERROR and request.status.message == ""
    assert all(not span.events for span in exported[1])


def test_nothing_that_a_client_wrote_is_in_a_trace(exported):
    content, spans = exported
    assert len(spans) > 6 and b"alpha" in content
    for secret in (CANARY, CANARY.upper(), KEY):
        assert secret.encode() not in content, secret
