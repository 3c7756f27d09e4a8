"""The text that rules read: what looks alike is written alike, and every character knows where it stands in the original.

Wide, Arabic-Indic and other digits become 0 to 9, wide and mathematical letters plain ones, spaces of any width a space, hyphens of
any kind "-". Accents that follow their letter are joined with it. Zero-width characters, soft hyphens, directional marks and variation
selectors are left out. A text that needs none of this, such as one of ASCII alone, is its own shadow.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from functools import lru_cache

# U+2010 to U+2012, minus, and small and wide hyphens. En and em dashes stay: they are punctuation, except between digits.
_HYPHENS = dict.fromkeys("\u2010\u2011\u2012\u2212\ufe58\ufe63\uff0d", "-")
_EN_DASH_IN_NUMBER = re.compile(r"(?<=[0-9])\u2013(?=[0-9])")
# Combining marks that only decorate the letter before them: accents, Hebrew points, Arabic vowel signs.
_DECORATIONS = (
    (0x0300, 0x036F),
    (0x0591, 0x05C7),
    (0x064B, 0x065F),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0xFE20, 0xFE2F),
)
_SELECTORS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
# A run that may need more than one character for another: with the ASCII character that an accent may follow.
_RUN = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
# An empty string for a mark that is joined with the letter before it, None for what is left out altogether.
_JOINED = ""
PIECE = 1 << 16
MOST_LETTERS = 4  # that one character may stand for, as a ligature does


class Shadow:
    """A normalized copy of a text with the way back to it.

    Args:
        original: any string.

    Example:
        >>> shadow = Shadow("x Garci\u0301a y")
        >>> shadow.text, shadow.in_original(2, 8)
        ('x García y', (2, 9))
    """

    def __init__(self, original: str) -> None:
        self._original = original
        self._starts: list[int] | None = None
        self._has_marks = False
        if original.isascii():
            self.text = original
            return
        characters = set(original)
        # Lone characters that become one other character keep their places.
        if all(len(_plain(one) or "") == 1 and not _is_mark(one) for one in characters):
            table = {ord(one): _plain(one) for one in characters if _plain(one) != one}
            # In pieces, so that other threads run in between.
            self.text = "".join(original[at : at + PIECE].translate(table) for at in range(0, len(original), PIECE))
        else:
            self._has_marks = True
            self.text, self._starts = _normalized(original)
        if "\u2013" in characters:
            self.text = _EN_DASH_IN_NUMBER.sub("-", self.text)

    @property
    def is_original(self) -> bool:
        """Whether every place is the same in both."""
        return self._starts is None and not self._has_marks

    def in_original(self, start: int, end: int) -> tuple[int, int]:
        """The part of the original that `text[start:end]` stands for, with all marks on its last character."""
        if self._starts is not None and start < end:
            start, end = self._starts[start], self._starts[end - 1] + 1
        if self._has_marks:
            end = _after_marks(self._original, end)
        return start, end

    def from_original(self, start: int, end: int) -> tuple[int, int]:
        """The shortest part of `text` that covers `original[start:end]`; empty if all of that is left out."""
        if self._starts is None:
            return start, end
        first = bisect_left(self._starts, start)
        inside = first and (first == len(self._starts) or self._starts[first] != start)
        if inside and start < _after_marks(self._original, self._starts[first - 1] + 1):
            first = bisect_left(self._starts, self._starts[first - 1])  # a mark: begin with what it stands on
        return first, max(first, bisect_left(self._starts, end))


def _normalized(original: str) -> tuple[str, list[int]]:
    """(text, for each of its characters where it comes from)."""
    parts: list[str] = []
    starts: list[int] = []
    position = 0
    for run in _RUN.finditer(original):
        parts.append(original[position : run.start()])
        starts.extend(range(position, run.start()))
        for place in range(run.start(), run.end()):
            written = _plain(original[place])
            if written == _JOINED:
                if parts and parts[-1]:
                    parts[-1] = _with_mark(parts[-1], original[place])
            elif written is not None:
                parts.append(written)
                starts.extend([place] * len(written))
        position = run.end()
    parts.append(original[position:])
    starts.extend(range(position, len(original)))
    return "".join(parts), starts


def _with_mark(text: str, mark: str) -> str:
    """The text with a mark on its last character where there is such a character, else as it was."""
    joined = unicodedata.normalize("NFC", text[-1] + mark)
    return text[:-1] + joined if len(joined) == 1 else text


@lru_cache(maxsize=1 << 16)
def _plain(character: str) -> str | None:
    """What rules read for a character by itself: usually itself, one other character, or several."""
    if character.isascii():
        return character
    code, category = ord(character), unicodedata.category(character)
    if category == "Cf" or _within(code, _SELECTORS):
        return None
    if _within(code, _DECORATIONS) and category[0] == "M":
        return _JOINED
    if category == "Nd":
        return str(unicodedata.digit(character))
    if category == "Zs":
        return " "
    if character in _HYPHENS:
        return "-"
    if category[0] in "LNPS" and character not in "ªº":
        normal = unicodedata.normalize("NFKC", character)
        # Signs such as the ellipsis or a lone accent become several that mean something else to a rule.
        if len(normal) == 1 or (category[0] in "LN" and normal.isalnum() and len(normal) <= MOST_LETTERS):
            return normal
    return character


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character)[0] == "M"


def _after_marks(text: str, end: int) -> int:
    """`end`, or the end of the marks that follow there, also behind characters that are left out."""
    place = end
    while place < len(text):
        if _is_mark(text[place]):
            end = place + 1
        elif _plain(text[place]) is not None:
            break
        place += 1
    return end
