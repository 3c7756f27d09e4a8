"""Rules for postal addresses: a street with a number, a box, a corner, and the lines that follow it.

A street is recognized by its number and by a word for street, in a dozen languages, before the name (rue), behind it (utca) or
grown together with it (-gatan). From there the address is followed over flats, places, states, postal codes and countries.
"""

from __future__ import annotations

import re

from hushvec.text.pii.document import Document, Finds, at_words, matches, rule, rule_for
from hushvec.text.pii.wordlists import CAPITALS, NOT_NAMES, WORD, start_of_name, without_leading, word_list, words, words_in_order

# Nearly always a street, even in lower case.
_SURE_TYPES = words("street str avenue ave road rd boulevard blvd lane drive crescent highway hwy parkway pkwy terrace")
_TYPES = _SURE_TYPES | word_list("street_types")
_PREFIXES = word_list("street_prefixes")
_COMPOUNDS = words_in_order("street_endings")

_NUM = r"[0-9]{1,6}(?:[\-/][0-9]{1,5})?[A-Za-z]?"
_NAME_WORD = rf"(?:[{CAPITALS}0-9](?:['’.\-]?[^\W_])*\.?|[dl]['’][^\W\d_]+)"
_LINK = r"(?:de|la|le|les|los|las|del|der|den|des|du|da|do|dos|das|di|of|the|von|van|und|zum|zur|am|im|an|y|e|av|af|el|al)"
_NAME = rf"{_NAME_WORD}(?:[ ](?:{_LINK}[ ]){{0,2}}{_NAME_WORD}){{0,4}}"

# "5th" may stand in the name of a street, another number ends it.
_WORD_BEGINS = r"(?:[^\W\d_]|[0-9]{1,3}(?=st|nd|rd|th))"
# A number, perhaps a second one (of the building, of the street), then up to seven words
_NUMBER_FIRST = re.compile(
    rf"[0-9](?<![\w.$€£#,\-]\w)[0-9]{{0,5}}(?:[\-/][0-9]{{1,5}})?[A-Za-z]?,?[ ](?={_WORD_BEGINS}|{_NUM},?[ ]{_WORD_BEGINS})"
)
_SECOND_NUMBER = re.compile(rf"{_NUM},?[ ](?={_WORD_BEGINS})")
_WORD_SHAPE = rf"{_WORD_BEGINS}(?:[^\W_]|['’\-](?=[^\W_])){{0,30}}\.?"
_SEVEN_WORDS = re.compile(rf"(?:{_WORD_SHAPE}(?:[ ](?=[^\W_])|(?=[\s,.;:!?)\"']|$))){{0,7}}")
_TRAILING_NUMBER = re.compile(r"[ ,]{1,2}(?:[Nn][or°º]\.?[ ]?)?[0-9]{1,5}(?:[\-/][0-9]{1,5})?[A-Za-z]?(?![\w.:%]*[\w%])")

_UNIT_WORDS = (
    "apartment|apt|suite|ste|unit|flat|floor|fl|room|rm|building|bldg|lot|box|appartement|appt|étage|piso|dept|top|tür|et|lgh"
)
_UNIT = re.compile(
    rf"(?:{_UNIT_WORDS})(?![^\W\d_])\.?[ ]{{0,2}}#?(?:[0-9][0-9a-z\-]{{0,7}}|[a-z](?!\w))|#[ ]?[0-9][0-9a-z\-]{{0,7}}", re.IGNORECASE
)
_POST_BOX = re.compile(
    r"(?:p\.?[ ]?o\.?[ ]?box|post(?:al)?[ ]?(?:office[ ])?box|postbox|postfach|postboks|apartado(?: de correos)?|casilla|skrytka"
    r"|bp(?=[ ]{0,2}#?[0-9]{1,3}[ ,\-\n]{1,3}[0-9]{4,6}\b|[ ]{0,2}#?[0-9]{4}))"  # with a postal code, or longer than a blood pressure
    r"[ ]{0,2}#?[0-9]{1,7}\b",
    re.IGNORECASE,
)
_MILITARY = re.compile(
    r"(?:(?:psc|unit|cmr)[ ]?[0-9]{1,5},?[ ]box[ ][0-9]{1,5}|us(?:ns|s|nv|cgc|av)[ ][^\W\d_]{2,20})"
    r"[,\s]{1,3}(?:[afd]po)[ ]a[aep][ ][0-9]{5}(?:-[0-9]{4})?",
    re.IGNORECASE,
)
_CORNER = re.compile(
    rf" of (?:[0-9]{{1,5}}[ ])?({_NAME})(?:[ ][0-9]{{1,5}})?(?: and | & )(?:[0-9]{{1,5}}[ ])?({_NAME})(?:[ ][0-9]{{1,5}}\b)?"
)
_LOWER_CORNER = re.compile(r" of ([^\s,;!?\n]{1,24}(?: [^\s,;!?\n]{1,24}){0,5}?) and ([^\s,;!?\n]{1,24}(?: [^\s,;!?\n]{1,24}){0,3})")
_THE = re.compile(r"(?:at )?the $")

# What may follow a street, anchored where the part before it ended; first the signs that a mail program puts before each line.
_QUOTE = r"(?:[>|*#?\-]{1,3} )?"
_GAP = rf"(?:[ ]{{0,2}},?[ ]{{0,2}}\n{{0,2}}[^\S\n]{{0,3}}{_QUOTE},?[ ]{{0,2}})"
_STATE = r"[A-Z]{1,3}(?![\w.])(?=[ ,]*(?:[0-9]|\n|$|[A-Z]))"
_CODE = (
    r"(?:[A-Z]{1,2}-)?[0-9]{4,6}(?:-[0-9]{3,4})?(?!\w)(?:[ ]{1,2}[A-Z]{2}(?!\w))?|[0-9]{3}[ ][0-9]{2}(?!\w)"
    r"|[A-Z]{1,2}[0-9][A-Z0-9]?[ ]?[0-9][A-Z]{2}(?!\w)|[A-Z][0-9][A-Z][ ]?[0-9][A-Z][0-9](?!\w)"
)
_PLACE = rf"(?:{WORD}|St\.?)(?:[ ](?:{_LINK}[ ])?(?:{WORD}|[A-Z](?![\w])|\([^)\n]{{1,20}}\))){{0,3}}"
_PART = re.compile(rf"{_GAP}(?:(?i:{_UNIT.pattern})|{_CODE}|{_STATE})")
_UNIT_PART = re.compile(rf"{_GAP}(?:{_UNIT.pattern})", re.IGNORECASE)
_PLACE_PART = re.compile(
    rf"(?:[ ]{{0,2}},[ ]{{0,2}}|[ ]{{0,2}},?[ ]{{0,2}}\n{{1,2}}[^\S\n]{{0,3}}{_QUOTE})({_PLACE})"
    r"(?=[ ]{0,2}(?:[,.;!?\n]|$| [0-9]|[0-9]|and |for |in |or ))"
)
_PLACE_AFTER_UNIT = re.compile(rf"[ ]({_PLACE})(?=[ ]{{0,2}}(?:[,.;?\n]|$|[0-9]))")
_CODE_PART = re.compile(rf"{_GAP}(?:{_CODE}|{_STATE})")
_LAST_CODE = re.compile(rf"[ ]{{1,2}}(?:{_CODE})")
MOST_PARTS = 7

_LOWER_PART = re.compile(
    rf"(?:[ ]{{0,2}},?[ ]{{0,2}}\n{{0,2}}[ ]{{0,3}},?[ ]{{0,2}})"
    rf"(?:(?:{_UNIT_WORDS})\.?[ ]#?[0-9]{{1,6}}|[0-9]{{4,6}}(?![\w])"
    r"|[^\W\d_]{2,20}(?: [^\W\d_]{2,20}){0,2}(?=,|\n|$| [0-9]{4,6}(?!\w)))"
)

_PLACE_WORDS = word_list("words_before_addresses")
_SIMPLE = re.compile(
    rf"(?<![^\W_])(?<!['’\-])({WORD}(?:[ ](?:{_LINK}[ ])?(?:{WORD})){{0,3}})[ ]([0-9]{{1,4}}[A-Za-z]?)(?![\w:%/]|[.,][0-9])"
)
_NOT_STREET_NAMES = word_list("not_street_names")

_COMPOUND_NUMBER = re.compile(r"\.? [0-9]{1,5}(?:[\-/][0-9]{1,4})?[A-Za-z]?(?![\w%]|[.,][0-9])")
_WORD_BEFORE = re.compile(r"([^\W\d_]{1,32}) $")
_LEADING = _PLACE_WORDS | NOT_NAMES | frozenset(_UNIT_WORDS.split("|"))
_LINKS = frozenset(_LINK[3:-1].split("|"))
_OF_COURT = words("the of supreme regional district administrative constitutional criminal security military labour assize")
_PREFIXED = re.compile(rf"\.?[ ](?:{_LINK}[ ']){{0,2}}{_NAME}(?:,? (?:[Nn]\.?[or°º]?\.? ?)?[0-9]{{1,5}}[A-Za-z]?)(?!\w)")
_TYPE_NUMBER = re.compile(r"\.? [0-9]{1,4}(?:[\-/][0-9]{1,4})?[a-zA-Z]?\.?(?![\w%])")
_MILITARY_WORDS = words("psc unit cmr usns uss usnv uscgc usav")
_SIMPLE_WORDS = words("address addresses lives living located reside resides adresse anschrift wohnhaft domicilio")
_STREET_WORDS = words("street road avenue boulevard lane terrace crescent parkway")
_AFTER_PREPOSITION = words("drive court square place")
_ON = re.compile(r"\b(?:on|near|off|along|down|up|at|around|from|to|opposite|behind|across) (?:the )?$")
_NOT_STREETS = word_list("words_before_other_streets")
_LONGER = re.compile(rf"[ ]{WORD}|['’]s|[\-_@]\w")
# Streets are called after them, and they do not belong to the sentence.
_STREET_NAMES = words("north south east west great upper lower new old second third first main market church hotel office mail")
_NO_STREET = NOT_NAMES | _PLACE_WORDS - _STREET_NAMES


@rule
def street_number_first(document: Document) -> Finds:
    """`12 Baker Street`, `12b rue de la Paix`, `6750 Long Road 25`."""
    taken = read = 0
    for lead in matches(_NUMBER_FIRST, document.text):
        if lead.start() < taken:
            continue
        second = _SECOND_NUMBER.match(document.text, lead.end())
        start = second.end() if second else lead.end()
        if start == read and document.all_lower:
            continue  # the second number of a lead that came to nothing: without capitals only the words decide
        words, read = _words_from(document.text, start), start
        found = _street_of(document, lead.start(), words) if words else None
        if found is not None:
            yield found[0], (taken := _continued(document, found[1]))


@rule
def street_compound(document: Document) -> Finds:
    """`Marktweg 8`, `Lange-gatan 5`: a word grown together with one for street, and a number."""
    text = document.text
    for word, start, end in document.words_ending(_COMPOUNDS):
        if len(word) < 6 or word in _NOT_STREET_NAMES or not (text[start].isupper() or document.all_lower):
            continue
        if number := _COMPOUND_NUMBER.match(text, end):
            first = start if document.all_lower else min(start, start_of_name(text, end, 3))
            first = without_leading(text, first, start, lambda word: word.lower() in _PLACE_WORDS | NOT_NAMES)
            yield first, _continued(document, number.end())


def _words_from(text: str, position: int) -> list[tuple[str, str, int]]:
    """(as written, in lower case without a full stop, where it ends) of up to seven words."""
    words: list[tuple[str, str, int]] = []
    for written in _SEVEN_WORDS.match(text, position)[0].split(" "):  # type: ignore[index]
        if written:
            words.append((written, written.rstrip(".").lower(), position + len(written)))
        position += len(written) + 1
    return words


def _street_of(document: Document, start: int, words: list[tuple[str, str, int]]) -> tuple[int, int] | None:
    """(start, end) if the words after a number are the name of a street."""
    text = document.text
    if words and words[0][1] in _PREFIXES and len(words) > 1 and words[0][1] not in ("am", "str", "os"):
        last = 1
        while last + 1 < len(words) and last < 4 and (words[last][1] in _LINKS or _is_name(words[last + 1][0])):
            last += 1
        if words[last][1] not in _LINKS and (_is_name(words[last][0]) or document.all_lower):
            return start, _with_number(text, words[last][2])
    for index, (written, plain, end) in enumerate(words):
        is_court = plain == "court" and any(word[1] in _OF_COURT for word in words[:index])  # "1 of the Rules of Court"
        if plain not in _TYPES or index == 0 or is_court:
            if index and not _is_name(written) and plain not in _LINKS and not document.all_lower:
                break
            continue
        named = [word for word in words[:index] if word[1] not in _LINKS]
        capital = bool(named) and all(_is_name(word) for word, _, _ in named)
        if (capital and (_is_name(written) or plain in _SURE_TYPES)) or (
            plain in _SURE_TYPES | {"st"} and index <= 3 and not any(word[1] in _LINKS for word in words[:index])
            and words[0][1] not in _NOT_STREET_NAMES
        ):  # fmt: skip
            while index + 1 < len(words) and words[index + 1][1] in _TYPES and _is_name(words[index + 1][0]):
                index += 1
                end = words[index][2]
            if index + 2 < len(words) and _is_name(words[index + 1][0]) and words[index + 2][1] in _TYPES:
                end = words[index + 2][2]
            return start, _with_number(text, end)
    return _name_between_numbers(document, start, words)


def _name_between_numbers(document: Document, start: int, words: list[tuple[str, str, int]]) -> tuple[int, int] | None:
    """`6750 Longname 25`, `5100 Somewhere` and then a flat: without any word for street."""
    text = document.text
    for written, plain, end in words[:5]:
        # In capitals alone are units and other short names: "HR 88 RR 18", "ISO 9001, RFC 2616".
        if plain in _NOT_STREET_NAMES or (written.isupper() and len(plain) > 1):
            return None
        if not (_is_name(written) or plain in _LINKS or document.all_lower):
            return None
        if plain in _LINKS:
            continue
        number = _TRAILING_NUMBER.match(text, end)
        if number and not document.all_lower and text[start : start + 3].isdigit():
            # "Passed 118 Failed 2": names and their values, unless the word before the first number leads to an address.
            led = _WORD_BEFORE.search(text, max(0, start - 33), start)
            return None if led and led[1].lower() not in _LEADING else (start, number.end())
        unit = _UNIT_PART.match(text, number.end() if number else end)
        if unit:
            return start, unit.end()
    return None


def _is_name(word: str) -> bool:
    return word[0].isupper() or word[0].isdigit() or (len(word) > 2 and word[1] in "'’" and word[0] in "dl")


def _with_number(text: str, end: int) -> int:
    number = _TRAILING_NUMBER.match(text, end)
    return number.end() if number else end


@at_words(_PREFIXES)
def street_word_first(document: Document, word: str, start: int, end: int) -> Finds:
    """`Rue Haute 371`, `ul. Zielona 33`, `Via Roma 12`: the word for street first, the number last."""
    is_street = document.text[start].isupper() or word in ("ul", "rue", "calle", "via", "rua", "ulica", "улица", "ул")
    if is_street and (match := _PREFIXED.match(document.text, end)):
        yield start, _continued(document, match.end())


@at_words(word_list("types_before_numbers"))
def street_word_last(document: Document, _: str, start: int, end: int) -> Finds:
    """`Andrássy út 12`, `Lange Gasse 5`, `Király u. 15`: the word for street, then the number."""
    number = _TYPE_NUMBER.match(document.text, end)
    if number and document.text[start - 1 : start] == " ":
        first = start_of_name(document.text, start - 1, 4)
        if first < start - 1:
            yield first, _continued(document, number.end())


@at_words(_MILITARY_WORDS | words("p po post postal postbox postfach postboks apartado casilla bp skrytka"))
def post_box(document: Document, word: str, start: int, _: int) -> Finds:
    text = document.text
    if word in _MILITARY_WORDS:
        if match := _MILITARY.match(text, start):
            yield match.span()
    elif not text[max(0, start - 1) : start].isalnum() and (match := _POST_BOX.match(text, start)):
        yield start, _continued(document, match.end())


@at_words(words("corner intersection junction crossing corners"))
def corner(document: Document, _: str, start: int, end: int) -> Finds:
    match = (_LOWER_CORNER if document.all_lower else _CORNER).match(document.text, end)
    if match is None:
        return
    named = any(map(str.isdigit, match[0])) or any(word.rstrip(".") in _TYPES for word in match[0].split())
    if named or not document.all_lower:
        the = _THE.search(document.lower, max(0, start - 4), start)
        yield start - 4 if the else start, match.end()


@at_words(words("apt apartment suite ste flat"))
def flat(document: Document, _: str, start: int, end: int) -> Finds:
    """A flat alone: `Apt. 12`, `Suite 380`."""
    match = _UNIT.match(document.text, start)
    if match and any(map(str.isdigit, match.group())):
        yield match.span()


@rule_for(_SIMPLE_WORDS)
def named_place(document: Document) -> Finds:
    """A capitalized name and a number after words such as "address" and "lives on": `lives on Long Meadow 2906`."""
    text = document.text
    ends = sorted(end for *_, end in document.after_words(_SIMPLE_WORDS))
    taken = 0
    for end in ends:
        if end < taken:
            continue
        match = _SIMPLE.search(text, end, min(len(text), end + 48))
        between = text[end : match.start()] if match else ""
        if match is None or len(between) > 30 or "\n\n\n" in between or ". " in between:
            continue
        named = match[1].lower().split(" ")
        if named[-1] in _NOT_STREET_NAMES or named[0] in NOT_NAMES or not 1 <= len(match[2]) <= 5:
            continue
        yield match.start(), (taken := _continued(document, match.end()))


def _continued(document: Document, end: int) -> int:
    """The end of the address whose street ends at `end`."""
    text, placed = document.text, False
    for _ in range(MOST_PARTS):
        part = (_LOWER_PART if document.all_lower else _PART).match(text, end)
        place = None if part or document.all_lower else _PLACE_PART.match(text, end)
        if not (part or place or placed or document.all_lower):
            place = _PLACE_AFTER_UNIT.match(text, end)
            place = place if place and _CODE_PART.match(text, place.end(1)) else None
        placed = placed or place is not None
        part = part or (_LAST_CODE.match(text, end) if placed and not place else None)
        if part:
            end = part.end()
        elif place:
            end = place.end(1)
        else:
            break
    return end


@at_words(_STREET_WORDS | _AFTER_PREPOSITION)
def street_alone(document: Document, word: str, start: int, end: int) -> Finds:
    """`Oxford Street`, `near Elm Drive`: a street without a number."""
    text, lower = document.text, document.lower
    if text[start].isupper() and text[start - 1 : start] == " " and not _LONGER.match(text, end):
        first = without_leading(text, start_of_name(text, start - 1, 3), start - 1, lambda word: word.lower() in _NO_STREET)
        is_street = first < start - 1 and lower[first : start - 1].rpartition(" ")[2] not in _NOT_STREETS
        if is_street and (word in _STREET_WORDS or _ON.search(lower, max(0, first - 14), first)):
            yield first, end


