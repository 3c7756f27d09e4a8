"""Rules for e-mail addresses, web addresses, handles and network addresses."""

from __future__ import annotations

import re
from socket import AF_INET6, inet_pton

from hushvec.text.pii.document import Document, Finds, matches, rule
from hushvec.text.pii.wordlists import word_list, words

# Letters and marks beyond ASCII; not the punctuation around an address, which would also begin an address at each sign of a row.
_BEYOND = r"\u00c0-\u1fff\u2c00-\u2dff\u3040-\uffff"
_LOCAL = re.compile(rf"[a-z0-9!#$%&'*+/=?^_`{{|}}~.\-{_BEYOND}]")
_DOMAIN = re.compile(rf"@[a-z0-9{_BEYOND}][a-z0-9.\-{_BEYOND}]*[a-z0-9{_BEYOND}]")
_SCHEME = re.compile(
    r"://(?:(?<=http://)|(?<=https://)|(?<=ftp://)|(?<=ftps://)|(?<=sftp://)|(?<=ssh://)|(?<=wss://))[^\s<>\"`{}|\\^]+"
)
_SCHEME_NAME = re.compile(r"(?:https?|ftps?|sftp|ssh|wss)$")
_HOST = re.compile(rf"[a-z0-9{_BEYOND}](?<![\w@.\-/{_BEYOND}].)[a-z0-9\-{_BEYOND}]*\.[a-z0-9.\-{_BEYOND}]*[a-z0-9{_BEYOND}]")
_REST = re.compile(r"(?::\d{1,5})?(?:[/?#][^\s<>\"`{}|\\^]*)?")

# Endings that are almost never a word after a full stop that lacks its space.
_SURE_ENDINGS = word_list("top_level_domains")
# Endings that are also words: they count after www, or with two dots.
_WORD_ENDINGS = words("am as at be do gs in is it la me my no so to us")
# Members of objects in programs: "user.name", "req.params.id", "logger.info(".
_MEMBERS, _SURE_MEMBERS = words("id name info app store email"), words("id name")
_OBJECTS = words("self this obj req res ctx cfg config logger console")
# File extensions that look like country codes.
_FILE_ENDINGS = words("py rs pl sh md cc ps so ml mk st ms tf ts js vb pm cs")

_ASCII_BEFORE, _ASCII_DOMAIN = re.compile(r"[!-~]{1,64}\Z"), re.compile(r"@[A-Za-z0-9.\-]{1,253}\.[A-Za-z]{2,63}(?=[^\W\d_])")
# What stands after @ in programs, style sheets and comments.
_NOT_HANDLES = word_list("words_after_at_signs")
# Between spaces or the punctuation of a sentence: other signs beside it are those of programs and of encoded files.
LONGEST_INITIALS = 3  # "@NYI" is a team that plays at home
_HANDLE = re.compile(
    r"@(?<![^\s,;:(\[{\"'“‘*<>|]@)([a-z0-9_](?:[a-z0-9_.]{0,30}[a-z0-9_])?)"
    r"(@[a-z0-9][a-z0-9.\-]{0,62}[a-z0-9])?(?=[\s,.;:!?)\]}\"'’”*>|]|\Z)(?!\.\w[\w.]{0,60}\()"  # not "@app.get(", a decorator
)
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
# The first digit is read before what stands left of it is looked at: this skips other characters fast.
_IPV4 = re.compile(rf"(?=[0-9])(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?!\w|\.[0-9])(?:/[0-9]{{1,2}}(?!\w))?")
# From the first colon to the end: two colons in a row, or seven, or an IPv4 address at the end.
_COLONS = re.compile(r":(?:[0-9a-f]{0,4}:)[0-9a-f:.]*")
_PREFIX = re.compile(r"(?:%[0-9a-z]{1,15})?(?:/[0-9]{1,3}(?!\w))?")
_MAC = re.compile(
    r"[0-9a-f](?<!\w\w)(?<!\W[0-9a-f]{2}[:\-]\w)(?<!\A[0-9a-f]{2}[:\-]\w)[0-9a-f]([:\-])(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}(?![\w:\-])"
)
_VERSION = re.compile(r"(?:version|release|firmware|build|\bv)[\s:.=\"']{0,4}$")
_HEX = frozenset("0123456789abcdef")
LONGEST_IPV6 = 45
FEWEST_SIGNS = 5  # in a hardware address


@rule
def email(document: Document) -> Finds:
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
            yield _in_ascii(document.text, start, at, end)
            position = end


def _in_ascii(text: str, start: int, at: int, end: int) -> tuple[int, int]:
    """An address in ASCII without the letters around it of a script that puts no spaces between words."""
    local = _ASCII_BEFORE.search(text, max(start, at - 64), at)
    domain = _ASCII_DOMAIN.match(text, at, end)
    if local and local.start() > start and _has_no_capitals(text[local.start() - 1]):
        start = local.start()
    return start, domain.end() if domain and _has_no_capitals(text[domain.end() : domain.end() + 1]) else end


def _has_no_capitals(letter: str) -> bool:
    return letter >= "\u0590" and letter.lower() == letter.upper()


@rule
def url(document: Document) -> Finds:
    lower = document.lower
    for match in matches(_SCHEME, lower):
        scheme = _SCHEME_NAME.search(lower, max(0, match.start() - 6), match.start())
        assert scheme is not None
        yield scheme.start(), _trimmed(lower, match.end())


@rule
def domain(document: Document) -> Finds:
    lower, text, taken = document.lower, document.text, 0
    for match in matches(_HOST, lower):
        start, end = match.span()
        if start < taken:
            continue
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
        is_member = ending in _SURE_MEMBERS and lower[end : end + 1] != "/" and not (len(labels) > 2 and len(labels[-2]) < 4)
        if ending in _MEMBERS and labels[0] != "www" and (is_member or labels[0] in _OBJECTS or lower.startswith("(", end)):
            continue
        # "the end.De ..." is a missing space; "EXAMPLE.COM" is not.
        if text[end - len(ending)].isupper() and not text[start:end].isupper():
            continue
        rest = _REST.match(lower, end)
        assert rest is not None
        taken = rest.end()
        yield start, _trimmed(lower, taken) if taken > end else end


@rule
def handle(document: Document) -> Finds:
    """`@maple_rivers`, `@maple@example.social`; not the domain of an address that is cut off, and not a word of a program."""
    lower = document.lower
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


@rule
def ipv4(document: Document) -> Finds:
    for match in matches(_IPV4, document.text):
        if not _VERSION.search(document.lower, max(0, match.start() - 12), match.start()):
            yield match.span()


@rule
def ipv6(document: Document) -> Finds:
    lower = document.lower
    for match in matches(_COLONS, lower):
        start, end = match.span()
        if end - start > LONGEST_IPV6:
            continue
        while lower[end - 1] == "." or (lower[end - 1] == ":" and lower[end - 2] != ":"):
            end -= 1
        first = start
        while first and start - first < 4 and lower[first - 1] in _HEX:
            first -= 1
        if end - start < 2 or (first and (lower[first - 1].isalnum() or lower[first - 1] in "_:")) or lower[end : end + 1].isalnum():
            continue
        try:
            address = inet_pton(AF_INET6, lower[first:end])
        except (OSError, ValueError):
            continue
        if any(address):
            rest = _PREFIX.match(lower, end)
            assert rest is not None
            yield first, rest.end()


@rule
def mac(document: Document) -> Finds:
    if max(document.lower.count(":"), document.lower.count("-")) >= FEWEST_SIGNS:
        yield from (match.span() for match in matches(_MAC, document.lower))
