"""Rules for dates of a day, in figures and in words, for months with a year, years of birth, and ages. Other years stay."""

from __future__ import annotations

import re
from datetime import date as calendar_date

from hushvec.text.pii.document import Document, Finds, at_words, matches, rule
from hushvec.text.pii.wordlists import words, words_in_order

_TIME = r"(?:[t ]{1,2}[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?: ?[ap]\.?m\b\.?|z\b|[+\-][0-9]{2}:?[0-9]{2}\b)?)?"
_YEAR_FIRST = re.compile(r"[0-9](?<![\w.\-/]\w)[0-9]{3}([\-/.])([0-9]{1,2})\1([0-9]{1,2})(?![0-9\-/])" + _TIME)
_YEAR_LAST = re.compile(r"[0-9](?<![\w.\-/]\w)[0-9]?([\-/.]) ?([0-9]{1,2})\1 ?([0-9]{4}|[0-9]{2})(?![\w\-/]|[.][0-9])" + _TIME)
_EAST_ASIAN = re.compile(r"[0-9](?<![0-9.\-/].)[0-9]{3}[年년] ?([0-9]{1,2})[月월] ?([0-9]{1,2})[日일]")

_SECTION = re.compile(r"(?:sections?|clause|version|release|§|\bv) ?$")  # "section 27.10.11"

_MONTHS = {name: number for number, names in enumerate(words_in_order("months"), 1) for name in names.split("|")}
_DAY_BEFORE = re.compile(r"(?<![\w.,])([0-9]{1,2})(?:st|nd|rd|th|\.|º|er)?[ \-]{1,2}(?:of |de |di )?$")
_DAY_AFTER = re.compile(r"\.?[ \-]{1,2}([0-9]{1,2})(?:st|nd|rd|th)?(?![\w:]|[.,][0-9])(?:,? {1,2}((?:1[89]|20)[0-9]{2})(?!\w))?")
_YEAR_AFTER = re.compile(r"\.?,?[ \-]{1,2}(?:of |de |del )?((?:1[5-9]|20)[0-9]{2})(?!\w)")
# "03FEB1990", "3/Feb/1990", "03-FEB-90"
_DAY_JOINED = re.compile(r"(?<![\w.,])([0-9]{1,2})[\-/.]?$")
_YEAR_JOINED = re.compile(r"[\-/.]?(?:(?:1[5-9]|20)?[0-9]{2})(?![\w\-/])")
_BIRTH_WORDS = words("born birth")
_BIRTH_YEAR = re.compile(
    r"(?: year)?(?: ?[:=]|(?: in| around| about| circa| is| was| c\.)?(?: the year)?) {1,2}((?:1[89]|20)[0-9]{2})(?![\w\-/]|[.,][0-9])"
)
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_AGE_BEFORE = re.compile(
    r"[0-9](?<![\w.,$€£]\w)[0-9]{0,2}(?=[ \-]{0,2}(?:years?[ \-]olds?\b|yrs?\.?[ \-]old\b|y/?o\b|y\.o\.|years? of age\b|year old\b))"
)
_AGE_AFTER = re.compile(
    r"(?:[ \t]{0,2}[:=]|[ \t]of|[ \t]is)?[ \t]{1,2}([1-9][0-9]{0,2})(?![\w%]|[.,:/\-][0-9]| (?:percent|minutes|hours|degrees))"
)
_ANYTHING = re.compile("")
_WAS_AGE = re.compile(r"[ \t](?:was|is|were)[ \t](?:only |just )?([1-9][0-9]{0,2})(?![\w%]|[.,:/\-][0-9]| [a-z])")
_I_AM = re.compile(r"(?:\bi(?:['’´`]m|m| am)|\b(?:he|she)['’]s)$")
# What may follow an age that no word names: "I'm 23 and new here", not "I'm 23 minutes late".
_AGE_STANDS_ALONE = re.compile(
    r"[ \t](?:only |just |now |almost |nearly |already |about )?([1-9][0-9]{0,2})(?=[ \t]{0,2}(?:$|[\n;!?)]|[.,](?![0-9])"
    r"|[ ](?:and|but|so|now|today|this|next|male|female|m|f|years?|yrs?|living|single|married|divorced|pregnant|with|who|since|if)\b))"
)
YOUNGEST_ALONE, OLDEST = 3, 120
# Words -> the youngest age, what ends with the word, and what stands behind it.
_AGE_AT = {
    **dict.fromkeys(words("aged age turned turning turns"), (1, _ANYTHING, _AGE_AFTER)),
    **dict.fromkeys(words("he she"), (1, _ANYTHING, _WAS_AGE)),
    **dict.fromkeys(words("m am im s"), (YOUNGEST_ALONE, _I_AM, _AGE_STANDS_ALONE)),
}


@rule
def date(document: Document) -> Finds:
    lower = document.lower
    for match in () if lower.isascii() else matches(_EAST_ASIAN, lower):
        if _is_day(int(match[0][:4]), int(match[1]), int(match[2])):
            yield match.span()
    for match in matches(_YEAR_FIRST, lower):
        if 1500 <= int(match.group()[:4]) <= 2199 and _is_day(int(match.group()[:4]), int(match[2]), int(match[3])):
            yield match.span()
    for match in matches(_YEAR_LAST, lower):
        first, second, short = int(match[0].partition(match[1])[0]), int(match[2]), len(match[3]) == 2
        if match[1] == "." and short and match[0][-1].isdigit() and not re.match(r"\d\d\.\d\d\.\d\d", match[0]):
            continue
        if match[1] == "." and _SECTION.search(lower, max(0, match.start() - 10), match.start()):
            continue
        year = int(match[3]) + 2000 * short
        if 1500 <= year <= 2199 and (_is_day(year, first, second) or _is_day(year, second, first)):
            yield match.span()


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        calendar_date(year, month, day)
    except ValueError:
        return False
    return True


@at_words(_BIRTH_WORDS.union(_MONTHS))
def date_in_words(document: Document, word: str, start: int, end: int) -> Finds:
    lower = document.lower
    if word in _BIRTH_WORDS:
        if birth := _BIRTH_YEAR.match(lower, end):
            yield birth.span(1)
        return
    days = range(1, _DAYS[_MONTHS[word] - 1] + 1)
    day, joined = _DAY_JOINED.search(lower, max(0, start - 4), start), _YEAR_JOINED.match(lower, end)
    before = _DAY_BEFORE.search(lower, max(0, start - 14), start)
    after, year = _DAY_AFTER.match(lower, end), _YEAR_AFTER.match(lower, end)
    is_capital = document.text[start].isupper()
    if day and joined and int(day[1]) in days:
        yield day.start(1), joined.end()
    elif before and int(before[1]) in days:
        if year or word not in ("may", "mar", "mars", "mai", "mei"):
            yield before.start(1), year.end() if year else end
    elif after and int(after[1]) in days and (after[2] or is_capital):
        yield start, after.end()
    elif year and (is_capital or document.all_lower):
        yield start, year.end()


@rule
def age(document: Document) -> Finds:
    lower = document.lower
    for match in matches(_AGE_BEFORE, lower):
        if int(match.group()) <= OLDEST:
            yield match.span()
    for word, _, end in document.after_words(frozenset(_AGE_AT)):
        youngest, before, behind = _AGE_AT[word]
        found = behind.match(lower, end)
        if found and youngest <= int(found[1]) <= OLDEST and before.search(lower, max(0, end - 6), end):
            yield found.span(1)
