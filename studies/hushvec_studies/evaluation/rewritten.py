"""One measurement of rewriting: what a rewritten text keeps of the meaning and gives away, beside word-level metric privacy.

Private are Presidio's sentences whose template_id is odd, public those whose template_id is even.

as it is             the text itself: what there is to keep and to give away
words, metric        every word becomes the word nearest to its noisy vector; the noise z has the density exp(-epsilon |z|)
text, PrivUnit       hushvec's Rewriter on whole texts: one noisy vector, decoded to the likeliest public text

Epsilon of the second is of one word and a unit of distance. Vectors of words have length 1, so two words are at most 2 apart, and two
texts of n words at most 2 n epsilon: `epsilon_of_text`, which is what can be compared with the third.

Reference:
    Feyisetan, Balle, Drake, Diethe, "Privacy- and utility-preserving textual analysis via calibrated multivariate perturbations"
    (2020).
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.audit.bootstrap import bootstrap
from hushvec_studies.evaluation.redacted import ratio
from hushvec_studies.evaluation.sources import SENTENCES, paths_of
from hushvec_studies.evaluation.vectors import Embed, Hashed, Rows, Texts
from hushvec_studies.harness.measurements import Measure, Measurement, noise_seed
from hushvec_studies.harness.models import embedder
from hushvec_studies.rewriting import documents, metrics, rewriters
from hushvec_studies.search_by_mechanism.measure import unit

VERSION = 2  # of what a measurement does
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
        return {"rewriting": VERSION, "hushvec": hushvec.__version__, "data": self.data.digest, **own}

    @property
    def label(self) -> str:
        return f"rewriting, {self.method}" + ("" if self.epsilon is None else f", epsilon {self.epsilon:g}")


def sentences(folder: Path, embed: Embed, model: str, seed: int) -> Sentences:
    """The data of `pii_synth.json`."""
    (path,) = paths_of(SENTENCES, folder)
    of: Callable[..., list[Any]] = documents.sentences
    public, private = of(path, None, seed, parity=0), of(path, MOST, seed, parity=1)
    words = sorted({word for one in public for word in _words(one.text)})
    unknown = sorted({word for one in private for word in _words(one.text)} - set(words))
    texts = [one.text for one in public], [one.text for one in private]
    return Sentences(model, words, unknown, unit(embed([*words, *unknown])), *texts, [one.identifying for one in private])


def rewriting_cells(
    data: Sentences, epsilons: Sequence[float], *, confidence: float, resamples: int, seed: int
) -> list[tuple[Measurement, Measure]]:
    """The texts as they are, and each method at its values of epsilon."""
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
        whole: Callable[..., Any] = rewriters.whole
        rewrite: Callable[..., Any] = rewriters.rewritten
        outputs, _ = rewrite(data.private, setting, model, whole(corpus, model), noise_seed(cell.digest))
        of_text = cell.epsilon
    return {
        "method": cell.method,
        "epsilon": cell.epsilon,
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
    """How fluent a text is: bits per word by a model of word pairs, mixed with single words and with a uniform law.

    Args:
        texts: public.
    """

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
    leaked: Callable[[str, tuple[str, ...]], int] = metrics.leaked
    length: Callable[[str, str], float] = metrics.length_ratio
    texts: Texts = ([one or " " for one in outputs], data.private)
    made, given = (unit(np.asarray(model.embed(part), np.float32) + np.float32(1e-9)) for part in texts)
    columns: dict[str, NDArray[np.float64]] = {
        MEANING: np.einsum("nd,nd->n", made, given, dtype=np.float64),
        UNRELATED: np.einsum("nd,nd->n", made, np.roll(given, 1, axis=0), dtype=np.float64),
        LENGTH: np.array([length(text, output) for text, output in zip(data.private, outputs, strict=True)]),
    }
    means = bootstrap(columns, confidence=cell.confidence, resamples=cell.resamples, seed=cell.seed)
    hits = [(float(leaked(output, own)), float(len(own))) for output, own in zip(outputs, data.identifying, strict=True)]
    fluency = Bigrams(judge)
    of: dict[str, Any] = {"confidence": cell.confidence, "resamples": cell.resamples, "seed": cell.seed}
    return {
        **{name: [one.value, float(one.low), float(one.high)] for name, one in means.items()},
        LEAK: ratio(hits, **of),
        BITS: ratio([fluency.bits(output) for output in outputs], **of),
    }


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
