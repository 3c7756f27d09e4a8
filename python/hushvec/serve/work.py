"""Threads for what computes or waits for a disk: some for each tenant, so that no tenant waits for what another asked."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import TypeVar

import anyio
import anyio.to_thread
from prometheus_client import Gauge

from hushvec.serve.failures import busy

Answer = TypeVar("Answer")

THREADS = 8          # of a tenant
MOST_WAITING = 64    # of its requests, for a thread
BODIES = 4           # how many times the limit of one body all bodies of a tenant may have

NOBODY = ""          # for what no tenant asked: whether the service is ready


class _Share:
    def __init__(self, threads: int) -> None:
        self.limiter = anyio.CapacityLimiter(threads)
        self.inside = 0
        self.bytes = 0


class Work:
    """Runs calls in threads; refuses those of a tenant that has too many already. Other tenants do not wait for them.

    Args:
        gauge: follows how many calls run or wait.
        threads, most_waiting: bounds for each tenant.
    """

    def __init__(self, gauge: Gauge, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._gauge = gauge
        self._most = threads + most_waiting
        self._shares: dict[str, _Share] = defaultdict(lambda: _Share(threads))

    async def run(self, call: Callable[[], Answer], tenant: str = NOBODY) -> Answer:
        """The call's answer. Once begun, a call goes on even if its client leaves: what it charged is released and kept.

        Raises:
            ServiceError: too many calls of this tenant wait.
        """
        share = self._shares[tenant]
        if share.inside >= self._most:
            raise busy("the service is busy: too many requests wait")
        share.inside += 1
        self._gauge.inc()
        try:
            # A thread cannot be stopped: without `abandon_on_cancel`, who is canceled waits for it.
            return await anyio.to_thread.run_sync(call, limiter=share.limiter)
        finally:
            share.inside -= 1
            self._gauge.dec()

    @contextlib.contextmanager
    def body(self, tenant: str, most: int) -> Iterator[Callable[[int], None]]:
        """A function that counts bytes of a body until the end of the block.

        It raises a ServiceError where the bodies of this tenant would have more than BODIES times `most` bytes.
        """
        share, taken = self._shares[tenant], 0

        def take(size: int) -> None:
            nonlocal taken
            if share.bytes + size > BODIES * most:
                raise busy(f"the service is busy: it has {BODIES * most:,} bytes of requests at hand")
            share.bytes += size
            taken += size

        try:
            yield take
        finally:
            share.bytes -= taken


class Turns:
    """A lock that tenants get by turns, whatever the number of threads that wait for each."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: dict[str, deque[threading.Lock]] = {}   # who is next comes first

    @contextlib.contextmanager
    def of(self, tenant: str) -> Iterator[None]:
        mine = threading.Lock()
        with self._guard:
            if self._taken:
                mine.acquire()
                self._waiting.setdefault(tenant, deque()).append(mine)
            self._taken = True
        mine.acquire()
        try:
            yield
        finally:
            with self._guard:
                self._taken = bool(self._waiting)
                for next_tenant in list(self._waiting)[:1]:
                    others = self._waiting.pop(next_tenant)
                    others.popleft().release()
                    if others:
                        self._waiting[next_tenant] = others
