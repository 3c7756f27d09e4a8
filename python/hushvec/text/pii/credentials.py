"""Rules for credentials: keys, tokens, passwords; and for addresses of wallets, by their checksums (Bitcoin) or shape (Ethereum)."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from itertools import pairwise

from hushvec.text.pii.document import WALL, Document, Finds, at_words, matches, rule
from hushvec.text.pii.wordlists import word_list, words, words_in_order

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(rf"-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----|(?={WALL})")

# A word of the alphabets that keys are written in; each is read once, from its beginning.
_TOKEN = re.compile(r"[A-Za-z0-9_](?<![A-Za-z0-9_+/=.\-].)[A-Za-z0-9_+/=.\-]{17,}")
_KNOWN = re.compile(rf"\A(?:{'|'.join(words_in_order('known_tokens'))})$")

_WORDS = word_list("words_before_credentials")
# Only after a sign of assignment, or "is" and the like: "the key point" is not a key.
_ASSIGNED = re.compile(
    r"['\"]?(?:\s{0,2}(?:[:=]|:=|=>)\s{0,2}|\s(?:is|was|ist|to)\s{0,2}:?\s{0,2})(?:(?:bearer|basic|token)\s)?"
    r"(?:\"([^\"\n]{3,200})\"|'([^'\n]{3,200})'|([^\s'\"<>,;]{3,200}))"
)
_BEARER = re.compile(r"\s{1,2}([A-Za-z0-9_\-.~+/]{16,2000}={0,2})")
_SOFT = words("key pin token secret credential credentials bearer")
_KEY_BEFORE = re.compile(r"(?:api|access|secret|private|auth|encryption|signing|client|account|license|master)[\s_\-]{0,1}$")
_USER_INFO = re.compile(r"://(?<!\s...)[^\s/@:]{1,100}:([^\s/@]{1,200})@")

SHORTEST_RANDOM = 24
LONGEST_RANDOM = 1024
RANDOM_BITS = 3.6
REACH = 48
LENGTHS_OF_HASHES = frozenset({40, 56, 64, 96, 128})  # hexadecimal digits of SHA-1, SHA-2 and SHA-3; 32 are as often a key
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_HASH_OF_LETTERS = re.compile(r"(?<![a-z])(?:sha-?[0-9]{1,3}|md5|fingerprint)[ :=\-]{1,2}[a-z0-9+/]{0,8}$")
# A word for a hash, or a word for a key, also at the end of another word.
_HASH_OR_KEY = re.compile(
    rf"(?<![a-z])({'|'.join(words_in_order('words_before_hashes'))})(?![a-z])|(?:{'|'.join(words_in_order('words_before_keys'))})(?![a-z])"
)

_DIGIT = re.compile(r"[0-9]")

_BASE58_LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_BASE58 = re.compile(rf"[13mn2LM][{_BASE58_LETTERS}]{{25,34}}")
_BECH32 = re.compile(rf"1(?:(?<=bc1)|(?<=tb1)|(?<=ltc1))[{_BECH32_LETTERS}]{{11,71}}(?!\w)")
_ETHEREUM = re.compile(r"0(?<!\w.)x[0-9a-f]{40}(?!\w)")
_NETWORKS = ("ltc", "bc", "tb")
# What the checksum of BIP 173 and of BIP 350 leaves over.
_BECH32_LEFT = frozenset({1, 0x2BC830A3})
_BECH32_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


@rule
def private_key(document: Document) -> Finds:
    """To the end of the block, or of the text if the block does not end."""
    text, position = document.text, 0
    while (begin := _KEY_BEGIN.search(text, position)):
        end = _KEY_END.search(text, begin.end())
        position = end.end() if end else len(text)
        yield begin.start(), position


@rule
def known_token(document: Document) -> Finds:
    for start, token in document.once(long_tokens):
        if _KNOWN.match(token):
            yield start, start + len(token)


@rule
def random_token(document: Document) -> Finds:
    for start, token in document.once(long_tokens):
        name = token.rstrip("=").rfind("=") + 1  # of a variable, and the sign behind it
        start, token = start + name, token[name:]
        if SHORTEST_RANDOM <= len(token) <= LONGEST_RANDOM and _looks_random(token) and not _is_hash(document.lower, start, token):
            yield start, start + len(token)


def _is_hash(lower: str, start: int, token: str) -> bool:
    """As the last word for a hash or for a key before it says, on the same line; without one, by the length of a known hash."""
    said = lower[max(0, start - REACH) : start].rpartition("\n")[2]
    if not _HEX.fullmatch(token):
        return _HASH_OF_LETTERS.search(f"{said}{token[:8].lower()}") is not None
    words_before = _HASH_OR_KEY.findall(said)  # empty strings for those of keys
    return bool(words_before[-1]) if words_before else len(token) in LENGTHS_OF_HASHES


def long_tokens(document: Document) -> list[tuple[int, str]]:
    """Words that hold a digit, without the punctuation of the sentence."""
    tokens = ((match.start(), match.group().rstrip(".-")) for match in matches(_TOKEN, document.text))
    return [(start, token) for start, token in tokens if _DIGIT.search(token)]


def _looks_random(token: str) -> bool:
    """Capitals, small letters and digits mixed closely, at least 3.6 bits per character; or 32 or more hexadecimal digits."""
    if len(token) >= 32 and _HEX.fullmatch(token) and not token.isdigit():
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


@at_words(_WORDS)
def assigned_secret(document: Document, word: str, _: int, end: int) -> Finds:
    if word == "bearer":
        if bearer := _BEARER.match(document.text, end):
            yield bearer.span(1)
    elif match := _ASSIGNED.match(document.lower, end):
        start = match.start(match.lastindex)  # type: ignore[arg-type]
        stop = start + len(match[match.lastindex].rstrip(".)]}"))  # type: ignore[index]
        if _is_value(word, document.lower, end, match.group(), start, stop):
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


@rule
def url_password(document: Document) -> Finds:
    return (match.span(1) for match in matches(_USER_INFO, document.text))


@rule
def wallet(document: Document) -> Finds:
    for start, token in document.once(long_tokens):
        if _BASE58.fullmatch(token) and base58_holds(token):
            yield start, start + len(token)
    lower = document.lower
    for match in matches(_BECH32, lower):
        network = next(name for name in _NETWORKS if lower.endswith(name, 0, match.start()))
        start = match.start() - len(network)
        if not (start and lower[start - 1].isalnum()) and bech32_holds(network, lower[match.start() + 1 : match.end()]):
            yield start, match.end()
    yield from (match.span() for match in matches(_ETHEREUM, lower))


def base58_holds(address: str) -> bool:
    """The checksum of Base58Check: the first four bytes of a double SHA-256 over the 21 bytes before them."""
    value = 0
    for letter in address:
        value = value * 58 + _BASE58_LETTERS.index(letter)
    if value >= 1 << 200:
        return False
    packed = value.to_bytes(25, "big")
    return hashlib.sha256(hashlib.sha256(packed[:21]).digest()).digest()[:4] == packed[21:]


def bech32_holds(network: str, letters: str) -> bool:
    """The checksum of Bech32 (BIP 173) or Bech32m (BIP 350) over the name of the network and the letters behind its 1."""
    values = [ord(letter) >> 5 for letter in network] + [0] + [ord(letter) & 31 for letter in network]
    values += [_BECH32_LETTERS.index(letter) for letter in letters]
    left = 1
    for value in values:
        top = left >> 25
        left = (left & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_BECH32_GENERATOR):
            if top >> bit & 1:
                left ^= generator
    return left in _BECH32_LEFT
