"""Redaction of HTML: what is seen, the values of attributes, comments and scripts; the tags stay.

Everything in the text is searched, whatever its tags are worth: in one stream what is seen, joined across tags that break no line,
and behind it the rest, a piece in each line.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from hushvec.text.pii.document import ENTITY, unescaped
from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import Span, replaced
from hushvec.text.pii.structured import Find
from hushvec.text.pii.wordlists import word_list

_TOKEN = re.compile(r"<!--|<(?=[a-zA-Z/!?])")
_TAG_NAME = re.compile(r"/?([a-zA-Z0-9]*)")
_IN_TAG = re.compile(r"=\s*(?:\"([^\"]*)\"?|'([^']*)'?|([^\s>\"'][^\s>]*))|>")
_NAMES_ALONE = re.compile(r"[\w/:-]{0,40}\s{0,9}[\w:-]{0,40}[\s/]{0,9}")  # bounded: whatever else is there is read
_BREAKS = word_list("html_tags_that_break_lines")
_ENDS = {name: re.compile(end, re.IGNORECASE) for name, end in (("--", "-->"), ("script", "</script"), ("style", "</style"))}
_NOWHERE = -1
_Stream = tuple[list[str], list[int], list[int]]  # pieces, decoded, and where each of their characters begins and ends


def redact_html(text: str, find: Find | None = None) -> Redaction:
    """Redact HTML: what is seen, the values of attributes, comments and scripts; tags and everything outside the finds stay.

    Args:
        text: a page or a part of one, well formed or not.
        find: as for `redact_json`.

    Returns:
        HTML, and the spans with their places in `text`. A find that goes on behind a tag, as in `jane<b>@</b>b.com`, has one span
        before and one behind it; the placeholder is that of the first.

    Example:
        >>> from hushvec.text import redact_html
        >>> redact_html('<p title="a@b.com">Ask a&#64;<b>b.com</b>').text
        '<p title="[EMAIL]">Ask [EMAIL]<b></b>'
    """
    spans = in_html(text, find or Redactor().detect)
    return Redaction(replaced(text, spans), spans)


def in_html(text: str, find: Find) -> tuple[Span, ...]:
    """The spans of `redact_html`."""
    seen: _Stream = ([], [], [])
    aside: _Stream = (["\n"], [_NOWHERE], [_NOWHERE])
    broken, tags = "", 0  # since what was last seen
    for start, end, tag in _pieces(text):
        if tag is None:
            _add(aside, text, start, end, "\n")
        elif tag:
            broken, tags = "\n" if tag in _BREAKS else broken, tags + 1
        elif start < end:
            # Between two tags there may be a space of a style sheet: a menu is no word.
            gap = " " if tags > 1 and seen[0] and seen[0][-1][-1:].isalnum() and text[start].isalnum() else ""
            _add(seen, text, start, end, broken or gap)
            broken, tags = "", 0
    content, starts, ends = "".join((*seen[0], *aside[0])), [*seen[1], *aside[1]], [*seen[2], *aside[2]]
    spans: list[Span] = []
    for span in find(content):
        shown, runs, last = html.escape(span.placeholder), list[list[int]](), _NOWHERE
        for start, end in zip(starts[span.start : span.end], ends[span.start : span.end]):
            if runs and start >= 0 and start in (runs[-1][1], last):  # an entity may stand for two characters
                runs[-1][1] = end
            elif start != _NOWHERE:
                runs.append([start, end])
            last = start
        for start, end in runs:
            spans.append(span._replace(start=start, end=end, text=text[start:end], placeholder=shown))
            shown = ""
    return tuple(sorted(spans))


def _add(stream: _Stream, text: str, start: int, end: int, before: str) -> None:
    content, starts, ends = unescaped(text[start:end], ENTITY, range(start, end), range(start + 1, end + 1))
    nowhere = [_NOWHERE] * len(before)
    stream[0].append(before + content)
    stream[1].extend(nowhere + starts)
    stream[2].extend(nowhere + ends)


def _pieces(text: str) -> Iterator[tuple[int, int, str | None]]:
    """(start, end, what it is): "" for what is seen, the name of a tag, None for the values of its attributes and the like."""
    position = 0
    while token := _TOKEN.search(text, position):
        yield position, token.start(), ""
        start = token.end()
        if token[0] == "<!--":
            end = _end_of("--", text, start)
            yield start, end, None
            position = end + len("-->")
            continue
        name, position = _TAG_NAME.match(text, start)[1].lower(), len(text)  # type: ignore[index]
        for part in _IN_TAG.finditer(text, start):
            if not _NAMES_ALONE.fullmatch(text, start, part.start()):
                yield start, part.start(), None
            start = part.end()
            if part.lastindex is None:
                position = part.end()
                break
            yield *part.span(part.lastindex), None
        else:
            yield start, len(text), None
        yield token.start(), position, name or "!"
        if name in _ENDS and text[token.end()] != "/":
            end = _end_of(name, text, position)
            yield position, end, None
            position = end
    yield position, len(text), ""


def _end_of(name: str, text: str, start: int) -> int:
    found = _ENDS[name].search(text, start)
    return found.start() if found else len(text)
