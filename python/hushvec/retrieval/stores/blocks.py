"""Scores of all documents for some queries, a block of documents at a time, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products
from hushvec.retrieval.stores.best import Best

# Scores in a block: 512 KB, which stay in a second-level cache from their product to their maximum.
_BLOCK_SCORES = 1 << 17
# But not fewer documents than this, and so many queries at once: small blocks leave little to group, and products that are slow.
_LEAST_DOCUMENTS = 512
_MOST_QUERIES = 256

Scores = NDArray[np.float32]


class Rows(Protocol):
    """float32 [n, columns], of which a block at a time is looked at: an array, or what makes such blocks."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Scores: ...


def best_of_matrix(
    rows: Rows, queries: Scores, k: int, change: Callable[[Scores], Scores] | None = None
) -> tuple[NDArray[np.int64], Scores]:
    """Places and scores [m, k] of the largest inner products; of equal ones the earlier rows.

    A score depends on its row and its query alone: equal rows have equal scores, and a query's answer does not depend on the
    batch. `change` is what happens to a block of scores [documents, m], of all queries at once, before the best are looked for;
    it may write to what it gets.
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
