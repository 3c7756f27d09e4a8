"""What is personal in an e-mail: addresses and the names beside them in its headers, finds in other headers and in the body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header

from hushvec.text.pii.in_context import Find
from hushvec.text.pii.letters import words
from hushvec.text.pii.spans import Span
from hushvec.text.pii.substitution import replaced

# With the folded lines that belong to it.
_HEADER = re.compile(r"([!-9;-~]{1,76}):((?:[^\n]|\n[ \t](?=[^\n]*[^\s]))*)(?:\n|$)")
_OF_PEOPLE = words(
    "from to cc bcc reply-to sender resent-from resent-to resent-cc resent-bcc resent-sender return-path errors-to delivered-to "
    "x-original-to disposition-notification-to"
)
_ADDRESS = re.compile(r"[^\s<>,;:\"()@]{1,64}@[^\s<>,;:\"()@]{1,255}")
# 998 is the longest line of a message (RFC 5322). One recipient: up to the next comma or semicolon outside quotes and comments.
_RECIPIENT = re.compile(r"(?:\"(?:[^\"\\]|\\.){0,998}\"|\([^()]{0,998}\)|[^,;\"(]|[\"(])+", re.DOTALL)
_NAME = re.compile(r"\"((?:[^\"\\]|\\.){0,998})\"|\(([^()]{0,998})\)|([^<>\"()]+)", re.DOTALL)
_ENCODED = re.compile(r"=\?[\w\-]+\?[bq]\?[^?\s]*\?=", re.IGNORECASE)
_LETTER = re.compile(r"[^\W_]")
SCORE = 0.9
RULE = "mail_header"

# What stands for a value of a category; None: it stays.
StandIn = Callable[[str, str], str | None]


def spans(text: str, find: Find, stand_in: StandIn) -> Iterator[Span]:
    """Finds in the headers and in the body, with their places in the text.

    Raises:
        ValueError: the text does not begin with a header.
    """
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
        yield from _in_encoded(text, start, end, find)
    else:
        for span in find(text[header.start(1) : end]):
            if span.start + header.start(1) >= start:
                yield span._replace(start=span.start + header.start(1), end=span.end + header.start(1))


def _in_recipient(text: str, start: int, end: int, stand_in: StandIn) -> Iterator[Span]:
    """The addresses, and everything beside them: it is the name of somebody."""
    position = start
    for address in _ADDRESS.finditer(text, start, end):
        yield from _names(text, position, address.start(), stand_in)
        yield from _whole(text, *address.span(), "email address", stand_in)
        position = address.end()
    yield from _names(text, position, end, stand_in)


def _names(text: str, start: int, end: int, stand_in: StandIn) -> Iterator[Span]:
    for name in _NAME.finditer(text, start, end):
        first, last = name.span(name.lastindex or 0)
        while first < last and text[first].isspace():
            first += 1
        while last > first and text[last - 1].isspace():
            last -= 1
        if _LETTER.search(text, first, last):
            yield from _whole(text, first, last, "full person name", stand_in)


def _whole(text: str, start: int, end: int, category: str, stand_in: StandIn) -> Iterator[Span]:
    shown = stand_in(category, text[start:end])
    if shown is not None:
        yield Span(start, end, text[start:end], category, shown, RULE, SCORE)


def _in_encoded(text: str, start: int, end: int, find: Find) -> Iterator[Span]:
    """A header in encoded words (RFC 2047): decoded, redacted, and written anew if anything was found."""
    try:
        value = str(make_header(decode_header(text[start:end])))
    except (HeaderParseError, LookupError, UnicodeError):
        return
    found = find(value)
    if found:
        shown = Header(replaced(value, found).strip(), "utf-8").encode()
        yield found[0]._replace(start=start, end=end, text=text[start:end], placeholder=f" {shown}")
