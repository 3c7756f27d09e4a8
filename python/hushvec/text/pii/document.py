"""Text as rules read it: normalized, data that several rules share, and the rules' own form.

A rule reads a shadow of the text, in which what looks alike is written alike (digits, letters, spaces and hyphens of any kind,
and accents that follow their letter) and invisible characters are left out. A text of ASCII alone is its own shadow. A text with
escapes, such as `%40`, `&#64;` and `\\u0040` for @, is read a second time, decoded.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

from hushvec.text.pii.categories import PLACEHOLDER

# U+2010 to U+2012, minus, and small and wide hyphens. En and em dashes stay: they are punctuation, except between digits.
_HYPHENS = dict.fromkeys("\u2010\u2011\u2012\u2212\ufe58\ufe63\uff0d", "-")
_EN_DASH_IN_NUMBER = re.compile(r"(?<=[0-9])\u2013(?=[0-9])")
# Combining marks that only decorate the letter before them: accents, Hebrew points, Arabic vowel signs.
_DECORATIONS = "[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_DECORATION = re.compile(_DECORATIONS)
_SELECTOR = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
# A run that may need more than one character for another: with the ASCII character that an accent may follow.
_RUN = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
# An empty string for a mark that is joined with the letter before it, None for what is left out altogether.
_JOINED = ""
PIECE = 1 << 16
_H = "[0-9a-fA-F]"
_CONTINUED = "%[89abAB]" + _H
ENTITY = re.compile(rf"&(?:#0*[0-9]{{1,7}};?|#[xX]0*{_H}{{1,6}};?|[a-zA-Z][a-zA-Z0-9]{{1,31}};)")
# What stands for one character: in addresses (a byte, or those of one letter in UTF-8), in HTML, in JSON and programs, in Markdown.
_ESCAPE = re.compile(
    rf"%(?:[0-7]{_H}|[cdCD]{_H}{_CONTINUED}|[eE]{_H}(?:{_CONTINUED}){{2}}|[fF][0-7](?:{_CONTINUED}){{3}}|[89a-fA-F]{_H})"
    rf"|[\\%]u[dD][89abAB]{_H}{{2}}[\\%]u[dD][c-fC-F]{_H}{{2}}|[\\%]u{_H}{{4}}|\\U{_H}{{8}}|\\u\{{{_H}{{1,6}}\}}|\\x{_H}{{2}}"
    rf"|\\[nrt!-/:-@\[-`{{-~]|{ENTITY.pattern}"
)
_CODE = re.compile(_H + "{1,8}")
_SPACES = {"n": "\n", "r": "\r", "t": "\t"}
DEEPEST = 4  # escapes of escapes, as in %2540
MOST_LETTERS = 4  # that one character may stand for, as a ligature does


def may_have_escapes(text: str) -> bool:
    return "%" in text or "&" in text or "\\" in text


class Shadow:
    """A normalized copy of a text with the way back to it.

    Example:
        >>> shadow = Shadow("x Garci\u0301a y")
        >>> shadow.text, shadow.in_original(2, 8)
        ('x García y', (2, 9))
    """

    def __init__(self, original: str, *, decoded: bool = False) -> None:
        self._places: tuple[Sequence[int], Sequence[int]] | None = None  # where each decoded character begins and ends
        for _ in range(DEEPEST if decoded and may_have_escapes(original) else 0):
            shorter, *places = unescaped(original, _ESCAPE, *self._places or ())
            if shorter == original:
                break
            original, self._places = shorter, (places[0], places[1])
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
        return self._starts is None and not self._has_marks and not self.is_decoded

    @property
    def is_decoded(self) -> bool:
        return self._places is not None

    def in_original(self, start: int, end: int) -> tuple[int, int]:
        """The part of the original that `text[start:end]` stands for, with all marks on its last character."""
        if self._starts is not None and start < end:
            start, end = self._starts[start], self._starts[end - 1] + 1
        if self._has_marks:
            end = _after_marks(self._original, end)
        if self._places is not None and start < end:
            start, end = self._places[0][start], self._places[1][end - 1]
        return start, end

    def from_original(self, start: int, end: int) -> tuple[int, int]:
        """The shortest part of `text` that covers `original[start:end]`; empty if all of that is left out."""
        if self._places is not None:
            start, end = bisect_right(self._places[1], start), bisect_left(self._places[0], end)
        if self._starts is None:
            return start, end
        first = bisect_left(self._starts, start)
        inside = first and (first == len(self._starts) or self._starts[first] != start)
        if inside and start < _after_marks(self._original, self._starts[first - 1] + 1):
            first = bisect_left(self._starts, self._starts[first - 1])  # a mark: begin with what it stands on
        return first, max(first, bisect_left(self._starts, end))


def unescaped(
    text: str, pattern: re.Pattern[str], starts: Sequence[int] | None = None, ends: Sequence[int] | None = None
) -> tuple[str, list[int], list[int]]:
    """The text with the characters that its escapes stand for, and where each of its characters begins and ends in the original.

    `starts` and `ends` are those of the text's own characters; None: it is the original.
    """
    starts = range(len(text)) if starts is None else starts
    ends = range(1, len(text) + 1) if ends is None else ends
    parts: list[str] = []
    firsts: list[int] = []
    lasts: list[int] = []
    position = 0
    for escape in matches(pattern, text):
        start, end = escape.span()
        meant = _meant(escape[0])
        parts += (text[position:start], meant)
        firsts += (*starts[position:start], *[starts[start]] * len(meant))
        lasts += (*ends[position:start], *[ends[end - 1]] * len(meant))
        position = end
    return "".join((*parts, text[position:])), [*firsts, *starts[position:]], [*lasts, *ends[position:]]


@lru_cache(maxsize=1 << 12)
def _meant(escape: str) -> str:
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "%" and escape[1] != "u":
        written = bytes.fromhex(escape.replace("%", ""))
        return written.decode("utf-8" if len(written) > 1 or written.isascii() else "latin-1", "replace")
    if escape[1] not in "uUx":
        return _SPACES.get(escape[1], escape[1])
    units = [int(unit, 16) for unit in _CODE.findall(escape)]
    joined = "".join(map(chr, units)) if max(units) <= 0x10FFFF else escape
    return joined.encode("utf-16", "surrogatepass").decode("utf-16") if len(units) == 2 else joined


def _normalized(original: str) -> tuple[str, list[int]]:
    parts: list[str] = []
    starts: list[int] = []
    position = 0
    for run in _RUN.finditer(original):
        parts.append(original[position : run.start()])
        starts.extend(range(position, run.start()))
        for place in range(run.start(), run.end()):
            written = _plain(original[place])
            if written == _JOINED:
                if parts and parts[-1]:  # where one character has letter and mark
                    joined = unicodedata.normalize("NFC", parts[-1][-1] + original[place])
                    parts[-1] = parts[-1][:-1] + joined if len(joined) == 1 else parts[-1]
            elif written is not None:
                parts.append(written)
                starts.extend([place] * len(written))
        position = run.end()
    parts.append(original[position:])
    starts.extend(range(position, len(original)))
    return "".join(parts), starts


@lru_cache(maxsize=1 << 16)
def _plain(character: str) -> str | None:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Cf" or _SELECTOR.match(character):
        return None
    if _DECORATION.match(character) and category[0] == "M":
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


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character)[0] == "M"


def _after_marks(text: str, end: int) -> int:
    place = end
    while place < len(text):
        if _is_mark(text[place]):
            end = place + 1
        elif _plain(text[place]) is not None:
            break
        place += 1
    return end


Result = TypeVar("Result")

# Neither a letter nor a space, and nothing that a pattern looks for.
BLANK = "\0"

_WORD = re.compile(r"[^\W\d_]+")
_OUTSIDE_ADDRESSES = re.compile(r"(?<![\w@.])[^\W\d_]+(?!\w|@|\.\w)")
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
    """A text as rules read it: its shadow, and a lower-case copy of the same length, so that offsets agree.

    Offsets are those of the shadow; `shadow` leads back to the original. The letters of placeholders are blanked: no rule reads the
    word in "[PHONE]", so that redacting twice changes nothing.
    """

    def __init__(self, text: str, shadow: Shadow | None = None, parts: Sequence[tuple[int, Document]] = ()) -> None:
        self._original = text
        self.parts = parts  # where each begins of texts that were joined, for rules that read it by itself
        self.shadow = Shadow(text) if shadow is None else shadow
        self.readable = self.shadow.text
        self.text = self.readable
        if "[" in self.readable:
            self.text = PLACEHOLDER.sub(lambda found: f"[{BLANK * (len(found[0]) - 2)}]", self.readable)
        self._results: dict[object, object] = {}

    @cached_property
    def readings(self) -> tuple[Document, ...]:
        """This document, and the same text decoded if it has escapes."""
        shadow = Shadow(self._original, decoded=True)
        return (self, Document(self._original, shadow)) if shadow.is_decoded else (self,)

    def place(self, reading: Document, start: int, end: int) -> tuple[int, int]:
        """The place in this document of a find in one of its readings."""
        if reading is self or start >= end:
            return start, end
        return self.shadow.from_original(*reading.shadow.in_original(start, end))

    @cached_property
    def separated(self) -> tuple[Document, ...]:
        """The text as it is, and where it has letters of scripts without capitals, a copy with a blank for each of them.

        Chinese, Japanese and Thai put no spaces between words, Korean and Arabic write endings and articles beside a number: in the
        copy, every pattern that asks for the end of a word finds one there.
        """
        beyond: Iterable[str] = () if self.text.isascii() else set(self.text)
        letters = {ord(one): BLANK for one in beyond if one >= "\u0590" and unicodedata.category(one) in ("Lo", "Lm")}
        if not letters:
            return (self,)
        apart = object.__new__(Document)
        apart._original, apart.shadow, apart.readable, apart.parts, apart._results = self._original, self.shadow, self.readable, (), {}
        apart.text = "".join(self.text[at : at + PIECE].translate(letters) for at in range(0, len(self.text), PIECE))
        return self, apart

    @cached_property
    def placeholders(self) -> list[tuple[int, int]]:
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
        """Whether the text, placeholders included, has no capitals, so that names cannot be recognized by them."""
        return self.readable.islower()

    @cached_property
    def words_as_written(self) -> frozenset[str]:
        """Every word of the text with its capitals: a word in small letters here is no name that only looks rare."""
        return frozenset(match.group() for match in matches(_OUTSIDE_ADDRESSES, self.text))

    @cached_property
    def _ends_of_words(self) -> dict[str, list[int]]:
        positions: defaultdict[str, list[int]] = defaultdict(list)
        for match in matches(_WORD, self.lower):
            positions[match.group()].append(match.end())
        return positions

    def after_words(self, words: frozenset[str]) -> Iterator[tuple[str, int, int]]:
        """(word, where it begins and ends) of every whole word in `words`, in lower case."""
        positions = self._ends_of_words
        for word in positions.keys() & words:  # reads the shorter one
            for end in positions[word]:
                yield word, end - len(word), end

    def words_ending(self, endings: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
        """The same of every word with one of these endings."""
        return self.after_words(frozenset(word for word in self._ends_of_words if word.endswith(endings)))


Finds = Iterator[tuple[int, int]]
Finder = Callable[[Document], Iterable[tuple[int, int]]]


@dataclass(frozen=True)
class Rule:
    """One way to find one kind of personal data.

    Args:
        score: how sure a find is, 0 to 1; breaks ties between spans of one length.
        summary: what it finds, and what it checks.
        finder: (start, end) of each find; the time must be linear in the length of any text.
        digits, capitals: only texts that have some are read.
        whole: what it finds in one place may depend on any other place of the text.
        apart: its copy with blanks for letters without capitals is searched, too.
    """

    name: str
    category: str
    score: float
    summary: str
    finder: Finder
    digits: bool = False
    capitals: bool = False
    whole: bool = False
    apart: bool = True

    def find(self, document: Document) -> Iterator[tuple[int, int]]:
        """What the finder finds; a place may come twice."""
        if (self.digits and not document.has_digits) or (self.capitals and document.all_lower):
            return
        for place, part in document.parts if self.whole and document.parts else ((0, document),):
            for reading in part.separated if self.apart else (part,):
                for start, end in self.finder(reading):
                    yield start + place, end + place


def rule(
    category: str, score: float, summary: str, *, digits: bool = False, capitals: bool = False, whole: bool = False
) -> Callable[[Finder], Rule]:
    """A decorator: the rule of a finder's name."""
    return lambda finder: Rule(finder.__name__, category, score, summary, finder, digits, capitals, whole)
