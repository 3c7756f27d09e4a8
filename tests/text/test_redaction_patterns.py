"""No pattern of the redaction rules takes more than linear time, on texts made from the pattern itself.

A pattern backtracks where a long run of what one of its repetitions takes does not end as the pattern asks. So each text is a prefix
that leads to a repetition, what the repetition takes, many times, and a suffix. All three are read from the parsed pattern.
"""

import ast
import importlib
import pkgutil
import re
import time
from itertools import pairwise, product
from pathlib import Path

import pytest

import hushvec.text.pii as rules_of_redaction
from hushvec.data import private_notes
from hushvec.text.pii import document
from hushvec.text.pii.wordlists import WORD

try:
    from re import _compiler as compiler
    from re import _parser as parser
except ImportError:
    import sre_compile as compiler
    import sre_parse as parser

LENGTHS = (2_000, 4_000, 8_000)
MOST_GROWTH = 3  # for twice the length: 2 is linear, 4 quadratic
FLOOR_SECONDS = 0.0005  # for 4,000 characters: what is quadratic and quicker takes less than half a minute for a million
ATTEMPTS = 3
MADE_INSIDE = {
    "structured._rows",
    "custom._compiled",
    "dates.date",
    "mail._in_part",
    "phone._add_forms",
    "phone._plan_of_package",
    "places._by_first_word",
}
LONG_REPEAT = 8  # repetitions with a smaller bound cannot take long

# One of each kind of character that classes tell apart.
KINDS = "aZ7_ \n-.,'’(é\u0394字\u0301\U0001f600@/:#+\0"
SUFFIX = "\0"  # nothing takes it
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
GROUPS = {"SUBPATTERN", "ATOMIC_GROUP"}


def _patterns():
    """(name, pattern) of everything compiled in the modules of the rules."""
    found = {}
    for module in pkgutil.iter_modules(rules_of_redaction.__path__, f"{rules_of_redaction.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            for pattern in _patterns_in(value):
                found.setdefault((pattern.pattern, pattern.flags), f"{module.name.rpartition('.')[2]}.{name}")
    return {key: re.compile(*key) for key in found}, found


def _patterns_in(value):
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _patterns_in(part)
    elif isinstance(value, (tuple, list, frozenset, set)):
        for part in value:
            yield from _patterns_in(part)


def _one(node, kind, state):
    """A string that one node of a parsed pattern takes; `kind` chooses among the characters of its classes."""
    operation, argument = str(node[0]), node[1]
    if operation in ("LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY"):
        taken = _characters(node, state)
        return taken[kind % len(taken)]
    if operation in REPEATS:
        return _sample(argument[2], kind) * max(argument[0], 1)
    if operation in GROUPS:
        return _sample(argument[-1] if operation == "SUBPATTERN" else argument, kind)
    if operation == "BRANCH":
        return _sample(argument[1][kind % len(argument[1])], kind)
    return ""  # what stands before and behind, and back-references


def _sample(tree, kind):
    return "".join(_one(node, kind, tree.state) for node in tree)


def _characters(node, state):
    """Characters of each kind that a class takes, among them the ends of its ranges."""
    parts = node[1] if str(node[0]) == "IN" else [node]
    ends = [chr(value) for kind, value in parts if str(kind) == "LITERAL"]
    ends += [chr(code) for kind, value in parts if str(kind) == "RANGE" for code in value]
    takes = compiler.compile(parser.SubPattern(state, [node])).fullmatch
    return sorted(filter(takes, {*KINDS, *ends})) or [""]


def _repeats(tree, before=""):
    """(prefix, body) of every repetition that can be long."""
    for node in tree:
        operation, argument = str(node[0]), node[1]
        if operation in REPEATS and argument[1] > LONG_REPEAT:
            yield before, argument[2]
        parts = argument[1] if operation == "BRANCH" else argument if isinstance(argument, (tuple, list)) else [argument]
        for part in parts:
            if isinstance(part, parser.SubPattern):
                yield from _repeats(part, before)
        before += _one(node, 0, tree.state)


def _texts(pattern):
    """(prefix, pump, suffix), no two alike."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    kinds = range(len(KINDS))
    whole = _sample(tree, 0)
    texts = {("", pump, SUFFIX) for pump in {whole, whole[:-1], *(_sample(tree, kind) for kind in kinds)}}
    for before, body in _repeats(tree):
        pumps = {_sample(body, kind) for kind in kinds}
        texts |= set(product({"", before}, pumps, {SUFFIX}))
    return sorted(text for text in texts if text[1])


def _seconds(pattern, prefix, pump, suffix, size):
    text = prefix + (pump * (size // len(pump) + 1))[:size] + suffix
    start = time.process_time()
    for _ in pattern.finditer(text):
        pass
    return time.process_time() - start


def is_slow(pattern, *text):
    """Whether twice the length takes more than three times as long, from each length to the next; the quickest attempts."""
    if _seconds(pattern, *text, LENGTHS[1]) < FLOOR_SECONDS:
        return False
    for short, long in pairwise(LENGTHS):
        least, best = float("inf"), float("inf")
        for _ in range(ATTEMPTS):
            least = min(least, _seconds(pattern, *text, short))
            best = min(best, _seconds(pattern, *text, long))
            if best < MOST_GROWTH * least:
                return False
    return True


PATTERNS, NAMES = _patterns()


@pytest.mark.parametrize("key", PATTERNS, ids=NAMES.get)
def test_a_pattern_is_linear(key):
    slow = [text for text in _texts(PATTERNS[key]) if is_slow(PATTERNS[key], *text)]
    assert slow == []


@pytest.mark.parametrize(
    "source",
    [
        r"[+(0-9](?<![\w+.]\S)(?<![^\W_]\-\S)[0-9() .\-/]*[0-9)]",
        r"[a-z0-9\u00a1-\uffff](?<![\w@.\-/].)[a-z0-9\-\u00a1-\uffff]*\.[a-z0-9.\-\u00a1-\uffff]*[a-z0-9]",
        rf"\A{WORD}(?:'{WORD})?,",
        r"\s*,",
    ],
    ids=["phone", "host", "place", "space"],
)
def test_a_pattern_that_is_not_linear_is_noticed(source):
    """The first two are patterns that the rules once had."""
    pattern = re.compile(source)
    assert any(is_slow(pattern, *text) for text in _texts(pattern))


@pytest.mark.parametrize("key", PATTERNS, ids=NAMES.get)
def test_windows_find_what_one_search_finds(key, monkeypatch):
    """On the shipped notes and on texts made of the pattern; windows of 100 characters, which matches often cross."""
    monkeypatch.setattr(document, "WINDOW", 100)
    monkeypatch.setattr(document, "BEYOND", 300)
    pattern = PATTERNS[key]
    pieces = [prefix + pump + SUFFIX for prefix, pump, _ in _texts(pattern)][:50]
    text = "\n".join([*private_notes()[:20], *pieces, *private_notes()[20:40]])
    found = [match.span() for match in document.matches(pattern, text) if match.group()]
    assert found == [match.span() for match in pattern.finditer(text) if match.group()]


def test_every_pattern_of_the_rules_is_looked_at():
    """Those made inside functions are not; the few that there are read a piece of bounded length, or what the caller gave."""
    made_inside = set()
    for module in pkgutil.iter_modules(rules_of_redaction.__path__):
        tree = ast.parse(Path(rules_of_redaction.__path__[0], f"{module.name}.py").read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "re":
                    made_inside.add(f"{module.name}.{function.name}")
    assert made_inside == MADE_INSIDE
