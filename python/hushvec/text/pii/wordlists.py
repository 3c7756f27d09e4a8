"""Lists of words that the rules read, and patterns of capitalized words in any script that has capitals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources
from itertools import dropwhile, groupby


@cache
def _sections() -> dict[str, list[str]]:
    headed = (section.partition("]\n") for section in "\n".join(_lines(_read("words.txt"))).removeprefix("[").split("\n["))
    return {name: [line for line in content.split("\n") if line] for name, _, content in headed}


@cache
def words_in_order(name: str) -> tuple[str, ...]:
    """A section of data/words.txt."""
    return tuple(word for line in _sections()[name] for word in line.split())


@cache
def rows(name: str) -> dict[str, tuple[str, ...]]:
    """A section that is a table: first cell -> the others."""
    cells = ([cell.strip() for cell in line.split("|")] for line in _sections()[name])
    return {first: tuple(others) for first, *others in cells}


@cache
def word_list(name: str) -> frozenset[str]:
    return frozenset(words_in_order(name))


@cache
def given_names() -> tuple[frozenset[str], frozenset[str]]:
    """(names that count alone, names that are also words and need a surname), in lower case."""
    first, _, second = _read("given_names.txt").partition("# only with a surname")
    alone, words = (frozenset(" ".join(_lines(part)).split()) for part in (first, second))
    return alone - words, words


@cache
def names_of_places(kind: str) -> tuple[str, ...]:
    return tuple(name.strip() for line in _lines(_read(f"{kind}.txt")) for name in line.split(";") if name.strip())


def _lines(content: str) -> list[str]:
    return [line for line in content.splitlines() if not line.startswith("#")]


def _read(name: str) -> str:
    return resources.files("hushvec").joinpath("data", name).read_text(encoding="utf-8")


# Words that are capitalized in ordinary English text without being a name.
NOT_NAMES = word_list("not_names")


@cache
def words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


def _ranges(characters: list[int]) -> str:
    runs = []
    for _, run in groupby(enumerate(characters), lambda pair: pair[1] - pair[0]):
        codes = [code for _, code in run]
        runs.append(f"\\u{codes[0]:04x}" + (f"-\\u{codes[-1]:04x}" if len(codes) > 1 else ""))
    return "".join(runs)


# Latin, Greek, Cyrillic, Armenian
CAPITALS = _ranges([code for code in range(0x41, 0x0587) if chr(code).isupper()])
LETTER = r"[^\W\d_]"
# Starts with a capital and has two letters or more: "Anna", "O'Neill", "Jean-Luc", "McDonald", "LYON".
# Every character can be read in one way only. Patterns join such words with spaces alone, or would try all ways to split a text. The
# hyphens are bounded: a name may be looked for after each of them.
WORD = rf"[{CAPITALS}](?:['’]?{LETTER})+(?:-{LETTER}(?:['’]?{LETTER})*){{0,7}}"
INITIAL = rf"[{CAPITALS}]\.?"
INITIALS = rf"[{CAPITALS}](?:\.(?:-?[{CAPITALS}]\.){{0,3}})?"  # "K.H.", "C.-H."
PARTICLE = r"(?:van|von|der|den|de|del|della|di|da|dos|das|du|la|le|el|al|bin|ibn|ben|zu|zur|ter|ten|af|av|y|e)"

LONGEST_WORD = 32
LONGEST_ABBREVIATION = 5  # "Corp."
_OPENING = "\"“”„«»‘(['"


def start_of_name(text: str, end: int, most: int, *, links: frozenset[str] = frozenset(), commas: bool = False) -> int:
    """Where the run of at most `most` capitalized words begins whose last one ends at `end`; `end` if there is none.

    Reads backwards, word by word, so that its time does not depend on what stands further left. The words `links`, in small
    letters, may stand between capitalized ones, and with `commas` a comma may follow each word but the last."""
    start = position = end
    for _ in range(most):
        low = position - LONGEST_WORD if position > LONGEST_WORD else 0
        first = text.rfind(" ", low, position) + 1 or low
        newline = text.rfind("\n", first, position) + 1
        first = newline or first
        written = text[first:position]
        word = written.lstrip(_OPENING)
        opened = len(written) - len(word)
        plain = word[:-1] if commas and start != end and word.endswith(",") else word
        if start != end and plain.endswith(".") and len(plain) > LONGEST_ABBREVIATION:
            break  # a sentence ends here
        if _is_capitalized(plain):
            start = first + opened
        elif plain not in links or start == end:
            break
        if opened or newline or first < 2:
            break
        position = first - 1
    return start


def without_leading(text: str, start: int, end: int, is_leading: Callable[[str], bool]) -> int:
    """Where a run of words begins without those at its front that belong to the sentence; `end` if all of them do."""
    return end - len(" ".join(dropwhile(is_leading, text[start:end].split(" "))))


def _is_capitalized(word: str) -> bool:
    if not word[:1].isupper():
        return False
    return word.isalpha() or word.replace("-", "").replace("'", "").replace("’", "").replace(".", "").replace("&", "").isalnum()
