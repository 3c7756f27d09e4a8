"""UTF-8 texts, one a line or one a JSON object a line: the one reader of the package.

A line ends at a line feed, a carriage return, or both. `str.splitlines` knows more ends, some of which a JSON string may hold as they
are (U+2028, U+0085) and texts from old files do hold (form feeds), so it is not used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_BYTE_ORDER_MARK = "\ufeff"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Record(NamedTuple):
    """A line of JSON: its object, and the text in it."""

    fields: dict[str, Any]
    text: str


def decoded(name: str, content: bytes) -> str:
    """The text of UTF-8 bytes, as it is.

    Raises:
        ValueError: not UTF-8; the message begins with `name`.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: must be UTF-8 text, got byte {content[error.start]:#04x} at {error.start}") from None


def lines_with_ends(content: str) -> list[str]:
    """Every line with the characters that end it; the last one may have none."""
    return _LINE.findall(content)


def numbered_lines(content: str, name: str) -> Iterator[tuple[str, str]]:
    """(where, line) of every line that is not blank. A byte order mark at the beginning is no part of the first one."""
    for number, line in enumerate(lines_with_ends(content.removeprefix(_BYTE_ORDER_MARK)), 1):
        if line.strip():
            yield f"{name}: line {number}", line.rstrip("\r\n")


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


def json_line(value: Any) -> str:
    """JSON on one line.

    Raises:
        ValueError: why there is none, though Python's reader may have taken it: JSON knows neither NaN nor halves of surrogate pairs.
    """
    try:
        line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise ValueError("JSON has no NaN or Infinity") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not is_unicode(line):
        raise ValueError("it has half of a surrogate pair")
    return line


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold it: a JSON string may have half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_utf8(text: str, where: str) -> str:
    """The text, unless it cannot be written as UTF-8.

    Raises:
        ValueError: it cannot; the message begins with `where`.
    """
    if not is_unicode(text):
        raise ValueError(f"{where}: must be text that UTF-8 can hold, got half of a surrogate pair")
    return text


def texts_of_file(path: Path, text_key: str | None) -> Iterator[tuple[str, str]]:
    """(where, text) of every line that is not blank: the line itself, or what its object has under the key.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not UTF-8, or a line is not what it must be; the message names the file and the line.
    """
    for where, line in numbered_lines(decoded(str(path), path.read_bytes()), str(path)):
        yield where, require_utf8(line if text_key is None else json_record(line, text_key, where).text, where)
