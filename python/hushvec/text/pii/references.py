"""Rules for numbers that an organization gives to people and their business: staff, students, orders, tickets, cases in court."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushvec.text.pii.document import Document, matches
from hushvec.text.pii.letters import words
from hushvec.text.pii.rule import Rule

_PEOPLE = words("employee student staff personnel customer client member badge payroll subscriber user pupil matriculation payee")
_BUSINESS = words(
    "order booking reservation tracking invoice case ticket reference confirmation claim shipment parcel incident docket"
)
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
_COURT_MARK = re.compile(r"[ \t]{1,2}\(?(?:nos?|numbers?|nrs?)(?!\w)\.?[ \t]{1,2}")
# A number and a year, as courts and registries write them.
_DOCKET = re.compile(r"[0-9]{1,6}/[0-9]{2,6}(?![\w/])")
_NEXT_DOCKET = re.compile(r"(?:,|,? and|;)[ \n]{1,2}(?=[0-9])")
_US_KINDS = ("-cv-", "-cr-", "-mj-", "-bk-", "-md-")
_US_DOCKET = re.compile(r"[0-9]:(?<![\w:]..)[0-9]{2}-(?:cv|cr|mj|bk|md)-[0-9]{3,6}(?:-[a-z]{2,4}){0,3}(?!\w)")


def _of_people(document: Document) -> Iterator[tuple[int, int]]:
    """`employee ID 48213`, `student number S-20931`, `badge #3391`."""
    if not document.has_digits:
        return
    for _, end in document.after_words(_PEOPLE):
        match = _MARKED.match(document.lower, end) or _HASHED.match(document.lower, end)
        if match and _digits(match[1]) >= FEWEST_MARKED:
            yield match.span(1)


def _of_business(document: Document) -> Iterator[tuple[int, int]]:
    """`order number 12345678`, `order 12345678`, `ticket ABC-123`."""
    if not document.has_digits:
        return
    for word, end in document.after_words(_BUSINESS):
        match = _MARKED.match(document.lower, end) or _HASHED.match(document.lower, end)
        if match and _digits(match[1]) >= FEWEST_MARKED:
            yield match.span(1)
        elif not match and word in _BARE:
            bare = _UNMARKED.match(document.lower, end)
            if bare and _digits(bare[1]) >= (FEWEST_MIXED if bare[1][0].isalpha() else FEWEST_BARE):
                yield bare.span(1)


def _digits(written: str) -> int:
    return sum(map(str.isdigit, written))


def _dockets(document: Document) -> Iterator[tuple[int, int]]:
    """`application no. 18403/91`, `nos. 1/99, 2/99 and 3/99`, `1:21-cv-04321`."""
    lower = document.lower
    if not document.has_digits:
        return
    for _, end in document.after_words(_COURT_WORDS):
        mark = _COURT_MARK.match(lower, end)
        docket = _DOCKET.match(lower, mark.end()) if mark else None
        while docket:
            yield docket.span()
            gap = _NEXT_DOCKET.match(lower, docket.end())
            docket = _DOCKET.match(lower, gap.end()) if gap else None
    if any(kind in lower for kind in _US_KINDS):  # a search that costs nothing, before one at every digit
        for match in matches(_US_DOCKET, lower):
            yield match.span()


RULES = (
    Rule(
        "person_number",
        "reference number",
        0.8,
        "three or more digits after employee id, student number, customer no., badge #, ...",
        _of_people,
    ),
    Rule(
        "order_number",
        "reference number",
        0.75,
        "after order number, ticket no., case #, ...; five digits or a code such as ABC-123 right after order, ticket, ...",
        _of_business,
    ),
    Rule("docket_number", "reference number", 0.8, "number/year after application no., case nos., ...; 1:21-cv-04321", _dockets),
)
