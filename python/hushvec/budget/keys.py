"""Names of ledgers. Keys that look alike would be different ledgers, each with the whole limit, so new ones must be plain."""

from __future__ import annotations

import re
import unicodedata

# Zero-width characters that `str.isprintable` accepts: Unicode's default ignorable ones, and the blank Braille pattern.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


_WORD = re.compile(r"[^\W\d_]+")
# Alphabets with letters that look like those of another one here, by the first word of their letters' names.
_ALPHABETS = frozenset({"LATIN", "GREEK", "CYRILLIC", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU"})


def plain_form(key: str) -> str:
    """What keys that look alike have in common: Unicode's form NFKC, in which wide letters, ligatures and the like are plain ones, no
    invisible characters, no blanks at the ends."""
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", key)).strip()


def require_plain(key: str) -> str:
    """A key that a new ledger may have.

    Raises:
        ValueError: it is not in its plain form, or a word of it mixes alphabets that look alike.
    """
    rest = f"got {key!a:.80}; a ledger that has this key already is opened by PrivacyBudget.reopen"
    if key != plain_form(key):
        raise ValueError(
            f"persist_key must be in Unicode form NFKC, without invisible characters and without blanks at its ends, {rest}"
        )
    for word in _WORD.findall(key):
        mixed = sorted(_ALPHABETS.intersection(unicodedata.name(letter, "").partition(" ")[0] for letter in word))
        if len(mixed) > 1:
            raise ValueError(f"persist_key must not mix the letters of {' and '.join(mixed).lower()} in one word, {rest}")
    return key
