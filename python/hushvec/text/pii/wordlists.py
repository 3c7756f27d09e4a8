"""Lists of words that the rules for names read: given names, countries, cities, and words that are not names."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def _sections() -> dict[str, tuple[str, ...]]:
    sections: dict[str, list[str]] = {}
    found: list[str] = []
    for line in _lines("words.txt"):
        if line.startswith("["):
            found = sections.setdefault(line.strip("[]"), [])
        else:
            found += line.split()
    return {name: tuple(words) for name, words in sections.items()}


def words_in_order(name: str) -> tuple[str, ...]:
    """A section of data/words.txt."""
    return _sections()[name]


def word_list(name: str) -> frozenset[str]:
    """A section of data/words.txt as a set."""
    return frozenset(words_in_order(name))


@cache
def given_names() -> tuple[frozenset[str], frozenset[str]]:
    """(names that count alone, names that are also words and need a surname), in lower case."""
    first, _, second = _read("given_names.txt").partition("# only with a surname")
    words = frozenset(_words(second))
    return frozenset(_words(first)) - words, words


@cache
def countries() -> tuple[str, ...]:
    return _names("countries.txt")


@cache
def cities() -> tuple[str, ...]:
    return _names("cities.txt")


def _names(name: str) -> tuple[str, ...]:
    return tuple(name.strip() for line in _lines(name) for name in line.split(";") if name.strip())


def _words(content: str) -> list[str]:
    return [word for line in content.splitlines() if not line.startswith("#") for word in line.split()]


def _lines(name: str) -> list[str]:
    return [line for line in _read(name).splitlines() if not line.startswith("#")]


def _read(name: str) -> str:
    return resources.files("hushvec").joinpath("data", name).read_text(encoding="utf-8")


# Words that are capitalized in ordinary English text without being a name.
NOT_NAMES = word_list("not_names")
