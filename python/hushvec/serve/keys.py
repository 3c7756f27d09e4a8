"""API keys: made once, kept as hashes, compared in constant time.

A key has 256 random bits, so one SHA-256 is enough: there is no dictionary to try.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "hv_"
HASH_PATTERN = r"^sha256:[0-9a-f]{64}$"


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def owner_of(key: str, hashes: Iterable[tuple[str, str]]) -> str | None:
    """Return the name that a key's hash stands beside, among pairs of names and hashes. Every pair is compared, whichever fits."""
    given = hash_of(key).encode()
    found = None
    for name, known in hashes:
        if hmac.compare_digest(given, known.encode()):
            found = name
    return found
