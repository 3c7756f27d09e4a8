"""Redaction inside JSON, CSV and e-mail: the structure stays, and so does every character outside the finds.

Each function takes `find`, which gives the spans of a plain text: `Redactor.detect`, or `Pseudonymizer.spans`. Values are found beside
the name of their key or column, as in "ssn: 457555462", which often says what they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header

from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import Span, replaced
from hushvec.text.pii.wordlists import word_list

Find = Callable[[str], Sequence[Span]]
StandIn = Callable[[str, str], str | None]  # what stands for a value of a category; None: it stays

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


def redact_mail(
    text: str, find: Find | None = None, *, placeholder: Callable[[str, str], str | None] | None = None
) -> Redaction:
    """Redact an e-mail: names and addresses in its headers whether or not a rule knows them, and the finds in the rest.

    Args:
        text: headers, a blank line, the body as plain text.
        find: as for `redact_json`.
        placeholder: what stands for a value of a category in the headers, such as `Redactor.placeholder` or
            `Pseudonymizer.placeholder`, and None for what stays; None: the usual placeholder of the category.

    Raises:
        ValueError: the text does not begin with a header.

    Example:
        >>> from hushvec.text import redact_mail
        >>> redact_mail("From: Wren <w@b.com>\\nSubject: lunch\\n\\nHi").text
        'From: [PERSON] <[EMAIL]>\\nSubject: lunch\\n\\nHi'
    """
    return _redaction(text, _in_mail(text, find or Redactor().detect, placeholder or Redactor().placeholder))


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


# ---- e-mail: addresses and the names beside them in the headers, and finds in other headers and in the body ----

# With the folded lines that belong to it.
_HEADER = re.compile(r"([!-9;-~]{1,76}):((?:[^\n]|\n[ \t](?=[^\n]*[^\s]))*)(?:\n|$)")
_OF_PEOPLE = word_list("mail_headers_of_people")
_ADDRESS = re.compile(r"(?<![^\s<>,;:\"()@])[^\s<>,;:\"()@]+@[^\s<>,;:\"()@]+")   # whole, however long: no pseudonym is cut in two
# 998 is the longest line of a message (RFC 5322). One recipient: up to the next comma or semicolon outside quotes and comments.
_RECIPIENT = re.compile(r"(?:\"(?:[^\"\\]|\\.){0,998}\"|\([^()]{0,998}\)|[^,;\"(]|[\"(])+", re.DOTALL)
_NAME = re.compile(r"\"((?:[^\"\\]|\\.){0,998})\"|\(([^()]{0,998})\)|([^<>\"()]+)", re.DOTALL)
_ENCODED = re.compile(r"=\?[\w\-]+\?[bq]\?[^?\s]*\?=", re.IGNORECASE)
_LETTER = re.compile(r"[^\W_]")
SCORE = 0.9
RULE = "mail_header"


def _in_mail(text: str, find: Find, stand_in: StandIn) -> Iterator[Span]:
    position = 0
    while header := _HEADER.match(text, position):
        yield from _in_header(text, header, find, stand_in)
        position = header.end()
    if position == 0:
        raise ValueError("text must begin with a header such as `From: name <address>`")
    for span in find(text[position:]):
        yield span._replace(start=span.start + position, end=span.end + position)


def _in_header(text: str, header: re.Match[str], find: Find, stand_in: StandIn) -> Iterator[Span]:
    start, end = header.span(2)
    if header[1].lower() in _OF_PEOPLE:
        for recipient in _RECIPIENT.finditer(text, start, end):
            yield from _in_recipient(text, *recipient.span(), stand_in)
    elif _ENCODED.search(text, start, end):
        # Encoded words (RFC 2047): decoded, redacted, and written anew if anything was found.
        try:
            value = str(make_header(decode_header(text[start:end])))
        except (HeaderParseError, LookupError, UnicodeError):
            return
        if found := find(value):
            shown = Header(replaced(value, found).strip(), "utf-8").encode()
            yield found[0]._replace(start=start, end=end, text=text[start:end], placeholder=f" {shown}")
    else:
        begin = header.start(1)
        for span in find(text[begin:end]):
            if span.start + begin >= start:
                yield span._replace(start=span.start + begin, end=span.end + begin)


def _in_recipient(text: str, start: int, end: int, stand_in: StandIn) -> Iterator[Span]:
    """The addresses, and everything beside them: it is the name of somebody."""

    def whole(first: int, last: int, category: str) -> Iterator[Span]:
        shown = stand_in(category, text[first:last])
        if shown is not None:
            yield Span(first, last, text[first:last], category, shown, RULE, SCORE)

    def names(first: int, last: int) -> Iterator[Span]:
        for name in _NAME.finditer(text, first, last):
            written = name[name.lastindex or 0]
            begin = name.start(name.lastindex or 0) + len(written) - len(written.lstrip())
            if _LETTER.search(written):
                yield from whole(begin, begin + len(written.strip()), "full person name")

    position = start
    for address in _ADDRESS.finditer(text, start, end):
        yield from names(position, address.start())
        yield from whole(*address.span(), "email address")
        position = address.end()
    yield from names(position, end)
