"""The k largest scores of each query, found while the scores come in blocks of documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Of that many scores only the largest is looked at first. 16 to 64 take the same time.
_GROUP = 32
_LOWEST = np.float32(-np.inf)

# Candidates are pruned when there are this many times k.
_MOST_CANDIDATES = 64


class Best:
    """The k best documents so far, for each of m queries.

    Equal scores: the document that came first. NaN, of products that overflow, counts as minus infinity.
    """

    def __init__(self, queries: int, k: int) -> None:
        self._queries = queries
        self._k = k
        # k documents at or above it have been seen, per query.
        self._floor = np.full(queries, -np.inf, np.float32)
        self._found: list[tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.float32]]] = []
        self._count = 0

    def offer(self, scores: NDArray[np.float32], first: int) -> None:
        """Scores of a run of documents, float32 [documents, queries] in C order; `first` is the place of the first document.

        A first pass takes the maximum of each group of documents, which is the only work for most of them: k documents reach the
        k-th largest of those maxima, so only groups that reach it are searched.
        """
        rows = len(scores)
        size = max(1, min(_GROUP, rows // (4 * self._k)))
        groups = rows // size
        self._offer_groups(scores[: groups * size].reshape(size, groups, self._queries), first)
        if groups * size < rows:
            self._offer_groups(scores[groups * size :][None], first + groups * size)
        if self._count > _MOST_CANDIDATES * self._k * self._queries:
            self._sort_out()

    def result(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Places and scores, [m, k], best first. At least k documents have been offered."""
        self._sort_out()
        _, places, values = self._found[0]
        return places.reshape(self._queries, self._k), values.reshape(self._queries, self._k)

    def _offer_groups(self, grouped: NDArray[np.float32], first: int) -> None:
        """scores [member, group, query]: a group's members stand one stride of groups apart."""
        groups = grouped.shape[1]
        largest = np.fmax(np.fmax.reduce(grouped, axis=0), _LOWEST)
        if groups >= self._k:
            self._floor = np.maximum(self._floor, np.partition(largest, groups - self._k, axis=0)[groups - self._k])
        group, query = np.divmod(np.flatnonzero(largest >= self._floor), self._queries)
        values = np.fmax(grouped[:, group, query], _LOWEST)
        member, hit = np.nonzero(values >= self._floor[query])
        self._found.append((query[hit], first + member * groups + group[hit], values[member, hit]))
        self._count += len(hit)

    def _sort_out(self) -> None:
        """Keep the k best of every query, or all if there are fewer."""
        queries, places, values = (np.concatenate(column) for column in zip(*self._found, strict=True))
        order = np.lexsort((places, -values, queries))
        starts = np.searchsorted(queries[order], np.arange(self._queries))
        rank = np.arange(len(order)) - starts[queries[order]]
        kept = order[rank < self._k]
        self._found = [(queries[kept], places[kept], values[kept])]
        self._count = len(kept)
