"""A pipeline of spaCy with named entities as a `Detector` for `hushvec.text.redact`. Needs `pip install 'hushvec[spacy]'`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.integrations.detectors import _own_categories, _require_text, _span_of
from hushvec.text.pii.spans import Span

# Labels of the pipelines that spaCy publishes; None: nothing personal.
_CATEGORIES: dict[str, str | None] = {
    "PERSON": "full person name",
    "PER": "full person name",
    "ORG": "organization",
    "GPE": "location",
    "LOC": "location",
    "FAC": "location",
    "DATE": "date",
    "NORP": "nationality",
    **dict.fromkeys(("CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY", "TIME")),
    **dict.fromkeys(("LANGUAGE", "LAW", "EVENT", "PRODUCT", "WORK_OF_ART", "MISC")),
}
# spaCy gives entities no probability.
SCORE = 0.6
# Its models refuse texts above a million characters, and their memory grows with the length.
MOST_CHARACTERS = 100_000


class SpacyDetector:
    """Finds the named entities of a spaCy pipeline; use it as `redact(text, detectors=[SpacyDetector(folder)])`.

    Args:
        pipeline: a folder written by `nlp.to_disk`, the name of an installed pipeline package, or a loaded pipeline; nothing is
            downloaded.
        categories: label of the pipeline -> category, in place of the usual one; None leaves the label out. A label without an
            entry in either table becomes a category of its own, in lower case.

    Example:
        >>> from hushvec.integrations.spacy import SpacyDetector
        >>> SpacyDetector("models/en_core_web_sm").detect("Ada Lovelace wrote it.")  # doctest: +SKIP
    """

    def __init__(self, pipeline: str | os.PathLike[str] | Any, *, categories: Mapping[str, str | None] | None = None) -> None:
        if isinstance(pipeline, (str, os.PathLike)):
            with needs_extra("a spaCy pipeline", "spacy"):
                import spacy
            pipeline = spacy.load(Path(pipeline) if Path(pipeline).is_dir() else str(pipeline))
        self._pipeline: Any = pipeline
        if not {"ner", "entity_ruler"}.intersection(self._pipeline.pipe_names):
            raise ValueError(f"pipeline must have a component 'ner' or 'entity_ruler', got {list(self._pipeline.pipe_names)}")
        self._categories = {**_CATEGORIES, **_own_categories(categories)}

    def detect(self, text: str) -> list[Span]:
        """Return the entities as spans, in the order of the text."""
        _require_text(text)
        return [span for start, end in _pieces(text) for span in self._spans(text, start, end)]

    def _spans(self, text: str, first: int, last: int) -> Iterator[Span]:
        for entity in self._pipeline(text[first:last]).ents:
            label = entity.label_
            category = self._categories[label] if label in self._categories else label.lower().replace("_", " ")
            if category is not None:
                start, end = first + entity.start_char, first + entity.end_char
                yield _span_of(text, start, end, category, f"spacy:{label}", SCORE)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield parts of bounded length that end with a line, or with a word, where there is one."""
    start = 0
    while len(text) - start > MOST_CHARACTERS:
        limit = start + MOST_CHARACTERS
        end = text.rfind("\n", start, limit) + 1 or text.rfind(" ", start, limit) + 1 or limit
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)
