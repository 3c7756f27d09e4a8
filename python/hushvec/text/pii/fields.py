"""What the key or the column of a value says about it: a given name, a city, or only the name of a table."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

from hushvec.text.pii.categories import require_category_name
from hushvec.text.pii.document import BLANK, FIELD, WALL, Document, Finder, Finds, Rule, listed_rule, matches
from hushvec.text.pii.wordlists import word_list

# Around the field before a value, which is all that follows: `\x1fparent\x1fkey: `, without the parent where the key says enough.
MARK = FIELD
LONGEST = 64  # characters of a key that are read, up to its end
KEYS = 1 << 12  # that are remembered
_PERSON, _PLACE, _SECRET, _LIKELY = "full person name", "location", "credential", "the value decides"
_BUILT_IN = {"fields_of_persons": _PERSON, "fields_of_places": _PLACE, "fields_of_secrets": _SECRET}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = re.compile(r"[^\W\d_]+")
_SIGNS = re.compile(rf"[_.:{MARK}\-]")
_FIELD = re.compile(
    rf"{MARK}(?:(?<=\A.)|(?<={WALL}.))(?:([^{MARK}{BLANK}]{{0,192}}){MARK})?([^{MARK}{BLANK}]{{0,192}}?)(?:: |{MARK})"
    rf"(.*?)(?={WALL}|\Z)",
    re.DOTALL,
)
_LIKE_A_NAME = re.compile(r"[^\W\d_]+(?:[ ,.'’\-]{1,2}[^\W\d_]+){0,5}\.?")
_OF_WHAT_STANDS_ABOVE = frozenset({"name", "names", "text", "display", "value"})


@lru_cache(maxsize=KEYS)
def before(key: str | None, parent: str | None = None) -> str:
    """What stands before a value for the rules: its key, and the one above it, which text rules do not read as one with the key."""
    if not key:
        return ""
    above, dot, last = key[-LONGEST:].rpartition(".")
    above, said = above or (parent[-LONGEST:] if parent and parent != key else ""), _words(last)
    shown = f"{MARK}{_spaced(above)}{MARK}" if dot or (above and said and said[-1] in _OF_WHAT_STANDS_ABOVE) else MARK
    # "table name: orders" would read as the name of a person.
    is_thing = bool(said) and said[-1] in ("name", "names") and _built_in(said, _words(above)) is None
    return shown + _spaced(last) + (MARK if is_thing else ": ")


def is_known(key: str) -> bool:
    """Whether the table has a category for the key, or it ends in "name" and the like."""
    words = _words(key[-LONGEST:])
    return words[-1:] != [] and (words[-1] in _OF_WHAT_STANDS_ABOVE or _built_in(words, []) is not None)


def _spaced(key: str) -> str:
    return " ".join(_SIGNS.sub(" ", _CAMEL.sub(" ", key)).lower().split())


def _words(key: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", _CAMEL.sub(" ", key)).casefold()
    found = _LETTERS.findall("".join(one for one in plain if unicodedata.category(one) != "Mn"))
    return [word for word in found if word != "s"]  # of "patient's"


@cache
def _lists() -> tuple[dict[str, str], frozenset[str], frozenset[str], frozenset[str]]:
    """The table; whose names are a person's, which are a thing's; and words before a field that change nothing."""
    table = _table({field: category for section, category in _BUILT_IN.items() for field in word_list(section)})
    owners = word_list("owners_of_names") | word_list("relatives_and_acquaintances") | word_list("roles_of_persons")
    allowed = owners | {f"{owner}s" for owner in owners} | word_list("words_before_fields") | table.keys()
    return table, owners, word_list("things_with_names"), allowed


def _table(fields: Mapping[str, str]) -> dict[str, str]:
    return {"".join(_words(name)): category for name, category in fields.items()}


def _listed(table: Mapping[str, str], key: list[str], parent: list[str]) -> str | None:
    """The category of the longest end of the words that the table has."""
    words, allowed = parent + key, _lists()[3]
    ends = (first for first in range(len(words)) if "".join(words[first:]) in table and allowed.issuperset(words[len(parent) : first]))
    return next((table["".join(words[first:])] for first in ends), None)


def _built_in(key: list[str], parent: list[str]) -> str | None:
    table, owners, things, allowed = _lists()
    found = _listed(table, key, parent)
    if found or not key or key[-1] not in _OF_WHAT_STANDS_ABOVE:
        return found
    above = key[:-1] or parent
    found = _built_in(above, []) if above else None
    if found in (_PERSON, _PLACE) or not key[-1].startswith("name"):
        return found
    if above and above[-1] in owners and allowed.issuperset(above):
        return _PERSON
    return None if key[:-1] or things.intersection(above[-1:]) else _LIKELY


def _finder(category: str, of: Callable[[list[str], list[str]], str | None]) -> Finder:
    """What finds the values of one category of those that `of` gives for the words of a key and of its parent."""
    known = lru_cache(maxsize=KEYS)(lambda key, parent: of(_words(key), _words(parent)))

    def find(document: Document) -> Finds:
        for field in matches(_FIELD, document.text):
            found, value = known(field[2], field[1] or ""), field[3].strip()
            holds = found == category or (found == _LIKELY and category == _PERSON and _LIKE_A_NAME.fullmatch(value))
            if holds and _LETTERS.search(value) and value.lower().strip(".") not in word_list("values_of_no_one"):
                first = field.end() - len(field[3].lstrip())
                yield first, first + len(value)

    return find


def field_rules(fields: Mapping[str, str]) -> tuple[Rule, ...]:
    """Rules for fields of the caller's: name -> category of its values."""
    if not isinstance(fields, Mapping):
        raise TypeError(f"fields must be a mapping from names of fields to categories, got {type(fields).__name__}")
    for name in fields:
        if not (isinstance(name, str) and _words(name)):
            raise ValueError(f"fields must name fields with letters, got {name!r:.80}")
    table = _table({name: require_category_name("fields", category) for name, category in fields.items()})
    of = lambda key, parent: _listed(table, key, parent)
    categories = sorted(set(table.values()))
    needs = frozenset({"field"})
    return tuple(Rule(f"field:{name}", name, 0.99, "fields of the caller", _finder(name, of), needs) for name in categories)


person_field = listed_rule("person_field", _finder(_PERSON, _built_in))
place_field = listed_rule("place_field", _finder(_PLACE, _built_in))
secret_field = listed_rule("secret_field", _finder(_SECRET, _built_in))
