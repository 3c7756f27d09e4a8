"""Patterns and known names of the caller. Patterns are checked before use, so that most of those that could hang are refused.

Python's regular expressions backtrack. Refused is what makes that exponential: a repetition without a bound inside another one, or
alternatives inside one that can begin with the same character; and what makes it quadratic over a long text from its first
character on: a repetition without a bound at the beginning of the pattern. Other patterns can still be slow; they are the caller's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hushvec._util.lines import decoded, json_object, numbered_lines
from hushvec.text.pii.categories import canonical, require_category_name
from hushvec.text.pii.document import Document, Rule, matches

LONGEST_PATTERN = 10_000
# A bound above this counts as none.
LARGE_REPEAT = 512
SCORE = 0.99

_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})


def custom_rules(patterns: object) -> tuple[Rule, ...]:
    if not isinstance(patterns, Mapping):
        raise TypeError(f"custom_patterns must be a mapping from names to regular expressions, got {type(patterns).__name__}")
    return tuple(_rule(name, pattern) for name, pattern in patterns.items())


def _rule(name: object, pattern: object) -> Rule:
    category = require_category_name("custom_patterns", name)
    compiled = _compiled(str(name), pattern)

    def find(document: Document) -> Iterator[tuple[int, int]]:
        for match in compiled.finditer(document.text):
            if match.end() > match.start():
                yield match.span()

    summary = f"pattern of the caller: {compiled.pattern!r:.60}"
    return Rule(f"custom:{canonical(str(name))}", category, SCORE, summary, find, apart=False)


def _compiled(name: str, pattern: object) -> re.Pattern[str]:
    if isinstance(pattern, re.Pattern):
        if not isinstance(pattern.pattern, str):
            raise TypeError(f"custom_patterns[{name!r}] must be a pattern for text, got one for bytes")
        source, flags = pattern.pattern, pattern.flags
    elif isinstance(pattern, str):
        source, flags = pattern, 0
    else:
        raise TypeError(f"custom_patterns[{name!r}] must be a regular expression, got {type(pattern).__name__}")
    if len(source) > LONGEST_PATTERN:
        raise ValueError(f"custom_patterns[{name!r}] must have at most {LONGEST_PATTERN} characters, got {len(source)}")
    try:
        compiled = re.compile(source, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"custom_patterns[{name!r}] must be a regular expression: {error}, got {source!r:.80}") from None
    if compiled.match(""):
        raise ValueError(f"custom_patterns[{name!r}] must not match the empty text, got {source!r:.80}")
    tree = _parsed(source, flags)
    reason = _nested(tree, inside=False)
    if _begins_unbounded(tree):
        reason = "begin with a repetition without a bound: put \\b before it or bound it, as in \\w{1,64}"
    if reason:
        raise ValueError(f"custom_patterns[{name!r}] must not {reason}, got {source!r:.80}")
    return compiled


def _parsed(source: str, flags: int) -> Any:
    """The tree of a pattern. The parser has moved between versions of Python and is not public."""
    try:
        from re import _parser as parser  # type: ignore[attr-defined]
    except ImportError:
        import sre_parse as parser
    return parser.parse(source, flags & ~re.DEBUG)


def _begins_unbounded(tree: Any) -> bool:
    """The first thing to match, perhaps after something optional, is a repetition without a bound."""
    for node in tree:
        operation, argument = str(node[0]), node[1]
        if _is_unbounded(node):
            return True
        if operation in ("SUBPATTERN", "BRANCH"):
            return any(_begins_unbounded(part) for part in _parts(argument))
        if operation not in _REPEATS or argument[0] > 0:
            return False
    return False


def _nested(tree: Any, *, inside: bool) -> str | None:
    for node in tree:
        operation, argument = str(node[0]), node[1]
        unbounded = _is_unbounded(node)
        if unbounded and inside:
            return "hold a repetition without a bound inside another one"
        if operation == "BRANCH" and inside:
            firsts = [next(iter(alternative), None) for alternative in argument[1]]
            literals = {first[1] for first in firsts if first is not None and str(first[0]) == "LITERAL"}
            if len(literals) < len(firsts):  # all differ if each begins with a literal of its own
                return "hold alternatives that can begin alike inside a repetition without a bound"
        if operation == "GROUPREF" and inside:
            return "refer back to a group inside a repetition without a bound"
        for part in _parts(argument):
            reason = _nested(part, inside=inside or unbounded)
            if reason:
                return reason
    return None


def _is_unbounded(node: Any) -> bool:
    return str(node[0]) in _REPEATS and int(node[1][1]) > LARGE_REPEAT


def _parts(argument: Any) -> Iterator[Any]:
    if hasattr(argument, "data"):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _parts(part)


_WORD = re.compile(r"\w+")
_INSIDE_WORD = re.compile(r"(?<=\w)(?=\w)")

Names = Mapping[str, Iterable[str]]


class Gazetteer:
    """Finds every name of category -> names; capitals do not matter. If two begin at one place, the longer one wins."""

    def __init__(self, names: Names) -> None:
        # First word of a name -> lengths of the names that begin with it, longest first; and the names themselves.
        lengths: dict[str, set[tuple[int, int]]] = {}
        self._category: dict[str, str] = {}
        for category, entries in names.items():
            for name in _entries(category, entries):
                written = Document(name).lower
                first = _WORD.search(written)
                if first is None:
                    raise ValueError(f"gazetteer: a name of {category!r} must hold a letter or a digit, got {name!r:.80}")
                lengths.setdefault(first.group(), set()).add((len(written), first.start()))
                self._category.setdefault(written, category)
        self._lengths = {word: sorted(found, reverse=True) for word, found in lengths.items()}

    @property
    def categories(self) -> frozenset[str]:
        return frozenset(self._category.values())

    def __len__(self) -> int:
        return len(self._category)

    def find(self, document: Document) -> Iterator[tuple[int, int, str]]:
        text = document.lower
        lengths, taken = self._lengths, 0
        for match in matches(_WORD, text):
            known = lengths.get(match.group())
            if known is None or match.start() < taken:
                continue
            for length, offset in known:
                start = match.start() - offset
                end = start + length
                category = self._category.get(text[start:end]) if start >= 0 else None
                # a whole word: nothing that belongs to one stands on both sides of an edge
                if category is not None and not any(_INSIDE_WORD.match(text, edge) for edge in (start, end)):
                    yield start, end, category
                    taken = end
                    break


def _entries(category: str, entries: object) -> Iterable[str]:
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Iterable):
        raise TypeError(f"gazetteer: the names of {category!r} must be a list of strings, got {type(entries).__name__}")
    for name in entries:
        if not isinstance(name, str):
            raise TypeError(f"gazetteer: the names of {category!r} must be strings, got {type(name).__name__}")
        yield " ".join(name.split()) if name.strip() else name


def gazetteer_of(source: object) -> Gazetteer:
    """A gazetteer from a mapping, or from a file: .json with such a mapping, else lines `category: name`."""
    if isinstance(source, (str, os.PathLike)):
        source = _from_file(Path(source))
    if not isinstance(source, Mapping):
        raise TypeError(f"gazetteer must be a mapping from categories to names, or a file, got {type(source).__name__}")
    found: dict[str, list[str]] = {}
    for category, entries in source.items():
        name = require_category_name("gazetteer", category)
        found.setdefault(name, []).extend(_entries(str(category), entries))
    return Gazetteer(found)


def _from_file(path: Path) -> Mapping[str, object]:
    content = decoded(str(path), path.read_bytes())
    if path.suffix.lower() == ".json":
        return json_object(content.removeprefix("\ufeff"), str(path))
    found: dict[str, list[str]] = {}
    for where, line in numbered_lines(content, str(path)):
        category, _, name = map(str.strip, line.partition(":"))
        if category.startswith("#"):
            continue
        if not category or not name:
            raise ValueError(f"{where}: must be `category: name`, got {line!r:.80}")
        found.setdefault(category, []).append(name)
    return found
