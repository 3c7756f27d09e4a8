"""Redaction inside JSON, CSV and e-mail: the structure stays, and so does every character outside the finds.

Each function takes `find`, which gives the spans of a plain text: `Redactor.detect`, or `Pseudonymizer.spans`. Values are found beside
the name of their key or column, as in "ssn: 457555462", which often says what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hushvec.text.pii import csv_fields, json_values, mail_headers
from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import Span
from hushvec.text.pii.substitution import replaced

Find = Callable[[str], Sequence[Span]]


def redact_json(text: str, find: Find | None = None) -> Redaction:
    """Redact the strings of a JSON document; keys, numbers and everything outside the finds stay.

    Args:
        text: one JSON document.
        find: what finds spans in a plain text; None: `Redactor().detect`.

    Returns:
        Valid JSON, and the spans with their places in `text`.

    Raises:
        ValueError: the text is no JSON.

    Example:
        >>> from hushvec.text import redact_json
        >>> redact_json('{"id": 7, "ssn": "457555462", "mail": ["a@b.com"]}').text
        '{"id": 7, "ssn": "[SSN]", "mail": ["[EMAIL]"]}'
    """
    return _redaction(text, json_values.spans(text, _default(find)))


def redact_csv(text: str, find: Find | None = None, *, columns: Iterable[str] | None = None, delimiter: str = ",") -> Redaction:
    """Redact fields of CSV; the header, the other columns and everything outside the finds stay.

    Args:
        text: CSV whose first row has the names of the columns.
        find: what finds spans in a plain text; None: `Redactor().detect`.
        columns: names of those to redact; None: all.
        delimiter: one character between fields.

    Returns:
        CSV with the same rows and fields, and the spans with their places in `text`.

    Raises:
        ValueError: there is no such column, the delimiter is no single character, or a quote is not closed.

    Example:
        >>> from hushvec.text import redact_csv
        >>> redact_csv("id,note\\n7,mail a@b.com\\n", columns=["note"]).text
        'id,note\\n7,mail [EMAIL]\\n'
    """
    return _redaction(text, csv_fields.spans(text, _default(find), columns, delimiter))


def redact_mail(
    text: str, find: Find | None = None, *, placeholder: Callable[[str, str], str | None] | None = None
) -> Redaction:
    """Redact an e-mail: names and addresses in its headers whether or not a rule knows them, and the finds in the rest.

    Args:
        text: headers, a blank line, the body as plain text.
        find: what finds spans in a plain text; None: `Redactor().detect`.
        placeholder: what stands for a value of a category in the headers, such as `Redactor.placeholder` or
            `Pseudonymizer.placeholder`, and None for what stays; None: the usual placeholder of the category.

    Returns:
        The message with the same headers, and the spans with their places in `text`.

    Raises:
        ValueError: the text does not begin with a header.

    Example:
        >>> from hushvec.text import redact_mail
        >>> redact_mail("From: Wren <w@b.com>\\nSubject: lunch\\n\\nHi").text
        'From: [PERSON] <[EMAIL]>\\nSubject: lunch\\n\\nHi'
    """
    return _redaction(text, mail_headers.spans(text, _default(find), placeholder or Redactor().placeholder))


def _default(find: Find | None) -> Find:
    return Redactor().detect if find is None else find


def _redaction(text: str, spans: Iterable[Span]) -> Redaction:
    found = tuple(spans)
    return Redaction(replaced(text, found), found)
