"""What names a measurement on disk: a digest of everything that its result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Raised when a change of this package changes what is measured: results of older versions are then measured anew.
VERSION = 1

_SEED_DIGITS = 15  # hexadecimal


def digest_of(key: Mapping[str, Any]) -> str:
    """SHA-256 of a key that is ready for JSON, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def noise_seed(digest: str) -> int:
    """A stream for each measurement, so that it gives the same result whichever others were made before."""
    return int(digest[:_SEED_DIGITS], 16)
