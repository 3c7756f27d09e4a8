"""Known names: a list per category, found as whole words in one pass over the text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hushvec.text.pii.categories import require_category_name
from hushvec.text.pii.document import Document, matches

_WORD = re.compile(r"\w+")

Names = Mapping[str, Iterable[str]]


class Gazetteer:
    """Finds every name of a mapping from categories to names. If two names start at one place, the longer one wins.

    Args:
        names: category -> names. A name must hold a letter or a digit; capitals do not matter.
    """

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
        """(start, end, category) of each name."""
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
                if category is not None and _is_whole(text, start, end):
                    yield start, end, category
                    taken = end
                    break


def _is_whole(text: str, start: int, end: int) -> bool:
    before = start > 0 and _is_word(text[start - 1]) and _is_word(text[start])
    after = end < len(text) and _is_word(text[end]) and _is_word(text[end - 1])
    return not (before or after)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _entries(category: str, entries: object) -> Iterable[str]:
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Iterable):
        raise TypeError(f"gazetteer: the names of {category!r} must be a list of strings, got {type(entries).__name__}")
    for name in entries:
        if not isinstance(name, str):
            raise TypeError(f"gazetteer: the names of {category!r} must be strings, got {type(name).__name__}")
        yield " ".join(name.split()) if name.strip() else name


def gazetteer_of(source: object) -> Gazetteer:
    """A gazetteer from a mapping, or from a file: .json with such a mapping, else lines `category: name`."""
    if isinstance(source, Mapping):
        return _checked(source)
    if isinstance(source, (str, os.PathLike)):
        return _checked(_from_file(Path(source)))
    raise TypeError(f"gazetteer must be a mapping from categories to names, or a file, got {type(source).__name__}")


def _checked(names: Mapping[object, object]) -> Gazetteer:
    found: dict[str, list[str]] = {}
    for category, entries in names.items():
        name = require_category_name("gazetteer", category)
        found.setdefault(name, []).extend(_entries(str(category), entries))
    return Gazetteer(found)


def _from_file(path: Path) -> Mapping[object, object]:
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must be UTF-8 text: {error}") from None
    if path.suffix.lower() == ".json":
        try:
            names = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: not JSON: {error}") from None
        if not isinstance(names, dict):
            raise ValueError(f"{path}: must be an object of lists of names, got {type(names).__name__}")
        return names
    found: dict[object, list[str]] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        category, colon, name = line.partition(":")
        if not colon or not category.strip() or not name.strip():
            raise ValueError(f"{path}: line {number}: must be `category: name`, got {line!r:.80}")
        found.setdefault(category.strip(), []).append(name.strip())
    return found
