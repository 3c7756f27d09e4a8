"""Rules for names of organizations: the form of the company, the kind of institution, and the words around."""

from __future__ import annotations

import re

from hushvec.text.pii.wordlists import (  # isort: skip
    CAPITALS, LETTER, NOT_NAMES, WORD, given_names, start_of_name, without_leading, word_list, words, words_in_order,
)
from hushvec.text.pii.document import Document, Finds, at_words
from hushvec.text.pii.persons import looks_like_surname

_NAME_WORD = rf"(?:{WORD}|[{CAPITALS}0-9](?:[{CAPITALS}0-9&.]){{0,8}}|{WORD}\.(?:com|io|ai|org|net))"
_NAMES = re.compile(
    rf"{_NAME_WORD}(?:(?:[ ](?:and[ ]|&[ ]|of[ ]|the[ ]|for[ ]){{0,2}}|,[ ](?={WORD}(?:,| and | & )))(?:{_NAME_WORD})){{0,5}}"
)
_INSIDE = words("and & of the for de du der und et")
MOST_WORDS = 6

_FORMS = word_list("company_forms")
# Abbreviations that are also words or syllables: in capitals only.
_FORMS_IN_CAPITALS = words("ag kg sas sl ab as bv nv lp spa sa oy co")
_KINDS = word_list("kinds_of_organizations")
_OF = re.compile(rf" (?:of|for) (?:the )?({WORD}(?: (?:{WORD}|and|of|&)){{0,3}})")
_OF_KINDS = word_list("kinds_before_of")

_WORK = re.compile(rf"(?:{'|'.join(words_in_order('words_of_work'))})(?: [a-z]{{1,12}}){{0,3}} $")
_WORK_WORDS = frozenset({"at", "for", "of", "by", "with"})
_JOINED = words("joined joining founded acquired employer company firm startup organization organisation leaving")
_SPACE = re.compile(" ")
_JOINED_GAP = re.compile(r"(?:[ ]?:|[ ](?:is|called|named|like|such as))?[ ]{1,2}")
_COMPANIES = "|".join(words_in_order("words_for_companies"))
_IS_COMPANY = re.compile(rf" (?:a|an|the|our|one of the)(?: [a-z\-]{{1,20}}){{0,4}} (?:{_COMPANIES})\b")
_OFFICES = word_list("words_after_organizations")
_AGENT = frozenset({"is", "was"})

_LOWER_BEFORE = re.compile(rf"(?<!\w)(?:({LETTER}{{2,16}}) )?({LETTER}{{2,16}}),? $")
_LEADING = words("the a an and of for at our my your his her their this that i we when if while however head dean director")
_TRANSLATED = re.compile(rf" \([{CAPITALS}][^()\n“”\"]{{1,90}}\)")
# "Elm Court" is a street, and "the Supreme Court" is nobody's in particular: what is public is named by a place or a nation.
_COURTS = frozenset({"court", "courts", "tribunal", "prosecutor"})
_PUBLIC = _COURTS | {"ministry", "authority", "directorate", "office", "committee", "commission"}
_OF_COURTS = word_list("words_in_kinds_of_courts")
_POSSESSIVE = re.compile(r"['’](?:s(?!\w))?")


@at_words(_FORMS)
def organization_form(document: Document, word: str, start: int, end: int) -> Finds:
    """`Nord Pumpen GmbH`, `Ash, Bole and Co.`: the form of the company at the end."""
    text, is_ambiguous = document.text, word in _FORMS_IN_CAPITALS
    before = document.lower.rfind(" ", max(0, start - 16), start - 1) + 1
    if before > 0 and document.lower[before:start].strip(" .,") in _FORMS:
        return  # the word before is a form as well, as in "Inc. Inc.": the name was found there
    last = end + (text[end : end + 1] == ".")
    if document.all_lower:
        name = _LOWER_BEFORE.search(text, max(0, start - 32), start)
        if name and not (is_ambiguous or word in ("company", "limited") or name[2] in NOT_NAMES):
            yield name.start(2) if name[1] in NOT_NAMES else name.start(), last
        return
    found = _name_ending_at(text, start - 2 if text[start - 2 : start] == ", " else start - 1)
    if found and text[start].isupper() and (word == "co" or not is_ambiguous or text[start:end].isupper()):
        yield _after_person(text, *found), last


def _after_person(text: str, start: int, end: int) -> int:
    """Where the name begins if it is that of a person's company: `Jane Doe of Acme Corp`, `Jane Doe, Acme Corp`."""
    name = text[start:end]
    person, link, company = name.partition(next((of for of in (" of ", " for ", ", ") if of in name), "\0"))
    sure, words_too = given_names()
    given = {*person.lower().split()[:-1]} if company else set()
    is_person = given & sure or (given & words_too and looks_like_surname(person))
    return start + len(person + link) if is_person else start


def _is_leading(word: str) -> bool:
    plain = word.lower().strip(".,")
    return plain in _LEADING or (plain in NOT_NAMES and len(plain) > 1)


@at_words(_KINDS)
def organization_kind(document: Document, word: str, start: int, end: int) -> Finds:
    """`Lund University`, `Bank of Somewhere`, `Wexford Technologies`."""
    text = document.text
    if not text[start].isupper():
        return
    first = _after_comma(text, *(_name_ending_at(text, start - 1) or (start, start)), word in _PUBLIC)
    behind = _OF.match(text, end) if word in _OF_KINDS else None
    last = behind.end() if behind else end
    is_named = word not in _PUBLIC or _is_named(word, text[first:start], text[end:last])
    if is_named and (first < start or behind):
        translated = _TRANSLATED.match(text, last)
        yield first, translated.end() if translated else last


def _after_comma(text: str, start: int, end: int, is_public: bool) -> int:
    """Where the name begins if a comma in it ends something else: `In the Act, the Lund Court`, not `Ash, Bole and Oak`."""
    comma = text.rfind(", ", start, end) + 2
    ends = comma > 1 and (is_public or text[comma].islower()) and text.find(" and ", comma, end) < 0
    return without_leading(text, comma, end, _is_leading) if ends else start


def _is_named(word: str, before: str, behind: str) -> bool:
    """`Ankara Criminal Court`, `District Court of Haarlem`, `Dutch Ministry of Justice`."""
    first, then = (_POSSESSIVE.sub("", part.lower()).split() for part in (before, behind if word != "ministry" else ""))
    is_no_street = word not in _COURTS or not first or bool(then) or first[-1] in _OF_COURTS
    return is_no_street and any(word not in _OF_COURTS for word in first + then)


@at_words(_WORK_WORDS | _JOINED)
def organization_work(document: Document, word: str, start: int, end: int) -> Finds:
    text = document.text
    gap = (_JOINED_GAP if word in _JOINED else _SPACE).match(text, end)
    name = _NAMES.match(text, gap.end()) if gap and text[gap.end() : gap.end() + 1].isupper() else None
    if name and (word in _JOINED or _WORK.search(document.lower, max(0, start - 44), start)):
        yield from [name.span()] if NOT_NAMES.isdisjoint((name[0].lower(), name[0].split()[0].lower())) else ()


@at_words(_AGENT | _OFFICES)
def organization_described(document: Document, word: str, start: int, end: int) -> Finds:
    if word in _OFFICES or _IS_COMPANY.match(document.lower, end):
        name = _name_ending_at(document.text, start - 1)
        if name and document.text[slice(*name)].lower() not in NOT_NAMES:
            yield name


def _name_ending_at(text: str, end: int) -> tuple[int, int] | None:
    if end < 2 or text[end : end + 1] not in (" ", ","):
        return None
    start = start_of_name(text, end, MOST_WORDS, links=_INSIDE, commas=True)
    first = without_leading(text, start, end, _is_leading)
    return (first, end) if end - first > 1 else None
