"""Words as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hushvec._util import validate


def sequence_of(words: Any) -> Sequence[Any]:
    if isinstance(words, np.ndarray):
        listed: list[Any] = words.ravel().tolist()
        return listed
    if not isinstance(words, Sequence) or isinstance(words, bytes | bytearray):
        raise TypeError(f"words must be a str or a sequence of str, got {validate.kind(words)}")
    return words


def require_words(name: str, words: Sequence[Any]) -> None:
    """Strings that have a UTF-8 form."""
    for place, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"{name} must be strings, got {validate.kind(word)} at position {place}")
        if not word.isascii() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ValueError(f"{name} must be text that UTF-8 can hold, got {word!r:.80} at position {place}")
