"""Rules for e-mail addresses, web addresses and handles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.letters import words
from hushvec.text.pii.rule import Rule
from hushvec.text.pii.wordlists import word_list

# Letters and marks beyond ASCII; not the punctuation around an address, which would also begin an address at each sign of a row.
_BEYOND = r"\u00c0-\u1fff\u2c00-\u2dff\u3040-\uffff"
_LOCAL = re.compile(rf"[a-z0-9!#$%&'*+/=?^_`{{|}}~.\-{_BEYOND}]")
_DOMAIN = re.compile(rf"@[a-z0-9{_BEYOND}][a-z0-9.\-{_BEYOND}]*[a-z0-9{_BEYOND}]")
_SCHEME = re.compile(
    r"://(?:(?<=http://)|(?<=https://)|(?<=ftp://)|(?<=ftps://)|(?<=sftp://)|(?<=ssh://)|(?<=wss://))[^\s<>\"`{}|\\^]+"
)
_SCHEME_NAME = re.compile(r"(?:https?|ftps?|sftp|ssh|wss)$")
_HOST = re.compile(
    rf"[a-z0-9{_BEYOND}](?<![\w@.\-/{_BEYOND}].)[a-z0-9\-{_BEYOND}]*\.[a-z0-9.\-{_BEYOND}]*[a-z0-9{_BEYOND}]"
)
_REST = re.compile(r"(?::\d{1,5})?(?:[/?#][^\s<>\"`{}|\\^]*)?")

# Endings that are almost never a word after a full stop that lacks its space.
_SURE_ENDINGS = word_list("top_level_domains")
# Endings that are also words: they count after www, or with two dots.
_WORD_ENDINGS = words("am as at be do gs in is it la me my no so to us")
# File extensions that look like country codes.
_FILE_ENDINGS = words("py rs pl sh md cc ps so ml mk st ms tf ts js vb pm cs")


def _emails(document: Document) -> Iterator[tuple[int, int]]:
    """Around each @: no part of the text is read for two of them, since neither side may hold one."""
    lower = document.lower
    position = 0
    for match in matches(_DOMAIN, lower):
        at, end = match.span()
        labels = lower[at + 1 : end].split(".")
        if len(labels) < 2 or "" in labels or not labels[-1][0].isalpha() or len(labels[-1]) < 2:
            continue
        start = at
        while start > position and _LOCAL.match(lower, start - 1):
            start -= 1
        if start == at or lower[at - 1] == ".":
            continue
        while not (lower[start].isalnum() or lower[start] in "_+@"):
            start += 1
        if start < at:
            yield start, end
            position = end


def _urls(document: Document) -> Iterator[tuple[int, int]]:
    lower = document.lower
    if "://" not in lower:
        return
    for match in matches(_SCHEME, lower):
        scheme = _SCHEME_NAME.search(lower, max(0, match.start() - 6), match.start())
        assert scheme is not None
        yield scheme.start(), _trimmed(lower, match.end())


def _domains(document: Document) -> Iterator[tuple[int, int]]:
    lower, text = document.lower, document.text
    if "." not in lower:
        return
    for match in matches(_HOST, lower):
        start, end = match.span()
        host = lower[start:end]
        ending = host.rpartition(".")[2]
        if ending not in _SURE_ENDINGS and ending not in _WORD_ENDINGS and not host.startswith("www."):
            continue
        if end < len(lower) and (lower[end].isalnum() or lower[end] in "_@"):
            continue
        labels = host.split(".")
        if "" in labels or any(len(label) > 63 or label[0] == "-" or label[-1] == "-" for label in labels):
            continue
        if len(labels) == 2 and (ending in _WORD_ENDINGS or ending in _FILE_ENDINGS or len(labels[0]) < 2):
            continue
        # "the end.De ..." is a missing space; "EXAMPLE.COM" is not.
        if text[end - len(ending)].isupper() and not text[start:end].isupper():
            continue
        rest = _REST.match(lower, end)
        assert rest is not None
        yield start, _trimmed(lower, rest.end()) if rest.end() > end else end


# What stands after @ in programs, style sheets and comments.
_NOT_HANDLES = word_list("words_after_at_signs")
# Between spaces or the punctuation of a sentence: other signs beside it are those of programs and of encoded files.
LONGEST_INITIALS = 3  # "@NYI" is a team that plays at home
_HANDLE = re.compile(
    r"@(?<![^\s,;:(\[{\"'“‘*<>|]@)([a-z0-9_](?:[a-z0-9_.]{0,30}[a-z0-9_])?)"
    r"(@[a-z0-9][a-z0-9.\-]{0,62}[a-z0-9])?(?=[\s,.;:!?)\]}\"'’”*>|]|\Z)"
)


def _handles(document: Document) -> Iterator[tuple[int, int]]:
    """`@maple_rivers`, `@maple@example.social`; not the domain of an address that is cut off, and not a word of a program."""
    lower = document.lower
    if "@" not in lower:
        return
    for match in matches(_HANDLE, lower):
        name, ending = match[1], match[1].rpartition(".")[2]
        if len(name) < 2 or name in _NOT_HANDLES or not any(map(str.isalpha, name)):
            continue
        if len(name) <= LONGEST_INITIALS and document.text[match.start() : match.end()].isupper():
            continue
        if "." in name and ending in _SURE_ENDINGS and not match[2]:
            continue
        yield match.span()


def _trimmed(text: str, end: int) -> int:
    """The address without the punctuation of the sentence around it."""
    while text[end - 1] in ".,;:!?'\")]":
        end -= 1
    return end


RULES = (
    Rule("email", "email address", 0.95, "local part, @ and a domain with an ending of letters", _emails),
    Rule("url", "web address", 0.95, "http, https, ftp, sftp, ssh, wss addresses, with path and query", _urls),
    Rule("domain", "web address", 0.8, "host names by their endings, with path; not words after a missing space", _domains),
    Rule("handle", "social handle", 0.75, "@ and a name of 2 to 32 letters, digits, _; not domains, not words of programs", _handles),
)
