"""Rules for credentials: keys, tokens, passwords."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.letters import words
from hushvec.text.pii.rule import Rule

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")

# A word of the alphabets that keys are written in; each is read once, from its beginning.
_TOKEN = re.compile(r"[A-Za-z0-9_](?<![A-Za-z0-9_+/=.\-].)[A-Za-z0-9_+/=.\-]{17,}")
_KNOWN = re.compile(
    r"\A(?:(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}$"
    r"|gh[pousr]_[A-Za-z0-9]{36,}$|github_pat_[A-Za-z0-9_]{22,}$|glpat-[A-Za-z0-9_\-]{20,}$"
    r"|sk-[A-Za-z0-9_\-]{20,}$|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}$|pk_(?:live|test)_[A-Za-z0-9]{16,}$"
    r"|xox[abeoprs]-[A-Za-z0-9\-]{10,}$|AIza[A-Za-z0-9_\-]{35}$|ya29\.[A-Za-z0-9_\-]{20,}$"
    r"|npm_[A-Za-z0-9]{36}$|pypi-[A-Za-z0-9_\-]{16,}$|hf_[A-Za-z0-9]{30,}$|SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}$"
    r"|dop_v1_[a-f0-9]{64}$|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}$|key-[a-f0-9]{32}$"
    r"|eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*$)"
)

_WORDS = words(
    "password passwd pwd passphrase passcode passwort kennwort secret token apikey key pin pincode bearer credential credentials"
)
# Only after a sign of assignment, or "is" and the like: "the key point" is not a key.
_ASSIGNED = re.compile(
    r"['\"]?(?:\s{0,2}(?:[:=]|:=|=>)\s{0,2}|\s(?:is|was|ist|to)\s{0,2}:?\s{0,2})(?:(?:bearer|basic|token)\s)?"
    r"(?:\"([^\"\n]{3,200})\"|'([^'\n]{3,200})'|([^\s'\"<>,;]{3,200}))"
)
_BEARER = re.compile(r"\s{1,2}([A-Za-z0-9_\-.~+/]{16,2000}={0,2})")
_SOFT = frozenset({"key", "pin", "token", "secret", "credential", "credentials", "bearer"})
_KEY_BEFORE = re.compile(r"(?:api|access|secret|private|auth|encryption|signing|client|account|license|master)[\s_\-]{0,1}$")
_USER_INFO = re.compile(r"://(?<!\s...)[^\s/@:]{1,100}:([^\s/@]{1,200})@")

SHORTEST_RANDOM = 24
LONGEST_RANDOM = 1024
RANDOM_BITS = 3.6


def _private_keys(document: Document) -> Iterator[tuple[int, int]]:
    """To the end of the block, or of the text if the block does not end."""
    text, position = document.text, 0
    if "-----BEGIN" not in text:
        return
    while begin := _KEY_BEGIN.search(text, position):
        end = _KEY_END.search(text, begin.end())
        position = end.end() if end else len(text)
        yield begin.start(), position


def _tokens(document: Document) -> Iterator[tuple[int, int]]:
    for start, token in document.once(long_tokens):
        if _KNOWN.match(token):
            yield start, start + len(token)


def _random_tokens(document: Document) -> Iterator[tuple[int, int]]:
    for start, token in document.once(long_tokens):
        if SHORTEST_RANDOM <= len(token) <= LONGEST_RANDOM and _looks_random(token):
            yield start, start + len(token)


def long_tokens(document: Document) -> list[tuple[int, str]]:
    """Words that hold a digit, without the punctuation of the sentence."""
    if not document.has_digits:
        return []
    words = ((match.start(), match.group().rstrip(".-")) for match in matches(_TOKEN, document.text))
    return [(start, token) for start, token in words if _DIGIT.search(token)]


_DIGIT = re.compile(r"[0-9]")


def _looks_random(token: str) -> bool:
    """Capitals, small letters and digits mixed closely, at least 3.6 bits per character; or 32 or more hexadecimal digits."""
    if len(token) >= 32 and re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", token) and not token.isdigit():
        return len(set(token)) > 8
    if "." in token or token.count("/") > 2 or token.count("-") > 2 or token.count("_") > 2:
        return False
    kinds = [("a" if c.islower() else "A" if c.isupper() else "1" if c.isdigit() else "-") for c in token]
    counts = Counter(kinds)
    if min(counts["a"], counts["A"], counts["1"]) < 2:
        return False
    changes = sum(one != two for one, two in pairwise(kinds))
    if changes < len(token) / 3:
        return False
    length = len(token)
    bits = -sum(count / length * math.log2(count / length) for count in Counter(token).values())
    return bits >= RANDOM_BITS


def _assigned(document: Document) -> Iterator[tuple[int, int]]:
    text, lower = document.text, document.lower
    for word, end in document.after_words(_WORDS):
        if word == "bearer":
            match = _BEARER.match(text, end)
            if match:
                yield match.span(1)
            continue
        match = _ASSIGNED.match(lower, end)
        if match is None or match.lastindex is None:
            continue
        start, stop = match.span(match.lastindex)
        while stop > start and lower[stop - 1] in ".)]}":
            stop -= 1
        if _is_value(word, lower, end, match.group(), start, stop):
            yield start, stop


def _is_value(word: str, lower: str, end: int, assignment: str, start: int, stop: int) -> bool:
    value = lower[start:stop]
    if word not in _SOFT:
        spoken = not any(sign in assignment[: start - end] for sign in ":=")
        return stop - start >= 3 and (not spoken or not value.isalpha() or len(value) >= 16)
    if word == "pin":
        return value.isdigit() and 4 <= len(value) <= 8
    before = lower[max(0, end - len(word) - 12) : end - len(word)]
    needed = 6 if _KEY_BEFORE.search(before) else 12
    return len(value) >= needed and any(character.isdigit() for character in value)


def _user_info(document: Document) -> Iterator[tuple[int, int]]:
    if "://" not in document.text:
        return
    for match in matches(_USER_INFO, document.text):
        yield match.span(1)


RULES = (
    Rule("private_key", "credential", 1.0, "PEM and OpenPGP private key blocks, to their end", _private_keys),
    Rule("known_token", "credential", 1.0, "keys by the known beginnings of their issuers, JSON web tokens", _tokens),
    Rule("assigned_secret", "credential", 0.85, "the value after password =, api key:, Bearer, PIN is", _assigned),
    Rule("url_password", "credential", 0.9, "the password in scheme://user:password@host", _user_info),
    Rule(
        "random_token",
        "credential",
        0.6,
        "24 or more mixed letters and digits without pattern; 32 or more hex digits",
        _random_tokens,
    ),
)
