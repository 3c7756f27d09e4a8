"""Rules for places: countries and cities by lists, others by the words before them and by the state or the postal code behind them."""

from __future__ import annotations

import re

from hushvec.text.pii.document import Document, Finds, at_words, matches, rule
from hushvec.text.pii.wordlists import NOT_NAMES, WORD, names_of_places, start_of_name, words, words_in_order

_STATE = re.compile(rf", (?:{'|'.join(words_in_order('states'))})(?![\w.])(?: [0-9]{{5}}(?:-[0-9]{{4}})?(?!\w))?")
_PLACE = re.compile(
    rf"(?:(?:Mount|Saint|St\.|Lake|North|South|East|West|New|San|Santa|Los|Las|La|Le|El)[ ])?{WORD}"
    rf"(?:[ ](?:(?:de|la|del|upon|am|an der|do)[ ])?{WORD}){{0,2}}"
)
_LIVES = "|".join(words_in_order("words_before_places")).replace("_", " ")
_VERBS = re.compile(rf"(?:{_LIVES})(?: (?:here|back|up|down|now|currently|and raised)){{0,2}} $")
_PREPOSITIONS = words("in from to at near of")
_KIND_OF_PLACE = re.compile(r"\b(?:village|town|city|hamlet|suburb|district|municipality|parish|county|province|township) $")
_FROM_ONLY = re.compile(r"(?:\bis|\bam|i'm|originally|currently|here) $")
_ZIP_BEHIND = re.compile(r",? [0-9]{5}(?:-[0-9]{4})?(?!\w)")
_PLACE_BEFORE = re.compile(r"(?:\b(?:in|near|around|from|to|at|via|outside|inside|through|of downtown|downtown|visit(?:s|ed|ing)?)) $")

_FORM_OF_STATE = re.compile(r"(?<!\w)(?:[A-Z][a-z]{3,12} )?(?:Republic|Kingdom|Principality|Commonwealth|Grand Duchy) of (?:the )?$")
# "from Paris Hilton", "in London Bridge": the city is a part of another name.
_LONGER_NAME = re.compile(rf"[ ]{WORD}|['’]s?(?=\w)|[\-@_]\w")


def _by_first_word(kind: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in sorted(names_of_places(kind), key=len, reverse=True):
        found.setdefault(re.split(r"[ \-.]", name)[0].lower(), []).append(name)
    return found


_COUNTRIES, _CITIES = map(_by_first_word, ("countries", "cities"))


@at_words(frozenset(_COUNTRIES))
def country(document: Document, word: str, start: int, _: int) -> Finds:
    for end in _listed(document, _COUNTRIES[word], start):
        form = _FORM_OF_STATE.search(document.text, max(0, start - 32), start)
        yield form.start() if form else start, end


def _listed(document: Document, names: list[str], start: int) -> list[int]:
    """Where the longest of the names ends that begins here, capitalized as in the list, or in a text without capitals."""
    for name in names:
        written = document.text[start : (end := start + len(name))]
        is_name = written == name or (document.all_lower and written == name.lower())
        if is_name and not document.text[end : end + 1].isalnum():
            return [end]
    return []


@at_words(frozenset(_CITIES))
def city(document: Document, word: str, start: int, _: int) -> Finds:
    for end in _listed(document, _CITIES[word], start):
        if _LONGER_NAME.match(document.text, end):
            continue
        if _ZIP_BEHIND.match(document.text, end) or _PLACE_BEFORE.search(document.lower, max(0, start - 16), start):
            yield start, end


@at_words(_PREPOSITIONS)
def place_after_words(document: Document, word: str, start: int, end: int) -> Finds:
    text, lower = document.text, document.lower
    if not (text[end : end + 1] == " " and text[end + 1 : end + 2].isupper()):
        return
    if not (_KIND_OF_PLACE if word == "of" else _VERBS).search(lower, max(0, start - 32), start):
        return
    if word in ("to", "at", "near") and _FROM_ONLY.search(lower, max(0, start - 12), start):
        return
    match = _PLACE.match(text, end + 1)
    if match and match.group().split()[0].lower() not in NOT_NAMES:
        yield match.span()


@rule
def city_and_state(document: Document) -> Finds:
    """`Portland, OR 97201`."""
    text = document.text
    for match in matches(_STATE, text):
        start = start_of_name(text, match.start(), 3)
        if start < match.start() and text[start : match.start()].lower() not in NOT_NAMES:
            yield start, match.end()
