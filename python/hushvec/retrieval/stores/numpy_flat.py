"""All rows in one array, each compared with every query: the store that needs nothing but numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products
from hushvec.retrieval.stores import Store

# Of that many scores only the largest is looked at first. 16 to 64 take the same time.
_GROUP = 32
_LOWEST = np.float32(-np.inf)

# Candidates are pruned when there are this many times k.
_MOST_CANDIDATES = 64
# Scores in a block: 512 KB, which stay in a second-level cache from their product to their maximum.
_BLOCK_SCORES = 1 << 17
# But not fewer documents than this, and so many queries at once: small blocks leave little to group, and products that are slow.
_LEAST_DOCUMENTS = 512
_MOST_QUERIES = 256
Scores = NDArray[np.float32]


class Best:
    """The k best documents so far, for each of m queries; of equal ones the first. NaN, of overflows, counts as minus infinity."""

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
        queries, places, values = (np.concatenate(column) for column in zip(*self._found, strict=True))
        order = np.lexsort((places, -values, queries))
        starts = np.searchsorted(queries[order], np.arange(self._queries))
        rank = np.arange(len(order)) - starts[queries[order]]
        kept = order[rank < self._k]
        self._found = [(queries[kept], places[kept], values[kept])]
        self._count = len(kept)


class Rows(Protocol):
    """float32 [n, columns], of which a block at a time is looked at: an array, or what makes such blocks."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Scores: ...


def best_of_matrix(
    rows: Rows, queries: Scores, k: int, change: Callable[[Scores], Scores] | None = None
) -> tuple[NDArray[np.int64], Scores]:
    """Places and scores [m, k] of the largest inner products; of equal ones the earlier rows.

    A score depends on its row and its query alone, not on the batch. `change` is what happens to a block of scores [documents, m],
    of all queries at once, before the best are looked for; it may write to what it gets.
    """
    if change is None and len(queries) > _MOST_QUERIES:
        parts = [best_of_matrix(rows, queries[first : first + _MOST_QUERIES], k) for first in range(0, len(queries), _MOST_QUERIES)]
        return np.concatenate([places for places, _ in parts]), np.concatenate([scores for _, scores in parts])
    best = Best(len(queries), k)
    for first, scores in score_blocks(rows, queries):
        best.offer(scores if change is None else change(scores), first)
    return best.result()


def score_blocks(rows: Rows, queries: Scores) -> Iterator[tuple[int, Scores]]:
    """The place of a block's first document and its scores [documents, m], a new array, for all documents in order."""
    step = max(_LEAST_DOCUMENTS, _BLOCK_SCORES // len(queries))
    for first in range(0, len(rows), step):
        yield first, inner_products(rows[first : first + step], queries)


class NumpyStore(Store):
    """All rows in one array, which noise on scores needs: every row is compared with every query. Exact."""

    def __init__(self, columns: int) -> None:
        self._rows = np.empty((0, columns), np.float32)  # with room behind the first _count
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: NDArray[np.float32]) -> None:
        needed = self._count + len(rows)
        if needed > len(self._rows):
            # Twice as much where rows come few at a time, so that each is copied a bounded number of times.
            grown = np.empty((max(needed, 2 * self._count), self._rows.shape[1]), np.float32)
            grown[: self._count] = self.matrix()
            self._rows = grown
        self._rows[self._count : needed] = rows
        self._count = needed

    def delete(self, places: NDArray[np.int64]) -> None:
        self._rows = np.delete(self.matrix(), places, axis=0)
        self._count = len(self._rows)

    def matrix(self) -> NDArray[np.float32]:
        """The rows themselves, float32 [n, columns] in C order, not a copy; valid until the next add or delete."""
        return self._rows[: self._count]

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return best_of_matrix(self.matrix(), queries, k)

    def vectors(self) -> NDArray[np.float32]:
        return self.matrix().copy()

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.matrix()[places]
