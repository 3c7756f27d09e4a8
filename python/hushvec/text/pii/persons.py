"""Rules for names of persons, and for the titles before them.

A name is a run of capitalized words. What makes it the name of a person is a word beside it ("my name is", "Dear", "said", a title),
a given name at its beginning, the ending of a surname, or an initial in its middle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.letters import CAPITALS, INITIAL, LETTER, PARTICLE, WORD, start_of_name, words
from hushvec.text.pii.rule import Rule
from hushvec.text.pii.wordlists import NOT_NAMES, given_names, word_list, words_in_order

_LATER = rf"(?:[ ](?:{INITIAL}[ ]){{0,2}}(?:{PARTICLE}[ ]){{0,2}}{WORD}|[ ]{INITIAL}(?![\w'’]))"
_NAME = re.compile(rf"(?:{INITIAL}[ ]){{0,2}}(?:(?:{PARTICLE}[ ]){{1,2}})?{WORD}{_LATER}{{0,3}}(?![\w@])")
_LATER_WORDS = re.compile(rf"{_LATER}{{0,3}}(?![\w@])")
_LOWER_NAME = re.compile(rf"{LETTER}{{2,20}}(?: {LETTER}\.?(?= ))?(?: {LETTER}{{2,20}})?(?![\w@])")
_HYPHENED = re.compile(rf"-{WORD}")
_LOWER_SURNAME = re.compile(rf" ({LETTER}{{3,20}})(?![\w@])")
_PARTICLES = frozenset(PARTICLE[3:-1].split("|"))

_TITLES = word_list("titles")
_AFTER_TITLE = re.compile(r"\.?[ ]{1,2}")

# After these words a name follows; the pattern is what may stand between.
_BEFORE_NAME: dict[str, re.Pattern[str]] = {}


def _introduce(words: str, between: str) -> None:
    pattern = re.compile(between)
    for word in words.split():
        _BEFORE_NAME[word] = pattern


_introduce(
    "name names surname",
    r"(?:[ ](?:is|was)[ ]|[ ]{0,2}[:=\-][\s]{0,3}|,[ ]|[ ](?:to[ ])?(?=[^\W_a-z]))(?:(?:to|actually|now)[ ])?",
)
_introduce("named nicknamed", r"[ ](?:(?:him|her|it|me|them|us)[ ])?[\"“']?")
_introduce("dear hi hello hey attn attention", r"[:,]?[ ]{1,2}")
_introduce(
    "patient client employee applicant tenant defendant plaintiff witness beneficiary cardholder signatory resident candidate",
    r"(?:'s name)?[ ]?(?:[:,]|[ ]is|[ ]was|[ ]named)?[ ]{1,2}",
)
_introduce(
    "husband wife spouse brother sister mother father mom dad mum son daughter uncle aunt cousin grandmother grandfather grandma "
    "grandpa nephew niece fiancé fiancée boyfriend girlfriend partner friend roommate neighbour neighbor colleague coworker boss "
    "manager supervisor landlord secretary flatmate housemate classmate worker teacher tutor coach therapist babysitter nanny "
    "stepmother stepfather stepbrother stepsister stepson stepdaughter godmother godfather godson goddaughter ex",
    r"(?:[ ](?:is|was))?,?[ ](?:named[ ]|called[ ])?",
)
_introduce(
    "signed sincerely regards cheers yours faithfully truly thanks respectfully wishes",
    r"[,:]?(?:[ ]|[ \t]{0,3}\n{1,3}[ \t]{0,3})(?:by[ ])?(?=[^\n]{2,40}(?:\n|$|[.,]))",
)
_introduce(
    "contact recipient sender author owner attendee attendees caller maiden cc",
    r"(?:[ ](?:name|person))?[ ]?(?::|[ ]is)[\s]{1,3}",
)
_introduce("speak speaking talk talking spoke talked meet met meeting", r"[ ](?:(?:to|with)[ ])?")
_introduce("told asked said replied says married interviewed hired met thanked", r"[,:]?[ ](?:to[ ])?")
_introduce("starring featuring directed written sung produced composed painted", r"[ ](?:by[ ])?")
_introduce("guardian nominee assistant", r"[ ](?:to[ ]|is[ ])?")
_introduce("add adding remove contacted contacting email emailed visited", r"[ ]")

_AFTER_NAME = word_list("words_after_names")
_ONLY_TWO = words("has had just was is moved left added played plays arrived works worked thought claims explains points")
_POSSESSIONS = re.compile(
    r"[ ](?:address|phone|number|email|account|wife|husband|mother|father|brother|sister|son|daughter|friend|house|apartment|birthday|"
    r"boss|job|salary|diagnosis|medical|doctor|death|killers?|family|name|life|book|song|speech|desk|car|passport)\b"
)
_I_AM = re.compile(r"(?:^|[^\w])(?:i['’]|i )$")
_THIS_IS = re.compile(r"(?:^|[.,!?:\n] {0,2}|hello |hi |hey )this $")
_UNLIKE_NAMES = words_in_order("endings_of_adjectives")

_SURNAME_ENDINGS = words_in_order("surname_endings")
_SURNAMES_AFTER_GIVEN = words_in_order("surname_endings_after_given_names")

_INITIAL_INSIDE = re.compile(rf" [{CAPITALS}]\.? (?=[{CAPITALS}])")
_WORD_AFTER = re.compile(rf"{WORD}(?:[ ]{WORD})?(?![\w@])")
_LETTERED = word_list("words_before_letters")


def _titled(document: Document) -> Iterator[tuple[int, int]]:
    return (name for _, name in document.once(_titles_and_names))


def _titles(document: Document) -> Iterator[tuple[int, int]]:
    """The title itself, where a name follows it."""
    return (title for title, _ in document.once(_titles_and_names))


def _titles_and_names(document: Document) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    text, found = document.text, []
    for word, end in document.after_words(_TITLES):
        if text[end - len(word)].isupper() or document.all_lower or word in ("mr", "mrs", "ms", "dr"):
            gap = _AFTER_TITLE.match(text, end)
            name = _name_at(document, gap.end()) if gap else None
            if name:
                found.append(((end - len(word), end + (text[end : end + 1] == ".")), name))
    return found


def _introduced(document: Document) -> Iterator[tuple[int, int]]:
    for word, end in document.after_words(_INTRODUCERS):
        between = _BEFORE_NAME[word].match(document.text, end)
        if between:
            name = _name_at(document, between.end())
            if name:
                yield name
    for _, end in document.after_words(frozenset({"called"})):
        if _CALLED_PERSON.search(document.lower, max(0, end - 24), end) and document.text[end : end + 1] == " ":
            name = _name_at(document, end + 1)
            if name:
                yield name


_CALLED_PERSON = re.compile(
    r"\b(?:girl|boy|man|woman|guy|lady|kid|child|baby|friend|son|daughter|person|someone|somebody|student|teacher|doctor) called$"
)
_INTRODUCERS = frozenset(_BEFORE_NAME)


def _self_introduced(document: Document) -> Iterator[tuple[int, int]]:
    """`I am X`, `I'm X`, `this is X`: unless X is a nation or a trade."""
    lower = document.lower
    for word, end in document.after_words(frozenset({"m", "am", "is"})):
        before = _THIS_IS if word == "is" else _I_AM
        start = end - len(word)
        if before.search(lower, max(0, start - 10), start) and document.text[end : end + 1] == " ":
            name = _name_at(document, end + 1)
            if name and (" " in document.text[slice(*name)] or _is_likely(lower[slice(*name)], after_this=word == "is")):
                yield name


def _is_likely(word: str, *, after_this: bool) -> bool:
    """A single word after "I am" that is no nation and no trade; after "this is" only a common given name."""
    return word in given_names()[0] or not (after_this or word.endswith(_UNLIKE_NAMES))


def _name_at(document: Document, position: int) -> tuple[int, int] | None:
    """The name that begins here, without words that are no names."""
    text = document.text
    match = (_LOWER_NAME if document.all_lower else _NAME).match(text, position)
    if match is None:
        return None
    end = _before_stop_word(text, position, match.end())
    return (position, end) if end > position else None


def _before_stop_word(text: str, start: int, end: int) -> int:
    """The end of the words before the first one that is no name; `start` if the first is none."""
    if text.find(" ", start, end) < 0:
        return start if _is_no_name(text[start:end]) else end
    last = position = start
    for part in text[start:end].split(" "):
        position += len(part)
        if _is_no_name(part):
            break
        last = position
        position += 1
    return last


def _after_stop_words(text: str, start: int, end: int) -> int:
    """The start of the words after the last one that is no name; `end` if the last is none."""
    first = position = start
    for part in text[start:end].split(" "):
        position += len(part) + 1
        if _is_no_name(part):
            first = min(end, position)
    return first


def _is_no_name(word: str) -> bool:
    return word.lower().rstrip(".") in NOT_NAMES and len(word) > 1 and word[1:] != "."


def _subjects(document: Document) -> Iterator[tuple[int, int]]:
    """`X said`, `X lives`, and `X's address`."""
    text = document.text
    if document.all_lower:
        return
    for word, end in document.after_words(_AFTER_NAME):
        name = _name_ending_at(text, end - len(word) - 1)
        if name and text[name[1]] == " " and (word not in _ONLY_TWO or _could_be_full(text[slice(*name)])):
            yield name
    for match in matches(_APOSTROPHE, text):
        if _POSSESSIONS.match(text, match.end()):
            name = _name_ending_at(text, match.start())
            if name:
                yield name


_APOSTROPHE = re.compile(r"['’]s(?= )")


def _name_ending_at(text: str, end: int, most: int = 4) -> tuple[int, int] | None:
    """The name whose last word ends here, without words that are no names."""
    if end < 2 or not text[end - 1].isalpha():
        return None
    start = start_of_name(text, end, most, links=_PARTICLES)
    first = _after_stop_words(text, start, end)
    return (first, end) if end - first > 1 else None


def _could_be_full(name: str) -> bool:
    """Two words or three, of which the first is a given name or the last ends like a surname."""
    words = name.lower().split()
    sure, words_too = given_names()
    return len(words) > 1 and (
        words[0] in sure or words[0] in words_too or words[-1].endswith(_SURNAME_ENDINGS + _SURNAMES_AFTER_GIVEN)
    )


def _given(document: Document) -> Iterator[tuple[int, int]]:
    """A given name, with the capitalized words after it."""
    text, lower = document.text, document.lower
    sure, words_too = given_names()
    for word, end in document.after_words(sure):
        start = end - len(word)
        if start and (text[start - 1].isalnum() or text[start - 1] in "@._-/\\#&"):
            continue
        if end < len(text) and (
            text[end].isalnum() or text[end] in "@_/\\" or (text[end] == "." and text[end + 1 : end + 2].isalnum())
        ):
            continue
        if document.all_lower:
            if len(word) > 3:
                yield start, _lower_surname(lower, end)
            continue
        if text[start].isupper() and not _BEGINS_PLACE.search(text, max(0, start - 7), start):
            last = _surname(text, end)
            if last == end and text[end : end + 1] == "-":
                hyphened = _HYPHENED.match(text, end)
                if hyphened is None:
                    continue
                last = _surname(text, hyphened.end())
            yield start, last
    for word, end in document.after_words(words_too):
        start = end - len(word)
        if text[start].isupper() and (not start or not (text[start - 1].isalnum() or text[start - 1] in "@._-/\\#&")):
            last = _surname(text, end)
            if last > end and _looks_like_surname(text[end + 1 : last]):
                yield start, last


def _surname(text: str, end: int) -> int:
    match = _LATER_WORDS.match(text, end)
    if match is None or match.end() == end:
        return end
    last = _before_stop_word(text, end + 1, match.end())
    return last if last > end + 1 else end


def _looks_like_surname(words: str) -> bool:
    last = words.lower().split()[-1]
    return last.endswith(_SURNAME_ENDINGS + _SURNAMES_AFTER_GIVEN) or last in _COMMON_SURNAMES


# "San Francisco", "St. Louis", "Port Elizabeth": places, not people.
_BEGINS_PLACE = re.compile(r"(?<!\w)(?:San|Santa|São|Sao|Saint|St\.?|Port|Fort|Mount|Lake|Cape) $")
_COMMON_SURNAMES = word_list("common_surnames")


def _lower_surname(lower: str, end: int) -> int:
    match = _LOWER_SURNAME.match(lower, end)
    return match.end() if match and _looks_like_surname(match[1]) else end


def _surnames(document: Document) -> Iterator[tuple[int, int]]:
    """Words that end as surnames do, with the capitalized words before them."""
    text = document.text
    for word, end in document.words_ending(_SURNAME_ENDINGS):
        start = end - len(word)
        if len(word) < 5 or not text[start].isupper() or word in NOT_NAMES:
            continue
        if end < len(text) and (
            text[end].isalnum() or text[end] in "@_" or (text[end] == "." and text[end + 1 : end + 2].isalnum())
        ):
            continue
        name = _name_ending_at(text, end)
        if name and (name[0] < start or word.endswith(_CERTAIN_ENDINGS)):
            yield name


_CERTAIN_ENDINGS = words_in_order("certain_surname_endings")


def _with_initials(document: Document) -> Iterator[tuple[int, int]]:
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


_BEFORE_PAIR = words("by with to for ask asked thank via beside alongside")
_PAIR = re.compile(
    rf"[ ]([{CAPITALS}][^\W\d_A-Z]{{2,20}})[ ]([{CAPITALS}][^\W\d_A-Z]{{2,20}})"
    r"(?=[,.;:!?)\n\t]|$|[ ]"
    r"(?:and|or|until|who|whom|at|on|about|said|has|had|is|was|for|in|to|will|after|before|did|does|would|could)\b)"
)
_ENDINGS_OF_WORDS = words_in_order("endings_of_common_words")
_NO_SURNAMES = word_list("second_words_of_other_names")


def _pairs(document: Document) -> Iterator[tuple[int, int]]:
    """`with Thandiwe Mokoena until`: two capitalized words that the text uses in no other way, after by, with, to, for, ..."""
    if document.all_lower:
        return
    for _, end in document.after_words(_BEFORE_PAIR):
        match = _PAIR.match(document.text, end)
        if match and _are_rare(document, match[1].lower(), match[2].lower()):
            yield match.start(1), match.end(2)


def _are_rare(document: Document, first: str, second: str) -> bool:
    if second in _NO_SURNAMES or not {first, second}.isdisjoint(NOT_NAMES):
        return False
    if first.endswith(_ENDINGS_OF_WORDS) or second.endswith(_ENDINGS_OF_WORDS):
        return False
    return document.words_as_written.isdisjoint((first, second))


RULES = (
    Rule("person_title", "full person name", 0.85, "the name after Mr, Ms, Dr, Prof, Herr, Mme, Judge, ...", _titled),
    Rule(
        "person_introduced",
        "full person name",
        0.75,
        "the name after my name is, Dear, patient, husband, Regards, told, met, ...",
        _introduced,
    ),
    Rule("person_self", "full person name", 0.7, "I am, I'm or this is, and a name", _self_introduced),
    Rule(
        "person_subject",
        "full person name",
        0.6,
        "a name before said, lives, wrote, ... or before 's address and the like",
        _subjects,
    ),
    Rule("person_given", "full person name", 0.65, "a common given name, with the capitalized words after it", _given),
    Rule("person_surname", "full person name", 0.6, "a surname by its ending, with the capitalized words before it", _surnames),
    Rule("person_initial", "full person name", 0.7, "a capitalized word, an initial, a capitalized word", _with_initials),
    Rule(
        "person_pair",
        "full person name",
        0.5,
        "two capitalized words that occur in no other way, after by, with, to, for, ask",
        _pairs,
    ),
    Rule("title", "title", 0.6, "Mr, Ms, Dr, Prof, ... before a name", _titles),
)
