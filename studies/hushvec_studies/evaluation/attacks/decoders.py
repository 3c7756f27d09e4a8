"""Decoders that are trained on releases of public texts: for words, and for the embeddings of a stranger who lacks the model.

Reference:
    Song and Raghunathan, "Information leakage in embedding models" (2020), section 4.2: inversion to sets of words.
    Chen, Xu, Bjerva, "ALGEN: few-shot inversion attacks on textual embeddings using alignment and generation" (2025). Its
    generator is left out: texts are named from a list, which a bound can be said of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from hushvec.extend.helpers import Estimate
from hushvec_studies.harness.rows import unit
from hushvec_studies.retrieval.key_phrases import stop_words

# ---- a linear map ----

Table = NDArray[np.float64]

# Of the mean squared length of a row's element, times the number of rows.
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
_HELD_OUT = 5  # every fifth row


@dataclass(frozen=True)
class LinearMap:
    """x -> center of y + (x - center of x) W."""

    center: Table
    target_center: Table
    weights: Table

    def __call__(self, rows: NDArray[np.float32]) -> Table:
        return self.target_center + (rows - self.center) @ self.weights


def trained(rows: NDArray[np.float32], targets: NDArray[np.float32] | NDArray[np.bool_]) -> LinearMap:
    """The ridge regression from rows [n, d] to targets [n, t] whose penalty does best on every fifth row, then fitted on all."""
    x, y = np.asarray(rows, np.float64), np.asarray(targets, np.float64)
    held_out = np.arange(len(x)) % _HELD_OUT == 0
    tried = _fitted(x[~held_out], y[~held_out], _PENALTIES)
    errors = [float(np.square(one(x[held_out]) - y[held_out]).mean()) for one in tried]
    (best,) = _fitted(x, y, (_PENALTIES[int(np.argmin(errors))],))
    return best


def _fitted(x: Table, y: Table, penalties: Sequence[float]) -> list[LinearMap]:
    """A map for each penalty, from one eigendecomposition."""
    center, target_center = x.mean(axis=0), y.mean(axis=0)
    about = x - center
    values, axes = np.linalg.eigh(about.T @ about)
    seen = axes.T @ (about.T @ (y - target_center))
    scale = max(float(np.trace(about.T @ about)) / about.shape[1], np.finfo(float).tiny)
    return [
        LinearMap(center, target_center, axes @ (seen / (np.maximum(values, 0) + penalty * scale)[:, None]))
        for penalty in penalties
    ]


# ---- words of a text ----

Flags = NDArray[np.bool_]

WORDS = 100
_RAREST, _MOST_FREQUENT = 0.005, 0.2  # of public texts
_FEWEST = 10  # private texts with a word


def word_tables(public: Sequence[str], private: Sequence[str]) -> tuple[Flags, Flags]:
    """Which of the most frequent words stands in which text: [public texts, words], [private texts, words].

    Words are at most WORDS, are no stop words, stand in 0.5 to 20 % of the public texts, and in at least ten private ones, as nothing
    can be said of others. Without such a word the tables have no column.
    """
    counter = CountVectorizer(binary=True, min_df=_RAREST, max_df=_MOST_FREQUENT, max_features=WORDS, dtype=np.bool_)
    counter.set_params(stop_words=sorted({part for word in stop_words() for part in word.replace("'", " ").split()}))
    try:
        known = counter.fit_transform(public).toarray()
    except ValueError:  # no word is frequent enough
        return np.empty((len(public), 0), bool), np.empty((len(private), 0), bool)
    asked = counter.transform(private).toarray()
    frequent = asked.sum(axis=0) >= _FEWEST
    return known[:, frequent], asked[:, frequent]


def places(scores: Table, present: Flags) -> Table:
    """[n, w]: for each text with a word, the share of the texts without it whose score is smaller, equals half; 0 where it is not."""
    found = np.zeros(scores.shape)
    for word, here in enumerate(present.T):
        others = np.sort(scores[~here, word])
        own = scores[here, word]
        below = np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")
        found[here, word] = below / (2 * len(others))
    return found


def mean_area(found: Table, present: Flags, confidence: float, resamples: int, random: np.random.Generator) -> Estimate:
    """The mean over words of the area under the ROC curve, with a percentile bootstrap over the texts that have them."""
    count = len(found)
    drawn = random.multinomial(count, np.full(count, 1 / count), size=resamples).astype(np.float64)
    hits, total = drawn @ found, drawn @ present.astype(np.float64)
    areas = np.where(total > 0, hits / np.maximum(total, 1), np.nan)
    low, high = np.quantile(np.nanmean(areas, axis=1), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(float((found.sum(axis=0) / present.sum(axis=0)).mean()), float(low), float(high), confidence)


# ---- a stranger ----

Rows = NDArray[np.float32]

TFIDF_SVD, WORDLLAMA = "tfidf-svd", "wordllama"
PAIRS = (10, 100, 1000)
_COMPONENTS = 256
_SEED = 2026


def named_by_stranger(pairs: Rows, own: Rows, released: Rows, candidates: Rows) -> NDArray[np.bool_]:
    """For each release whether the stranger names its text.

    Args:
        pairs, own: [k, e], [k, f]: releases of texts that the stranger knows, and its embeddings of them.
        released: [n, e].
        candidates: [n, f], its embeddings of the texts behind them, in their order.
    """
    carried = trained(pairs, own)(released)
    # About the center, as all texts have much in common: only what tells them apart counts.
    center = own.mean(axis=0)
    about, said = _directions(candidates - center), _directions(carried - center)
    found: NDArray[np.bool_] = np.equal((said @ about.T).argmax(axis=1), np.arange(len(released)))
    return found


def require_strangers(names: Sequence[str]) -> None:
    """Refuse a stranger whose package is not installed."""
    if WORDLLAMA in names and find_spec(WORDLLAMA) is None:
        raise ValueError(
            f"strangers: {WORDLLAMA} needs the package wordllama, which is not installed (pip install 'hushvec-studies[rewriting]')"
        )


def stranger(name: str) -> Callable[[Sequence[str], Sequence[str]], tuple[Rows, Rows]]:
    """An embedder of the stranger's: public and private texts -> unit rows of both.

    Args:
        name: "wordllama": static vectors of Llama 2's tokens, of the package of that name; "tfidf-svd": TF-IDF of words, then the
            largest singular vectors of the public texts, which is no trained model but needs none.
    """
    return _wordllama() if name == WORDLLAMA else _tfidf


def _wordllama() -> Callable[[Sequence[str], Sequence[str]], tuple[Rows, Rows]]:
    import wordllama

    model: Any = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda public, private: (_directions(model.embed(list(public))), _directions(model.embed(list(private))))


def _tfidf(public: Sequence[str], private: Sequence[str]) -> tuple[Rows, Rows]:
    weighted = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=20_000)
    try:
        counted = weighted.fit_transform(public)
    except ValueError:  # no word stands in two texts: there is nothing to tell texts apart by
        return _directions(np.zeros((len(public), 1))), _directions(np.zeros((len(private), 1)))
    components = min(_COMPONENTS, counted.shape[1] - 1, len(public) - 1)
    if components < 1:
        return _directions(counted.toarray()), _directions(weighted.transform(private).toarray())
    axes = TruncatedSVD(components, random_state=_SEED).fit(counted)
    return _directions(axes.transform(counted)), _directions(axes.transform(weighted.transform(private)))


def _directions(rows: Any) -> Rows:
    """Unit rows; texts without a known word all get the same one."""
    found: Rows = unit(np.where(np.any(rows, axis=1, keepdims=True), rows, 1e-12))
    return found
