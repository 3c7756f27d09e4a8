"""Progress on standard error, shown only on a terminal: a bar where the work takes a while, a line where its length is unknown."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

BAR_WIDTH = 30
SHOW_AFTER_SECONDS = 0.5
REDRAW_SECONDS = 0.1

_CLEARED = "\r\033[K"

_announcing: list[TextIO] = []  # streams with a line of `announced`


class Progress:
    """`with Progress("embedding", total) as progress: progress.advance(n)`."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self._label, self._total = label, total
        self._stream = sys.stderr if stream is None else stream
        self._visible = self._stream.isatty()
        self._done = 0
        self._note = ""
        self._drawn = False
        self._begin = time.monotonic()
        self._next_draw = self._begin + SHOW_AFTER_SECONDS

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
            self._stream.write(_CLEARED)
            self._stream.flush()

    def _draw(self) -> None:
        filled = min(BAR_WIDTH, BAR_WIDTH * self._done // max(1, self._total))
        text = f"{self._label} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {self._done}/{self._total}{self._left()}{self._note}"
        self._stream.write(f"\r{text[: shutil.get_terminal_size().columns - 1]}\033[K")
        self._stream.flush()
        self._drawn = True

    def _left(self) -> str:
        """How long the rest takes if it goes on like this."""
        if not 0 < self._done < self._total:
            return ""
        seconds = (time.monotonic() - self._begin) * (self._total - self._done) / self._done
        return f" {seconds:.0f} s left" if seconds < 120 else f" {seconds / 60:.0f} min left"


@contextmanager
def announced(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Say what is done while it is done: `with announced("loading the model"): ...`. Within another announcement, nothing."""
    shown = sys.stderr if stream is None else stream
    if not shown.isatty() or shown in _announcing:
        yield
        return
    _announcing.append(shown)
    shown.write(f"\r{what} ...\033[K")
    shown.flush()
    try:
        yield
    finally:
        _announcing.remove(shown)
        shown.write(_CLEARED)
        shown.flush()
