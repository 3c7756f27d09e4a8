"""Texts for a command: one text, lines, or JSON lines, from an argument, a file or standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


def source_name(source: str | None) -> str:
    return "standard input" if source in (None, "-") else str(source)


def read_utf8(source: str | None) -> str:
    """All of a file, or of standard input (None or "-").

    Raises:
        ValueError: not UTF-8.
        OSError: it cannot be read.
    """
    content = sys.stdin.buffer.read() if source in (None, "-") else Path(str(source)).read_bytes()
    return decoded(source_name(source), content)


def decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: must be UTF-8 text: {error}") from None


class Record(NamedTuple):
    """A line of JSON: its object, and the text in it."""

    fields: dict[str, Any]
    text: str


def json_record(line: str, text_key: str, where: str) -> Record:
    """One line of JSON lines.

    Raises:
        ValueError: it is no JSON object, or has no string under the key; the message begins with `where`.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from None
    if not isinstance(fields, dict) or text_key not in fields:
        raise ValueError(f"{where}: must be an object with the key {text_key!r}")
    if not isinstance(fields[text_key], str):
        raise ValueError(f"{where}: {text_key!r} must be a string, got {type(fields[text_key]).__name__}")
    return Record(fields, fields[text_key])


def numbered_lines(content: str, name: str) -> Iterator[tuple[str, str]]:
    """(where, line) of every line that is not blank."""
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            yield f"{name}: line {number}", line
