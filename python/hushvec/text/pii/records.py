"""Rules for numbers that are recognized by the words before them: accounts, patients, documents, postal codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hushvec.text.pii.checks import nhs_number_holds
from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.letters import words
from hushvec.text.pii.rule import Rule
from hushvec.text.pii.wordlists import cities

# "number is", "no.:", "#" and the like between the word and the value
_LEAD = (
    r"(?:[ \t]{0,2}(?:number|numbers|no|nr|num|id|code|identifier)\b\.?)?(?:[ \t]{0,2}\([^)\n]{1,20}\))?[ \t]{0,2}"
    r"(?:[:#=\-?]|is\b|was\b){0,2}[ \t\n]{0,2}[#:]?[ \t]{0,2}"
)
_VALUE = re.compile(_LEAD + r"([a-z]{0,4}[\-/]?[0-9][a-z0-9]{0,19}(?:[ \-/.][a-z0-9]{1,12}){0,5})(?![\w])")
_ZIP_VALUE = re.compile(_LEAD + r"([a-z]{0,2}[\-]?[0-9][a-z0-9]{0,6}(?:[ \-][0-9a-z]{1,4})?)(?!\w)")

_ACCOUNTS = words("account acct konto kontonummer routing sort policy membership customer iban swift")
_RECORDS = words("mrn record patient chart medicare medicaid nhs hospital encounter prescription")
_DOCUMENTS = words(
    "license licence passport visa identity identification permit reisepass führerschein plate vin dni nif cpf curp"
)
_ZIPS = frozenset({"zip", "zipcode", "postcode", "postal", "plz", "postleitzahl", "cep", "zips"})

_BEFORE_RECORD = re.compile(r"(?:medical|health|patient|hospital|clinical)[ \t]{1,2}$")
_BEFORE_SORT = re.compile(r"^[ \t]code")

_UK_POSTCODE = re.compile(r"[A-Z](?<!\w.)[A-Z]?[0-9][A-Z0-9]? [0-9][A-BD-HJLNP-UW-Z]{2}(?!\w)")
_CANADA_POSTCODE = re.compile(r"[ABCEGHJ-NPRSTVXY](?<!\w.)[0-9][ABCEGHJ-NPRSTV-Z] [0-9][ABCEGHJ-NPRSTV-Z][0-9](?!\w)")
_ZIP_PLUS_4 = re.compile(r"[0-9](?<![\w\-./+()]\w)[0-9]{4}-[0-9]{4}(?![\w\-]|[./][0-9])")
_NHS = re.compile(r"[0-9](?<![\w\-]\w)[0-9]{2} [0-9]{3} [0-9]{4}(?![\w\-])")

FEWEST_DIGITS = 4


def _values(
    document: Document, words: frozenset[str], fewest: int, accept: Callable[[str, str, int], bool]
) -> Iterator[tuple[int, int]]:
    lower = document.lower
    if not document.has_digits:
        return
    for word, end in document.after_words(words):
        match = _VALUE.match(lower, end)
        if match is None or not accept(lower, word, end):
            continue
        start, stop = match.span(1)
        stop = _without_words(lower, start, stop)
        if sum(map(str.isdigit, lower[start:stop])) >= fewest:
            yield start, stop


def _without_words(lower: str, start: int, stop: int) -> int:
    """Cut before the first part that has no digit: "12345 and" is a number and a word."""
    end = start
    for part in re.finditer(r"[^ ]+", lower[start:stop]):
        if not any(map(str.isdigit, part.group())):
            break
        end = start + part.end()
    return end


def _accounts(document: Document) -> Iterator[tuple[int, int]]:
    def accept(lower: str, word: str, end: int) -> bool:
        return word != "sort" or _BEFORE_SORT.match(lower[end : end + 5]) is not None

    return _values(document, _ACCOUNTS, FEWEST_DIGITS, accept)


def _records(document: Document) -> Iterator[tuple[int, int]]:
    def accept(lower: str, word: str, end: int) -> bool:
        return word != "record" or _BEFORE_RECORD.search(lower[max(0, end - 18) : end - 6]) is not None

    return _values(document, _RECORDS, FEWEST_DIGITS, accept)


def _documents(document: Document) -> Iterator[tuple[int, int]]:
    return _values(document, _DOCUMENTS, FEWEST_DIGITS, lambda lower, word, end: True)


def _nhs_numbers(document: Document) -> Iterator[tuple[int, int]]:
    if "nhs" not in document.lower:
        return
    for match in matches(_NHS, document.text):
        if nhs_number_holds(match.group().replace(" ", "")):
            yield match.span()


_BEFORE_ZIP = re.compile(r"[ ]((?:[A-Z]{2}[ ])?[0-9]{5})(?![\w\-]|[.,/:][0-9])")
_LAST_WORDS_OF_CITIES = frozenset(name.rpartition(" ")[2].lower() for name in cities())


def _zips_after_cities(document: Document) -> Iterator[tuple[int, int]]:
    """`San Francisco 94110`, `Portland OR 97201`: five digits behind a city of the list."""
    if not document.has_digits:
        return
    for word, end in document.after_words(_LAST_WORDS_OF_CITIES):
        match = _BEFORE_ZIP.match(document.text, end) or _BEFORE_ZIP.match(document.text, end + 1)
        if match and document.text[end - len(word)].isupper():
            yield match.end(1) - 5, match.end(1)


def _zips(document: Document) -> Iterator[tuple[int, int]]:
    lower = document.lower
    if not document.has_digits:
        return
    for _, end in document.after_words(_ZIPS):
        match = _ZIP_VALUE.match(lower, end)
        if match and 3 <= sum(map(str.isalnum, match[1])) <= 10 and sum(map(str.isdigit, match[1])) >= 2:
            yield match.span(1)
    for pattern in (_UK_POSTCODE, _CANADA_POSTCODE, *((_ZIP_PLUS_4,) if "-" in lower else ())):
        for found in matches(pattern, document.text):
            yield found.span()


RULES = (
    Rule("account", "account number", 0.8, "four or more digits after account, policy, routing, customer, ...", _accounts),
    Rule(
        "medical_record",
        "medical record number",
        0.85,
        "four or more digits after MRN, medical record, patient, chart, ...",
        _records,
    ),
    Rule(
        "nhs_number",
        "medical record number",
        0.9,
        "3-3-4 digits with the NHS check digit, in a text that names the NHS",
        _nhs_numbers,
    ),
    Rule(
        "document",
        "identity document number",
        0.85,
        "four or more digits after license, passport, visa, identity, ...",
        _documents,
    ),
    Rule(
        "postal_code",
        "postal code",
        0.7,
        "after zip, postcode, postal code; ZIP+4, British and Canadian codes by their shape",
        _zips,
    ),
    Rule("zip_after_city", "postal code", 0.7, "five digits behind a large city of a list", _zips_after_cities),
)
