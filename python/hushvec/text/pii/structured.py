"""Redaction inside JSON and CSV: the structure stays, and so does every character outside the finds.

Each function takes `find`, which gives the spans of a plain text: `Redactor.detect`, or `Pseudonymizer.spans`. Values are found beside
the name of their key or column, as in "ssn: 457555462", which often says what they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import Span, replaced

Find = Callable[[str], Sequence[Span]]

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
LONGEST_NAME = 64


def redact_json(text: str, find: Find | None = None) -> Redaction:
    """Redact the strings of a JSON document; keys, numbers and everything outside the finds stay.

    Args:
        text: one JSON document.
        find: what finds spans in a plain text; None: `Redactor().detect`.

    Returns:
        Valid JSON, and the spans with their places in `text`.

    Raises:
        ValueError: the text is not JSON.

    Example:
        >>> from hushvec.text import redact_json
        >>> redact_json('{"id": 7, "ssn": "457555462", "mail": ["a@b.com"]}').text
        '{"id": 7, "ssn": "[SSN]", "mail": ["[EMAIL]"]}'
    """
    return _redaction(text, _in_json(text, find or Redactor().detect))


def redact_csv(text: str, find: Find | None = None, *, columns: Iterable[str] | None = None, delimiter: str = ",") -> Redaction:
    """Redact fields of CSV; the header, the other columns and everything outside the finds stay.

    Args:
        text: CSV whose first row has the names of the columns.
        find: as for `redact_json`.
        columns: names of those to redact; None: all.
        delimiter: one character between fields.

    Raises:
        ValueError: there is no such column, the delimiter is not a single character, or a quote is not closed.

    Example:
        >>> from hushvec.text import redact_csv
        >>> redact_csv("id,note\\n7,mail a@b.com\\n", columns=["note"]).text
        'id,note\\n7,mail [EMAIL]\\n'
    """
    return _redaction(text, _in_csv(text, find or Redactor().detect, columns, delimiter))


def _redaction(text: str, spans: Iterable[Span]) -> Redaction:
    found = tuple(spans)
    return Redaction(replaced(text, found), found)


def _found_beside(name: str | None, value: str, find: Find) -> list[Span]:
    """Spans of a value, found after `name: ` where that changes nothing else, in the places of the value alone."""
    if not name or len(name) > LONGEST_NAME:
        return list(find(value))
    context = " ".join(_CAMEL.sub(" ", name).replace("_", " ").replace("-", " ").lower().split()) + ": "
    shift = len(context)
    found = find(context + value)
    # A find that reaches into the name is not one of the value.
    if any(span.start < shift < span.end for span in found):
        return list(find(value))
    return [span._replace(start=span.start - shift, end=span.end - shift) for span in found if span.start >= shift]


# ---- JSON: the strings that are values ----

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_COLON = re.compile(r"[ \t\r\n]*(:?)")
# A character as it is written; two escapes may be one character.
_PIECE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)


def _in_json(text: str, find: Find) -> Iterator[Span]:
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
        elif found := _found_beside(names[-1], json.loads(written), find):
            places = [piece.start() for piece in _PIECE.finditer(written, 1)]  # of each character, and of the quote at the end
            for span in found:
                first, last = places[span.start], places[span.end]
                shown = json.dumps(span.placeholder, ensure_ascii=written.isascii())[1:-1]
                start, end = token.start() + first, token.start() + last
                yield span._replace(start=start, end=end, text=written[first:last], placeholder=shown)


# ---- CSV: the fields of the chosen columns ----

_CHARACTER = re.compile('""|[^"]|"$')  # of a quoted field behind its first quote


def _in_csv(text: str, find: Find, columns: Iterable[str] | None, delimiter: str) -> Iterator[Span]:
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"delimiter must be one character other than a quote or a line end, got {delimiter!r:.80}")
    rows = _rows(text, delimiter)
    header = [_value(text[start:end]) for start, end in next(rows, [])]
    if isinstance(columns, str):
        raise TypeError("columns must be a list of names, got str")
    named = None if columns is None else list(columns)
    for name in named or ():
        if name not in header:
            raise ValueError(f"columns must name columns of the header, got {name!r:.80}")
    for row in rows:
        for column, (start, end) in enumerate(row):
            title = header[column] if column < len(header) else None
            if named is None or title in named:
                yield from _in_field(text, start, end, title, find, delimiter)


def _rows(text: str, delimiter: str) -> Iterator[list[tuple[int, int]]]:
    sign = re.escape(delimiter)
    field = re.compile(rf'"(?:[^"]|"")*"(?=[{sign}\r\n]|\Z)|[^"{sign}\r\n][^{sign}\r\n]*|')
    row: list[tuple[int, int]] = []
    position = 0
    while position < len(text):
        match = field.match(text, position)
        assert match is not None
        if match.end() == position and text[position] == '"':
            raise ValueError(f"text must be CSV: line {text.count(chr(10), 0, position) + 1}: a quote is not closed")
        row.append(match.span())
        position = match.end()
        if text[position : position + 1] == delimiter:
            position += 1
            if position == len(text):
                row.append((position, position))
            continue
        yield row
        row = []
        position += 2 if text.startswith("\r\n", position) else 1
    if row:
        yield row


def _is_quoted(field: str) -> bool:
    return len(field) >= 2 and field[0] == '"' == field[-1]


def _value(field: str) -> str:
    return field[1:-1].replace('""', '"') if _is_quoted(field) else field


def _in_field(text: str, start: int, end: int, name: str | None, find: Find, delimiter: str) -> Iterator[Span]:
    field = text[start:end]
    found = _found_beside(name, _value(field), find) if _value(field) else []
    if not found:
        return
    quoted = _is_quoted(field)
    if not quoted and any(sign in span.placeholder for span in found for sign in ('"', delimiter, "\n", "\r")):
        # One span for a field that needs quotes for what is written into it.
        written = replaced(field, found).replace('"', '""')
        yield found[0]._replace(start=start, end=end, text=field, placeholder=f'"{written}"')
        return
    places = [piece.start() for piece in _CHARACTER.finditer(field[1:])] if quoted else range(len(field) + 1)
    for span in found:
        first, last = start + quoted + places[span.start], start + quoted + places[span.end]
        shown = span.placeholder.replace('"', '""') if quoted else span.placeholder
        yield span._replace(start=first, end=last, text=text[first:last], placeholder=shown)
