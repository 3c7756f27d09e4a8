"""Ctrl-C and SIGTERM end a run between two steps, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """`with StopRequest() as stop: ... if stop.signal is not None: ...`.

    The first signal is noted, and the previous handlers are restored: a second signal has its usual effect. Outside the main
    thread, where Python allows no handlers, nothing changes.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._put_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._put_back()

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
