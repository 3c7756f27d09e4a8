"""Rewriting of texts: one measurement of each method.

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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.audit.bootstrap import bootstrap
from hushvec.extend.helpers import clopper_pearson
from hushvec_studies.evaluation.collection import SENTENCES, paths_of
from hushvec_studies.evaluation.vectors import Embed, Hashed, Rows, Texts
from hushvec_studies.harness.embeddings import embedder
from hushvec_studies.harness.measurements import Measure, Measurement, noise_seed
from hushvec_studies.harness.rows import unit
from hushvec_studies.rewriting import documents, metrics, rewriters

REWRITING_VERSION = 2  # of what a measurement does

Pair = tuple[float, float]


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


AS_IT_IS, WORDS, WHOLE = "as it is", "words, metric", "text, PrivUnit"
MEANING, UNRELATED, LEAK, LENGTH = "meaning", "meaning_by_chance", "leaked", "length"
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
    outputs = data.private
    of_text: float | None = None
    if cell.epsilon is not None and cell.method == WORDS:
        outputs = by_words(data, cell.epsilon, np.random.default_rng(noise_seed(cell.digest)))
        of_text = cell.epsilon * _FARTHEST * float(np.mean([len(_WORD.findall(text)) for text in data.private]))
    elif cell.epsilon is not None:
        setting = rewriters.Setting("privunit", "document", cell.epsilon)
        inverter = rewriters.whole(data.public[::2], model)
        outputs, _ = rewriters.rewritten(data.private, setting, model, inverter, noise_seed(cell.digest))
        of_text = cell.epsilon
    return {
        **cell.fields("method", "epsilon"),
        "epsilon_of_text": of_text,
        "documents": len(data.private),
        "figures": _figures(cell, model, outputs),
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


def _figures(cell: RewritingCell, model: Any, outputs: list[str]) -> dict[str, list[float]]:
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
    return {
        **{name: [one.value, float(one.low), float(one.high)] for name, one in means.items()},
        LEAK: ratio(hits, **settings),
    }


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


REWRITING_TITLES = {
    MEANING: "meaning: cosine with the text",
    UNRELATED: "cosine with another text",
    LEAK: "identifying strings that stand in the output",
    LENGTH: "length, of the text's",
}

