"""Structured logs of a study: one JSON object on a line for each stage that ended, through `logging`.

    {"time": "2026-01-31T12:00:00.123+00:00", "level": "INFO", "process": 4711, "event": "search", "seconds": 1.25, "queries": 1200}

A stage that fails is logged as an ERROR with the class of its exception. Events carry numbers, flags and short names of settings,
never a text, a vector or an id of a document; the message of an exception may quote its input and is left out.
"""

from __future__ import annotations

import io
import json
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec.extend.helpers import private_opener

LOGGER = logging.getLogger("hushvec_studies")

Fact = str | int | float | bool | None
_LONGEST_NAME = 120


@contextmanager
def stage(event: str, **facts: Fact) -> Iterator[dict[str, Fact]]:
    """Log an event when the block ends, with the seconds that it took. More facts can be added in the block to the dictionary.

    Raises:
        TypeError, ValueError: a fact that is no number, flag or short name of a setting.

    Example:
        >>> with stage("search", queries=3) as facts:
        ...     facts["loaded"] = False
    """
    began = time.perf_counter()
    try:
        yield facts
    except BaseException as error:
        _log(logging.ERROR, event, began, {**facts, "error": type(error).__name__})
        raise
    _log(logging.INFO, event, began, facts)


@contextmanager
def logged_to(path: Path | None) -> Iterator[None]:
    """Append the events of the block, and of the workers that it starts, to a file; None: leave logging as it is."""
    if path is None:
        yield
        return
    handler = JsonLines(path)
    before = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)
        handler.close()


def current_file() -> Path | None:
    return next((handler.path for handler in LOGGER.handlers if isinstance(handler, JsonLines)), None)


def join(path: Path | None) -> None:
    """In a worker: append to the file of the process that started it, for as long as the worker lives."""
    if path is not None:
        LOGGER.addHandler(JsonLines(path))
        LOGGER.setLevel(logging.INFO)


class JsonLines(logging.FileHandler):
    """Appends an event as one line, in one write, so that several processes can share the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(path, "a", encoding="utf-8")

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(open(self.baseFilename, "ab", opener=private_opener), encoding="utf-8")

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        said = {"time": at, "level": record.levelname, "process": record.process, "event": record.getMessage()}
        return json.dumps(said | getattr(record, "facts", {}), ensure_ascii=True)


def _log(level: int, event: str, began: float, facts: dict[str, Fact]) -> None:
    for name, value in facts.items():
        _require_fact(name, value)
    seconds = round(time.perf_counter() - began, 3)
    # JSON has no infinity
    plain = {name: str(value) if isinstance(value, float) and math.isinf(value) else value for name, value in facts.items()}
    LOGGER.log(level, "%s", event, extra={"facts": {"seconds": seconds} | plain})


def _require_fact(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, str | int | float | bool):
        raise TypeError(f"{name} must be a number, a flag or the name of a setting, got {validate.kind(value)}")
    if isinstance(value, str) and (len(value) > _LONGEST_NAME or "\n" in value):
        raise ValueError(f"{name} must be a name of at most {_LONGEST_NAME} characters on one line, got {len(value)} characters")
