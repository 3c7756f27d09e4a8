"""Rules for wallet addresses of cryptocurrencies: Bitcoin, checked by their checksums, and Ethereum by its shape."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from hushvec.text.pii.credentials import long_tokens
from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.rule import Rule

_BASE58_LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

_BASE58 = re.compile(rf"[13mn2LM][{_BASE58_LETTERS}]{{25,34}}")
_BECH32 = re.compile(rf"1(?:(?<=bc1)|(?<=tb1)|(?<=ltc1))[{_BECH32_LETTERS}]{{11,71}}(?!\w)")
_ETHEREUM = re.compile(r"0(?<!\w.)x[0-9a-f]{40}(?!\w)")
_NETWORKS = ("ltc", "bc", "tb")

# What the checksum of BIP 173 and of BIP 350 leaves over.
_BECH32_LEFT = frozenset({1, 0x2BC830A3})
_BECH32_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def _wallets(document: Document) -> Iterator[tuple[int, int]]:
    if not document.has_digits:
        return
    for start, token in document.once(long_tokens):
        if _BASE58.fullmatch(token) and base58_holds(token):
            yield start, start + len(token)
    lower = document.lower
    for match in matches(_BECH32, lower):
        network = next(name for name in _NETWORKS if lower.endswith(name, 0, match.start()))
        start = match.start() - len(network)
        if not (start and lower[start - 1].isalnum()) and bech32_holds(network, lower[match.start() + 1 : match.end()]):
            yield start, match.end()
    for match in matches(_ETHEREUM, lower):
        yield match.span()


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


RULES = (
    Rule("wallet", "wallet address", 1.0, "Bitcoin and Litecoin by the checksums of their addresses, 0x and 40 hex digits", _wallets),
)
