"""Names of ledgers. Keys that look alike would be different ledgers, each with the whole limit, so new ones must be plain."""

from __future__ import annotations

import re
import unicodedata

# Zero-width characters that `str.isprintable` accepts: Unicode's default ignorable ones, and the blank Braille pattern.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def plain_form(key: str) -> str:
    """What keys that look alike have in common: Unicode's form NFC, no invisible characters, no blanks at the ends."""
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", key)).strip()


def require_plain(key: str) -> str:
    """A key that a new ledger may have.

    Raises:
        ValueError: it is not in its plain form.
    """
    if key != plain_form(key):
        raise ValueError(
            "persist_key must be in Unicode form NFC, without invisible characters and without blanks at its ends, "
            f"got {key!a:.80}; a ledger that has this key already is opened by PrivacyBudget.reopen"
        )
    return key
