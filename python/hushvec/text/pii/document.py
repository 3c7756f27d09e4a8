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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate, islice
from operator import methodcaller
from types import MappingProxyType
from typing import TypeVar

from hushvec.text.pii.categories import PLACEHOLDER
from hushvec.text.pii.wordlists import rows

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
Places = tuple[Sequence[int], Sequence[int]]  # where each character begins and ends
_SPACES = {"n": "\n", "r": "\r", "t": "\t"}
DEEPEST = 4  # escapes of escapes, as in %2540
FEW = 24  # different characters that are replaced one after the other
MOST_LETTERS = 4  # that one character may stand for, as a ligature does


def has_escapes(text: str) -> bool:
    return ("%" in text or "&" in text or "\\" in text) and _ESCAPE.search(text) is not None


class Shadow:
    """A normalized copy of a text with the way back to it."""

    def __init__(self, original: str, *, decoded: bool = False) -> None:
        within: Places | None = None
        for _ in range(DEEPEST if decoded and has_escapes(original) else 0):
            shorter, *places = unescaped(original, _ESCAPE, *within or ())
            if shorter == original:
                break
            original, within = shorter, (places[0], places[1])
        self._before, self._within, self._moves = original, within, False
        self.text = original
        if original.isascii():
            return
        characters = set(original)
        table = {one: plain for one in characters if (plain := _plain(one)) != one}
        # Lone characters that become one other character keep their places.
        self._moves = any(len(plain or "") != 1 for plain in table.values()) or any(map(_is_mark, characters))
        if self._moves and table:
            self.text, *self._normal = _normalized(original)
        elif len(table) <= FEW and table.keys().isdisjoint(table.values()):  # faster
            for one, plain in table.items():
                self.text = self.text.replace(one, plain or "")
        else:
            self.text = "".join(pieces(original, methodcaller("translate", str.maketrans(table))))
        if "\u2013" in characters:
            self.text = _EN_DASH_IN_NUMBER.sub("-", self.text)

    @cached_property
    def _normal(self) -> Sequence[list[int]]:
        return _normalized(self._before)[1:]

    @cached_property
    def _places(self) -> Places | None:
        """Where each character of the text begins and ends in the original; None: where it does here."""
        if not self._moves or self._within is None:
            return (self._normal[0], self._normal[1]) if self._moves else self._within
        return [self._within[0][one] for one in self._normal[0]], [self._within[1][one - 1] for one in self._normal[1]]

    @property
    def is_decoded(self) -> bool:
        return self._within is not None

    @property
    def is_original(self) -> bool:
        """Whether every place is the same in both."""
        return self._places is None

    def in_original(self, start: int, end: int) -> tuple[int, int]:
        """The part of the original that `text[start:end]` stands for, with all marks on its last character."""
        if self._places is None or start >= end:
            return start, end
        return self._places[0][start], self._places[1][end - 1]

    def from_original(self, start: int, end: int) -> tuple[int, int]:
        """The shortest part of `text` that covers `original[start:end]`; empty if all of that is left out."""
        if self._places is None:
            return start, end
        first = bisect_right(self._places[1], start)
        return first, max(first, bisect_left(self._places[0], end))


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
        for places, own, of_escape in ((firsts, starts, starts[start]), (lasts, ends, ends[end - 1])):
            places += own[position:start]
            places += [of_escape] * len(meant)
        position = end
    firsts += starts[position:]
    lasts += ends[position:]
    return "".join((*parts, text[position:])), firsts, lasts


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


def _normalized(original: str) -> tuple[str, list[int], list[int]]:
    """The text as rules read it, and where each of its characters begins and ends, with the marks on it."""
    parts: list[str] = []
    starts: list[int] = []
    ends = list(range(1, len(original) + 1))  # of the characters of the original
    position = 0
    for run in _RUN.finditer(original):
        parts.append(original[position : run.start()])
        starts.extend(range(position, run.start()))
        position, reach = run.end(), 0
        for place in reversed(range(*run.span())):
            if _is_mark(original[place]):
                ends[place] = reach = max(reach, place + 1)
            elif _plain(original[place]) is not None:
                ends[place], reach = max(reach, place + 1), 0
        for place in range(*run.span()):
            written = _plain(original[place])
            if written == _JOINED:
                if parts and parts[-1]:  # where one character has letter and mark
                    joined = unicodedata.normalize("NFC", parts[-1][-1] + original[place])
                    parts[-1] = parts[-1][:-1] + joined if len(joined) == 1 else parts[-1]
            elif written is not None:
                parts.append(written)
                starts.extend([place] * len(written))
    parts.append(original[position:])
    starts.extend(range(position, len(original)))
    return "".join(parts), starts, [ends[place] for place in starts]


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


Result = TypeVar("Result")

# Neither a letter nor a space, and nothing that a pattern looks for.
BLANK = "\0"
FIELD = "\x1f"  # around the name of the field before a value, see `fields`
# Between texts that are read together: no pattern reaches over it. Line ends on both sides, as around a text by itself.
WALL = f"\n\n\n{BLANK}\n"

_OUTSIDE_ADDRESSES = re.compile(r"(?<![\w@.])[^\W\d_]+(?!\w|@|\.\w)")
_WORD = re.compile(r"([^\W\d_]+)")
_SPACE = re.compile(r"\s")
_SIGN = "\1"  # for a letter without capitals
_SIGNS = re.compile(f"{_SIGN}+")
_NUMBER = re.compile(r"\d")
MOST_DIGITS = 12  # that a rule asks for
_ANY = re.compile(r"\w")

# A search holds the interpreter's lock until it finds something, so a long text is searched in windows: other threads run in between.
WINDOW = 1 << 16
BEYOND = 1 << 12  # how far a search may look past its window
# Characters beside what is different in another reading of the text: a find so near is new, and its rule sees so many.
NEAR, SEEN = 128, 512


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """`pattern.finditer(text)`, in searches of bounded length.

    A match that begins in a window may end anywhere. Only one that needs more than BEYOND characters to be one at all is missed.
    """
    return pattern.finditer(text) if len(text) <= WINDOW + BEYOND else _in_windows(pattern, text)


def _in_windows(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
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


def pieces(text: str, function: Callable[[str], Result]) -> Iterator[Result]:
    """The results of a function on the parts of a text that end before a space, so that other threads run in between."""
    position = 0
    while position < len(text):
        space = _SPACE.search(text, min(position + WINDOW, len(text)))
        first, position = position, space.start() if space else len(text)
        yield function(text[first:position])


class Document:
    """A text as rules read it: its shadow, and a lower-case copy of the same length, so that offsets agree.

    Offsets are those of the shadow; `shadow` leads back to the original. The letters of placeholders are blanked: no rule reads the
    word in "[PHONE]", so that redacting twice changes nothing.
    """

    def __init__(
        self, text: str, shadow: Shadow | None = None, parts: Sequence[tuple[int, int]] = (), readable: str | None = None
    ) -> None:
        self._original = text
        self.shadow = Shadow(text) if shadow is None else shadow
        self.readable = self.shadow.text if readable is None else readable
        # Where each begins and ends of texts that were joined; what stands in one must not change what is found in another.
        self.parts = parts or ((0, len(self.readable)),)
        self.text = self.readable
        if "[" in self.readable:
            self.text = PLACEHOLDER.sub(lambda found: f"[{BLANK * (len(found[0]) - 2)}]", self.readable)
        self.all_lower = self.readable.islower()  # placeholders included: names cannot be recognized by capitals
        self.around: tuple[Document, ...] = (self,)  # with the text as it is, for rules that look for a word anywhere
        # Of a reading, which shows parts of the text: where they begin in it and in the text, and what is different in the text.
        self._shown, self._places, self._changed = [0], [0], [(0, len(self.readable))]
        self._results: dict[object, object] = {}

    @cached_property
    def decoded(self) -> Document | None:
        """The same text decoded; None if it has no escapes."""
        shadow = Shadow(self._original, decoded=True) if has_escapes(self._original) else self.shadow
        return Document(self._original, shadow) if shadow.is_decoded else None

    @cached_property
    def readings(self) -> tuple[Document, ...]:
        """This document; where it has letters of scripts without capitals, a copy with a blank for each of them; and both decoded.

        Chinese, Japanese and Thai put no spaces between words, Korean and Arabic write endings and articles beside a number: in the
        copy, every pattern that asks for the end of a word finds one there. All but the first show what is near a difference alone.
        """
        found = [self]
        if self.decoded:
            escapes = [self.decoded.shadow.from_original(*escape.span()) for escape in matches(_ESCAPE, self._original)]
            found.append(self._reading(self.decoded, escapes))
        for whole in (self, self.decoded) if self.decoded else (self,):
            shown = found[-1] if whole is self.decoded else whole
            beyond = () if shown.text.isascii() else set(shown.text)
            letters = [ord(one) for one in beyond if one >= "\u0590" and unicodedata.category(one) in ("Lo", "Lm")]
            if letters:
                signs = dict.fromkeys(letters, _SIGN)
                marked = "".join(pieces(whole.text, methodcaller("translate", signs)))
                blanks = dict.fromkeys(letters, BLANK)
                found.append(self._reading(whole, [run.span() for run in matches(_SIGNS, marked)], blanks))
        return tuple(found)

    def _reading(self, whole: Document, changed: list[tuple[int, int]], blanks: Mapping[int, str] = MappingProxyType({})) -> Document:
        """The words of `whole` near these places, with walls between what is far from each other."""
        shown, position = list[tuple[int, int]](), 0
        for start, end in changed:
            if end + SEEN > position:
                first = max(position, start - SEEN)
                first = max(whole.text.rfind(" ", position, first), whole.text.rfind("\n", position, first)) + 1 or position
                space = _SPACE.search(whole.text, min(end + SEEN, len(whole.text)))
                joins = shown.pop()[0] if shown and first == position else first
                shown.append((joins, position := space.start() if space else len(whole.text)))
        joined = WALL.join(whole.text[first:last] for first, last in shown)
        copy = Document(self._original, whole.shadow, whole.parts, joined.translate(blanks) if blanks else joined)
        copy.all_lower, copy.around = whole.all_lower, (copy, self)
        copy._shown = list(accumulate((last - first + len(WALL) for first, last in shown[:-1]), initial=0))
        copy._places, copy._changed = [first for first, _ in shown], changed
        return copy

    def _in_whole(self, position: int) -> int:
        place = bisect_right(self._shown, position) - 1
        return self._places[place] + position - self._shown[place]

    def part(self, position: int) -> tuple[int, int]:
        """Where the one of the joined texts begins and ends in which this place is."""
        return self.parts[bisect_right(self.parts, (self._in_whole(position), len(self.readable))) - 1]

    def place(self, reading: Document, start: int, end: int) -> tuple[int, int]:
        """The place in this document of a find in one of its readings; empty if it is far from everything that is different there."""
        if reading is self or start >= end:
            return start, end
        start, end = reading._in_whole(start), reading._in_whole(end - 1) + 1
        near = bisect_right(reading._changed, (end + NEAR, end + NEAR)) - 1
        if near < 0 or reading._changed[near][1] < start - NEAR:
            return start, start
        return (start, end) if reading.shadow is self.shadow else self.shadow.from_original(*reading.shadow.in_original(start, end))

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
    def signs(self) -> frozenset[str]:
        """What rules need that the text has: capitals, numbers of digits, and signs."""
        found = [name for name, sign in _needed().items() if sign in self.text]
        found += (f"digits:{number}" for number, _ in enumerate(islice(_NUMBER.finditer(self.text), MOST_DIGITS), 1))
        return frozenset(found if self.all_lower else (*found, "capitals"))

    def in_small_letters(self, words: frozenset[str]) -> set[tuple[tuple[int, int], str]]:
        """(part, word) of words that are written so: no names that only look rare."""
        return {
            (one.part(start), word)
            for one in self.around
            for word, start, _ in one.after_words(words)
            if one.text.startswith(word, start) and _OUTSIDE_ADDRESSES.match(one.text, start)
        }

    @cached_property
    def words(self) -> dict[str, list[int]]:
        """Every word in lower case, and where it ends."""
        positions: defaultdict[str, list[int]] = defaultdict(list)
        end = 0
        for piece in pieces(self.lower, _WORD.split):
            for between, word in zip(piece[::2], piece[1::2]):
                end += len(between) + len(word)
                positions[word].append(end)
            end += len(piece[-1])
        return positions

    def after_words(self, words: frozenset[str]) -> Iterator[tuple[str, int, int]]:
        """(word, where it begins and ends) of every whole word in `words`, in lower case."""
        positions = self.words
        fewer, more = (words, positions) if len(words) < len(positions) else (positions, words)
        for word in fewer:
            if word in more:
                for end in positions[word]:
                    yield word, end - len(word), end

    def words_ending(self, endings: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
        """The same of every word with one of these endings."""
        return self.after_words(frozenset(word for word in self.words if word.endswith(endings)))


Finds = Iterator[tuple[int, int]]
Finder = Callable[[Document], Iterable[tuple[int, int]]]
AtWord = Callable[[Document, str, int, int], Iterable[tuple[int, int]]]  # the word, and where it begins and ends


@cache
def _needed() -> dict[str, str]:
    """Name -> sign of all that a rule of the table may need, besides digits and capitals."""
    names = {name for _, _, needed, _ in filter(None, rows("rules").values()) for name in needed.split()}
    return {name: FIELD if name == "field" else name for name in names if name != "capitals" and not name.startswith("digits:")}


@dataclass(frozen=True, eq=False)
class Rule:
    """One way to find one kind of personal data.

    Args:
        score: how sure a find is, 0 to 1; breaks ties between spans of one length.
        summary: what it finds, and what it checks.
        finder: (start, end) of each find; the time must be linear in the length of any text.
        needs: only texts that have all of these are read: "capitals", "digits:4" for four digits anywhere, signs themselves.
        words: only texts that have one of them are read; empty: all.
        apart: reads what is beside letters without capitals, too; otherwise all of the text as it is, and decoded.
    """

    name: str
    category: str
    score: float
    summary: str
    finder: Finder
    needs: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    apart: bool = True

    def find(self, document: Document) -> Iterator[tuple[int, int]]:
        """What the finder finds in every reading; a place may come twice."""
        for reading in document.readings if self.apart else filter(None, (document, document.decoded)):
            if self.needs <= reading.signs:
                yield from (document.place(reading, *one) for one in self.finder(reading))


class Prefilter:
    """Which of the rules may find something in a text: one look at its words and signs for all of them."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [(place, rule) for place, rule in enumerate(rules) if rule.apart]
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, rule in self._rules:
            for word in rule.words:
                self._places[word].append(place)

    def __call__(self, reading: Document) -> Iterator[tuple[int, Rule]]:
        """The rules, and their places among all."""
        named = {place for word in self._places.keys() & reading.words.keys() for place in self._places[word]}
        signs = reading.signs
        return ((place, rule) for place, rule in self._rules if (place in named or not rule.words) and rule.needs <= signs)


def rule(finder: Finder) -> Rule:
    """A decorator: the rule of a finder's name, of which the table `rules` of data/words.txt says the rest."""
    return listed_rule(finder.__name__, finder)


def rule_for(words: frozenset[str]) -> Callable[[Finder], Rule]:
    """The same for texts that have one of these words."""
    return lambda finder: listed_rule(finder.__name__, finder, words)


def at_words(words: frozenset[str], name: str = "") -> Callable[[AtWord], Rule]:
    """A decorator: the rule of a function that looks around each of these words."""

    def decorate(look: AtWord) -> Rule:
        find = lambda document: (found for one in document.after_words(words) for found in look(document, *one))
        return listed_rule(name or look.__name__, find, words)

    return decorate


def listed_rule(name: str, finder: Finder, words: frozenset[str] = frozenset()) -> Rule:
    category, score, needed, summary = rows("rules")[name]
    return Rule(name, category, float(score), summary, finder, frozenset(needed.split()), words)
