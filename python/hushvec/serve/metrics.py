"""Counters for Prometheus and spans for OpenTelemetry. Nothing that a request says is in them.

Workers of one service share their counters through files in the folder that SHARED_FOLDER names: a scrape reaches one worker, and
must count for all. prometheus_client reads the variable when it is imported, so it is set before workers start.

Where OpenTelemetry's API is installed, a request has a span, and in it one for the model and one for the release. Errors are
recorded by their status, since the message of an exception may quote a text. Of what a client sends, only the ids in `traceparent`
are taken: the rest is free text. Spans go where OTEL_EXPORTER_OTLP_ENDPOINT says, or to the host program's provider.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from hushvec._util.lazy import needs_extra

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self.requests = Counter("hushvec_requests", "Requests that were answered.", ("route", "status", "tenant"), registry=own)
        seconds = "Seconds from the request to its answer."
        self.seconds = Histogram("hushvec_request_seconds", seconds, ("route",), buckets=_SECONDS, registry=own)
        self.rows = Counter("hushvec_released_rows", "Rows that were released.", ("tenant",), registry=own)
        self.epsilon = Counter("hushvec_charged_epsilon", "Epsilon that releases were charged.", ("tenant",), registry=own)
        inside = "Requests that run or wait for a thread."
        self.waiting = Gauge("hushvec_requests_inside", inside, registry=own, multiprocess_mode="livesum")

    def released(self, tenant: str, rows: int, epsilon: float) -> None:
        self.rows.labels(tenant).inc(rows)
        self.epsilon.labels(tenant).inc(epsilon)

    def text(self) -> bytes:
        if not os.environ.get(SHARED_FOLDER):
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def close(self) -> None:
        """Leave what this process has counted to the others; nothing waits in it anymore."""
        if os.environ.get(SHARED_FOLDER):
            mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_NAME = "hushvec.serve"


def start_exporting() -> Callable[[], None]:
    """Send spans to the collector that the environment names; returns what sends the last ones and stops."""
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return lambda: None
    with needs_extra("sending traces", "telemetry"):
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    # The environment's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are in a created resource; ours is for who sets neither.
    named = os.environ.get("OTEL_SERVICE_NAME") or "hushvec"
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: named}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    stop: Callable[[], None] = provider.shutdown
    return stop


@contextlib.contextmanager
def request_span(method: str, traceparent: str) -> Iterator[Callable[[str, int, str], None]]:
    """Open the span of a request; yields what completes it once route, status and tenant are known."""
    trace = _api()
    if trace is None:
        yield lambda route, status, tenant: None
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    tracer = trace.get_tracer(_NAME)
    with tracer.start_as_current_span(
        method, context=TraceContextTextMapPropagator().extract({"traceparent": traceparent}), kind=trace.SpanKind.SERVER,
        record_exception=False, set_status_on_exception=False,
    ) as current:

        def finish(route: str, status: int, tenant: str) -> None:
            current.update_name(f"{method} {route}")
            facts = {"http.request.method": method, "http.route": route, "http.response.status_code": status, "hushvec.tenant": tenant}
            current.set_attributes(facts)
            if status >= 500:
                current.set_status(trace.StatusCode.ERROR)

        yield finish


def span(name: str, **counts: int) -> AbstractContextManager[Any]:
    """Return a span for a part of a request's work, with how much of it there was."""
    trace = _api()
    if trace is None:
        return contextlib.nullcontext()
    attributes = {f"hushvec.{key}": count for key, count in counts.items()}
    return trace.get_tracer(_NAME).start_as_current_span(  # type: ignore[no-any-return]
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    )


@cache
def _api() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace
