"""Rules for what is said of somebody in figures or by a nation: amounts of money, nationalities, listed days, years of a life."""

from __future__ import annotations

import re

from hushvec.text.pii.document import Document, Finds, at_words, matches, rule
from hushvec.text.pii.wordlists import CAPITALS, LETTER, word_list, words, words_in_order

_FIGURE = r"[0-9](?:[.,]?[0-9]){0,20}(?: (?:thousand|million|billion)|[km](?!\w))?"
_BEFORE_CURRENCY = re.compile(rf"(?<![\w.,]){_FIGURE} (?:[{CAPITALS}]{LETTER}{{1,15}} )?$")
_AFTER_CURRENCY = re.compile(r"(?: sterling)?(?: \([A-Z]{3}\))?")
_AFTER_CODE = re.compile(rf" ?{_FIGURE}")
_SIGNS = "$€£¥₺"
_SIGNED = re.compile(rf"[{_SIGNS}] ?{_FIGURE}")
_CURRENCIES = word_list("currencies")
_SOMEBODYS = re.compile(rf"\b(?:{'|'.join(words_in_order('words_before_amounts'))})\b[^.\n]{{0,60}}$")
_ABOUT = re.compile(r"(?:\[?approx\. |\(?approximately |about )$")
REACH = 80
NEXT = 32  # an amount this near behind another one is the same in another currency, or one more

_CITIZENS = words("national nationals citizen citizens nationality citizenship")
_NATION = re.compile(rf"(?<!\w)([{CAPITALS}]{LETTER}{{3,18}}) $")
_NATIONS = words_in_order("endings_of_nationalities")
_MONTHS = frozenset(name for names in words_in_order("months") for name in names.split("|"))
_DAYS = re.compile(r"(?<![\w.,])[0-9]{1,2}((?:(?:, | and | or | to |, and )[0-9]{1,2}){1,3})? $")
_NEXT_MONTH = re.compile(rf",?(?: and| to| until| or)?(?: on)?(?: [0-9]{{1,2}})? ({LETTER}{{3,10}}) (?:1[89]|20)[0-9]{{2}}(?!\w)")
_YEAR = r"((?:1[89]|20)[0-9]{2})(?![\w\-/]|[.,][0-9])"
_YEARS = re.compile(rf"(?: in)? {_YEAR}(?: (?:and|to|until) {_YEAR})?")
_BEFORE_YEARS = words("in from between since until born")
_TERM = re.compile(
    r"(?<![\w\-])([\w\-]{1,12} (?:years?|months?|days?)(?: and [\w\-]{1,12} (?:months?|days?))?)['’]?s? (?:of |in (?:a |the )?)?$"
)
_IN_PRISON = words("imprisonment prison jail custody detention")
_SOMEBODY = re.compile(rf"\b(?:{'|'.join(words_in_order('somebody'))})\b")


@rule
def amount(document: Document) -> Finds:
    text, lower, last = document.text, document.lower, -NEXT
    found = [match.span() for match in matches(_SIGNED, text)] if any(sign in text for sign in _SIGNS) else []
    for word, start, end in document.after_words(_CURRENCIES):
        if len(word) > 3 or text[start:end].isupper():
            if text[start - 1 : start] == " " and (before := _BEFORE_CURRENCY.search(text, max(0, start - 48), start)):
                found.append((before.start(), _AFTER_CURRENCY.match(text, end).end()))  # type: ignore[union-attr]
            elif len(word) == 3 and (after := _AFTER_CODE.match(text, end)):
                found.append((start, after.end()))
    for start, end in sorted(found):
        if start - last < NEXT or _SOMEBODYS.search(lower, max(0, start - REACH), start):
            about, last = _ABOUT.search(lower, max(0, start - 16), start), end
            yield about.start() if about else start, end


@at_words(_CITIZENS)
def nationality(document: Document, _: str, start: int, end: int) -> Finds:
    nation = _NATION.search(document.text, max(0, start - 24), start)
    if nation and nation[1].lower().endswith(_NATIONS):
        yield nation.span(1)


@at_words(_MONTHS | _BEFORE_YEARS | _IN_PRISON)
def dates_listed(document: Document, word: str, start: int, end: int) -> Finds:
    lower = document.lower
    if word in _MONTHS:
        days = _DAYS.search(lower, max(0, start - 32), start) if lower[start - 2 : start - 1].isdigit() else None
        month = _NEXT_MONTH.match(lower, end)
        if month and month[1] in _MONTHS:
            yield days.start() if days else start, end
        elif days and days[1]:
            yield days.span()
    elif word in _IN_PRISON:
        if term := _TERM.search(lower, max(0, start - 48), start):
            yield term.span(1)
    elif years := _YEARS.match(lower, end):
        first, last = document.part(end)  # nothing that stands in another of the joined texts makes a year somebody's
        near = lower[max(first, end - REACH) : min(last, years.end() + NEXT)]
        if word == "born" or years[2] or _SOMEBODY.search(near):
            yield years.span(1)
            yield years.span(years.lastindex or 1)
