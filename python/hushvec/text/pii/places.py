"""Rules for places: countries and cities by lists, others by the words before them and by the state or the postal code behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.letters import WORD, start_of_name
from hushvec.text.pii.rule import Rule
from hushvec.text.pii.wordlists import NOT_NAMES, cities, countries

_STATES = (
    "AL|AK|AZ|AR|CA|CO|CT|DE|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ|NM|NY|NC|ND|OH|OK|OR|PA|RI|SC|SD|TN|TX|"
    "UT|VT|VA|WA|WV|WI|WY|DC|AB|BC|MB|NB|NL|NS|ON|PE|QC|SK|NSW|VIC|QLD|TAS|ACT"
)
_STATE = re.compile(rf", (?:{_STATES})(?![\w.])(?: [0-9]{{5}}(?:-[0-9]{{4}})?(?!\w))?")
_PLACE = re.compile(
    rf"(?:(?:Mount|Saint|St\.|Lake|North|South|East|West|New|San|Santa|Los|Las|La|Le|El)[ ])?{WORD}"
    rf"(?:[ ](?:(?:de|la|del|upon|am|an der|do)[ ])?{WORD}){{0,2}}"
)
_VERBS = re.compile(
    r"(?:live|lives|lived|living|reside|resides|residing|born|raised|based|located|move|moves|moved|moving|travel|travels|traveled|travelled|"
    r"traveling|travelling|fly|flying|flew|returned|return|arrived|arrive|arriving|relocated|relocating|stay|staying|stayed|hometown|is|"
    r"originally|am|i'm|studied|grew up|trip|vacation|holiday|headquartered|currently|here)"
    r"(?: (?:here|back|up|down|now|currently|and raised)){0,2} $"
)
_PREPOSITIONS = frozenset({"in", "from", "to", "at", "near", "of"})
_KIND_OF_PLACE = re.compile(r"\b(?:village|town|city|hamlet|suburb|district|municipality|parish|county|province|township) $")
_FROM_ONLY = re.compile(r"(?:\bis|\bam|i'm|originally|currently|here) $")


_ZIP_BEHIND = re.compile(r",? [0-9]{5}(?:-[0-9]{4})?(?!\w)")
_PLACE_BEFORE = re.compile(r"(?:\b(?:in|near|around|from|to|at|via|outside|inside|through|of downtown|downtown|visit(?:s|ed|ing)?)) $")


@cache
def _countries_by_first_word() -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    return _by_first_word(countries())


@cache
def _cities_by_first_word() -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    return _by_first_word(cities())


def _by_first_word(names: tuple[str, ...]) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """(first word in lower case -> the names that begin with it, longest first; all first words)."""
    found: dict[str, list[str]] = {}
    for name in sorted(names, key=len, reverse=True):
        found.setdefault(re.split(r"[ \-.]", name)[0].lower(), []).append(name)
    return {word: tuple(listed) for word, listed in found.items()}, frozenset(found)


def _countries(document: Document) -> Iterator[tuple[int, int]]:
    """Capitalized as in the list, or in a text without capitals."""
    return _listed(document, *_countries_by_first_word())


def _listed(document: Document, names: dict[str, tuple[str, ...]], first_words: frozenset[str]) -> Iterator[tuple[int, int]]:
    text = document.text
    for word, end in document.after_words(first_words):
        start = end - len(word)
        for name in names[word]:
            there = text[start : start + len(name)]
            last = start + len(name)
            if (there == name or (document.all_lower and there == name.lower())) and not text[last : last + 1].isalnum():
                yield start, last
                break


def _cities(document: Document) -> Iterator[tuple[int, int]]:
    """A city of the list after in, near, from, ..., or before a postal code."""
    text, lower = document.text, document.lower
    for start, end in _listed(document, *_cities_by_first_word()):
        if _LONGER_NAME.match(text, end):
            continue
        if _ZIP_BEHIND.match(text, end) or _PLACE_BEFORE.search(lower, max(0, start - 16), start):
            yield start, end


# "from Paris Hilton", "in London Bridge": the city is a part of another name.
_LONGER_NAME = re.compile(rf"[ ]{WORD}|['’]s?(?=\w)|[\-@_]\w")


def _by_words(document: Document) -> Iterator[tuple[int, int]]:
    """`lives in X`, `originally from X`, `moved to X`."""
    text, lower = document.text, document.lower
    for word, end in document.after_words(_PREPOSITIONS):
        start = end - len(word)
        if not (text[end : end + 1] == " " and text[end + 1 : end + 2].isupper()):
            continue
        if not (_KIND_OF_PLACE if word == "of" else _VERBS).search(lower, max(0, start - 32), start):
            continue
        if word in ("to", "at", "near") and _FROM_ONLY.search(lower, max(0, start - 12), start):
            continue
        match = _PLACE.match(text, end + 1)
        if match and match.group().split()[0].lower() not in NOT_NAMES:
            yield match.span()


def _with_state(document: Document) -> Iterator[tuple[int, int]]:
    """`Portland, OR 97201`."""
    text = document.text
    for match in matches(_STATE, text):
        start = start_of_name(text, match.start(), 3)
        if start < match.start() and text[start : match.start()].lower() not in NOT_NAMES:
            yield start, match.end()


RULES = (
    Rule("city", "location", 0.55, "a large city of a list after in, near, from, ..., or before a postal code", _cities),
    Rule("country", "location", 0.6, "names of countries, in English and their own language", _countries),
    Rule("place_after_words", "location", 0.55, "the name after lives in, born in, moved to, the village of, ...", _by_words),
    Rule(
        "city_and_state",
        "location",
        0.7,
        "a name, a comma and a state of the US, Canada or Australia, with postal code",
        _with_state,
    ),
)
