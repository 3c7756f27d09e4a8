"""Counters for Prometheus: requests, times, rows and charges per tenant. Nothing that a request says is a label.

Workers of one service share their numbers through files in the folder that SHARED_FOLDER names: a scrape reaches one worker, and must
count for all. prometheus_client reads the variable when it is imported, so it is set before workers start.
"""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """The metrics of a service."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "hushvec_requests", "Requests that were answered.", ("route", "status", "tenant"), registry=self._registry
        )
        self.seconds = Histogram(
            "hushvec_request_seconds", "Seconds from the request to its answer.", ("route",), buckets=_SECONDS, registry=self._registry
        )
        self.rows = Counter("hushvec_released_rows", "Rows that were released.", ("tenant",), registry=self._registry)
        self.epsilon = Counter("hushvec_charged_epsilon", "Epsilon that releases were charged.", ("tenant",), registry=self._registry)
        self.waiting = Gauge(
            "hushvec_requests_inside", "Requests that run or wait for a thread.", registry=self._registry, multiprocess_mode="livesum"
        )

    def released(self, tenant: str, rows: int, epsilon: float) -> None:
        self.rows.labels(tenant).inc(rows)
        self.epsilon.labels(tenant).inc(epsilon)

    def text(self) -> bytes:
        """All metrics, of all workers."""
        if not os.environ.get(SHARED_FOLDER):
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def close(self) -> None:
        """Leave what this process has counted to the others; nothing waits in it anymore."""
        if os.environ.get(SHARED_FOLDER):
            mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]
