"""Rules for telephone numbers: the grouping of digits, the words before them, and the numbering plans of the world's countries.

The plans are those of the package `phonenumbers` (extra "redact"). Without it, numbers with + or 00 are recognized by their
length alone, and national ones need the North American grouping or a word such as "phone" before them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import product, takewhile
from typing import Any, NamedTuple

from hushvec.text.pii.document import Document, Finds, Rule, matches
from hushvec.text.pii.wordlists import word_list, words

_GAP = " .\\-/\u2013"  # other spaces and hyphens are written as these by then
# It takes any end, so that no other run begins inside one that came to nothing.
_RUN = re.compile(rf"[+(0-9](?<![\w+.]\S)(?<![^\W_]\-\S)[0-9(){_GAP}]*")
_RUN_SIGNS = " .-/(\u2013"
_DIGITS = re.compile(r"\d+")
_NOT_DIGITS = re.compile(r"\D+")
_EXTENSION = re.compile(r"[\s,;]{0,2}(?:x|ext\.?|extension|extn\.?|#)\s{0,2}\d{1,6}(?!\w)")
_TRUNK = re.compile(r"\(0\)")
_DATE = re.compile(r"(?:(?:19|20)\d\d[-./ ](?:0?[1-9]|1[0-2])[-./ ](?:0?[1-9]|[12]\d|3[01])|\d{1,2}[-./]\d{1,2}[-./](?:19|20)?\d\d)")
_IP = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")

FEWEST, MOST = 7, 15
FEWEST_ALONE = 9   # without a word before them
REACH = 48
MOST_PIECES = 6
TABLE = 12

_WORDS = word_list("words_before_phones")
# The nearest word decides; these mean that the digits are something else.
_OTHER_WORDS = word_list("words_before_other_numbers")

# "my number", but not "order number"
_NUMBER_WORDS = words("number numbers")
_WHOSE = re.compile(r"\b(?:my|your|his|her|our|their|this|that|new|old|whose|another|other) numbers?$")

Grouping = tuple[int, ...]

_UNITS = frozenset("%€$£°")
# 555 as area code or exchange: the numbers of films, forms and examples, which nobody is given, and local numbers written 555-0142.
_MADE_UP = re.compile(r"(?:\+?1[ .\-])?(?:\(555\)[ .\-]?|555[ .\-])[0-9]{3}[ .\-][0-9]{4}|555[.\-][0-9]{4}|1?555[0-9]{7}")
MOST_FORMS = 12
_GROUP = re.compile(r"\((?:\\d(?:\{(\d+)(?:,(\d+))?\})?|((?:\\d){2,4}))\)")


def _phones(document: Document, plan: _Plan) -> Finds:
    near = _context(document)
    for run in matches(_RUN, document.text):
        written = run.group().rstrip(_RUN_SIGNS)
        if len(written) >= FEWEST:
            yield from _in_run(document, run.start(), written, plan, near)


def _in_run(document: Document, start: int, written: str, plan: _Plan, context: Callable[[int], str | None]) -> Finds:
    """Numbers among pieces between spaces, longest first. In a table (more pieces than TABLE) each is looked at alone."""
    text = document.text
    pieces = written.split(" ")  # an empty one stands between two spaces in a row, which end a number
    digits = [len(piece if piece.isdecimal() else _NOT_DIGITS.sub("", piece)) for piece in pieces]
    most = MOST_PIECES if len(pieces) - pieces.count("") <= TABLE else 1
    index = 0
    while index < len(pieces):
        taken = 1
        near = context(start)
        # Only saves work: these reasons rule out most rows of digits, and _looks_like_phone would find them piece by piece.
        may_be_international = text[start] in "+(0"
        fewest = FEWEST if near == "phone" or may_be_international or text.startswith("555", start) else FEWEST_ALONE
        longest = most if may_be_international or near != "other" else 0
        tried = list(takewhile(len, pieces[index : index + longest]))
        for count in range(len(tried), 0, -1):
            if not fewest <= sum(digits[index : index + count]) <= MOST + 2 + 1:
                continue
            last = _without_signs(text, start, start + len(" ".join(tried[:count])))
            extension = _EXTENSION.match(document.lower, last)
            goes_on = text[last : last + 1] in _UNITS or (text[last : last + 1].isalnum() and not extension)
            if not goes_on and _looks_like_phone(text[start:last], plan, near):
                yield start, extension.end() if extension else last
                taken = count
                break
        start += len(" ".join(pieces[index : index + taken])) + 1
        index += taken


def _without_signs(text: str, start: int, end: int) -> int:
    written = text[start:end].rstrip("-./(–")
    return start + len(written) - (written.endswith(")") and written.count("(") < written.count(")"))


def _looks_like_phone(written: str, plan: _Plan, near: str | None) -> bool:
    parts = _DIGITS.findall(written)
    digits = "".join(parts)
    if not FEWEST <= len(digits) <= MOST + 2 or (digits == digits[0] * len(digits) and not _is_made_up(written)):
        return False
    if (len(parts) == 3 and _DATE.fullmatch(written)) or (len(parts) == 4 and _IP.fullmatch(written)):
        return False
    if written[0] == "+" or written.startswith("(+"):
        return plan.is_international(_NOT_DIGITS.sub("", _TRUNK.sub("", written)))
    if digits.startswith("00") and len(digits) >= 11 and plan.is_international(digits[2:]):
        return True
    if len(digits) > 13 or (len(digits) == 13 and digits.startswith(("97", "1"))):  # books, milliseconds
        return False
    if near == "other":
        return False
    if near == "phone":
        return len(parts) == 1 or (len(parts) <= MOST_PIECES and len(digits) > len(parts))
    return _stands_alone(written, digits, tuple(map(len, parts)), plan)


def _stands_alone(written: str, digits: str, groups: Grouping, plan: _Plan) -> bool:
    """Without a word before it: the North American shape, or one that a country uses and that amounts of money do not have."""
    if _is_made_up(written):
        return True
    if groups in ((3, 3, 4), (1, 3, 3, 4), (10,)):
        national, has_prefix = digits[-10:], len(groups) == 4
        is_north_american = national[0] in "23456789" and national[3] in "23456789" and national[1:3] != "11"
        return len(digits) - 10 == has_prefix and has_prefix <= (digits[0] == "1") and is_north_american
    if len(digits) < FEWEST_ALONE or len(groups) < 2 or groups == (5, 4):
        return False
    if " " in written and set(groups[1:]) == {3} and digits[0] != "0" and "(" not in written:
        return False
    return (digits[0] == "0" or "(" in written or len(groups) >= 3) and plan.is_grouping(groups, digits)


def _is_made_up(written: str) -> bool:
    return _MADE_UP.fullmatch(written) is not None


def _context(document: Document) -> Callable[[int], str | None]:
    """A function that says which kind of word stands before a number that begins at a place, in the same sentence and not far."""
    lower = document.lower
    marks = [(end, "other") for *_, end in document.after_words(_OTHER_WORDS)]
    marks += ((end, "phone") for *_, end in document.after_words(_WORDS))
    whose = (end for *_, end in document.after_words(_NUMBER_WORDS) if _WHOSE.search(lower, max(0, end - 18), end))
    marks += ((end, "phone") for end in whose)
    marks.sort()

    def near(start: int) -> str | None:
        end, kind = marks[bisect_right(marks, (start, "z")) - 1] if marks else (start, "")
        if not 0 <= start - end <= REACH or kind == "":
            return None
        between = lower[end:start]
        # The number may answer a question.
        return None if ". " in between[1:] or "! " in between or "\n\n\n" in between else kind

    return near


class _Plan(NamedTuple):
    """The numbering plans of the world: whether digits are a number of some country, and groups those in which one writes them."""

    is_international: Callable[[str], bool]
    is_grouping: Callable[[Grouping, str], bool]


_PLAN_WITHOUT_PACKAGE = _Plan(lambda digits: 8 <= len(digits) <= MOST and digits[0] != "0", lambda groups, digits: False)


@cache
def _plan_of_package() -> _Plan:
    import phonenumbers
    from phonenumbers import PhoneMetadata

    lengths: dict[str, frozenset[int]] = {}
    for code, regions in phonenumbers.COUNTRY_CODE_TO_REGION_CODE.items():
        described: Any = PhoneMetadata.metadata_for_region_or_calling_code(code, regions[0])
        lengths[str(code)] = frozenset(described.general_desc.possible_length)

    forms: dict[Grouping, set[str]] = {}
    for region in sorted(phonenumbers.SUPPORTED_REGIONS):
        metadata: Any = PhoneMetadata.metadata_for_region(region)
        for number_format in metadata.number_format:
            _add_forms(forms, number_format, metadata)
    compiled = {groups: re.compile("|".join(sorted(leads))) for groups, leads in forms.items()}

    def is_international(digits: str) -> bool:
        return any(len(digits) - size in lengths.get(digits[:size], ()) for size in (1, 2, 3))

    def is_grouping(groups: Grouping, digits: str) -> bool:
        pattern = compiled.get(groups)
        return pattern is not None and pattern.match(digits) is not None

    return _Plan(is_international, is_grouping)


def _add_forms(forms: dict[Grouping, set[str]], number_format: Any, metadata: Any) -> None:
    """The sizes of the groups of one way of writing, with and without the national prefix, and how such numbers begin."""
    written = re.split(r"[^\\\d]+", number_format.format.strip())
    if not all(re.fullmatch(r"(?:\\\d)+", part) for part in written):
        return
    lead = number_format.leading_digits_pattern[-1] if number_format.leading_digits_pattern else ""
    prefix = metadata.national_prefix or ""
    takes_prefix = prefix.isdigit() and "\\1" in (number_format.national_prefix_formatting_rule or "").replace("$NP", prefix)
    for chosen in _group_sizes(number_format.pattern):
        if sum(chosen) not in metadata.general_desc.possible_length:
            continue
        groups = tuple(sum(chosen[int(number) - 1] for number in part.split("\\") if number) for part in written)
        forms.setdefault(groups, set()).add(f"(?:{lead})")
        if takes_prefix:
            forms.setdefault((groups[0] + len(prefix), *groups[1:]), set()).add(f"{prefix}(?:{lead})")


def _group_sizes(pattern: str) -> list[Grouping]:
    """Every way in which the groups of a pattern such as `(\\d{3})(\\d{3,4})` can be long; none for anything more intricate."""
    if _GROUP.sub("", pattern):
        return []
    lows = [(len(same) // 2 or int(low or 1), int(high or 0)) for low, high, same in _GROUP.findall(pattern)]
    ways = list(product(*(range(low, max(low, high) + 1) for low, high in lows)))
    return ways if len(ways) <= MOST_FORMS else []


def phone_rule() -> Rule:
    """With the plans of `phonenumbers` where the package is installed, else with built-in patterns; the summary says which."""
    needs = frozenset({f"digits:{FEWEST}"})
    after_words = "or 7 to 13 digits after a word such as phone"
    if find_spec("phonenumbers") is None:
        shapes = f"+ or 00 and 8 to 15 digits, the North American shape, {after_words}"
        summary = f"{shapes} (own patterns: the package phonenumbers is not installed)"
        return Rule("phone", "phone number", 0.7, summary, lambda document: _phones(document, _PLAN_WITHOUT_PACKAGE), needs)
    summary = f"calling code and length, or groups as a country writes them, {after_words} (plans of the package phonenumbers)"
    return Rule("phone", "phone number", 0.75, summary, lambda document: _phones(document, _plan_of_package()), needs)
