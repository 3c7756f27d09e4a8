"""A GLiNER model from a local folder as a `Detector` for `hushvec.text.redact`. Needs `pip install 'hushvec[gliner]'`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.integrations.detectors import _require_folder, _require_text, _require_threshold, _span_of
from hushvec.text.pii.categories import require_category_name
from hushvec.text.pii.spans import Span

# What the model is asked for, in words that such models are trained on -> our category.
LABELS: dict[str, str] = {
    "person": "full person name",
    "organization": "organization",
    "location": "location",
    "street address": "street address",
    "date": "date",
    "phone number": "phone number",
    "email address": "email address",
    "identity document number": "identity document number",
}
DEFAULT_THRESHOLD = 0.5
WINDOW_WORDS = 200
SHARED_WORDS = 40
_WORD = re.compile(r"\S+")


class GlinerDetector:
    """Finds what a GLiNER model finds; use it as `redact(text, detectors=[GlinerDetector(folder)])`.

    Args:
        model: a folder with the weights and the configuration, or a loaded model; nothing is downloaded.
        labels: what the model is asked for -> category of such finds; None: `hushvec.integrations.gliner.LABELS`.
        score_threshold: finds below this score, 0 to 1, are left out.

    Example:
        >>> from hushvec.integrations.gliner import GlinerDetector
        >>> GlinerDetector("models/gliner").detect("Ada Lovelace wrote it.")  # doctest: +SKIP
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Any,
        *,
        labels: Mapping[str, str] | None = None,
        score_threshold: float = DEFAULT_THRESHOLD,
    ) -> None:
        self._threshold = _require_threshold(score_threshold)
        chosen = LABELS if labels is None else labels
        if not chosen:
            raise ValueError("labels must name at least one label, got none")
        self._labels = {label: require_category_name("labels", category) for label, category in chosen.items()}
        if isinstance(model, (str, os.PathLike)):
            _require_folder(Path(model))
            with needs_extra("a GLiNER model", "gliner"):
                from gliner import GLiNER
            model = GLiNER.from_pretrained(str(model), local_files_only=True)
        self._model: Any = model

    def detect(self, text: str) -> list[Span]:
        """The finds as spans, in the order of the text; one that two windows see counts once, with the higher score."""
        _require_text(text)
        best: dict[tuple[int, int, str], float] = {}
        for first, last in _windows(text):
            for one in self._model.predict_entities(text[first:last], list(self._labels), threshold=self._threshold):
                key = (first + one["start"], first + one["end"], one["label"])
                best[key] = max(best.get(key, 0.0), float(one["score"]))
        return [
            _span_of(text, start, end, self._labels[label], f"gliner:{label}", score)
            for (start, end, label), score in sorted(best.items())
        ]


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of runs of words that overlap and cover the text."""
    words = [match.span() for match in _WORD.finditer(text)]
    step = WINDOW_WORDS - SHARED_WORDS
    for first in range(0, max(1, len(words) - SHARED_WORDS), step):
        part = words[first : first + WINDOW_WORDS]
        if part:
            yield part[0][0], part[-1][1]
