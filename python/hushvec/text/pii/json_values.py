"""The strings of a JSON document that are values, and what is found in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from hushvec.text.pii.in_context import Find, found_in
from hushvec.text.pii.spans import Span

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_COLON = re.compile(r"[ \t\r\n]*(:?)")
_PIECE = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)
_HIGH = re.compile(r"\\u[dD][89abAB]")
_LOW = re.compile(r"\\u[dD][c-fC-F]")


def spans(text: str, find: Find) -> Iterator[Span]:
    """Finds in the values, with their places in the document and placeholders that are safe in it.

    Raises:
        ValueError: the text is no JSON.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"text must be JSON: {error}") from None
    names: list[str | None] = [None]
    for token in _TOKEN.finditer(text):
        written = token.group()
        if written in "{[":
            names.append(names[-1])
        elif written in "}]":
            names.pop()
        elif _COLON.match(text, token.end())[1]:  # type: ignore[index]
            names[-1] = json.loads(written)
        else:
            yield from _in_string(written, token.start(), names[-1], find)


def _in_string(written: str, start: int, name: str | None, find: Find) -> Iterator[Span]:
    value = json.loads(written)
    found = found_in(value, name, find)
    if not found:
        return
    places = _places(written) if "\\" in written else range(1, len(written))
    for span in found:
        first, last = places[span.start], places[span.end]
        shown = json.dumps(span.placeholder, ensure_ascii=written.isascii())[1:-1]
        yield span._replace(start=start + first, end=start + last, text=written[first:last], placeholder=shown)


def _places(written: str) -> list[int]:
    """Where each character of the value begins in the string as it is written, and where the last one ends."""
    places, position, end = [], 1, len(written) - 1
    while position < end:
        places.append(position)
        piece = _PIECE.match(written, position)
        assert piece is not None
        position = piece.end()
        # Two escapes may be one character.
        if _HIGH.match(piece.group()) and _LOW.match(written, position):
            position += 6
    return [*places, position]
