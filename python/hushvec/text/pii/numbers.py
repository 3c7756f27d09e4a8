"""Rules for numbers with check digits or known ranges: cards, IBAN, bank codes, social security and taxpayer numbers of the US."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from hushvec.text.pii.checks import (
    COUNTRY_CODES,
    IBAN_LENGTHS,
    iban_holds,
    is_card,
    is_ein,
    is_itin,
    is_repeated,
    is_ssn,
    luhn_holds,
)
from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.letters import words
from hushvec.text.pii.rule import Rule

# Patterns begin with a digit and look back from there: text without digits is skipped at the speed of a character search.
_CARD = re.compile(
    r"[0-9](?<![\w]\w)(?:[0-9]{11,18}"
    r"|[0-9]{3}([ \-])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|[0-9]{3}([ \-])[0-9]{6}\2[0-9]{4,5}"
    r"|[0-9]{3}([ \-])[0-9]{4}\3[0-9]{5}"
    r"|[0-9]{3}([ \-])[0-9]{4}\4[0-9]{4}\4[0-9]{1,3})(?!\w)"
)
_SSN = re.compile(r"[0-9](?<![\w\-.]\w)[0-9]{2}([ \-.])[0-9]{2}\1[0-9]{4}(?![\w]|[\-.][0-9])")
_BARE_SSN = re.compile(
    r"(?:\W{0,3}(?:number|no|nr|num|is|was))?(?:\W{0,3}(?:is|was|of))?\W{0,4}([0-9]{3})([ \-]?)([0-9]{2})\2([0-9]{4})(?!\w)"
)
_IBAN = re.compile(r"[0-9]{2}(?<=[a-z]{2}[0-9]{2})(?<![^\W_][a-z]{2}[0-9]{2})(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,4})?")

_CARD_WORDS = words("card cards cc credit debit visa mastercard amex maestro karte kreditkarte carte tarjeta")
_CARD_ENDING = re.compile(
    r"(?: card)?(?: (?:number|no\.?))?,?(?: that| which)? (?:ending|ends|ended)(?: in| with|:)? {1,2}"
    r"([*x•.]{0,12}[0-9]{4})(?!\w|[.,\-][0-9])"
)
CARD_REACH = 48
FEWEST_CARD_DIGITS = 13
_SSN_WORDS = frozenset({"ssn", "security", "itin", "tin", "taxpayer"})


def _cards(document: Document) -> Iterator[tuple[int, int]]:
    for match in matches(_CARD, document.text):
        if is_card(_digits(match.group())):
            yield match.span()


def _cards_after_words(document: Document) -> Iterator[tuple[int, int]]:
    """Numbers whose issuer is not in the table, soon after a word such as card."""
    if not document.has_digits:
        return
    ends = sorted(end for _, end in document.after_words(_CARD_WORDS))
    if not ends:
        return
    for end in ends:
        ending = _CARD_ENDING.match(document.lower, end)
        if ending:
            yield ending.span(1)
    for match in matches(_CARD, document.text):
        nearest = bisect_right(ends, match.start()) - 1
        if nearest >= 0 and match.start() - ends[nearest] <= CARD_REACH:
            digits = _digits(match.group())
            if len(digits) >= FEWEST_CARD_DIGITS and not is_repeated(digits) and luhn_holds(digits):
                yield match.span()


def _digits(written: str) -> str:
    return "".join(filter(str.isdigit, written))


def _ibans(document: Document) -> Iterator[tuple[int, int]]:
    lower = document.lower
    for match in matches(_IBAN, lower):
        start = match.start() - 2
        length = IBAN_LENGTHS.get(lower[start : start + 2])
        end = None if length is None else _end_of(lower, start, match.end(), length)
        if end is not None and iban_holds(lower[start:end].replace(" ", "")):
            yield start, end


def _end_of(text: str, start: int, limit: int, length: int) -> int | None:
    """Where `length` characters other than spaces end, if a word ends there too."""
    end = start
    for position in range(start, limit):
        if text[position] != " ":
            length -= 1
            if length == 0:
                end = position + 1
                break
    if length or (end < len(text) and text[end].isalnum()):
        return None
    return end


def _parts(text: str) -> tuple[str, str, str]:
    return text[:3], text[4:6], text[7:]


def _grouped(document: Document) -> list[re.Match[str]]:
    """Numbers in groups of three, two and four digits, which two rules look at."""
    return list(matches(_SSN, document.text))


def _ssns(document: Document) -> Iterator[tuple[int, int]]:
    for match in document.once(_grouped):
        if is_ssn(*_parts(match.group())):
            yield match.span()


def _itins(document: Document) -> Iterator[tuple[int, int]]:
    for match in document.once(_grouped):
        area, group, _ = _parts(match.group())
        if is_itin(area, group):
            yield match.span()


def _ssns_after_words(document: Document) -> Iterator[tuple[int, int]]:
    """Nine digits after the word: including ranges that are never issued, which may be misprints or stand-ins."""
    if not document.has_digits:
        return
    for _, end in document.after_words(_SSN_WORDS):
        match = _BARE_SSN.match(document.lower, end)
        if match:
            yield match.start(1), match.end(4)


_EIN = re.compile(r"[0-9](?<![\w\-./]\w)[0-9]-[0-9]{7}(?![\w\-]|[./][0-9])")
_EIN_WORDS = frozenset({"ein", "fein", "employer"})
_BARE_EIN = re.compile(
    r"(?:[ \t]{1,2}identification)?(?:[ \t]{1,2}(?:number|no|id))?\.?(?:[ \t]{0,2}\(?(?:f?ein)\)?)?"
    r"[ \t]{0,2}(?:[:#=]|is\b|was\b)?[ \t]{0,2}([0-9]{2}[\- ]?[0-9]{7})(?![\w\-])"
)


def _eins(document: Document) -> Iterator[tuple[int, int]]:
    """By shape where the first two digits are in use; after its name in any case."""
    if not document.has_digits:
        return
    if "-" in document.text:
        for match in matches(_EIN, document.text):
            if is_ein(match.group()[:2]):
                yield match.span()
    for _, end in document.after_words(_EIN_WORDS):
        bare = _BARE_EIN.match(document.lower, end)
        if bare:
            yield bare.span(1)


_BIC_WORDS = frozenset({"swift", "bic", "bank"})
_BIC = re.compile(
    r"(?:/bic|/swift| bic|[ \t]?\((?:bic|swift)\))?(?:[ \t]{1,2}(?:code|number|no|address))?\.?"
    r"[ \t]{0,2}(?:[:#=\-]|is\b|was\b)?[ \t]{0,2}([a-z]{4}([a-z]{2})[a-z0-9]{2}(?:[a-z0-9]{3})?)(?!\w)"
)


def _bics(document: Document) -> Iterator[tuple[int, int]]:
    """Eight or eleven letters and digits with a country in their middle, after SWIFT, BIC or bank code."""
    for word, end in document.after_words(_BIC_WORDS):
        match = _BIC.match(document.lower, end)
        if match is None or match[2] not in COUNTRY_CODES:
            continue
        start, stop = match.span(1)
        if not (document.text[start:stop].isupper() or document.all_lower):
            continue
        # "SWIFT PROGRESS" is a headline; a digit, a colon or the word code says that a code follows.
        if not document.lower[end:start].strip() and match[1].isalpha():
            continue
        if word == "bank" and not document.lower.startswith(" code", end):
            continue
        yield start, stop


RULES = (
    Rule("card", "card number", 1.0, "12 to 19 digits: issuer, length and Luhn check digit", _cards),
    Rule(
        "card_after_words",
        "card number",
        0.95,
        "13 to 19 digits with the Luhn check digit after card, credit, Visa, ...; the last four after Visa ending in",
        _cards_after_words,
    ),
    Rule("iban", "bank account number", 1.0, "length of the country and mod 97 check", _ibans),
    Rule("us_ssn", "social security number", 0.9, "3-2-4 digits; not areas 000, 666, 9xx, group 00, serial 0000", _ssns),
    Rule("us_ssn_after_words", "social security number", 0.95, "nine digits after SSN, social security, TIN", _ssns_after_words),
    Rule("us_ein", "tax number", 0.8, "2-7 digits with first digits that are in use; nine digits after EIN, employer", _eins),
    Rule("bic", "bank code", 0.85, "8 or 11 capitals and digits with a country code, after SWIFT, BIC, bank code", _bics),
    Rule("us_itin", "tax number", 0.9, "3-2-4 digits beginning with 9, groups 50-65, 70-88, 90-92, 94-99", _itins),
)
