"""The code beside the patterns takes linear work too: counted, so that no other work on the machine can change a verdict.

Work is the lines of Python that run inside the redaction package, the characters that its patterns read or pass over, and those of
the slices it takes from a text. Contexts are made of what the rules know: digits, letters, separators, and words of their own lists.
"""

import importlib
import json
import pkgutil
import random
import re
import sys

import pytest

import hushvec.text.pii as rules_of_redaction
from evidence.reference.sizes import scaled
from hushvec.text import Redactor, redact_csv, redact_json, redact_mail
from hushvec.text.pii import document
from hushvec.text.pii.redactor import own_rules

MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.iter_modules(rules_of_redaction.__path__, f"{rules_of_redaction.__name__}.")
]
FOLDER = next(iter(rules_of_redaction.__path__))
SIZE = 6_000  # characters, beyond every reach that a rule has
TIMES = 4
MOST_GROWTH = 6  # of the work on TIMES the length: 4 is linear, 16 quadratic
MOST = 1_000 * SIZE  # twenty times what ordinary text takes
FLOOR = 40_000  # less than this for 24,000 characters is no burden
CONTEXTS = scaled(60, 6_000)
ONCE_SLOW = ["1p", "p9", "Name-", "ab.com?"]


class Counted(str):
    """A text that counts what is sliced from it."""

    read = 0

    def __getitem__(self, place):
        part = str.__getitem__(self, place)
        Counted.read += len(part)
        return part

    def lower(self):
        return Counted(str.lower(self))


class CountedPattern:
    """A pattern that counts the characters which it takes, or passes over in a search."""

    def __init__(self, pattern):
        self._pattern = pattern

    def __getattr__(self, name):
        """Of the pattern; `match`, `search`, `fullmatch`, `finditer`, ... with a text, and perhaps where to begin and end, count."""
        method = getattr(self._pattern, name)
        if not callable(method):
            return method

        def call(*given):
            found = method(*given)
            text = [one for one in given if isinstance(one, str)][-1]
            places = [one for one in given if isinstance(one, int)]
            first, last = (*places, *(0, len(text))[len(places) :])[:2]
            if isinstance(found, re.Match):
                Counted.read += found.end() - first
            elif found is not None or name == "search":
                Counted.read += 1 + min(last, len(text)) - first
            return found

        return call


@pytest.fixture(scope="module")
def counted():
    """Every pattern of the rules counts, and every text that a document holds."""
    with pytest.MonkeyPatch.context() as patch:
        proxies = {}
        for module in MODULES:
            for name, value in list(vars(module).items()):
                if isinstance(value, re.Pattern):
                    patch.setattr(module, name, proxies.setdefault(id(value), CountedPattern(value)))
                elif isinstance(value, dict) and not name.startswith("__"):
                    for key, pattern in value.items():
                        if isinstance(pattern, re.Pattern):
                            patch.setitem(value, key, proxies.setdefault(id(pattern), CountedPattern(pattern)))
        made = document.Document.__init__

        def init(self, *given, **more):
            made(self, *given, **more)
            self.text = Counted(self.text)

        patch.setattr(document.Document, "__init__", init)
        yield


class TooMuch(Exception):
    """Of work: the rest of it is not waited for."""


def work(function, text, most=float("inf")):
    """Lines run inside the package, and characters read, while `function` takes the text; up to `most`."""
    lines = 0

    def local(frame, event, _):
        nonlocal lines
        lines += event == "line"
        if lines + Counted.read > most:
            raise TooMuch
        return local

    def called(frame, *_):
        return local if frame.f_code.co_filename.startswith(FOLDER) else None

    before, Counted.read = sys.gettrace(), 0
    sys.settrace(called)
    try:
        function(text)
    except TooMuch:
        pass
    finally:
        sys.settrace(before)
    return lines + Counted.read


def _find(text):
    found = document.Document(text)
    for rule in own_rules():
        for _ in rule.find(found):
            pass


REDACTOR = Redactor()
ENTRIES = {
    "rules": _find,
    "redact": REDACTOR.redact,
    "json": lambda text: redact_json(json.dumps({"note": text}), REDACTOR.detect),
    "csv": lambda text: redact_csv('note\n"' + text.replace('"', '""') + '"\n', REDACTOR.detect),
    "title": lambda text: redact_csv(text.replace("\n", " ") + ",given\n1,x\n", REDACTOR.detect),
    "mail": lambda text: redact_mail(f"Subject: x\n\n{text}", REDACTOR.detect),
    "header": lambda text: redact_mail("From: " + text.replace("\n", " ") + "\n\n", REDACTOR.detect),
}


def _words():
    """Some of every list of words that a module of the rules has; of a table one word for each different entry."""
    listed = set()
    for module in MODULES:
        for name, value in sorted(vars(module).items()):
            if isinstance(value, (frozenset, tuple, dict)) and not name.startswith("__"):
                known = sorted(word for word in value if isinstance(word, str) and 0 < len(word) < 20)
                if isinstance(value, dict):
                    known = [*{str(value[word]): word for word in known}.values()]
                listed |= {*known[:: len(known) // 3 + 1 if not isinstance(value, dict) else len(known) // 20 + 1]}
    return sorted(listed)


SEPARATORS = ["", *" -./:,'_@\n()+#?=&\t", ", ", ". ", "://", " is "]
PIECES = ["1", "12", "1234", "a", "p", "A", "Aa", "AB", "z9", "1p", "é", "字", "０", "\u0301", "\u200b", "1-1"]
PIECES += ["Aa-Aa", "ab.com", "[A]"]


def contexts(count):
    """A word or piece with a separator, and two or three of them: drawn blindly, and the same ones each time."""
    chance = random.Random(count)
    known = [*_words(), *PIECES]
    written = lambda word: chance.choice((word, word.capitalize(), word.upper()))
    single = [written(word) + sign for word in known for sign in SEPARATORS]
    longer = ["".join(written(chance.choice(known)) + chance.choice(SEPARATORS) for _ in range(2 + n % 2)) for n in range(count // 2)]
    return ONCE_SLOW + chance.sample(single, min(len(single), count // 2)) + longer


def growth(entry, unit):
    """Work on TIMES the length over that on the length; no more is counted than decides.

    Whole units, so that both texts end alike: how a column's title ends decides how much is asked about each of its words.
    """
    text = lambda size: unit * (size // len(unit))
    short = work(ENTRIES[entry], text(SIZE), MOST)
    long = work(ENTRIES[entry], text(TIMES * SIZE), (MOST_GROWTH + 1) * short + FLOOR)
    return float("inf") if short > MOST else long / short if long > FLOOR else 0


@pytest.mark.parametrize("entry", ENTRIES)
def test_work_grows_with_the_length_alone(entry, counted):
    share = contexts(CONTEXTS)[:: 1 if entry == "rules" else 8]
    assert [(unit, grown) for unit in share if (grown := growth(entry, unit)) > MOST_GROWTH] == []


WALK = """
def walk(text):
    for place in range(0, len(text), 500):
        while place and text[place - 1].isalnum():
            place -= 1

def reread(text):
    for place in range(0, len(text), 100):
        text[place:]
"""


@pytest.mark.parametrize("name", ["walk", "reread"])
def test_what_is_not_linear_is_noticed(name, monkeypatch):
    """A walk back from every character, and slices to the end of the text."""
    found = {}
    exec(compile(WALK, f"{FOLDER}/walk.py", "exec"), found)
    monkeypatch.setitem(ENTRIES, name, lambda text: found[name](Counted(text)))
    assert growth(name, "1p") > MOST_GROWTH


@pytest.mark.parametrize(("pattern", "linear"), [(r"1p", True), (r"(?:1p)+", False)])
def test_what_a_pattern_reads_again_is_noticed(pattern, linear, monkeypatch):
    counting = CountedPattern(re.compile(pattern))
    monkeypatch.setitem(ENTRIES, "match", lambda text: [counting.match(text, place) for place in range(0, len(text), 20)])
    assert (growth("match", "1p") <= MOST_GROWTH) is linear
