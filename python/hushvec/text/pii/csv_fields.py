"""The fields of CSV in chosen columns, and what is found in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hushvec.text.pii.in_context import Find, found_in
from hushvec.text.pii.spans import Span

Field = tuple[int, int, int]  # its column, where it begins and where it ends


def spans(text: str, find: Find, columns: Iterable[str] | None, delimiter: str) -> Iterator[Span]:
    """Finds in the fields of the columns, with their places in the text and placeholders that are safe in it.

    Raises:
        ValueError: there is no such column, the delimiter is no single character, or a quote is not closed.
    """
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"delimiter must be one character other than a quote or a line end, got {delimiter!r:.80}")
    rows = _rows(text, delimiter)
    header = [_value(text, start, end) for _, start, end in next(rows, [])]
    chosen = _chosen(header, columns)
    for row in rows:
        for column, start, end in row:
            if chosen is None or column in chosen:
                yield from _in_field(text, start, end, header[column] if column < len(header) else None, find, delimiter)


def _chosen(header: list[str], columns: Iterable[str] | None) -> set[int] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError("columns must be a list of names, got str")
    named = list(columns)
    for name in named:
        if name not in header:
            raise ValueError(f"columns must name columns of the header, got {name!r:.80}")
    return {index for index, name in enumerate(header) if name in named}


def _rows(text: str, delimiter: str) -> Iterator[list[Field]]:
    sign = re.escape(delimiter)
    field = re.compile(rf'"(?:[^"]|"")*"(?=[{sign}\r\n]|\Z)|[^"{sign}\r\n][^{sign}\r\n]*|')
    row: list[Field] = []
    position = 0
    while position < len(text):
        match = field.match(text, position)
        assert match is not None
        if match.end() == position and text[position] == '"':
            raise ValueError(f"text must be CSV: line {text.count(chr(10), 0, position) + 1}: a quote is not closed")
        row.append((len(row), position, match.end()))
        position = match.end()
        if text[position : position + 1] == delimiter:
            position += 1
            if position == len(text):
                row.append((len(row), position, position))
            continue
        yield row
        row = []
        position += 2 if text.startswith("\r\n", position) else 1
    if row:
        yield row


def _is_quoted(text: str, start: int, end: int) -> bool:
    return end - start >= 2 and text[start] == '"' == text[end - 1]


def _value(text: str, start: int, end: int) -> str:
    return text[start + 1 : end - 1].replace('""', '"') if _is_quoted(text, start, end) else text[start:end]


def _in_field(text: str, start: int, end: int, name: str | None, find: Find, delimiter: str) -> Iterator[Span]:
    value = _value(text, start, end)
    found = found_in(value, name, find) if value else []
    if not found:
        return
    quoted = _is_quoted(text, start, end)
    if not quoted and any(sign in span.placeholder for span in found for sign in ('"', delimiter, "\n", "\r")):
        yield _quoted_whole(text, start, end, found)
        return
    places = _places(text, start, end) if quoted else range(start, end + 1)
    for span in found:
        first, last = places[span.start], places[span.end]
        shown = span.placeholder.replace('"', '""') if quoted else span.placeholder
        yield span._replace(start=first, end=last, text=text[first:last], placeholder=shown)


def _places(text: str, start: int, end: int) -> list[int]:
    """Where each character of a quoted value begins in the text, and where the last one ends."""
    places, position = [], start + 1
    while position < end - 1:
        places.append(position)
        position += 2 if text[position] == '"' else 1
    return [*places, position]


def _quoted_whole(text: str, start: int, end: int, found: list[Span]) -> Span:
    """One span for a field that needs quotes for what is written into it."""
    parts: list[str] = []
    position = start
    for span in found:
        parts += (text[position : start + span.start], span.placeholder)
        position = start + span.end
    written = "".join((*parts, text[position:end])).replace('"', '""')
    return found[0]._replace(start=start, end=end, text=text[start:end], placeholder=f'"{written}"')
