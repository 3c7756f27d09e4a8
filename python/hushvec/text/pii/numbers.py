"""Numbers with check digits or known ranges: cards, IBAN, bank codes, social security and taxpayer numbers of the US."""

from __future__ import annotations

import re
from bisect import bisect_right
from importlib import import_module
from importlib.util import find_spec

from hushvec.text.pii.document import Document, Finds, Rule, at_words, matches, rule
from hushvec.text.pii.wordlists import word_list, words, words_in_order

# (first and last leading digits, lengths of the numbers)
_ISSUERS = [
    (first, last or first, {int(length) for length in lengths.split(",")})
    for issuer in words_in_order("card_issuers")
    for leading, _, lengths in [issuer.partition(":")]
    for first, _, last in [leading.partition("-")]
]

_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)

IBAN_LENGTHS = {country[:2]: int(country[2:]) for country in words_in_order("iban_lengths")}
# First two digits of employer identification numbers that the Internal Revenue Service has not given out.
_UNUSED_EIN = words("00 07 08 09 17 18 19 28 29 49 69 70 78 79 89 96 97")
# ISO 3166-1, two letters, and xk, which banks use for Kosovo.
COUNTRY_CODES = word_list("country_codes")
# Patterns begin with a digit and look back from there: text without digits is skipped at the speed of a character search.
_GAP = r"( ?[\-./_\t] ?| {1,2})"  # between the groups of one number
_END = r"(?:(?!\w)|(?=[A-Za-z]{3}))"  # of a number with a checksum: the label of the next one may stand right behind it
_CARD = re.compile(
    r"[0-9](?<![\w]\w)(?:[0-9]{11,18}"
    rf"|[0-9]{{3}}{_GAP}[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}(?:\1[0-9]{{3}})?"
    rf"|[0-9]{{3}}{_GAP}[0-9]{{6}}\2[0-9]{{4,5}}"
    rf"|[0-9]{{3}}{_GAP}[0-9]{{4}}\3[0-9]{{5}}"
    rf"|[0-9]{{3}}{_GAP}[0-9]{{4}}\4[0-9]{{4}}\4[0-9]{{1,3}}){_END}"
)
_SSN = re.compile(r"[0-9](?<![\w\-.]\w)[0-9]{2}([ \-.])[0-9]{2}\1[0-9]{4}(?![\w]|[\-.][0-9])")
_BARE_SSN = re.compile(
    r"(?:\W{0,3}(?:number|no|nr|num|is|was))?(?:\W{0,3}(?:is|was|of))?\W{0,4}([0-9]{3}([ \-]?)[0-9]{2}\2[0-9]{4})(?!\w)"
)
# The rest is read ahead: it may reach into the next number, which a search must not pass over.
_IBAN = re.compile(
    r"[0-9]{2}(?<=[a-z]{2}[0-9]{2})(?:(?<![^\W_][a-z]{2}[0-9]{2})|(?<=iban[a-z]{2}[0-9]{2}))"
    r"(?=((?:[ \-./_\t]?[a-z0-9]{4}){2,7}(?:[ \-./_\t]?[a-z0-9]{1,4})?))"
)
_IBAN_END = re.compile(_END)
_CARD_WORDS = words("card cards cc credit debit visa mastercard amex maestro karte kreditkarte carte tarjeta")
_CARD_ENDING = re.compile(
    r"(?: card)?(?: (?:number|no\.?))?,?(?: that| which)? (?:ending|ends|ended)(?: in| with|:)? {1,2}"
    r"([*x•.]{0,12}[0-9]{4})(?!\w|[.,\-][0-9])"
)
CARD_REACH = 48
FEWEST_CARD_DIGITS = 13
_SSN_WORDS = words("ssn security itin tin taxpayer")
_EIN = re.compile(r"[0-9](?<![\w\-./]\w)[0-9]-[0-9]{7}(?![\w\-]|[./][0-9])")
_EIN_WORDS = words("ein fein employer")
_BARE_EIN = re.compile(
    r"(?:[ \t]{1,2}identification)?(?:[ \t]{1,2}(?:number|no|id))?\.?(?:[ \t]{0,2}\(?(?:f?ein)\)?)?"
    r"[ \t]{0,2}(?:[:#=]|is\b|was\b)?[ \t]{0,2}([0-9]{2}[\- ]?[0-9]{7})(?![\w\-])"
)
_BIC_WORDS = frozenset({"swift", "bic", "bank"})
_BIC = re.compile(
    r"(?:/bic|/swift| bic|[ \t]?\((?:bic|swift)\))?(?:[ \t]{1,2}(?:code|number|no|address))?\.?"
    r"[ \t]{0,2}(?:[:#=\-]|is\b|was\b)?[ \t]{0,2}([a-z]{4}([a-z]{2})[a-z0-9]{2}(?:[a-z0-9]{3})?)(?!\w)"
)
# Numbers as they are written, and the modules that check them.
SHAPES = {
    shape.replace("_", " "): modules.split(",")
    for entry in words_in_order("national_numbers")
    for shape, _, modules in [entry.partition(":")]
}
_CLASSES = {"0": "[0-9]", "A": "[A-Z]"}
_WRITTEN = ["".join(_CLASSES.get(sign, re.escape(sign)) for sign in shape) for shape in sorted(SHAPES, key=len, reverse=True)]
# Those that begin with a digit, and with a capital: a search for one kind of character is fast.
_RESTS = {kind: "|".join(one[len(kind) :] for one in _WRITTEN if one.startswith(kind)) for kind in _CLASSES.values()}
_NATIONAL = {kind: re.compile(rf"{kind}(?=[0-9A-Z \-])(?<![\w\-./].)(?:{rests})(?!\w|[\-./]\w)") for kind, rests in _RESTS.items()}
_SIGNS = str.maketrans("123456789BCDEFGHIJKLMNOPQRSTUVWXYZ", "0" * 9 + "A" * 25)


def luhn_holds(digits: str) -> bool:
    """The check digit of card numbers (ISO/IEC 7812-1, annex B)."""
    values = [ord(digit) - 48 for digit in reversed(digits)]
    return (sum(values[::2]) + sum(_DOUBLED[value] for value in values[1::2])) % 10 == 0


def is_card(digits: str) -> bool:
    """Leading digits and length of an issuer, and the check digit."""
    of_issuer = any(len(digits) in lengths and first <= digits[: len(first)] <= last for first, last, lengths in _ISSUERS)
    return of_issuer and not is_repeated(digits) and luhn_holds(digits)


def is_repeated(digits: str) -> bool:
    return len(set(digits)) == 1


def iban_holds(iban: str) -> bool:
    """ISO 7064 mod 97-10 over the letters and digits of an IBAN in lower case, without spaces."""
    turned = iban[4:] + iban[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


def is_ssn(area: str, group: str, serial: str) -> bool:
    """Outside the ranges that the Social Security Administration never issues."""
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000"


def is_itin(area: str, group: str) -> bool:
    """The groups of the US individual taxpayer number."""
    number = int(group)
    return area[0] == "9" and (50 <= number <= 65 or 70 <= number <= 88 or 90 <= number <= 92 or 94 <= number <= 99)


def nhs_number_holds(digits: str) -> bool:
    """The mod 11 check digit of an NHS number of ten digits."""
    total = sum((10 - place) * int(digit) for place, digit in enumerate(digits[:9]))
    return (11 - total % 11) % 11 == int(digits[9])


@rule
def card(document: Document) -> Finds:
    for match in matches(_CARD, document.text):
        if is_card(_digits(match.group())):
            yield match.span()


@rule
def card_after_words(document: Document) -> Finds:
    """Numbers whose issuer is not in the table, soon after a word such as card."""
    ends = sorted(end for *_, end in document.after_words(_CARD_WORDS))
    for end in ends:
        if ending := _CARD_ENDING.match(document.lower, end):
            yield ending.span(1)
    for match in matches(_CARD, document.text) if ends else ():
        nearest = bisect_right(ends, match.start()) - 1
        if nearest >= 0 and match.start() - ends[nearest] <= CARD_REACH and ends[nearest] > document.part(match.start())[0]:
            digits = _digits(match.group())
            if len(digits) >= FEWEST_CARD_DIGITS and not is_repeated(digits) and luhn_holds(digits):
                yield match.span()


def _digits(written: str) -> str:
    return "".join(filter(str.isdigit, written))


@rule
def iban(document: Document) -> Finds:
    lower = document.lower
    for match in matches(_IBAN, lower):
        start = match.start() - 2
        length = IBAN_LENGTHS.get(lower[start : start + 2])
        end = None if length is None else _end_of(lower, start, match.end(1), length)
        if end is not None and iban_holds("".join(filter(str.isalnum, lower[start:end]))):
            yield start, end


def _end_of(text: str, start: int, limit: int, length: int) -> int | None:
    end = start
    for position in range(start, limit):
        if text[position].isalnum():
            length -= 1
            if length == 0:
                end = position + 1
                break
    return None if length or not _IBAN_END.match(text, end) else end


@rule
def us_ssn(document: Document) -> Finds:
    return (found.span() for found in matches(_SSN, document.text) if is_ssn(found[0][:3], found[0][4:6], found[0][7:]))


@rule
def us_itin(document: Document) -> Finds:
    return (found.span() for found in matches(_SSN, document.text) if is_itin(found[0][:3], found[0][4:6]))


@at_words(_SSN_WORDS)
def us_ssn_after_words(document: Document, _: str, start: int, end: int) -> Finds:
    """Nine digits after the word: including ranges that are never issued, which may be misprints or stand-ins."""
    if match := _BARE_SSN.match(document.lower, end):
        yield match.span(1)


@rule
def us_ein(document: Document) -> Finds:
    if "-" in document.text:
        for match in matches(_EIN, document.text):
            if match.group()[:2] not in _UNUSED_EIN:
                yield match.span()
    for *_, end in document.after_words(_EIN_WORDS):
        if bare := _BARE_EIN.match(document.lower, end):
            yield bare.span(1)


@at_words(_BIC_WORDS)
def bic(document: Document, word: str, _: int, end: int) -> Finds:
    match = _BIC.match(document.lower, end)
    if match is None or match[2] not in COUNTRY_CODES or not (document.all_lower or document.text[slice(*match.span(1))].isupper()):
        return
    # "SWIFT PROGRESS" is a headline; a digit, a colon or the word code says that a code follows.
    is_code = document.lower[end : match.start(1)].strip() or not match[1].isalpha()
    if is_code and (word != "bank" or document.lower.startswith(" code", end)):
        yield match.span(1)


def _passes(module: str, written: str) -> bool:
    try:
        return not module or bool(import_module(f"stdnum.{module}").is_valid(written))
    except Exception:  # not installed; or, in release 2.2, a KeyError for places of birth that are not in its table
        return False


def national_number_rule() -> Rule:
    """With the checks of `python-stdnum` where the package is installed; the summary says whether it is."""

    def find(document: Document) -> Finds:
        for match in (match for pattern in _NATIONAL.values() for match in matches(pattern, document.text)):
            if any(_passes(module, match.group()) for module in SHAPES[match.group().translate(_SIGNS)]):
                yield match.span()

    checked = "is not installed" if find_spec("stdnum") is None else "in use"
    summary = f"AB 12 34 56 C; numbers of some 20 countries by shape and check digits (package python-stdnum {checked})"
    return Rule("national_number", "identity document number", 0.9, summary, find, frozenset({"digits:1"}))
