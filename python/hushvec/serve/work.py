"""Threads for what computes or waits for a disk, and a bound on how many requests wait for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from prometheus_client import Gauge

from hushvec.serve.failures import busy

Answer = TypeVar("Answer")

THREADS = 16
MOST_WAITING = 256


class Work:
    """Runs calls in threads; refuses those that would wait behind too many others.

    Args:
        gauge: follows how many calls run or wait.
        threads, most_waiting: bounds.
    """

    def __init__(self, gauge: Gauge, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._gauge = gauge
        self._limiter = anyio.CapacityLimiter(threads)
        self._most = threads + most_waiting
        self._inside = 0

    async def run(self, call: Callable[[], Answer]) -> Answer:
        """The call's answer. Once begun, a call goes on even if its client leaves: what it charged is released and kept.

        Raises:
            ServiceError: too many calls wait.
        """
        if self._inside >= self._most:
            raise busy("the service is busy: too many requests wait")
        self._inside += 1
        self._gauge.inc()
        try:
            # A thread cannot be stopped: without `abandon_on_cancel`, who is canceled waits for it.
            return await anyio.to_thread.run_sync(call, limiter=self._limiter)
        finally:
            self._inside -= 1
            self._gauge.dec()
