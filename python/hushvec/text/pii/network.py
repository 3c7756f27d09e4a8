"""Rules for network addresses: IPv4, IPv6, MAC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from socket import AF_INET6, inet_pton

from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.rule import Rule

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
# The first digit is read before what stands left of it is looked at: this skips other characters fast.
_IPV4 = re.compile(rf"(?=[0-9])(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?!\w|\.[0-9])(?:/[0-9]{{1,2}}(?!\w))?")
# From the first colon to the end: two colons in a row, or seven, or an IPv4 address at the end.
_COLONS = re.compile(r":(?:[0-9a-f]{0,4}:)[0-9a-f:.]*")
_PREFIX = re.compile(r"(?:%[0-9a-z]{1,15})?(?:/[0-9]{1,3}(?!\w))?")
_MAC = re.compile(r"[0-9a-f](?<![\w:\-]\w)[0-9a-f]([:\-])(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}(?![\w:\-])")
_VERSION = re.compile(r"(?:version|release|firmware|build|\bv)[\s:.]{0,2}$")
_HEX = frozenset("0123456789abcdef")
LONGEST_IPV6 = 45
FEWEST_SIGNS = 5  # in a hardware address


def _ipv4(document: Document) -> Iterator[tuple[int, int]]:
    if not document.has_digits:
        return
    for match in matches(_IPV4, document.text):
        if not _VERSION.search(document.lower, max(0, match.start() - 12), match.start()):
            yield match.span()


def _ipv6(document: Document) -> Iterator[tuple[int, int]]:
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
        if (
            end - start < 2
            or (first and (lower[first - 1].isalnum() or lower[first - 1] in "_:"))
            or lower[end : end + 1].isalnum()
        ):
            continue
        try:
            address = inet_pton(AF_INET6, lower[first:end])
        except (OSError, ValueError):
            continue
        if any(address):
            rest = _PREFIX.match(lower, end)
            assert rest is not None
            yield first, rest.end()


def _macs(document: Document) -> Iterator[tuple[int, int]]:
    if max(document.lower.count(":"), document.lower.count("-")) < FEWEST_SIGNS:
        return
    for match in matches(_MAC, document.lower):
        yield match.span()


RULES = (
    Rule("ipv4", "ip address", 0.95, "four numbers up to 255, with /prefix; not after the word version", _ipv4),
    Rule(
        "ipv6", "ip address", 0.95, "parsed by the standard library, with %zone and /prefix; not the unspecified address", _ipv6
    ),
    Rule("mac", "hardware address", 0.9, "six pairs of hexadecimal digits between colons or hyphens", _macs),
)
