"""A progress bar on standard error, shown only on a terminal and only when the work takes a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

BAR_WIDTH = 30
SHOW_AFTER_SECONDS = 0.5
REDRAW_SECONDS = 0.1


class Progress:
    """`with Progress("embedding", total) as progress: progress.advance(n)`."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self._label, self._total = label, total
        self._stream = sys.stderr if stream is None else stream
        self._visible = self._stream.isatty()
        self._done = 0
        self._note = ""
        self._drawn = False
        self._next_draw = time.monotonic() + SHOW_AFTER_SECONDS

    def __enter__(self) -> Progress:
        return self

    def advance(self, count: int, note: str | None = None) -> None:
        """`count` more are done; the note, if one is given, stands behind the numbers until the next one."""
        self._done += count
        self._note = self._note if note is None else f" {note}"
        if self._visible and time.monotonic() >= self._next_draw:
            self._draw()
            self._next_draw = time.monotonic() + REDRAW_SECONDS

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._drawn:
            self._stream.write("\r\033[K")
            self._stream.flush()

    def _draw(self) -> None:
        filled = min(BAR_WIDTH, BAR_WIDTH * self._done // max(1, self._total))
        text = f"{self._label} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {self._done}/{self._total}{self._note}"
        self._stream.write(f"\r{text}\033[K")
        self._stream.flush()
        self._drawn = True
