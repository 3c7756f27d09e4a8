"""Rules for names of persons, for the titles before them, and for what a text says of somebody's private life.

A name is a run of capitalized words. What makes it the name of a person is a word beside it ("my name is", "Dear", "said", a title),
a given name at its beginning, the ending of a surname, or an initial in its middle.
"""

from __future__ import annotations

import re
from itertools import takewhile

from hushvec.text.pii.wordlists import (  # isort: skip
    CAPITALS, INITIAL, INITIALS, LETTER, NOT_NAMES, PARTICLE, WORD, given_names, start_of_name, word_list, words, words_in_order,
)
from hushvec.text.pii.document import Document, Finds, at_words, listed_rule, matches, rule, rule_for

_LATER = rf"(?:[ ](?:{INITIALS}[ ]){{0,2}}(?:{PARTICLE}[ ]){{0,2}}{WORD}|[ ]{INITIAL}(?![\w'’]))"
_NAME = re.compile(
    rf"(?:{INITIALS}[ ]){{0,2}}(?:(?:{PARTICLE}[ ]){{1,2}})?{WORD}{_LATER}{{0,3}}(?![\w@])"
    rf"|(?!U\.|D\.C|E\.U)[{CAPITALS}]\.(?:-?[{CAPITALS}]\.){{1,3}}(?=[,;:)\n'’]| [a-z]|$)"
)
_LATER_WORDS = re.compile(rf"{_LATER}{{0,3}}(?![\w@])")
_LOWER_NAME = re.compile(rf"{LETTER}{{2,20}}(?: {LETTER}\.?(?= ))?(?: {LETTER}{{2,20}})?(?![\w@])")
_HYPHENED = re.compile(rf"-{WORD}")
_LOWER_SURNAME = re.compile(rf" ({LETTER}{{3,20}})(?![\w@])")
_PARTICLES = frozenset(PARTICLE[3:-1].split("|"))

_TITLES = word_list("titles")
_AFTER_TITLE = re.compile(rf"(\.?[ ]{{1,2}})(?:[{CAPITALS}]{LETTER}\. )?")  # also "Mr Cz. "
_HONORIFICS = words("mr mrs ms miss dr prof professor herr frau mme")
SHORTEST_SURNAME = 4

# After these words a name follows; the pattern is what may stand between.
_BEFORE_NAME: dict[str, re.Pattern[str]] = {}
for _listed, _between in zip(words_in_order("before_names")[::2], words_in_order("before_names")[1::2]):
    _named = word_list(_listed[1:]) if _listed.startswith("@") else frozenset(_listed.split("|"))
    _BEFORE_NAME.update(dict.fromkeys(_named, re.compile(_between)))

_AFTER_NAME = word_list("words_after_names")
_ONLY_TWO = words("has had just was is moved left added played plays arrived works worked thought claims explains points")
_POSSESSIONS = re.compile(rf"[ ](?:{'|'.join(words_in_order('possessions'))})\b")
_I_AM = re.compile(r"(?:^|[^\w])(?:i['’]|i )$")
_THIS_IS = re.compile(r"(?:(?:^|[.,!?:\n]) {0,2}|hello |hi |hey )this $")
_UNLIKE_NAMES = words_in_order("endings_of_adjectives")

_SURNAME_ENDINGS = words_in_order("surname_endings")
_SURNAMES_AFTER_GIVEN = words_in_order("surname_endings_after_given_names")

_INITIAL_INSIDE = re.compile(rf" [{CAPITALS}]\.? (?=[{CAPITALS}])")
_WORD_AFTER = re.compile(rf"{WORD}(?:[ ]{WORD})?(?![\w@])")
_LETTERED = word_list("words_before_letters")

_CALLED_PERSON = re.compile(rf"\b(?:{'|'.join(words_in_order('who_is_called'))}) called$")
_BEFORE_NAME["called"] = re.compile(" ")
_PLURALS = frozenset(word for word in _BEFORE_NAME if word.endswith("s") and word[:-1] in _BEFORE_NAME) | words("children")
_NEXT_NAME = re.compile("(?:,| and|, and) ")
MOST_LISTED = 8
_APOSTROPHE = re.compile(r"['’]s(?= )")
# "San Francisco", "St. Louis", "Port Elizabeth": places, not people.
_BEGINS_PLACE = re.compile(r"(?<!\w)(?:San|Santa|São|Sao|Saint|St\.?|Port|Fort|Mount|Lake|Cape) $")
_COMMON_SURNAMES = word_list("common_surnames")
_CERTAIN_ENDINGS = words_in_order("certain_surname_endings")

_BEFORE_PAIR = words("by with to for ask asked thank via beside alongside")
_PAIR = re.compile(
    rf"[ ]([{CAPITALS}][^\W\d_A-Z]{{2,20}})[ ]([{CAPITALS}][^\W\d_A-Z]{{2,20}})"
    r"(?=[,.;:!?)\n\t]|$|[ ]"
    r"(?:and|or|until|who|whom|at|on|about|said|has|had|is|was|for|in|to|will|after|before|did|does|would|could)\b)"
)
_ENDINGS_OF_WORDS = words_in_order("endings_of_common_words")
_NO_SURNAMES = word_list("second_words_of_other_names")

_STATUS = words("single divorced separated widowed unmarried engaged")
_OF_A_PERSON = re.compile(
    r"(?:(?:\b(?:i|he|she|we|they|who)(?:['’](?:m|s|re|ve been)| am| is| was| are| were| got| have been| has been)"
    r"(?: (?:now|still|recently|newly|currently|legally|both|happily|getting)){0,2})"
    r"|\b(?:marital|relationship) status(?: is)?:?|\b(?:guy|man|woman|girl|male|female|dad|mom|mum|father|mother|parent),?) {1,2}$"
)
_ALONE = re.compile(
    r"(?! by\b)(?:\s{0,8}(?:$|[.,;:!?)\n])| (?:and|but|or|in|at|now|again|since|from|with|for|after|because|so|when)\b)"
)

_PARTNERS = words("girlfriend boyfriend wife husband fiancé fiancée fiance fiancee partner spouse")
_OWNED = re.compile(r"\b(?:my|his|her|their|your)(?: (?:late|former|future|new|first|second|third|then|estranged))? (?:ex[ \-])?$")
_EX = re.compile(r"\bex[ \-]$")

_PARTINGS = words("broke break breaking broken breakup")
_UP = re.compile(r"[ \-]up(?!\w)")
_WITH_A_PERSON = re.compile(r" (?:with )?(?:my|his|her|their|me|him|them|us|last|after|and|because)\b|[.,!?]")
_OF_TWO = re.compile(r"\b(?:my|his|her|our|their|your|we|they|i|just|the|a)(?: just| recently| finally)? $")
REACH = 40


@rule
def person_again(document: Document) -> Finds:
    text = document.text
    known = {
        (one.part(name[0]), one.text[slice(*name)].rpartition(" ")[2])
        for one in document.around
        for title, name in one.once(_titles_and_names)
        if one.text[slice(*title)].lower().rstrip(".") in _HONORIFICS
    }
    words = frozenset(name.lower() for _, name in known if len(name) >= SHORTEST_SURNAME and _may_be_name(name))
    small = document.in_small_letters(words) if words else ()
    for word, start, end in document.after_words(words):
        part = document.part(start)
        is_name = (part, text[start:end]) in known and (part, word) not in small and not _goes_on(text, end, "@_")
        if is_name and (name := _name_ending_at(text, end)):
            yield name


def _titles_and_names(document: Document) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    text, found = document.text, []
    for word, start, end in document.after_words(_TITLES):
        if text[start].isupper() or document.all_lower or word in ("mr", "mrs", "ms", "dr"):
            gap = _AFTER_TITLE.match(text, end)
            name = _name_at(document, gap.end()) if gap else None
            if gap and name:
                found.append(((start, end + (text[end : end + 1] == ".")), (gap.end(1), name[1])))
    return found


title = listed_rule("title", lambda document: (title for title, _ in document.once(_titles_and_names)), _TITLES)
person_title = listed_rule("person_title", lambda document: (name for _, name in document.once(_titles_and_names)), _TITLES)


@at_words(frozenset(_BEFORE_NAME))
def person_introduced(document: Document, word: str, _: int, end: int) -> Finds:
    if word == "called" and not _CALLED_PERSON.search(document.lower, max(0, end - 24), end):
        return
    between = _BEFORE_NAME[word].match(document.text, end)
    for _ in range(MOST_LISTED if word in _PLURALS else 1):
        if between is None or (name := _name_at(document, between.end())) is None:
            break
        yield name
        between = _NEXT_NAME.match(document.text, name[1])


@at_words(words("m am is"))
def person_self(document: Document, word: str, start: int, end: int) -> Finds:
    """`I am X`, `I'm X`, `this is X`: unless X is a nation or a trade."""
    before = _THIS_IS if word == "is" else _I_AM
    if before.search(document.lower, max(0, start - 10), start) and document.text[end : end + 1] == " ":
        name = _name_at(document, end + 1)
        said = document.lower[slice(*name)] if name else ""
        # Of single words after "I am" those that are no nation and no trade; after "this is" only a common given name.
        if name and (" " in said or said in given_names()[0] or not (word == "is" or said.endswith(_UNLIKE_NAMES))):
            yield name


def _name_at(document: Document, position: int) -> tuple[int, int] | None:
    text = document.text
    match = (_LOWER_NAME if document.all_lower else _NAME).match(text, position)
    if match is None:
        return None
    end = _before_stop_word(text, position, match.end())
    return (position, end) if end > position else None


def _before_stop_word(text: str, start: int, end: int) -> int:
    return start + len(" ".join(takewhile(_may_be_name, text[start:end].split(" "))))


def _after_stop_words(text: str, start: int, end: int) -> int:
    return end - len(" ".join(takewhile(_may_be_name, reversed(text[start:end].split(" ")))))


def _may_be_name(word: str) -> bool:
    return word.lower().rstrip(".") not in NOT_NAMES or len(word) < 2 or word[1:] == "."


@rule
def person_subject(document: Document) -> Finds:
    text = document.text
    for word, start, _ in document.after_words(_AFTER_NAME):
        name = _name_ending_at(text, start - 1)
        if name and text[name[1]] == " " and (word not in _ONLY_TWO or _could_be_full(text[slice(*name)])):
            yield name
    for _, start, _ in document.after_words(words("born")):
        if text[start - 2 : start] == ", " and (name := _name_ending_at(text, start - 2)):
            yield name
    for match in matches(_APOSTROPHE, text):
        if _POSSESSIONS.match(text, match.end()) and (name := _name_ending_at(text, match.start())):
            yield name


def _name_ending_at(text: str, end: int, most: int = 4) -> tuple[int, int] | None:
    if end < 2 or not text[end - 1].isalpha():
        return None
    start = start_of_name(text, end, most, links=_PARTICLES)
    first = _after_stop_words(text, start, end)
    return (first, end) if end - first > 1 else None


def _could_be_full(name: str) -> bool:
    """Two words or three, of which the first is a given name or the last ends like a surname."""
    parts = name.lower().split()
    is_given = any(parts[0] in names for names in given_names())
    return len(parts) > 1 and (is_given or parts[-1].endswith(_SURNAME_ENDINGS + _SURNAMES_AFTER_GIVEN))


@at_words(frozenset().union(*given_names()))
def person_given(document: Document, word: str, start: int, end: int) -> Finds:
    text, is_sure = document.text, word in given_names()[0]
    if _goes_on_before(text, start) or (is_sure and _goes_on(text, end, "@_/\\")):
        return
    if document.all_lower:
        if is_sure and len(word) > 3:
            later = _LOWER_SURNAME.match(text, end)
            yield start, later.end() if later and looks_like_surname(later[1]) else end
    elif text[start].isupper():
        last = _surname(text, end)
        if not is_sure:
            if last > end and looks_like_surname(text[end + 1 : last]):
                yield start, last
        elif not _BEGINS_PLACE.search(text, max(0, start - 7), start):
            if last == end and text[end : end + 1] == "-":
                hyphened = _HYPHENED.match(text, end)
                if hyphened is None:
                    return
                last = _surname(text, hyphened.end())
            yield start, last


def _goes_on_before(text: str, start: int) -> bool:
    """Whether the word that begins here is the rest of something longer, such as an address."""
    return start > 0 and (text[start - 1].isalnum() or text[start - 1] in "@._-/\\#&")


def _goes_on(text: str, end: int, signs: str) -> bool:
    """Whether the word that ends here is the beginning of something longer."""
    return end < len(text) and (text[end].isalnum() or text[end] in signs or (text[end] == "." and text[end + 1 : end + 2].isalnum()))


def _surname(text: str, end: int) -> int:
    match = _LATER_WORDS.match(text, end)
    if match is None or match.end() == end:
        return end
    last = _before_stop_word(text, end + 1, match.end())
    return last if last > end + 1 else end


def looks_like_surname(words: str) -> bool:
    """Whether the last word is a common surname, or ends like one."""
    last = words.lower().split()[-1]
    return last.endswith(_SURNAME_ENDINGS + _SURNAMES_AFTER_GIVEN) or last in _COMMON_SURNAMES


@rule
def person_surname(document: Document) -> Finds:
    text = document.text
    for word, start, end in document.words_ending(_SURNAME_ENDINGS):
        if len(word) < 5 or not text[start].isupper() or word in NOT_NAMES:
            continue
        if _goes_on(text, end, "@_"):
            continue
        name = _name_ending_at(text, end)
        if name and (name[0] < start or word.endswith(_CERTAIN_ENDINGS)):
            yield name


@rule
def person_initial(document: Document) -> Finds:
    """`Anna M. Lind`: a capitalized word, an initial, a capitalized word."""
    text = document.text
    for match in matches(_INITIAL_INSIDE, text):
        before = _name_ending_at(text, match.start(), 2)
        after = _WORD_AFTER.match(text, match.end()) if before else None
        if before is None or after is None:
            continue
        last = _before_stop_word(text, match.end(), after.end())
        if last > match.end() and text[slice(*before)].lower() not in _LETTERED:
            yield before[0], last


@rule_for(_BEFORE_PAIR)
def person_pair(document: Document) -> Finds:
    pairs = [match for *_, end in document.after_words(_BEFORE_PAIR) if (match := _PAIR.match(document.text, end))]
    small = document.in_small_letters(frozenset(word.lower() for match in pairs for word in match.groups()))
    for match in pairs:
        names, part = [word.lower() for word in match.groups()], document.part(match.start())
        is_word = any(name in NOT_NAMES or name.endswith(_ENDINGS_OF_WORDS) or (part, name) in small for name in names)
        if not (is_word or names[1] in _NO_SURNAMES):
            yield match.start(1), match.end(2)


@at_words(_STATUS)
def marital_status(document: Document, _: str, start: int, end: int) -> Finds:
    if _OF_A_PERSON.search(document.lower, max(0, start - REACH), start) and _ALONE.match(document.lower, end):
        yield start, end


@at_words(_PARTNERS)
def partner(document: Document, _: str, start: int, end: int) -> Finds:
    ex = _EX.search(document.lower, max(0, start - 4), start)
    if ex or _OWNED.search(document.lower, max(0, start - REACH), start):
        yield ex.start() if ex else start, end


@at_words(_PARTINGS)
def parting(document: Document, word: str, start: int, end: int) -> Finds:
    lower, up = document.lower, _UP.match(document.lower, end)
    last = end if word == "breakup" else up.end() if up else start
    is_end = word in ("breakup", "break") or _WITH_A_PERSON.match(lower, last)
    if last > start and is_end and _OF_TWO.search(lower, max(0, start - REACH), start):
        yield start, last
