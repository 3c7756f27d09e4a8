"""The best attacks on single rows, by likelihood: who is behind a release, which of two rows is, and which rows were released.

The laws of releases are public, so no shadow models are needed: the ratios are exact.

Reference:
    Carlini, Chien, Nasr, Song, Terzis, Tramer, "Membership inference attacks from first principles" (2022), for judging by the ratio
    and at small rates of false positives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from hushvec.extend.helpers import Estimate, clopper_pearson
from hushvec.mechanisms import CodebookResponse, Laplacian, nearest_codes, top_1_bound
from hushvec.retrieval.attacks.bounds import identification_bound
from hushvec.text.inverters.posterior import CandidateLaw
from hushvec_studies.evaluation.contenders import Contender
from hushvec_studies.overview.measure import recognized

# ---- re-identification from a list ----

Rows = NDArray[np.float32]

_ROWS_AT_ONCE = 1000


def recognized_rows(contender: Contender, released: Rows, rows: Rows) -> NDArray[np.bool_]:
    """For each released row, whether the adversary names the row behind it.

    The adversary has all clean rows, knows the mechanism and its public parts, and names a row of the largest likelihood. Under
    Gaussian and L2-Laplace noise that is the row with the largest inner product, as clean rows have one length; under Laplacian noise
    the row at the smallest sum of absolute differences; under PrivUnit, whose density has two levels, the row with the largest inner
    product is among the likeliest; under a codebook the likeliest rows are those whose nearest code was released.

    Args:
        released: [n, e], the release of each row.
        rows: [n, d], clean.
    """
    clean = contender.beside(rows)
    if isinstance(contender.mechanism, CodebookResponse):
        return np.equal(_named_by_code(contender.mechanism, released, clean), np.arange(len(rows)))
    if isinstance(contender.mechanism, Laplacian):
        return np.equal(_nearest_by_l1(released, clean), np.arange(len(rows)))
    found: NDArray[np.bool_] = recognized(released, clean) > 0
    return found


def attack_interval(hits: NDArray[np.bool_], confidence: float) -> Estimate:
    """The share of hits with the exact interval of Clopper and Pearson: noise of one row is independent of another's, so that for a
    given list the interval covers the expected share with at least this probability."""
    return clopper_pearson(int(hits.sum()), len(hits), confidence)


def bounds(epsilon: float | None, delta: float, candidates: int) -> dict[str, float | None]:
    """What the claim allows for the expected share: for any list, and for a list of rows that are independent draws (delta 0 only)."""
    if epsilon is None:
        return {"bound": None, "top_1_bound": None}
    independent = top_1_bound(epsilon, candidates) if delta == 0 else None
    return {"bound": identification_bound(epsilon, delta, candidates), "top_1_bound": independent}


def released_codes(mechanism: CodebookResponse, released: Rows) -> NDArray[np.int64]:
    """The number of the code behind each released row."""
    numbers = {row.tobytes(): number for number, row in enumerate(mechanism.table)}
    return np.array([numbers[row.tobytes()] for row in np.ascontiguousarray(released, np.float32)])


def _nearest_by_l1(released: Rows, clean: Rows) -> NDArray[np.intp]:
    blocks = [
        cdist(released[first : first + _ROWS_AT_ONCE], clean, "cityblock").argmin(axis=1)
        for first in range(0, len(released), _ROWS_AT_ONCE)
    ]
    return np.concatenate(blocks)


def _named_by_code(mechanism: CodebookResponse, released: Rows, clean: Rows) -> NDArray[np.int64]:
    """For each release a row of the list whose nearest code it is, the one most alike to the code; row 0 where there is none."""
    codes: Any = mechanism.codebook.codes
    cells = nearest_codes(clean, codes)
    alike = np.einsum("nd,nd->n", clean, codes[cells], dtype=np.float64)
    order = np.argsort(alike, kind="stable")
    named = np.zeros(len(codes), np.int64)
    named[cells[order]] = order  # of several, the last one stays
    return named[released_codes(mechanism, released)]


# ---- likelihoods ----

Table = NDArray[np.float64]

# Releases without noise are compared as if rounding were noise of this deviation.
_ROUNDING = 1e-3
# Rows of one square table of which only the diagonal is used.
_PAIRS = 64


def log_likelihoods(contender: Contender, released: Rows, clean: Rows) -> Table:
    """[n, c]: ln of the likelihood of each release if each candidate was behind it, less a term of the release alone."""
    mechanism = contender.mechanism
    if mechanism is None:
        return np.asarray(released @ clean.T, np.float64) / _ROUNDING**2
    if isinstance(mechanism, CodebookResponse):
        truth, other = mechanism.response.law
        said, own = released_codes(mechanism, released), nearest_codes(clean, mechanism.codebook.codes)
        return np.where(said[:, None] == own[None, :], math.log(truth / other), 0.0)
    if isinstance(mechanism, Laplacian):
        return np.asarray(-cdist(released, clean, "cityblock") / mechanism.noise_parameter, np.float64)
    return np.asarray(CandidateLaw(mechanism, clean, 1.0).log_likelihood(released), np.float64)


def log_ratios(contender: Contender, released: Rows, first: Rows, second: Rows) -> Table:
    """[n]: ln of how much likelier each release is with its first candidate behind it than with its second. All are [n, e]."""
    found = np.empty(len(released))
    for start in range(0, len(released), _PAIRS):
        part = slice(start, start + _PAIRS)
        both = log_likelihoods(contender, released[part], np.concatenate([first[part], second[part]]))
        place = np.arange(len(both))
        found[part] = both[place, place] - both[place, place + len(both)]
    return found


# ---- membership ----

# Candidates that explain no release at all are all alike.
_SMALLEST = 1e-300


def pair_ratios(contender: Contender, released: Rows, clean: Rows, random: np.random.Generator) -> Table:
    """For each release, ln of how much likelier it is with its own row behind it than with another one of the list, at random."""
    count = len(clean)
    others = (np.arange(count) + random.integers(1, count, count)) % count
    return log_ratios(contender, released, clean, clean[others])


def ties_broken(scores: Table, random: np.random.Generator) -> Table:
    """Scores with equal ones in random order: the best test at a small rate of false positives says yes to some of the equals. Two
    levels of a likelihood are further apart than this."""
    return scores + 1e-9 * random.random(len(scores))


def told_apart(ratios: Table, random: np.random.Generator) -> NDArray[np.bool_]:
    """Whether the likelier of the two rows is the own one. Equals are decided by a coin."""
    found: NDArray[np.bool_] = (ratios > 0) | ((ratios == 0) & (random.random(len(ratios)) < 0.5))
    return found


def members(count: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """One of rows 0 and 1, one of 2 and 3, and so on: the game in which one row is replaced by another. `count` is even."""
    first = random.random(count // 2) < 0.5
    return np.stack([first, ~first], axis=1).ravel()


def explained(contender: Contender, released: Rows, pool: Rows) -> Table:
    """[c]: for each row of the pool, ln of how much better than the whole pool it explains the releases, on average over them."""
    total = np.zeros(len(pool))
    for first in range(0, len(released), _ROWS_AT_ONCE):
        table = log_likelihoods(contender, released[first : first + _ROWS_AT_ONCE], pool)
        table -= table.max(axis=1, keepdims=True)
        np.exp(table, out=table)
        table /= table.mean(axis=1, keepdims=True)
        total += table.sum(axis=0)
    return np.log(np.maximum(total / len(released), _SMALLEST))
