"""A text, with data that several rules share, computed once on first use."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

from hushvec.text.pii.categories import PLACEHOLDER
from hushvec.text.pii.shadow import Shadow

Result = TypeVar("Result")

# Neither a letter nor a space, and nothing that a pattern looks for.
BLANK = "\0"

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d")
_ANY = re.compile(r"\w")

# A search holds the interpreter's lock until it finds something, so a long text is searched in windows: other threads run in between.
WINDOW = 1 << 16
BEYOND = 1 << 12  # how far a search may look past its window


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """`pattern.finditer(text)`, in searches of bounded length.

    A match that begins in a window may end anywhere. Only one that needs more than BEYOND characters to be one at all is missed.
    """
    position = 0
    while len(text) - position > WINDOW + BEYOND:
        first, position = position, position + WINDOW
        for found in pattern.finditer(text, first, position + BEYOND):
            if found.start() >= position:
                break
            if found.end() < position:
                yield found
                continue
            whole = pattern.match(text, found.start())  # may reach further than this search saw
            if whole is not None:
                yield whole
            position = found.start() + 1 if whole is None else whole.end()
            break
    yield from pattern.finditer(text, position)


class Document:
    """What rules read of a text: its shadow, and a lower-case copy of the same length, so that offsets agree.

    Offsets are those of the shadow; `shadow` leads back to the original. The letters of placeholders are blanked: no rule reads the
    word in "[PHONE]", so that redacting twice changes nothing.
    """

    def __init__(self, text: str) -> None:
        self.shadow = Shadow(text)
        self.readable = self.shadow.text
        self.text = PLACEHOLDER.sub(_blank, self.readable) if "[" in self.readable else self.readable
        self._results: dict[object, object] = {}

    @cached_property
    def placeholders(self) -> list[tuple[int, int]]:
        """Where the placeholders are."""
        return [match.span() for match in matches(PLACEHOLDER, self.readable)] if "[" in self.readable else []

    def once(self, function: Callable[[Document], Result]) -> Result:
        """The result of a function on this text, computed once."""
        if function not in self._results:
            self._results[function] = function(self)
        return self._results[function]  # type: ignore[return-value]

    @cached_property
    def lower(self) -> str:
        lowered = self.text.lower()
        if len(lowered) == len(self.text):
            return lowered
        return "".join(low if len(low := character.lower()) == 1 else character for character in self.text)

    @cached_property
    def has_words(self) -> bool:
        """Whether there is anything besides placeholders, punctuation and space."""
        return _ANY.search(self.text) is not None

    @cached_property
    def has_digits(self) -> bool:
        return _NUMBER.search(self.text) is not None

    @cached_property
    def all_lower(self) -> bool:
        """Whether the text has no capitals, so that names cannot be recognized by them.

        Those of placeholders count: a sentence whose only capitals have been redacted is not one written without.
        """
        return self.readable.islower()

    @cached_property
    def words_as_written(self) -> frozenset[str]:
        """Every word of the text with its capitals: a word in small letters here is no name that only looks rare."""
        return frozenset(match.group() for match in matches(_WORD, self.text))

    @cached_property
    def _ends_of_words(self) -> dict[str, list[int]]:
        positions: defaultdict[str, list[int]] = defaultdict(list)
        for match in matches(_WORD, self.lower):
            positions[match.group()].append(match.end())
        return positions

    def after_words(self, words: frozenset[str]) -> Iterator[tuple[str, int]]:
        """(word, where it ends) of every whole word in `words`, in lower case."""
        positions = self._ends_of_words
        for word in positions.keys() & words:  # reads the shorter one
            for end in positions[word]:
                yield word, end

    def words_ending(self, endings: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """(word, where it ends) of every word with one of these endings, in lower case."""
        for word, ends in self._ends_of_words.items():
            if word.endswith(endings):
                for end in ends:
                    yield word, end


def _blank(match: re.Match[str]) -> str:
    return f"[{BLANK * (len(match[0]) - 2)}]"
