"""Redaction and rewriting of texts: one measurement each, and what the figures say in sentences.

Redaction is measured on texts with known identifiers: what the rules of hushvec.text protect, and what they cost.

Rewriting is measured on Presidio's sentences: those whose template_id is odd are private, the others public.

as it is             the text itself: what there is to keep and to give away
words, metric        every word becomes the word nearest to its noisy vector; the noise z has the density exp(-epsilon |z|)
text, PrivUnit       hushvec's Rewriter on whole texts: one noisy vector, decoded to the likeliest public text

Epsilon of the second is of one word and a unit of distance. Vectors of words have length 1, so two words are at most 2 apart, and two
texts of n words at most 2 n epsilon: `epsilon_of_text`, which can be compared with the third.

Reference:
    Feyisetan, Balle, Drake, Diethe, "Privacy- and utility-preserving textual analysis via calibrated multivariate perturbations"
    (2020).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.audit.bootstrap import bootstrap
from hushvec.extend.helpers import clopper_pearson
from hushvec.text import Redactor
from hushvec_studies.evaluation.collection import SENTENCES, SOURCES, TAB, Source, paths_of
from hushvec_studies.evaluation.findings import Row
from hushvec_studies.evaluation.vectors import Embed, Hashed, Rows, Texts
from hushvec_studies.harness.embeddings import embedder
from hushvec_studies.harness.measurements import Measure, Measurement, noise_seed
from hushvec_studies.harness.rows import unit
from hushvec_studies.harness.tables import interval_text, percent_text
from hushvec_studies.harness.texts import records_of
from hushvec_studies.redaction import recall, tab
from hushvec_studies.rewriting import documents, metrics, rewriters

# ---- redaction ----


REDACTION_VERSION, REWRITING_VERSION = 1, 2  # of what a measurement does
DIRECT, QUASI, PRECISION = "recall_direct", "recall_quasi", "precision"
BY_INFORMATION, LOST = "precision_by_information", "information_lost"
HIDDEN, HIDDEN_AIMED, PRECISION_OF_FINDS = "hidden", "hidden_aimed", "precision_of_finds"

Detect = Callable[[str], Iterable[tuple[int, int, str]]]
Pair = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class TextCell(Measurement):
    """Redaction of one data set: texts with known identifiers, and settings of the intervals."""

    source: str
    records: list[Any]
    confidence: float
    resamples: int
    seed: int

    @property
    def key(self) -> Mapping[str, Any]:
        content = hashlib.sha256(json.dumps(self.records, sort_keys=True).encode()).hexdigest()
        own = {name: value for name, value in vars(self).items() if name != "records"}
        return {"redaction": REDACTION_VERSION, "hushvec": hushvec.__version__, "content": content, **own}

    @property
    def label(self) -> str:
        return f"redaction of {self.source}"


def text_cell(source: Source, folder: Path, *, confidence: float, resamples: int, seed: int) -> tuple[Measurement, Measure]:
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
    found = [recall.counts([record], detect) for record in cell.records]
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
            name: ratio(pairs, **cell.fields("confidence", "resamples", "seed"))
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


# ---- rewriting ----


AS_IT_IS, WORDS, WHOLE = "as it is", "words, metric", "text, PrivUnit"
MEANING, UNRELATED, LEAK, LENGTH, BITS = "meaning", "meaning_by_chance", "leaked", "length", "bits_per_word"
WORD_EPSILONS = (50.0, 100.0, 200.0, 400.0)
MOST = 300  # sentences
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_FARTHEST = 2.0  # distance of two unit vectors


@dataclass(frozen=True)
class Sentences(Hashed):
    """Public and private sentences, and the vectors of public words.

    Args:
        model: embedding model, by name.
        words: of the public sentences, in lower case.
        word_rows: unit rows of them and of the private words, by place in `words` and behind it in `private_words`.
        identifying: for each private sentence the strings that point to somebody.
    """

    model: str
    words: list[str]
    private_words: list[str]
    word_rows: Rows
    public: list[str]
    private: list[str]
    identifying: list[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class RewritingCell(Measurement):
    """One way to rewrite at one epsilon; confidence, resamples and seed are of the intervals and of the noise."""

    data: Sentences
    method: str
    epsilon: float | None
    confidence: float
    resamples: int
    seed: int

    @property
    def key(self) -> Mapping[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "data"}
        return {"rewriting": REWRITING_VERSION, "hushvec": hushvec.__version__, "data": self.data.digest, **own}

    @property
    def label(self) -> str:
        return f"rewriting, {self.method}" + ("" if self.epsilon is None else f", epsilon {self.epsilon:g}")


def sentences(folder: Path, embed: Embed, model: str, seed: int) -> Sentences:
    (path,) = paths_of(SENTENCES, folder)
    public, private = documents.sentences(path, None, seed, parity=0), documents.sentences(path, MOST, seed, parity=1)
    words = sorted({word for one in public for word in _words(one.text)})
    unknown = sorted({word for one in private for word in _words(one.text)} - set(words))
    texts = [one.text for one in public], [one.text for one in private]
    return Sentences(model, words, unknown, unit(embed([*words, *unknown])), *texts, [one.identifying for one in private])


def rewriting_cells(
    data: Sentences, epsilons: Sequence[float], *, confidence: float, resamples: int, seed: int
) -> list[tuple[Measurement, Measure]]:
    wanted: list[tuple[str, float | None]] = [(AS_IT_IS, None)]
    wanted += [(WORDS, epsilon) for epsilon in WORD_EPSILONS] + [(WHOLE, epsilon) for epsilon in epsilons]
    cell = partial(RewritingCell, data=data, confidence=confidence, resamples=resamples, seed=seed)
    return [(cell(method=method, epsilon=epsilon), measure_rewriting) for method, epsilon in wanted]


def measure_rewriting(cell: RewritingCell) -> dict[str, Any]:
    """The row of a method: what its outputs keep and give away."""
    data, model = cell.data, embedder(cell.data.model)
    # One half of the public sentences is what texts are decoded to, the other tells how fluent an output is.
    corpus, judge = data.public[::2], data.public[1::2]
    outputs = data.private
    of_text: float | None = None
    if cell.epsilon is not None and cell.method == WORDS:
        outputs = by_words(data, cell.epsilon, np.random.default_rng(noise_seed(cell.digest)))
        of_text = cell.epsilon * _FARTHEST * float(np.mean([len(_WORD.findall(text)) for text in data.private]))
    elif cell.epsilon is not None:
        setting = rewriters.Setting("privunit", "document", cell.epsilon)
        inverter = rewriters.whole(corpus, model)
        outputs, _ = rewriters.rewritten(data.private, setting, model, inverter, noise_seed(cell.digest))
        of_text = cell.epsilon
    return {
        **cell.fields("method", "epsilon"),
        "epsilon_of_text": of_text,
        "documents": len(data.private),
        "figures": _figures(cell, model, outputs, judge),
    }


def by_words(data: Sentences, epsilon: float, random: np.random.Generator) -> list[str]:
    """Every word replaced by the public word nearest to its noisy vector; marks stay."""
    place = {word: number for number, word in enumerate([*data.words, *data.private_words])}
    known, dimension = data.word_rows[: len(data.words)], data.word_rows.shape[1]

    def other(match: re.Match[str]) -> str:
        direction = random.standard_normal((dimension,))
        noise = direction * (random.gamma(dimension, 1 / epsilon) / np.linalg.norm(direction))
        return data.words[int((known @ (data.word_rows[place[match.group().lower()]] + noise)).argmax())]

    return [_WORD.sub(other, text) for text in data.private]


class Bigrams:
    """How fluent a text is: bits per word by a model of word pairs of public texts, mixed with single words and a uniform law."""

    _PAIRS, _SINGLE = 0.6, 0.3  # weights; the rest is the uniform law's

    def __init__(self, texts: Sequence[str]) -> None:
        rows = [["", *_words(text)] for text in texts]
        self._pairs = Counter(pair for row in rows for pair in itertools.pairwise(row))
        self._before = Counter(word for row in rows for word in row[:-1])
        self._single = Counter(word for row in rows for word in row[1:])
        self._count, self._size = self._single.total(), len(self._single) + 1

    def bits(self, text: str) -> tuple[float, float]:
        """(bits of all words, how many words)."""
        row = ["", *_words(text)]
        bits = 0.0
        for before, word in itertools.pairwise(row):
            pair = self._pairs[before, word] / self._before[before] if self._before[before] else 0.0
            single = self._single[word] / self._count
            uniform = (1 - self._PAIRS - self._SINGLE) / self._size
            bits -= math.log2(self._PAIRS * pair + self._SINGLE * single + uniform)
        return bits, float(len(row) - 1)


def _figures(cell: RewritingCell, model: Any, outputs: list[str], judge: list[str]) -> dict[str, list[float]]:
    data = cell.data
    texts: Texts = ([one or " " for one in outputs], data.private)
    made, given = (unit(np.asarray(model.embed(part), np.float32) + np.float32(1e-9)) for part in texts)
    columns: dict[str, NDArray[np.float64]] = {
        MEANING: np.einsum("nd,nd->n", made, given, dtype=np.float64),
        UNRELATED: np.einsum("nd,nd->n", made, np.roll(given, 1, axis=0), dtype=np.float64),
        LENGTH: np.array([metrics.length_ratio(text, output) for text, output in zip(data.private, outputs, strict=True)]),
    }
    settings = cell.fields("confidence", "resamples", "seed")
    means = bootstrap(columns, **settings)
    hits = [(float(metrics.leaked(output, own)), float(len(own))) for output, own in zip(outputs, data.identifying, strict=True)]
    fluency = Bigrams(judge)
    return {
        **{name: [one.value, float(one.low), float(one.high)] for name, one in means.items()},
        LEAK: ratio(hits, **settings),
        BITS: ratio([fluency.bits(output) for output in outputs], **settings),
    }


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


# ---- in sentences ----


TEXT_TITLES = {
    DIRECT: "direct identifiers protected, every mention of them",
    QUASI: "quasi identifiers protected, every mention of them",
    PRECISION: "redacted words that identify",
    BY_INFORMATION: "the same, words weighed by information",
    LOST: "information lost of words that do not identify",
    HIDDEN: "identifiers hidden, of all types",
    HIDDEN_AIMED: "identifiers hidden, of the types that rules aim at",
    PRECISION_OF_FINDS: "finds that are identifiers",
}

REWRITING_TITLES = {
    MEANING: "meaning: cosine with the text",
    UNRELATED: "cosine with another text",
    LEAK: "identifying strings that stand in the output",
    LENGTH: "length, of the text's",
    BITS: "bits per word (less is more fluent)",
}


def text_sentence(row: Row) -> str:
    """What redaction of a data set means for somebody who chooses epsilon."""
    figures, title = row["figures"], SOURCES[row["data"]].title
    if DIRECT in figures and QUASI in figures:
        direct, quasi = figures[DIRECT], figures[QUASI]
        return (
            f"{title}: redaction has no epsilon, and what it misses it does not protect. {_open(direct)} of the direct identifiers "
            f"and {_open(quasi)} of the quasi identifiers stay readable somewhere, so that a text may still name its person after "
            "it. Choose epsilon for what is released of such texts as if nothing had been redacted."
        )
    return f"{title}: {'; '.join(f'{TEXT_TITLES[name]} {percent_text(*figure)}' for name, figure in figures.items())}."


def rewriting_sentence(rows: Sequence[Row]) -> str:
    """What word-level metric privacy and a rewriter of whole texts keep of meaning where little leaks."""
    whole = next(row for row in rows if row["method"] == AS_IT_IS)
    told = []
    for method in dict.fromkeys(row["method"] for row in rows if row is not whole):
        for row in (one for one in rows if one["method"] == method):
            figures = row["figures"]
            of_text = f"{row['epsilon_of_text']:,.0f} of a text"
            told.append(
                f"{method} at epsilon {row['epsilon']:g} ({of_text}): meaning {interval_text(*figures[MEANING])}, by chance "
                f"{figures[UNRELATED][0]:.3f}, "
                f"leak {percent_text(*figures[LEAK])}"
            )
    note = f"epsilon of {WORDS} is of a word and a unit of distance, and adds up over the words of a text"
    return f"Rewriting of {rows[0]['documents']:,} sentences; {note}. {'; '.join(told)}."


def _open(figure: list[float]) -> str:
    """The share that is not protected."""
    value, low, high = figure
    return percent_text(1 - value, 1 - high, 1 - low)
