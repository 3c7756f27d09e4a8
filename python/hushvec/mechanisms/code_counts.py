"""How many codes a public codebook should have: the number that serves public rows best which it was not made from.

Few codes are nearly always answered with the truth and say little; many say more and are seldom true. Where the peak lies depends on
epsilon, on the rows, and on what releases are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products

FEWEST = 8
NEIGHBORS = 10

Rows = NDArray[np.float32]


class Tried(NamedTuple):
    """A number of codes and what it is worth.

    Args:
        codes: k; 0 for a release without a codebook.
        share: the score, in [0, 1].
    """

    codes: int
    share: float


def counts_up_to(rows: int) -> list[int]:
    """8, 16, 32, ... and the rows themselves."""
    counts, count = [], FEWEST
    while count < rows:
        counts.append(count)
        count *= 2
    return [*counts, rows]


def tried_until_past(counts: Iterable[int], score: Callable[[int], float]) -> list[Tried]:
    """Scores of rising numbers of codes, until they fall to half of the best: further codes only dilute the truth."""
    tried: list[Tried] = []
    for count in counts:
        tried.append(Tried(count, score(count)))
        if tried[-1].share < best(tried).share / 2:
            break
    return tried


def best(tried: Iterable[Tried]) -> Tried:
    """Of equal ones the first."""
    return max(tried, key=lambda one: one.share)


def count_for(rows: int, count: int, *, tried_on: int) -> int:
    """A number of codes that was chosen on some of the rows, for all of them: a code for each row stays a code for each row."""
    return rows if count == tried_on else count


def gains(depth: int) -> NDArray[np.float64]:
    """Discounted gains 1 / log2(1 + rank) of the first ranks, adding up to 1."""
    values = 1 / np.log2(np.arange(depth) + 2)
    shares: NDArray[np.float64] = values / values.sum()
    return shares


def found_share(rows: Rows, queries: Rows, stored: Rows, most: int = 1024) -> float:
    """How much of what is near to a row its query finds: the share of the discounted gain of the ten nearest other rows that the
    ten best among the others' stored rows have.

    Args:
        rows: float32 [n, d], unit rows in random order, which decides between equal scores; n > 10.
        queries, stored: float32 [n, e], what each row is on the two sides of a search: itself, a release, or its image
            under a map.
        most: of the rows that are looked up.
    """
    asked = np.arange(min(most, len(rows)))
    wanted, found = (nearest_others(given[asked], among, asked) for given, among in ((rows, rows), (queries, stored)))
    hits = (found[:, :, None] == wanted[:, None, :]).any(axis=2)
    return float((hits * gains(hits.shape[1])).sum(axis=1).mean())


def nearest_others(asked: Rows, among: Rows, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places [m, 10] of the rows of `among` with the largest inner products, best first, without one row of its own for each."""
    scores = inner_products(asked, among)
    scores[np.arange(len(asked)), own] = -np.inf
    places: NDArray[np.int64] = np.argsort(-scores, axis=1, kind="stable")[:, :NEIGHBORS]
    return places
