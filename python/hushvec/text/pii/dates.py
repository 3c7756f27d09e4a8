"""Rules for dates of a day, in figures and in words, for months with a year, years of birth, and ages. Other years stay."""

from __future__ import annotations

import re
from datetime import date as calendar_date

from hushvec.text.pii.document import Document, Finds, matches, rule
from hushvec.text.pii.wordlists import words, words_in_order

_TIME = r"(?:[t ]{1,2}[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?: ?[ap]\.?m\b\.?|z\b|[+\-][0-9]{2}:?[0-9]{2}\b)?)?"
_YEAR_FIRST = re.compile(r"[0-9](?<![\w.\-/]\w)[0-9]{3}([\-/.])([0-9]{1,2})\1([0-9]{1,2})(?![0-9\-/])" + _TIME)
_YEAR_LAST = re.compile(r"[0-9](?<![\w.\-/]\w)[0-9]?([\-/.]) ?([0-9]{1,2})\1 ?([0-9]{4}|[0-9]{2})(?![\w\-/]|[.][0-9])" + _TIME)
_EAST_ASIAN = re.compile(r"[0-9](?<![0-9.\-/].)[0-9]{3}[年년] ?([0-9]{1,2})[月월] ?([0-9]{1,2})[日일]")

_SECTION = re.compile(r"(?:sections?|clause|version|release|§|\bv) ?$")  # "section 27.10.11"

_MONTHS = {name: number for number, names in enumerate(words_in_order("months"), 1) for name in names.split("|")}
_MONTH_WORDS = frozenset(_MONTHS)
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
_AGE_WORDS = words("aged age turned turning turns")
_WAS_AGE = re.compile(r"[ \t](?:was|is|were)[ \t](?:only |just )?([1-9][0-9]{0,2})(?![\w%]|[.,:/\-][0-9]| [a-z])")
_PRONOUNS = words("he she")
_I_AM = re.compile(r"(?:\bi(?:['’´`]m|m| am)|\b(?:he|she)['’]s)$")
# What may follow an age that no word names: "I'm 23 and new here", not "I'm 23 minutes late".
_AGE_STANDS_ALONE = re.compile(
    r"[ \t](?:only |just |now |almost |nearly |already |about )?([1-9][0-9]{0,2})(?=[ \t]{0,2}(?:$|[\n;!?)]|[.,](?![0-9])"
    r"|[ ](?:and|but|so|now|today|this|next|male|female|m|f|years?|yrs?|living|single|married|divorced|pregnant|with|who|since|if)\b))"
)
_VERBS_OF_BEING = words("m am im s")
YOUNGEST_ALONE = 3
OLDEST = 120


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
        first, second, year = int(re.match(r"\d+", match.group())[0]), int(match[2]), int(match[3])  # type: ignore[index]
        short = len(match[3]) == 2
        if short and match[1] == "." and match[0][-1].isdigit() and not re.match(r"\d\d\.\d\d\.\d\d", match.group()):
            continue
        if match[1] == "." and _SECTION.search(lower, max(0, match.start() - 10), match.start()):
            continue
        full = 2000 + year if short else year
        if 1500 <= full <= 2199 and (_is_day(full, first, second) or _is_day(full, second, first)):
            yield match.span()


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        calendar_date(year, month, day)
    except ValueError:
        return False
    return True


@rule
def date_in_words(document: Document) -> Finds:
    lower = document.lower
    for word, start, end in document.after_words(_MONTH_WORDS):
        longest = _DAYS[_MONTHS[word] - 1]
        day, joined = _DAY_JOINED.search(lower, max(0, start - 4), start), _YEAR_JOINED.match(lower, end)
        if day and joined and 1 <= int(day[1]) <= longest:
            yield day.start(1), joined.end()
            continue
        before = _DAY_BEFORE.search(lower, max(0, start - 14), start)
        if before and 1 <= int(before[1]) <= longest:
            year = _YEAR_AFTER.match(lower, end)
            if year or word not in ("may", "mar", "mars", "mai", "mei"):
                yield before.start(1), year.end() if year else end
            continue
        after = _DAY_AFTER.match(lower, end)
        if after and 1 <= int(after[1]) <= longest and (after[2] or document.text[start].isupper()):
            yield start, after.end()
            continue
        year = _YEAR_AFTER.match(lower, end)
        if year and (document.text[start].isupper() or document.all_lower):
            yield start, year.end()
    for *_, end in document.after_words(_BIRTH_WORDS):
        if birth := _BIRTH_YEAR.match(lower, end):
            yield birth.span(1)


@rule
def age(document: Document) -> Finds:
    lower = document.lower
    for match in matches(_AGE_BEFORE, lower):
        if int(match.group()) <= OLDEST:
            yield match.span()
    for said, pattern in ((_AGE_WORDS, _AGE_AFTER), (_PRONOUNS, _WAS_AGE)):
        for *_, end in document.after_words(said):
            found = pattern.match(lower, end)
            if found and int(found[1]) <= OLDEST:
                yield found.span(1)
    for *_, end in document.after_words(_VERBS_OF_BEING):
        found = _AGE_STANDS_ALONE.match(lower, end)
        if found and YOUNGEST_ALONE <= int(found[1]) <= OLDEST and _I_AM.search(lower, max(0, end - 6), end):
            yield found.span(1)
