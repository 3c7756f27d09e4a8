"""Bounds on how often any mechanism at all lets a row be found again among n: docs/proofs/top_1_bound.md."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.rounding import rounded_up

NOISE_ON = ("queries", "documents")

_Floats = NDArray[np.float64]

# Relative: how far above the optimum a bound may stop, and what is added for rounding.
_NEAR = 5e-5
_ROUNDING = 1e-9

# Of the search for documents: cells of a grid of likelihood ratios, and steps.
_CELLS, _STEPS, _NEAR_ENOUGH = 1024, 400, 1e-3


def top_1_bound(epsilon: float, corpus_size: int, *, noise_on: str = "queries") -> float:
    """The largest probability with which any mechanism with (epsilon, 0)-DP for a row lets the right one of n be found.

    Args:
        epsilon: > 0, of one released row.
        corpus_size: n >= 1, rows to choose from, the right one among them.
        noise_on: "queries": one row is released, and looked up among n rows as they are. "documents": n rows are released, each by
            itself, and one of them is looked up as it is.

    Returns:
        A probability in [1/n, 1], rounded up: by less than 1e-4 of it for queries, and by about 1 % for documents.

    Guarantees:
        With rows drawn independently of each other from any one law (or independent given something unknown), a mechanism that was
        fixed without seeing them, and one of them chosen at random, no rule that sees what was released names the right one more
        often; not even one that knows the law and the mechanism. docs/proofs/top_1_bound.md.

    Edge cases:
        Not covered: a mechanism that was made from the n rows, such as randomized response over a public index
        (`PublicCodebook.of(index)`), which reaches e^epsilon / (e^epsilon + n - 1); delta > 0; a person whose several rows are
        combined. Finding one of several right rows, or the right one among the ten best, is easier.

    Example:
        >>> from hushvec.mechanisms import top_1_bound
        >>> [round(100 * top_1_bound(epsilon, 2000), 1) for epsilon in (4, 8, 10, 12, 16)]
        [2.4, 37.9, 67.2, 85.8, 97.9]
    """
    checked = validate.positive("epsilon", epsilon)
    count = validate.whole_number("corpus_size", corpus_size, at_least=1)
    validate.choice("noise_on", noise_on, NOISE_ON)
    if count == 1 or checked > math.log(count) + 20:  # within 1e-4 of 1
        return 1.0
    gain = _one_noisy_row(checked, count) if noise_on == "queries" else _all_rows_noisy(checked, count)
    return float(min(1.0, (1 + _ROUNDING) * gain / count))


def top_1_sentence(epsilon: float, corpus_size: int, *, noise_on: str = "queries") -> str:
    """The bound for a reader, in percent and rounded up. The arguments are those of `top_1_bound`."""
    percent = min(100.0, rounded_up(100 * top_1_bound(epsilon, corpus_size, noise_on=noise_on), 3))
    return (
        f"of {corpus_size:,} independent rows, at most {percent:g} % can be found on average, with any mechanism of "
        f"epsilon = {epsilon:g} and delta = 0 that does not know them"
    )


@lru_cache(maxsize=256)
def _one_noisy_row(epsilon: float, count: int) -> float:
    """The largest (1 + (e^epsilon - 1)(1 - (1 - q)^n)) / (1 + q (e^epsilon - 1)) over q in [0, 1], from above.
    Both rise with q, so numerator(b) / denominator(a) bounds a piece [a, b]."""
    rise = math.expm1(epsilon)

    def above(q: _Floats) -> _Floats:
        with np.errstate(divide="ignore"):
            found: _Floats = 1 - rise * np.expm1(count * np.log1p(-q))
        return found

    ends = np.concatenate([[0.0], np.geomspace(1e-3 / (count * (1 + rise)), 1.0, 256)])
    low, high = ends[:-1], ends[1:]
    while True:
        bounds = above(high) / (1 + low * rise)
        reached = float((above(low) / (1 + low * rise)).max())
        if bounds.max() <= (1 + _NEAR) * reached:
            return float(bounds.max())
        kept = bounds > reached
        low, high = low[kept], high[kept]
        middle = (low + high) / 2
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])


@lru_cache(maxsize=256)
def _all_rows_noisy(epsilon: float, count: int) -> float:
    """An upper bound on the mean of the largest of n likelihood ratios, whose law mixes pairs (l, h), l <= 1 <= h <= e^epsilon l.
    The mean is concave in the law: its tangent at any mixture bounds it. Each pair of the grid has the ends of its cell."""
    step = epsilon / _CELLS
    ratios = np.exp((np.arange(2 * _CELLS + 1) - _CELLS) * step)
    low, high = ratios[:_CELLS], ratios[_CELLS + 1 :]
    share = (1 - low) / (high - low)  # of the high end, for a mean of 1
    gaps = np.diff(ratios)
    weights = np.full(_CELLS, 1 / _CELLS)
    best = math.inf
    for _ in range(_STEPS):
        law = np.concatenate([weights * (1 - share), [0.0], weights * share])
        log_below = np.log1p(-np.minimum(np.cumsum(law[::-1])[::-1][1:], 1 - 1e-16))
        mean = ratios[0] - float(gaps @ np.expm1(count * log_below))
        slopes = np.concatenate([[0.0], np.cumsum(count * np.exp((count - 1) * log_below) * gaps)])
        gains = (1 - share) * slopes[:_CELLS] + share * slopes[_CELLS + 1 :]
        present = float(weights @ gains)
        best = min(best, mean + float(gains.max()) - present)
        if best <= (1 + _NEAR_ENOUGH) * mean:
            break
        weights = weights * (gains / present)
    return best
