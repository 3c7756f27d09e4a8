"""Group commit: threads that wait for the disk anyway share one transaction. A call returns when its own part is durable."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Answerable(Protocol):
    """A request that will have an answer."""

    is_settled: bool  # whether its thread may go on; set here, when the batch is over, and not while it runs


Request = TypeVar("Request", bound=Answerable)


class GroupCommit(Generic[Request]):
    """Requests of any number of threads, carried out in batches, one batch at a time.

    The first thread that comes leads: it takes all requests that wait and carries them out. While its batch is written to disk
    the next one gathers, and one of those who wait for that leads it.

    Args:
        run: carries out a batch and gives every request of it an answer. Returns, or raises, when that is final.
    """

    def __init__(self, run: Callable[[list[Request]], None]) -> None:
        self._run = run
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._leader: int | None = None
        self.turn = threading.RLock()  # held while the database is in use, by readers too

    def submit(self, request: Request) -> None:
        """Return when the request is settled."""
        if self._leader == threading.get_ident():  # a signal handler in the middle of a batch: an error instead of a deadlock
            self._run([request])
            return
        self._waiting.append(request)
        try:
            with self._changed:
                while self._leader is not None and not request.is_settled:
                    self._changed.wait()
                if request.is_settled:
                    return
                self._leader = threading.get_ident()
            with self.turn:
                self._run_batch()
        finally:
            if self._leader == threading.get_ident():
                with self._changed:
                    self._leader = None
                    self._changed.notify_all()

    def forget(self) -> None:
        """Drop the requests of other threads: after a fork they exist only in the parent."""
        self._waiting.clear()
        self._changed = threading.Condition()
        self._leader = None
        self.turn = threading.RLock()

    def _run_batch(self) -> None:
        batch: list[Request] = []
        try:
            while self._waiting:
                batch.append(self._waiting.popleft())
            self._run(batch)
        finally:
            for request in batch:
                request.is_settled = True
