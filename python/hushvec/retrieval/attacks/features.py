"""What answers about a candidate look like: the seven features, and numbers for likelihood ratios.

The adversary sees scores and opaque ids. It presumes a candidate's: the id that most queries return, then the one of the better
mean rank, then the smaller. (Published versions of these features take the candidate's own id.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import product

Vectors = NDArray[np.float32]


def require_vectors(name: str, value: Any, dimensions: int) -> Vectors:
    """Finite floats of this many dimensions, as float32."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        raise TypeError(f"{name} must be a float array, got {array.dtype}")
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got {array.ndim}")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(f"{name} must be finite, got NaN or Inf in row {row}")
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise ValueError(f"{name} must be in the range of float32, got {float(np.abs(array).max())!r}")
    return narrow


def unit(vectors: Vectors) -> Vectors:
    """Rows at unit length; zero rows stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))


Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
Rows = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Scores of one vector, computed in two ways, differ by about this much.
_ROUNDING = 1e-6

FEATURES = ("max_score", "mean_score", "std_score", "hits_in_topk", "mean_rank_when_hit", "max_rank_hit", "score_gini")


@dataclass(frozen=True)
class Returned:
    """Answers by document: a candidate's queries returned at most q k different ones, in places 0, 1, ..."""

    ranks: Rows  # [n, q k, q], of each document in each query, from 1; 0 where it was not returned
    scores: Rows | None  # [n, q k, q], 0 where it was not returned; None if the index returns none
    last: Rows | None  # [n, q], the last score that each query returned

    @classmethod
    def of(cls, ids: Ids, scores: Scores | None) -> Returned:
        """From what was returned, ids and scores [n, q, k], best first."""
        candidates, queries, depth = ids.shape
        places = _places(ids.reshape(candidates, -1)).reshape(ids.shape)
        at = np.arange(candidates)[:, None, None], places, np.arange(queries)[:, None]
        ranks = np.zeros((candidates, queries * depth, queries))
        ranks[at] = np.arange(1.0, depth + 1)
        if scores is None:
            return cls(ranks, None, None)
        table = np.zeros_like(ranks)
        table[at] = scores
        return cls(ranks, table, scores.min(axis=2).astype(np.float64))

    @property
    def there(self) -> Flags:
        """[n, q k, q], which queries returned which document."""
        return self.ranks > 0

    def presumed(self) -> Rows:
        """[n, 3]: hits, mean rank and worst rank of the presumed document of each candidate."""
        hits, total, worst = (self.ranks > 0).sum(axis=2), self.ranks.sum(axis=2), self.ranks.max(axis=2)
        # hits first, then the smaller sum of ranks: that of q queries is at most q k, the number of places
        best = np.argmax(hits * (self.ranks.shape[1] + 1.0) - total, axis=1)
        chosen = np.arange(len(best)), best
        return np.stack([hits[chosen], total[chosen] / hits[chosen], worst[chosen]], axis=1)

    def best_sum(self) -> Rows:
        """[n]: mean over the queries of one document's score, the largest; the last score stands in where it is not returned."""
        assert self.scores is not None and self.last is not None
        means = np.where(self.there, self.scores, self.last[:, None, :]).mean(axis=2)
        return self._best(means)

    def match(self, expected: Scores) -> Rows:
        """[n]: minus ln of the mean square difference to `expected` [n, q], for the document that fits best.

        For a document that is not returned, the smaller one of the last score and the expected one stands in.
        """
        assert self.scores is not None and self.last is not None
        wanted = expected[:, None, :]
        fitted = np.where(self.there, self.scores, np.minimum(self.last[:, None, :], wanted))
        return self._best(-np.log(np.square(fitted - wanted).mean(axis=2) + _ROUNDING**2))

    def match_but_for_shift(self, expected: Scores) -> Rows:
        """As `match`, but for a shift that all queries share, over documents that two queries returned."""
        assert self.scores is not None
        there = self.there
        hits = there.sum(axis=2)
        away = np.where(there, self.scores - expected[:, None, :], 0.0)
        mean = away.sum(axis=2) / np.maximum(hits, 1)
        spread = np.where(there, np.square(away - mean[:, :, None]), 0.0).sum(axis=2) / np.maximum(hits, 1)
        found = np.where(hits >= 2, -np.log(spread + _ROUNDING**2), -np.inf).max(axis=1)
        known = np.isfinite(found)
        return np.where(known, found, found[known].min() if known.any() else 0.0)

    def _best(self, values: Rows) -> Rows:
        return np.asarray(np.where(self.there.any(axis=2), values, -np.inf).max(axis=1))


def features_of(returned: Returned, scores: Scores | None) -> Rows:
    """[n, 7]: FEATURES of each candidate, from its answers and their scores [n, q, k], best first; without scores four are 0."""
    found = np.zeros((len(returned.ranks), len(FEATURES)))
    found[:, 3:6] = returned.presumed()
    if scores is not None:
        flat = scores.reshape(len(scores), -1).astype(np.float64)
        found[:, 0], found[:, 1], found[:, 2] = flat.max(axis=1), flat.mean(axis=1), flat.std(axis=1)
        found[:, 6] = _gini(flat)
    return found


def top_score(scores: Scores) -> Rows:
    """[n]: mean over a candidate's queries of the best score."""
    return np.asarray(scores.max(axis=2).mean(axis=1, dtype=np.float64))


def own_scores(ids: Ids, scores: Scores | None, own: Ids) -> Rows:
    """[n, q]: the score of one given id in each query (without scores the negative rank), -inf where it was not returned."""
    hit = ids == own[:, None, None]
    values = -np.arange(1.0, ids.shape[2] + 1) if scores is None else scores.astype(np.float64)
    return np.asarray(np.where(hit, values, -np.inf).max(axis=2))


def _places(ids: Ids) -> NDArray[np.intp]:
    order = np.argsort(ids, axis=1, kind="stable")
    ascending = np.take_along_axis(ids, order, axis=1)
    steps = np.zeros(ids.shape, np.intp)
    steps[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    places = np.empty_like(steps)
    np.put_along_axis(places, order, np.cumsum(steps, axis=1), axis=1)
    return places


def _gini(values: Rows) -> Rows:
    """The Gini coefficient of each row. With values ascending, the sum of |x_i - x_j| over all pairs is 2 sum_i (2 i - n - 1) x_i."""
    count = values.shape[1]
    weights = 2.0 * np.arange(1, count + 1) - count - 1
    difference = product(np.sort(values, axis=1), weights)
    size = np.abs(values).sum(axis=1) * count
    return np.asarray(np.divide(difference, size, out=np.zeros(len(values)), where=size > 0))
