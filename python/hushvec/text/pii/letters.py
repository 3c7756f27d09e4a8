"""Patterns of capitalized words in any script that has capitals."""

from __future__ import annotations

from itertools import groupby


def words(listed: str) -> frozenset[str]:
    """The words of a string, as a set."""
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
# Every character can be read in one way only. Patterns join such words with spaces alone, or would try all ways to split a text.
WORD = rf"[{CAPITALS}](?:['’]?{LETTER})+(?:-{LETTER}(?:['’]?{LETTER})*)*"
INITIAL = rf"[{CAPITALS}]\.?"
PARTICLE = r"(?:van|von|der|den|de|del|della|di|da|dos|das|du|la|le|el|al|bin|ibn|ben|zu|zur|ter|ten|af|av|y|e)"

LONGEST_WORD = 32
_OPENING = "\"“”„«»‘(['"


def start_of_name(text: str, end: int, most: int, *, links: frozenset[str] = frozenset(), commas: bool = False) -> int:
    """Where the run of at most `most` capitalized words begins whose last one ends at `end`; `end` if there is none.

    Reads backwards, word by word, so that its time does not depend on what stands further left.

    Args:
        links: words in small letters that may stand between capitalized ones.
        commas: whether a comma may follow each word but the last.
    """
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
        if _is_capitalized(plain):
            start = first + opened
        elif plain not in links or start == end:
            break
        if opened or newline or first < 2:
            break
        position = first - 1
    return start


def _is_capitalized(word: str) -> bool:
    if not word[:1].isupper():
        return False
    return word.isalpha() or word.replace("-", "").replace("'", "").replace("’", "").replace(".", "").replace("&", "").isalnum()
