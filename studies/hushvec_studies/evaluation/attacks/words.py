"""Which words stand in the text behind a release: a decoder that was trained on public texts with the same noise.

Releases of texts with a word and of texts without it are mixtures of laws that are pairwise (epsilon, delta)-close, and so close
themselves: what bounds the area of a membership attack bounds that of each word.

Reference:
    Song and Raghunathan, "Information leakage in embedding models" (2020), section 4.2: inversion to sets of words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from hushvec._util.statistics import Estimate
from hushvec_studies.retrieval.key_phrases import stop_words

Flags = NDArray[np.bool_]
Table = NDArray[np.float64]

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
