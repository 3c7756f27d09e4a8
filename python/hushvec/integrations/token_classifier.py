"""A token classifier of transformers from a local folder, as a `Detector` for `hushvec.text.redact`. Needs `hushvec[text]`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from hushvec._util.lazy import needs_extra
from hushvec.integrations.detectors import _own_categories, _require_text, _require_threshold, _span_of
from hushvec.text.pii.categories import canonical
from hushvec.text.pii.spans import Span

DEFAULT_THRESHOLD = 0.5
MOST_TOKENS = 512
WINDOWS_AT_ONCE = 16
OUTSIDE = frozenset({"o", ""})


class _Word(NamedTuple):
    start: int
    end: int
    label: str
    begins: bool
    score: float


class TokenClassifierDetector:
    """Finds what a token classification model finds; use it as `redact(text, detectors=[TokenClassifierDetector(folder)])`.

    Args:
        folder: of a model and its fast tokenizer, as written by `save_pretrained`; nothing is downloaded.
        categories: label of the model (without B-, I-, ...) -> category; None or a label that is not in it: the category with that
            short name if there is one (PER, ORG, LOC, EMAIL, ...), else the label in lower case. Labels mapped to None are left out.
        score_threshold: spans whose mean probability is below are left out.
        window: most tokens at once, with the special ones; None: what the model takes, at most 512.
        stride: tokens that neighboring windows share; None: a quarter of the window.
        device: of torch.

    Spans lie within the text and on whole words. The same text gives the same spans on the same machine.

    Example:
        >>> from hushvec.integrations.token_classifier import TokenClassifierDetector
        >>> TokenClassifierDetector("models/ner").detect("Ada Lovelace wrote it.")  # doctest: +SKIP
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, categories: Mapping[str, str | None] | None = None,
        score_threshold: float = DEFAULT_THRESHOLD, window: int | None = None, stride: int | None = None, device: str = "cpu",
    ) -> None:
        self._threshold = _require_threshold(score_threshold)
        self._name = Path(folder).name
        if not Path(folder).is_dir():
            raise FileNotFoundError(f"{Path(folder)}: must be a folder with a model")
        with needs_extra("a token classifier", "text"):
            import torch  # noqa: F401
            from transformers import AutoModelForTokenClassification, AutoTokenizer
        kinds = AutoTokenizer, AutoModelForTokenClassification
        self._tokenizer, self._model = (kind.from_pretrained(str(folder), local_files_only=True) for kind in kinds)
        if not getattr(self._tokenizer, "is_fast", False):
            raise ValueError(f"{folder}: the tokenizer must be a fast one, which knows offsets, got {type(self._tokenizer).__name__}")
        self._model.to(device).eval()
        self._device = device
        self._window = _window(window, self._model, self._tokenizer)
        special = self._tokenizer.num_special_tokens_to_add()
        self._stride = (self._window - special) // 4 if stride is None else stride
        if not 0 <= self._stride < self._window - special:
            raise ValueError(f"stride must be >= 0 and below {self._window - special}, got {stride!r}")
        self._labels = {int(number): str(label) for number, label in self._model.config.id2label.items()}
        self._categories = _own_categories(categories)

    def detect(self, text: str) -> list[Span]:
        """Return spans of the model, in the order of the text."""
        _require_text(text)
        if not text.strip():
            return []
        return [span for span in self._spans(text, self._words(text)) if span.score >= self._threshold]

    def _words(self, text: str) -> list[_Word]:
        """Return every word once: where windows overlap, as the window sees it in which it has more context."""
        import torch

        # A lone surrogate cannot be encoded; a replacement of the same length keeps the offsets.
        readable = text.encode("utf-8", "replace").decode("utf-8")
        encoded = self._tokenizer(
            readable, truncation=True, max_length=self._window, stride=self._stride, return_overflowing_tokens=True,
            return_offsets_mapping=True, padding=True, return_tensors="pt",
        )
        best: dict[tuple[int, int], tuple[int, _Word]] = {}
        for first in range(0, len(encoded["input_ids"]), WINDOWS_AT_ONCE):
            part = slice(first, first + WINDOWS_AT_ONCE)
            with torch.no_grad():
                logits = self._model(
                    input_ids=encoded["input_ids"][part].to(self._device),
                    attention_mask=encoded["attention_mask"][part].to(self._device),
                ).logits
            for row, probabilities in enumerate(logits.float().softmax(-1).cpu(), first):
                words = list(self._words_of(encoded, row, probabilities))
                for place, word in enumerate(words):
                    context, key = min(place, len(words) - 1 - place), (word.start, word.end)
                    if key not in best or best[key][0] < context:
                        best[key] = (context, word)
        return sorted(word for _, word in best.values())

    def _words_of(self, encoded: Any, window: int, probabilities: Any) -> Iterator[_Word]:
        """Yield words of one window; the first piece of a word has the say, as in training."""
        numbers = encoded.word_ids(window)
        offsets = encoded["offset_mapping"][window].tolist()
        for number, pieces in groupby(range(len(numbers)), key=numbers.__getitem__):
            if number is None:
                continue
            first, *others = pieces
            start, end = offsets[first][0], offsets[(others or [first])[-1]][1]
            score, chosen = probabilities[first].max(-1)
            label, begins = _plain(self._labels[int(chosen)])
            if end > start:
                yield _Word(start, end, label, begins, float(score))

    def _spans(self, text: str, words: list[_Word]) -> Iterator[Span]:
        runs: list[list[_Word]] = []
        last: _Word | None = None
        for word in words:
            joins = last and word.label == last.label and not word.begins and not text[last.end : word.start].strip()
            if joins:
                runs[-1].append(word)
            else:
                runs.append([word])
            last = word
        for run in runs:
            label = run[0].label
            category = self._categories.get(label, canonical(label.replace("_", " ")))
            if category is not None and label.lower() not in OUTSIDE:
                start, end = run[0].start, run[-1].end
                start = end - len(text[start:end].lstrip())
                score = sum(word.score for word in run) / len(run)
                yield _span_of(text, start, end, category, f"{self._name}:{label}", score)


def _window(window: int | None, model: Any, tokenizer: Any) -> int:
    takes = min(MOST_TOKENS, int(getattr(model.config, "max_position_embeddings", MOST_TOKENS)), int(tokenizer.model_max_length))
    if window is None:
        return takes
    if isinstance(window, bool) or not isinstance(window, int):
        raise TypeError(f"window must be a whole number, got {type(window).__name__}")
    if not 3 < window <= takes:
        raise ValueError(f"window must be above 3 and at most {takes}, which the model takes, got {window!r}")
    return window


def _plain(label: str) -> tuple[str, bool]:
    """(label without B-, I-, E-, S-, L-, U-; whether a new span begins here)."""
    if len(label) > 2 and label[1] in "-_" and label[0] in "BIESLU":
        return label[2:], label[0] in "BSU"
    return label, False
