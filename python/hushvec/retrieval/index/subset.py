"""A search among some rows of an index, for any store."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushvec.retrieval.stores import MatrixStore, RowStore, Store
from hushvec.retrieval.stores.blocks import Scores, best_of_matrix

Places = NDArray[np.int64]

# A store that finds its answers without looking at rows one by one is asked for this many times as many rows as should be enough,
_MARGIN = 2
# if that is at most this part of its rows: else the rows of the subset are scored themselves.
_LARGEST_PART = 4


class Chosen:
    """Some rows of a matrix, in their order, copied a block at a time."""

    def __init__(self, matrix: Scores, places: Places) -> None:
        self._matrix, self._places = matrix, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, part: slice) -> Scores:
        return self._matrix[self._places[part]]


def rows_at(store: Store, places: Places) -> Scores:
    """A new array of a store's rows, in the order of the places."""
    if isinstance(store, MatrixStore):
        return store.matrix()[places]
    return store.rows(places) if isinstance(store, RowStore) else store.vectors()[places]


def best_of_some(store: Store, queries: Scores, k: int, places: Places) -> tuple[Places, Scores]:
    """Places and scores [m, k], best first, among the rows at some places, which are ascending and distinct.

    Exact with a store that looks at every row. An approximate one is asked for more rows than k where many belong to the subset; where
    few do, or where a query finds fewer than k of them, the rows of the subset are scored one by one.
    """
    if len(places) == len(store):
        return store.search(queries, k)
    if isinstance(store, MatrixStore):
        found, scores = best_of_matrix(Chosen(store.matrix(), places), queries, k)
        return places[found], scores
    wide = math.ceil(_MARGIN * k * len(store) / len(places))
    if wide <= len(store) // _LARGEST_PART:
        answer = _first_of(store.search(queries, wide), k, places, len(store))
        if answer is not None:
            return answer
    found, scores = best_of_matrix(rows_at(store, places), queries, k)
    return places[found], scores


def _first_of(answer: tuple[Places, Scores], k: int, places: Places, rows: int) -> tuple[Places, Scores] | None:
    """The first k of each query that belong to the subset; None if a query has fewer."""
    found, scores = answer
    belongs = np.zeros(rows, np.bool_)
    belongs[places] = True
    inside = belongs[found]
    if inside.sum(axis=1).min() < k:
        return None
    first = np.argsort(~inside, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, first, axis=1), np.take_along_axis(scores, first, axis=1)
