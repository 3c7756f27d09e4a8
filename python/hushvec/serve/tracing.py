"""Spans for OpenTelemetry, where its API is installed: one for a request, and in it one for the model and one for the release.

Spans hold what the log holds: method, template of the address, status and tenant, and how many texts were embedded. Errors are
recorded by their status, since the message of an exception may quote a text. Of what a client sends, only the ids in `traceparent`
are taken: `tracestate` and baggage are free text.

Spans go where OTEL_EXPORTER_OTLP_ENDPOINT says, or to the provider that the host program has set.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from hushvec._util.lazy import needs_extra

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_NAME = "hushvec.serve"


def start_exporting() -> Callable[[], None]:
    """Send spans to the collector that the environment names; returns what sends the last ones and stops.

    Raises:
        MissingExtraError: a collector is named, and packages of the extra "telemetry" are not installed.
    """
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
    return provider.shutdown


@contextlib.contextmanager
def request_span(method: str, traceparent: str) -> Iterator[Callable[[str, int, str], None]]:
    """The span of a request; yields what completes it once route, status and tenant are known."""
    trace = _api()
    if trace is None:
        yield lambda route, status, tenant: None
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    tracer = trace.get_tracer(_NAME)
    with tracer.start_as_current_span(
        method,
        context=TraceContextTextMapPropagator().extract({"traceparent": traceparent}),
        kind=trace.SpanKind.SERVER,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:

        def finish(route: str, status: int, tenant: str) -> None:
            current.update_name(f"{method} {route}")
            current.set_attributes(
                {
                    "http.request.method": method,
                    "http.route": route,
                    "http.response.status_code": status,
                    "hushvec.tenant": tenant,
                }
            )
            if status >= 500:
                current.set_status(trace.StatusCode.ERROR)

        yield finish


def span(name: str, **counts: int) -> AbstractContextManager[Any]:
    """A part of a request's work, with how much of it there was."""
    trace = _api()
    if trace is None:
        return contextlib.nullcontext()
    attributes = {f"hushvec.{key}": count for key, count in counts.items()}
    return trace.get_tracer(_NAME).start_as_current_span(  # type: ignore[no-any-return]
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    )


@cache
def _api() -> Any:
    """OpenTelemetry's API, or None without it."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace
