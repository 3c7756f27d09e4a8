"""Custom patterns, checked before use so that most of those that could hang are refused.

Python's regular expressions backtrack. Refused is what makes that exponential: a repetition without a bound inside another one, or
alternatives inside one that can begin with the same character; and what makes it quadratic over a long text from its first
character on: a repetition without a bound at the beginning of the pattern. Other patterns can still be slow; they are the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hushvec.text.pii.categories import canonical, require_category_name
from hushvec.text.pii.document import Document
from hushvec.text.pii.rule import Rule

LONGEST_PATTERN = 10_000
# A bound above this counts as none.
LARGE_REPEAT = 512
SCORE = 0.99

_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})


def custom_rules(patterns: object) -> tuple[Rule, ...]:
    """One rule for each entry of a mapping from category names to regular expressions."""
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

    return Rule(f"custom:{canonical(str(name))}", category, SCORE, f"pattern of the caller: {compiled.pattern!r:.60}", find)


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
    reason = _danger(_parsed(source, flags))
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


def _danger(tree: Any) -> str | None:
    if _begins_unbounded(tree):
        return "begin with a repetition without a bound: put \\b before it or bound it, as in \\w{1,64}"
    return _nested(tree, inside=False)


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
        if operation == "BRANCH" and inside and not _alternatives_differ(argument[1]):
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
    """The patterns inside one node of the tree."""
    if hasattr(argument, "data"):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _parts(part)


def _alternatives_differ(alternatives: Any) -> bool:
    """All begin with a literal, no two with the same one."""
    firsts = [next(iter(alternative), None) for alternative in alternatives]
    literals = {node[1] for node in firsts if node is not None and str(node[0]) == "LITERAL"}
    return len(literals) == len(firsts)
