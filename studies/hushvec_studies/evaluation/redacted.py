"""One measurement of redaction: what the rules of hushvec.text protect in texts with known identifiers, and what they cost."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hushvec
from hushvec._util.statistics import clopper_pearson
from hushvec.text import Redactor
from hushvec_studies.evaluation.sources import TAB, Source, paths_of
from hushvec_studies.harness.json_lines import records_of
from hushvec_studies.harness.measurements import Measure, Measurement
from hushvec_studies.redaction import recall, tab

VERSION = 1  # of what a measurement does
DIRECT, QUASI, PRECISION = "recall_direct", "recall_quasi", "precision"
BY_INFORMATION, LOST = "precision_by_information", "information_lost"
HIDDEN, HIDDEN_AIMED, PRECISION_OF_FINDS = "hidden", "hidden_aimed", "precision_of_finds"

Detect = Callable[[str], Iterable[tuple[int, int, str]]]
Pair = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class TextCell(Measurement):
    """Redaction of one data set.

    Args:
        source: its name.
        records: texts with known identifiers.
        confidence, resamples, seed: of the intervals.
    """

    source: str
    records: list[Any]
    confidence: float
    resamples: int
    seed: int

    @property
    def key(self) -> Mapping[str, Any]:
        content = hashlib.sha256(json.dumps(self.records, sort_keys=True).encode()).hexdigest()
        own = {name: value for name, value in vars(self).items() if name != "records"}
        return {"redaction": VERSION, "hushvec": hushvec.__version__, "content": content, **own}

    @property
    def label(self) -> str:
        return f"redaction of {self.source}"


def text_cell(source: Source, folder: Path, *, confidence: float, resamples: int, seed: int) -> tuple[Measurement, Measure]:
    """The measurement of a source and the function that makes it."""
    (path,) = paths_of(source, folder)
    records: Any
    if source is TAB:
        records, measure = records_of(path, "text", "entities"), measure_judgments
    else:
        records, measure = json.loads(path.read_text(encoding="utf-8")), measure_sentences
    cell = TextCell(source=source.name, records=records, confidence=confidence, resamples=resamples, seed=seed)
    return cell, measure


def measure_judgments(cell: TextCell) -> dict[str, Any]:
    """Recall of entities and precision of words on judgments, by the definitions of the benchmark's authors.

    They weigh words by what a language model does not foresee. Here the information of a word is -log2 of its share of all words of
    these judgments: so it takes no model, and a name counts for more than "the".
    """
    found = [tab.counts(document, _rules()) for document in cell.records]
    words = Counter(word.lower() for document in cell.records for word in tab.WORD.findall(document["text"]))
    count = words.total()

    def information(chosen: Iterable[str]) -> float:
        return sum(-math.log2(words[word.lower()] / count) for word in chosen)

    def wrong(one: tab.Counts) -> float:
        return information(one.redacted) - information(one.right)

    return _row(
        cell,
        {
            DIRECT: [(one.protected["DIRECT"], one.total["DIRECT"]) for one in found],
            QUASI: [(one.protected["QUASI"], one.total["QUASI"]) for one in found],
            PRECISION: [(len(one.right), len(one.redacted)) for one in found],
            BY_INFORMATION: [(information(one.right), information(one.redacted)) for one in found],
            LOST: [(wrong(one), information(one.kept)) for one in found],
        },
    )


def measure_sentences(cell: TextCell) -> dict[str, Any]:
    """Known spans whose every letter and digit is redacted, of all types and of those that rules aim at, and precision of finds."""
    detect = _rules()
    counts: Callable[[list[Any], Detect], dict[str, Counter[str]]] = recall.counts
    found = [counts([record], detect) for record in cell.records]
    aimed = [[one[name] for name in recall.AIMED] for one in found]
    return _row(
        cell,
        {
            HIDDEN: [_sums(one.values(), "hidden", "gold") for one in found],
            HIDDEN_AIMED: [_sums(one, "hidden", "gold") for one in aimed],
            PRECISION_OF_FINDS: [_sums(one.values(), "right", "predicted") for one in found],
        },
    )


def ratio(pairs: Sequence[Pair], confidence: float, resamples: int, seed: int) -> list[float]:
    """[sum of parts / sum of wholes, and its percentile bootstrap interval over documents].

    Where all documents have 0, or all have 1, nothing varies: the interval is then Clopper and Pearson's for documents.
    """
    parts, wholes = np.array(pairs, np.float64).T
    drawn = np.random.default_rng(seed).multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), size=resamples)
    below = drawn @ wholes
    shares = (drawn @ parts)[below > 0] / below[below > 0]
    low, high = np.quantile(shares, [(1 - confidence) / 2, (1 + confidence) / 2])
    value = float(parts.sum() / wholes.sum())
    if low == high and value in (0.0, 1.0):
        counted = int((wholes > 0).sum())
        exact = clopper_pearson(counted * int(value), counted, confidence)
        low, high = exact.low, exact.high
    return [value, float(low), float(high)]


def _row(cell: TextCell, figures: Mapping[str, Sequence[Pair]]) -> dict[str, Any]:
    """Every figure that has something to count."""
    return {
        "data": cell.source,
        "documents": len(cell.records),
        "figures": {
            name: ratio(pairs, cell.confidence, cell.resamples, cell.seed)
            for name, pairs in figures.items()
            if sum(whole for _, whole in pairs)
        },
    }


def _sums(rows: Iterable[Mapping[str, int]], part: str, whole: str) -> Pair:
    chosen = list(rows)
    return float(sum(row[part] for row in chosen)), float(sum(row[whole] for row in chosen))


def _rules() -> Detect:
    redactor = Redactor()
    return lambda text: [(span.start, span.end, span.category) for span in redactor.detect(text)]
