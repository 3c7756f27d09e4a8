"""Redaction inside JSON and CSV: the structure stays, and so does every character outside the finds.

Each function takes `find`, which gives the spans of a plain text: `Redactor.detect`, or `Pseudonymizer.spans`. Values are found beside
the name of their key or column, as in "ssn: 457555462", which often says what they are.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from hushvec.text.pii.fields import before, is_known
from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import Span, marked, merged, replaced, shifted

Find = Callable[[str], Sequence[Span]]


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
    """Redact fields of CSV; the other columns, everything outside the finds, and a header without finds stay.

    Args:
        text: CSV; the names of the columns stand in the first row, or below `sep=` and a few lines more (docs/redaction.md).
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


def _found_beside(values: Iterable[tuple[str, str]], find: Find) -> list[Sequence[Span]]:
    """Spans of each (field, value), found after its field where that changes nothing else, in the places of the value alone."""
    pairs = list(values)
    owner = getattr(find, "__self__", None)
    all_of: Callable[[list[str]], Iterable[Sequence[Span]]] = lambda texts: map(find, texts)
    if isinstance(owner, Redactor) and find == owner.detect:
        all_of = owner.detect_all  # many short texts take a fraction of the time together
    found: list[Sequence[Span]] = []
    crossed = []
    for place, ((field, _), spans) in enumerate(zip(pairs, all_of([field + value for field, value in pairs]))):
        shift = len(field)
        # A find that reaches into the field is not one of the value.
        if any(span.start < shift < span.end for span in spans):
            crossed.append(place)
        found.append(shifted((span for span in spans if span.start >= shift), -shift))
    for place, spans in zip(crossed, all_of([pairs[place][1] for place in crossed])):
        found[place] = spans
    return [_with_json(value, spans, find) for (_, value), spans in zip(pairs, found)]


def _placed(text: str, found: Iterable[Span], places: Sequence[int], write: Callable[[str], str]) -> Iterator[Span]:
    """Finds in a value where they stand in the text: `places` has where each character of the value begins, and its end."""
    for span in found:
        start, end = places[span.start], places[span.end]
        yield span._replace(start=start, end=end, text=text[start:end], placeholder=write(span.placeholder))


def _with_json(value: str, spans: Sequence[Span], find: Find) -> Sequence[Span]:
    """The spans of a value, and if it is JSON in a string, those that the fields in it say."""
    if not value.startswith(("{", "[")):
        return spans
    try:
        inside = tuple(_in_json(value, find))
    except ValueError:
        return spans
    taken = marked(len(value), inside)
    # A find of the whole text that goes beyond one of a field is kept whole.
    beyond = [one for one in spans if taken.find(1, one.start, one.end) >= 0 <= taken.find(0, one.start, one.end)]
    return merged(value, beyond, merged(value, inside, spans))


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
    strings: list[tuple[int, str, str]] = []  # where each begins, and as it is written, with its field
    for token in _TOKEN.finditer(text):
        written = token.group()
        if written in "{[":
            names.append(names[-1])
        elif written in "}]":
            names.pop()
        elif _COLON.match(text, token.end())[1]:  # type: ignore[index]
            names[-1] = json.loads(written)
        else:
            strings.append((token.start(), written, before(*reversed(names[-2:]))))
    for (start, written, _), found in zip(strings, _found_beside(((field, json.loads(one)) for _, one, field in strings), find)):
        # Of each character, and of the quote at the end.
        places = [start + piece.start() for piece in _PIECE.finditer(written, 1)] if found else []
        yield from _placed(text, found, places, lambda shown: json.dumps(shown, ensure_ascii=written.isascii())[1:-1])  # noqa: B023


# ---- CSV: the fields of the chosen columns ----

_TITLE = re.compile(r"[a-z][\w.\-]*")
_OF_A_VALUE = re.compile(r"[@\d]")
_CHARACTER = re.compile('""|[^"]|"$')  # of a quoted field behind its first quote


def _in_csv(text: str, find: Find, columns: Iterable[str] | None, delimiter: str) -> Iterator[Span]:
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"delimiter must be one character other than a quote or a line end, got {delimiter!r:.80}")
    if isinstance(columns, str):
        raise TypeError("columns must be a list of names, got str")
    named = None if columns is None else list(columns)
    if said := _SEPARATOR.match(text):
        delimiter = said[1]
    rows = _rows(text, delimiter, said.end() if said else text.startswith("\ufeff"))
    first = list(islice(rows, FIRST_ROWS))
    place = _header(text, first, named)
    header = [_value(text[start:end]) for start, end in first[place]] if first else []
    for name in named or ():
        if name not in header:
            raise ValueError(f"columns must name columns of the header, got {name!r:.80}")
    # A file without a header: something is found in the first line. "Guardian Surname" and "user.name" read like a find, too.
    inside = _found_beside([("", title) for title in header], find)
    values = [bool(spans) and not (_TITLE.fullmatch(title) or is_known(title)) for title, spans in zip(header, inside)]
    is_data = any(values) or any(_OF_A_VALUE.search(span.text) for spans in inside for span in spans)
    titles = ["" if spans and is_data else before(title) for title, spans in zip(header, inside)]
    numbered = enumerate(chain(first, rows))
    while block := list(islice(numbered, FIRST_ROWS)):
        fields: list[tuple[int, int, str]] = []
        for number, row in block:
            for column, (start, end) in enumerate(row if number != place or is_data else ()):
                is_named = column < len(header) and number >= place
                if start < end and (named is None or number < place or (is_named and header[column] in named)):
                    fields.append((start, end, titles[column] if is_named and number > place else ""))
        found = _found_beside(((field, _value(text[start:end])) for start, end, field in fields), find)
        for (start, end, _), spans in zip(fields, found):
            yield from _in_field(text, start, end, spans, delimiter)


_SEPARATOR = re.compile("\ufeff?sep=([^\"\r\n])\r?\n", re.IGNORECASE)  # the first line, which Excel reads
FIRST_ROWS = 1000


def _header(text: str, rows: Sequence[Sequence[tuple[int, int]]], named: Sequence[str] | None) -> int:
    """Which row is the header: the first one that has all the names, else the first that is about as wide as most rows."""
    if named is not None:
        values = (({_value(text[start:end]) for start, end in row}) for row in rows)
        return next((place for place, found in enumerate(values) if found.issuperset(named)), 0)
    widths = [max((place for place, (start, end) in enumerate(row, 1) if start < end), default=0) for row in rows]
    usual = max(Counter(filter(None, widths)).most_common(1), default=(0, 0))[0]
    full = next((place for place, width in enumerate(widths) if width >= usual), 0)
    # Its last title may be empty, and a line above it may be as wide: of those, the one with most fields that are known.
    wide = [place for place, width in enumerate(widths[: full + 1]) if width >= max(min(usual, 2), usual - 1)]
    known = [sum(is_known(_value(text[start:end])) for start, end in rows[place]) for place in wide]
    return max(zip(known, wide), key=lambda one: (one[0], one[0] and one[1]), default=(0, 0))[1]


def _rows(text: str, delimiter: str, position: int) -> Iterator[list[tuple[int, int]]]:
    sign = re.escape(delimiter)
    field = re.compile(rf'"(?:[^"]|"")*"(?=[{sign}\r\n]|\Z)|[^"{sign}\r\n][^{sign}\r\n]*|')
    row: list[tuple[int, int]] = []
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


def _in_field(text: str, start: int, end: int, found: Sequence[Span], delimiter: str) -> Iterator[Span]:
    if not found:
        return
    field = text[start:end]
    quoted = _is_quoted(field)
    if not quoted and any(sign in span.placeholder for span in found for sign in ('"', delimiter, "\n", "\r")):
        # One span for a field that needs quotes for what is written into it.
        written = replaced(field, found).replace('"', '""')
        yield found[0]._replace(start=start, end=end, text=field, placeholder=f'"{written}"')
        return
    places = [start + 1 + piece.start() for piece in _CHARACTER.finditer(field[1:])] if quoted else range(start, end + 1)
    yield from _placed(text, found, places, lambda shown: shown.replace('"', '""') if quoted else shown)
