"""Rules for numbers that are recognized by the words before them: accounts, patients, documents, postal codes."""

from __future__ import annotations

import re
from itertools import takewhile

from hushvec.text.pii.document import Document, Finds, Rule, at_words, matches, rule
from hushvec.text.pii.numbers import nhs_number_holds
from hushvec.text.pii.wordlists import names_of_places, word_list, words, words_in_order

# "number is", "no.:", "#" and the like between the word and the value
_LEAD = (
    r"\.?(?:[ \t\-]{0,2}(?:number|numbers|no|nr|num|nummer|numer|n[uú]mero|numéro|id|code|identifier)\b\.?)?"
    r"(?:[ \t]{0,2}\([^)\n]{1,20}\))?[ \t]{0,2}(?:[:#=\-?]|is\b|was\b){0,2}[ \t\n]{0,2}[#:]?[ \t]{0,2}"
)
_VALUE = re.compile(_LEAD + r"([a-z]{0,6}[\-/]?[0-9][a-z0-9]{0,19}(?:[ \-/.][a-z0-9]{1,12}){0,5})(?![\w])")
_ZIP_VALUE = re.compile(_LEAD + r"([a-z]{0,2}[\-]?[0-9][a-z0-9]{0,6}(?:[ \-][0-9a-z]{1,4})?)(?!\w)")

_ZIPS = words("zip zipcode postcode postal plz postleitzahl cep zips")

_WORD_BEFORE = re.compile(r"(?<!\w)([^\W\d_]{1,20})\.?[ \t\-]{1,2}$")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
LONGEST_BEFORE = 24

_UK_POSTCODE = re.compile(r"[A-Z](?<!\w.)[A-Z]?[0-9][A-Z0-9]? [0-9][A-BD-HJLNP-UW-Z]{2}(?!\w)")
_CANADA_POSTCODE = re.compile(r"[ABCEGHJ-NPRSTVXY](?<!\w.)[0-9][ABCEGHJ-NPRSTV-Z] [0-9][ABCEGHJ-NPRSTV-Z][0-9](?!\w)")
_ZIP_PLUS_4 = re.compile(r"[0-9](?<![\w\-./+()]\w)[0-9]{4}-[0-9]{4}(?![\w\-]|[./][0-9])")
_NHS = re.compile(r"[0-9](?<![\w\-]\w)[0-9]{2} [0-9]{3} [0-9]{4}(?![\w\-])")

FEWEST_DIGITS = 4

_NHS_NAMED = re.compile("nhs")
_BEFORE_ZIP = re.compile(r"[ ]((?:[A-Z]{2}[ ])?[0-9]{5})(?![\w\-]|[.,/:][0-9])")
_LAST_WORDS_OF_CITIES = frozenset(name.rpartition(" ")[2].lower() for name in names_of_places("cities"))
_PEOPLE = words("employee student staff personnel customer client member badge payroll subscriber user pupil matriculation payee")
_BUSINESS = word_list("words_before_business_numbers")
# These may stand right before the number; "invoice 12" and "case 3" name a place in a list more often than a person's business.
_BARE = words("order booking reservation tracking ticket shipment parcel docket")
_MARK = r"[ \t]{0,2}(?:id|ids|number|numbers|no|nr|num|code|#)(?!\w)\.?(?:[ \t]{1,2}(?:is|was)(?!\w))?[ \t]{0,2}[:#=\-]?[ \t]{0,2}#?"
_CODE = r"([a-z]{0,5}[\-/]?[0-9][a-z0-9]{0,19}(?:[\-/.][a-z0-9]{1,12}){0,4})(?![\w])"
_MARKED = re.compile(_MARK + _CODE)
_UNMARKED = re.compile(r"[ \t]{1,2}#?" + _CODE)
_HASHED = re.compile(r"[ \t]{0,2}#[ \t]{0,2}" + _CODE)
FEWEST_MARKED = 3
FEWEST_BARE = 5
FEWEST_MIXED = 3  # after letters, as in ABC-123
_COURT_WORDS = words("application applications case cases appeal appeals petition petitions complaint docket file proceedings")
_NUMBERED = re.compile(r"\.[ ]{1,2}")
_COURT_MARK = re.compile(r"[ \t]{1,2}\(?(?:nos?|numbers?|nrs?)(?!\w)\.?[ \t]{1,2}")
# A number and a year, as courts and registries write them.
_DOCKET = re.compile(r"[0-9]{1,6}/[0-9]{2,6}(?![\w/])")
_DOCKET_AND_YEAR = re.compile(r"[0-9]{3,6}/(?:19|20)?[0-9]{2}(?![\w/])")
_NUMBER_WORDS = words("no nos nr")
_NEXT_DOCKET = re.compile(r"(?:,|,? and|;)[ \n]{1,2}(?=[0-9])")
_US_KINDS = ("-cv-", "-cr-", "-mj-", "-bk-", "-md-")
_US_DOCKET = re.compile(r"[0-9]:(?<![\w:]..)[0-9]{2}-(?:cv|cr|mj|bk|md)-[0-9]{3,6}(?:-[a-z]{2,4}){0,3}(?!\w)")


def _anchors(section: str) -> dict[str, tuple[frozenset[str], bool]]:
    """The last word of each phrase of a section -> (words of which one must stand before it, whether it is written in capitals)."""
    found: dict[str, tuple[frozenset[str], bool]] = {}
    for phrase in words_in_order(section):
        before, _, last = phrase.rpartition("_")
        earlier, _ = found.get(last.lower(), (frozenset(), False))
        found[last.lower()] = (earlier | ({before} if before else set()), last.isupper())
    return found


def _values_after(name: str) -> Rule:
    """Values with FEWEST_DIGITS after one of the words or phrases of a section.

    A year, and what stands after a word that must be in capitals and is not, needs "number", a colon or the like in between."""
    anchors = _anchors(f"words_before_{name}s")

    def look(document: Document, word: str, first: int, end: int) -> Finds:
        earlier, capital = anchors[word]
        match = _VALUE.match(document.lower, end)
        before = _WORD_BEFORE.search(document.lower, max(0, first - LONGEST_BEFORE), first) if match and earlier else None
        if match is None or (earlier and (before is None or before[1] not in earlier)):
            return
        # Up to the first part that has no digit: "12345 and" is a number and a word.
        value = " ".join(takewhile(_digits, match[1].split(" ")))
        start, stop = match.start(1), match.start(1) + len(value)
        joined = document.lower[end:start].strip() != ""  # by "number", a colon and the like
        is_other = (capital and not document.text[first:end].isupper()) or _YEAR.fullmatch(value)
        if (joined or not is_other) and _digits(value) >= FEWEST_DIGITS:
            yield start, stop

    return at_words(frozenset(anchors), name)(look)


@rule
def nhs_number(document: Document) -> Finds:
    named = {one.part(name.start()) for one in document.around for name in matches(_NHS_NAMED, one.lower)}
    for match in matches(_NHS, document.text) if named else ():
        if document.part(match.start()) in named and nhs_number_holds(match.group().replace(" ", "")):
            yield match.span()


@at_words(_LAST_WORDS_OF_CITIES)
def zip_after_city(document: Document, _: str, start: int, end: int) -> Finds:
    """`San Francisco 94110`, `Portland OR 97201`: five digits behind a city of the list."""
    match = _BEFORE_ZIP.match(document.text, end) or _BEFORE_ZIP.match(document.text, end + 1)
    if match and document.text[start].isupper():
        yield match.end(1) - 5, match.end(1)


@rule
def postal_code(document: Document) -> Finds:
    lower = document.lower
    for *_, end in document.after_words(_ZIPS):
        match = _ZIP_VALUE.match(lower, end)
        if match and 3 <= sum(map(str.isalnum, match[1])) <= 10 and sum(map(str.isdigit, match[1])) >= 2:
            yield match.span(1)
    for pattern in (_UK_POSTCODE, _CANADA_POSTCODE, *((_ZIP_PLUS_4,) if "-" in lower else ())):
        for found in matches(pattern, document.text):
            yield found.span()


account, medical_record, document = map(_values_after, ("account", "medical_record", "document"))


def _numbers(document: Document, word: str, _: int, end: int) -> Finds:
    """`employee ID 48213`, `badge #3391`, `order number 12345678`; without a mark after some words, as in `ticket ABC-123`."""
    match, fewest = _MARKED.match(document.lower, end) or _HASHED.match(document.lower, end), FEWEST_MARKED
    if match is None and word in _BARE:
        match = _UNMARKED.match(document.lower, end)
        fewest = FEWEST_BARE if match and match[1][0].isdigit() else FEWEST_MIXED
    if match and _digits(match[1]) >= fewest:
        yield match.span(1)


person_number = at_words(_PEOPLE, "person_number")(_numbers)
order_number = at_words(_BUSINESS, "order_number")(_numbers)


def _digits(written: str) -> int:
    return sum(map(str.isdigit, written))


@rule
def docket_number(document: Document) -> Finds:
    """`application no. 18403/91`, `nos. 1/99, 2/99 and 3/99`, `1:21-cv-04321`."""
    lower = document.lower
    for *_, end in document.after_words(_COURT_WORDS):
        mark = _COURT_MARK.match(lower, end)
        docket = _DOCKET.match(lower, mark.end()) if mark else None
        while docket:
            yield docket.span()
            gap = _NEXT_DOCKET.match(lower, docket.end())
            docket = _DOCKET.match(lower, gap.end()) if gap else None
    for *_, end in document.after_words(_NUMBER_WORDS):
        mark = _NUMBERED.match(lower, end)
        if mark and (docket := _DOCKET_AND_YEAR.match(lower, mark.end())):
            yield docket.span()
    if any(kind in lower for kind in _US_KINDS):  # a search that costs nothing, before one at every digit
        for match in matches(_US_DOCKET, lower):
            yield match.span()
