"""Redaction of e-mail: names and addresses in headers, and the text of every part, decoded and encoded again."""

from __future__ import annotations

import base64
import codecs
import quopri
import re
from collections.abc import Callable, Iterator
from email import message_from_string
from email.header import Header
from email.message import Message

from hushvec.text.pii.categories import CATEGORIES, default_placeholder
from hushvec.text.pii.markup import in_html
from hushvec.text.pii.pseudonyms import mail_words, name_in_header
from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import Span, replaced, shifted
from hushvec.text.pii.structured import Find
from hushvec.text.pii.wordlists import word_list

StandIn = Callable[[str, str], str | None]  # what stands for a value of a category; None: it stays

# With the folded lines that belong to it.
_HEADER = re.compile(r"([!-9;-~]{1,76}):((?:[^\n]|\n[ \t](?=[^\n]*[^\s]))*)(?:\n|$)")
_BLANK = re.compile(r"(?:\r?\n)?")
_OF_PEOPLE = word_list("mail_headers_of_people")
_ADDRESS = re.compile(r"(?<![^\s<>,;:\"()@])[^\s<>,;:\"()@]+@[^\s<>,;:\"()@]+")  # whole, however long: no pseudonym is cut in two
# 998 is the longest line of a message (RFC 5322). One recipient: up to the next comma or semicolon outside quotes and comments.
_RECIPIENT = re.compile(r"(?:\"(?:[^\"\\]|\\.){0,998}\"|\([^()]{0,998}\)|[^,;\"(]|[\"(])+", re.DOTALL)
_NAME = re.compile(r"\"((?:[^\"\\]|\\.){0,998})\"|\(([^()]{0,998})\)|([^<>\"()]+)", re.DOTALL)
_ENCODED = re.compile(r"=\?[^?\s]{1,75}\?[bq]\?[^?\n]*\?=", re.IGNORECASE)
_LETTER = re.compile(r"[^\W_]")
_PLACEHOLDERS = frozenset(category.placeholder for category in CATEGORIES)
_FILE_NAME = re.compile(r"(?<![\w\-])((?:file)?name)(?:\*\d{0,4})?\*?[ \t]*=[ \t]*(?:\"[^\"]+\"|[^\s;\"]+)", re.IGNORECASE)
_ARMOR = "-----BEGIN PGP MESSAGE-----"
SCORE = 0.9
RULE = "mail_header"

_READABLE = word_list("mail_types_of_text")
_ENCRYPTED = word_list("mail_types_of_secrets")
_AS_WRITTEN = ("7bit", "8bit", "binary")
_IN_7BIT = ("iso-2022", "hz", "utf-7")  # charsets that write other letters with ASCII alone
_NO_CHARSETS = ("idna", "punycode")
ATTACHMENT = "attachment"
DEEPEST = 8  # parts within parts
MOST_KNOWN, LONGEST_KNOWN = 20, 60  # people of the headers that are known in the text, and characters of their names


def redact_mail(text: str, find: Find | None = None, *, placeholder: Callable[[str, str], str | None] | None = None) -> Redaction:
    """Redact an e-mail: names and addresses in its headers whether or not a rule knows them, and the finds in the rest.

    Args:
        text: a message as it is sent (RFC 5322 and 2045): headers, a blank line, the body or its parts. Parts in quoted-printable or
            base64 are decoded, and encoded again if anything is found, as one span; so are headers. Plain text, HTML and CSV are
            read; [ATTACHMENT] takes the place of every other part and of the names of files, and brings nothing back.
        find: as for `redact_json`.
        placeholder: what stands for a value of a category in the headers, such as `Redactor.placeholder` or
            `Pseudonymizer.placeholder`, and None for what stays; None: that of the object whose method `find` is, or the usual
            placeholder of the category.

    Raises:
        ValueError: the text does not begin with a header, or a part cannot be read: it is encrypted, its charset or encoding is
            unknown, its content is not what they say, a boundary is missing, or parts are nested more than 8 deep.

    Example:
        >>> from hushvec.text import redact_mail
        >>> redact_mail("From: Wren <w@b.com>\\nSubject: lunch\\n\\nHi").text
        'From: [PERSON] <[EMAIL]>\\nSubject: lunch\\n\\nHi'
    """
    find = find or Redactor().detect
    owner = getattr(find, "__self__", find)
    stand_in = placeholder or getattr(owner, "placeholder", None) or Redactor().placeholder
    if not _HEADER.match(text):
        raise ValueError("text must begin with a header such as `From: name <address>`")
    spans = tuple(_in_part(text, 0, len(text), find, stand_in))
    return Redaction(replaced(text, spans), spans)


def _in_part(
    text: str, start: int, end: int, find: Find, stand_in: StandIn, depth: int = 0, usual: str = "text/plain"
) -> Iterator[Span]:
    """The spans of a message, or of one of its parts."""
    headers, position = [], start
    while header := _HEADER.match(text, position, end):
        headers.append(header)
        position = header.end()
    head = message_from_string(text[start:position])
    head.set_default_type(usual)
    named = [(header, header[1].lower() in _OF_PEOPLE) for header in headers]
    recipients = (one.span() for header, of_people in named if of_people for one in _RECIPIENT.finditer(text, *header.span(2)))
    people = [span for place in recipients for span in _in_recipient(text, *place, find, stand_in)]
    names = [name_in_header(span.text) for span in people if span.category == "full person name"]
    find = _knowing([name for name in names if len(name) <= LONGEST_KNOWN][:MOST_KNOWN], find)
    others = [span for header, of_people in named if not of_people for span in _in_header(text, header, find)]
    yield from sorted((*people, *others))

    position = _BLANK.match(text, position, end).end()  # type: ignore[union-attr]
    kind, coding = head.get_content_type(), str(head.get("content-transfer-encoding", "7bit")).strip().lower()
    if depth > DEEPEST:
        raise _unreadable(kind, f"parts are nested more than {DEEPEST} deep")
    if kind in _ENCRYPTED or text.find(_ARMOR, position, end) >= 0:
        raise _unreadable(kind, "it is encrypted")
    if any(len(head.get_all(name, ())) > 1 for name in ("content-type", "content-transfer-encoding")):
        raise _unreadable(kind, "its type or encoding is given twice")
    if kind.startswith("multipart/") or kind == "message/rfc822":
        if coding not in _AS_WRITTEN:
            raise _unreadable(kind, f"parts in {coding!r:.40}")
        if kind == "message/rfc822":
            yield from _in_part(text, position, end, find, stand_in, depth + 1)
            return
        line = re.compile(rf"(?:\r?\n)?^--{re.escape(head.get_boundary(''))}(--)?[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
        marks = list(line.finditer(text, position, end)) if head.get_boundary() else []
        if not marks:
            raise _unreadable(kind, "its boundary is missing")
        yield from shifted(find(text[position : marks[0].start()]), position)
        for mark, last in zip(marks, [*(mark.start() for mark in marks[1:]), end]):
            if mark[1]:
                yield from shifted(find(text[mark.end() : last]), mark.end())
            else:
                default = "message/rfc822" if kind == "multipart/digest" else "text/plain"
                yield from _in_part(text, mark.end(), last, find, stand_in, depth + 1, default)
    elif kind in _READABLE:
        yield from _in_text(text, position, end, head, coding, (lambda part: in_html(part, find)) if kind == "text/html" else find)
    elif (raw := text[position:end]).strip():
        shown = _written(default_placeholder(ATTACHMENT) + raw[len(raw.rstrip()) :] * (coding != "base64"), raw, coding, "ascii")
        yield Span(position, end, raw, ATTACHMENT, shown, RULE, SCORE)


def _in_text(text: str, start: int, end: int, head: Message, coding: str, find: Find) -> Iterator[Span]:
    raw, charset = text[start:end], str(head.get_content_charset("utf-8"))
    try:
        content = _content(raw, coding, charset)
        if content == raw and coding in _AS_WRITTEN:
            yield from shifted(find(content), start)
        elif _ARMOR in content:
            raise ValueError("it is encrypted")
        elif found := find(content):
            shown = _written(replaced(content, found), raw, coding, charset)
            yield found[0]._replace(start=start, end=end, text=raw, placeholder=shown)
    except (ValueError, LookupError) as error:
        raise _unreadable(head.get_content_type(), str(error)) from None


def _content(raw: str, coding: str, charset: str) -> str:
    """The text of a part."""
    if codecs.lookup(charset).name in _NO_CHARSETS:
        raise LookupError(f"unknown encoding: {charset}")
    if coding == "base64":
        return base64.b64decode("".join(raw.split()), validate=True).decode(charset)
    if coding == "quoted-printable":
        return quopri.decodestring(raw.encode()).decode(charset)
    if coding not in _AS_WRITTEN:
        raise LookupError(f"unknown encoding: {coding!r:.40}")
    content = raw.encode().decode(charset) if raw.isascii() else raw
    if content != raw and not charset.startswith(_IN_7BIT):
        raise ValueError(f"its text is not in the charset {charset!r:.40}")
    return content


def _written(content: str, raw: str, coding: str, charset: str) -> str:
    """The content of a part in its encoding, with the line ends of the part as it was."""
    data, newline = content.encode(charset), "\r\n" if "\r\n" in raw else "\n"
    if coding == "base64":
        return base64.encodebytes(data).decode().rstrip("\n").replace("\n", newline) + raw[len(raw.rstrip()) :]
    if coding == "quoted-printable":
        data = quopri.encodestring(data.replace(b"\r\n", b"\n")).replace(b"\n", newline.encode())
        if _content(data.decode(), coding, charset).splitlines() != content.splitlines():
            raise ValueError(f"lines in the charset {charset!r:.40}")
    return data.decode("ascii")


def _unreadable(kind: str, reason: str) -> ValueError:
    return ValueError(f"text must be mail that can be read, got a part {kind!r:.60}: {reason}")


def _knowing(names: list[str], find: Find) -> Find:
    """`find` for texts in which these people may be called by their first or last name alone."""

    def found(text: str) -> list[Span]:
        # Behind a title a name is known by its last word wherever else that stands.
        told = "".join(f"Mr {name}\nMr {name.partition(' ')[0]}\n" for name in names) + "\n"
        told = told.lower() if text.islower() else told
        return [one for one in shifted(find(told + text), -len(told)) if one.start >= 0]

    return found if names else find


def _in_header(text: str, header: re.Match[str], find: Find) -> Iterator[Span]:
    """The finds in a header that is not one of people."""
    start, end = header.span(2)
    if header[1].lower() in ("content-type", "content-disposition"):  # whose other words mark the parts
        for name in _FILE_NAME.finditer(text, start, end):
            shown = f'{name[1]}="{default_placeholder(ATTACHMENT)}"'
            yield Span(*name.span(), name[0], ATTACHMENT, shown, RULE, SCORE)
    elif _ENCODED.search(text, start, end):
        yield from _in_words(text, start, end, find)
    else:
        begin = header.start(1)
        yield from (span for span in shifted(find(text[begin:end]), begin) if span.start >= start)


def _in_words(text: str, start: int, end: int, find: Find) -> Iterator[Span]:
    """Encoded words (RFC 2047) as one span, decoded, redacted and encoded again."""
    value = mail_words(text[start:end])
    if _ENCODED.search(value):
        raise ValueError("text must be mail that can be read, got a header with a broken encoded word")
    if found := find(value):
        shown = " " * text[start].isspace() + Header(replaced(value, found).strip(), "utf-8").encode()
        yield found[0]._replace(start=start, end=end, text=text[start:end], placeholder=shown)


def _in_recipient(text: str, start: int, end: int, find: Find, stand_in: StandIn) -> Iterator[Span]:
    """The addresses, and everything beside them: it is the name of somebody."""

    def whole(first: int, last: int, category: str) -> Iterator[Span]:
        if text[first:last] in _PLACEHOLDERS:
            return
        shown = stand_in(category, text[first:last])
        if shown is None and _ENCODED.search(text, first, last):
            yield from _in_words(text, first, last, find)
        elif shown is not None:
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
