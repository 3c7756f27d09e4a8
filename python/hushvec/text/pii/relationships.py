"""Rules for what a text says of somebody's private life: single, divorced, a partner of one's own, the end of a relationship."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushvec.text.pii.document import Document
from hushvec.text.pii.letters import words
from hushvec.text.pii.rule import Rule

_STATUS = words("single divorced separated widowed unmarried engaged")
_OF_A_PERSON = re.compile(
    r"(?:(?:\b(?:i|he|she|we|they|who)(?:['’](?:m|s|re|ve been)| am| is| was| are| were| got| have been| has been)"
    r"(?: (?:now|still|recently|newly|currently|legally|both|happily|getting)){0,2})"
    r"|\b(?:marital|relationship) status(?: is)?:?|\b(?:guy|man|woman|girl|male|female|dad|mom|mum|father|mother|parent),?) {1,2}$"
)
_ALONE = re.compile(
    r"(?! by\b)(?:\s{0,8}(?:$|[.,;:!?)\n])| (?:and|but|or|in|at|now|again|since|from|with|for|after|because|so|when)\b)"
)

_PARTNERS = words("girlfriend boyfriend wife husband fiancé fiancée fiance fiancee partner spouse")
_OWNED = re.compile(r"\b(?:my|his|her|their|your)(?: (?:late|former|future|new|first|second|third|then|estranged))? (?:ex[ \-])?$")
_EX = re.compile(r"\bex[ \-]$")

_PARTINGS = words("broke break breaking broken breakup")
_UP = re.compile(r"[ \-]up(?!\w)")
_WITH_A_PERSON = re.compile(r" (?:with )?(?:my|his|her|their|me|him|them|us|last|after|and|because)\b|[.,!?]")
_OF_TWO = re.compile(r"\b(?:my|his|her|our|their|your|we|they|i|just|the|a)(?: just| recently| finally)? $")
REACH = 40


def _statuses(document: Document) -> Iterator[tuple[int, int]]:
    """`I am single`, `she got divorced`, `marital status: widowed`."""
    lower = document.lower
    for word, end in document.after_words(_STATUS):
        start = end - len(word)
        if _OF_A_PERSON.search(lower, max(0, start - REACH), start) and _ALONE.match(lower, end):
            yield start, end


def _partners(document: Document) -> Iterator[tuple[int, int]]:
    """`my girlfriend`, `his late wife`, `ex-husband`."""
    lower = document.lower
    for word, end in document.after_words(_PARTNERS):
        start = end - len(word)
        ex = _EX.search(lower, max(0, start - 4), start)
        if ex or _OWNED.search(lower, max(0, start - REACH), start):
            yield ex.start() if ex else start, end


def _partings(document: Document) -> Iterator[tuple[int, int]]:
    """`we broke up`, `broke up with her`, `our break-up`."""
    lower = document.lower
    for word, end in document.after_words(_PARTINGS):
        start = end - len(word)
        up = _UP.match(lower, end)
        last = end if word == "breakup" else up.end() if up else start
        if last == start or not _OF_TWO.search(lower, max(0, start - REACH), start):
            continue
        if word in ("breakup", "break") or _WITH_A_PERSON.match(lower, last):
            yield start, last


RULES = (
    Rule("marital_status", "relationship", 0.6, "single, divorced, widowed, ... said of a person", _statuses),
    Rule("partner", "relationship", 0.5, "my girlfriend, his late wife, her ex-husband: the word, not the name", _partners),
    Rule("parting", "relationship", 0.5, "we broke up, broke up with her, our break-up", _partings),
)
