"""Recall and precision on court judgments of the Text Anonymization Benchmark (TAB), by the definitions of its authors.

An entity is protected if every mention of it is: all of its characters are redacted, apart from spaces, punctuation, titles and
function words. The authors find function words with a tagger; here a list does. Precision counts words: the share of redacted words
that lie in an annotated mention of a direct or a quasi identifier.

Reference: Pilan, Lison, Ovrelid, Papadopoulou, Sanchez, Batet: The Text Anonymization Benchmark (2022), and its `evaluation.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hushvec.text.pii.wordlists import words

Detect = Callable[[str], Iterable[tuple[int, int, str]]]

KINDS = ("DIRECT", "QUASI")
WORD = re.compile(r"\w+")
# Titles, determiners, possessives, conjunctions and prepositions.
_IGNORED = words(
    "mr mrs ms no nr about the a an this that these those his her their its and or of in on at by for from to with as into near "
    "between under over after before since until during within"
)
_PUNCTUATION = frozenset(" ,.-;:/&()[]–'\"’“”")


def is_held_out(document: dict[str, Any]) -> bool:
    """Whether a judgment is of the third that was not read when the rules of organizations, amounts and listed dates were written."""
    name = document["metadata"]["data_id"].encode()
    return int(hashlib.sha256(name).hexdigest(), 16) % 3 == 0


class Counts(NamedTuple):
    """Of one document.

    Args:
        protected, total: entities by kind of identifier, and by kind and type.
        redacted, right: how many words are redacted, and how many of them lie in a mention of a direct or a quasi identifier.
    """

    protected: Counter[str]
    total: Counter[str]
    redacted: int
    right: int


def counts(document: dict[str, Any], detect: Detect) -> Counts:
    """What of a document's entities is protected, and which of its words are redacted."""
    protected: Counter[str] = Counter()
    total: Counter[str] = Counter()
    text = document["text"]
    covered = bytearray(len(text))
    for start, end, _ in detect(text):
        covered[start:end] = b"\1" * (end - start)
    for (kind, entity_type), mentions in _entities(document).items():
        safe = all(_is_protected(text, covered, start, end) for start, end in mentions)
        for name in (kind[0], f"{kind[0]} {entity_type}"):
            total[name] += 1
            protected[name] += safe
    personal = bytearray(len(text))
    for one in document["entities"]:
        if one["identifier_type"] in KINDS:
            start, end = one["start_offset"], one["end_offset"]
            personal[start:end] = b"\1" * (end - start)
    redacted = [bool(personal[word.start()]) for word in WORD.finditer(text) if covered[word.start()]]
    return Counts(protected, total, len(redacted), sum(redacted))


def rates(documents: Iterable[dict[str, Any]], detect: Detect) -> dict[str, Any]:
    """Recall of entities by kind of identifier and by type, and precision of words."""
    protected: Counter[str] = Counter()
    total: Counter[str] = Counter()
    redacted = right = 0
    for document in documents:
        one = counts(document, detect)
        protected += one.protected
        total += one.total
        redacted += one.redacted
        right += one.right
    return {
        "entities": dict(sorted(total.items())),
        "recall": {name: round(protected[name] / count, 4) for name, count in sorted(total.items())},
        "redacted_words": redacted,
        "precision_of_words": round(right / redacted, 4) if redacted else None,
    }


def _entities(document: dict[str, Any]) -> dict[tuple[tuple[str, str], str], list[tuple[int, int]]]:
    """((kind, entity), type) -> places of its mentions that need masking."""
    found: dict[tuple[tuple[str, str], str], list[tuple[int, int]]] = {}
    for one in document["entities"]:
        if one["identifier_type"] in KINDS:
            key = ((one["identifier_type"], one["entity_id"]), one["entity_type"])
            found.setdefault(key, []).append((one["start_offset"], one["end_offset"]))
    return found


def _is_protected(text: str, covered: bytearray, start: int, end: int) -> bool:
    open_places = {place for place in range(start, end) if not covered[place] and text[place] not in _PUNCTUATION}
    if not open_places:
        return True
    for word in WORD.finditer(text, start, end):
        if word.group().lower() in _IGNORED:
            open_places -= set(range(*word.span()))
    return not open_places
