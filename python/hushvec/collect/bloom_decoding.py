"""Least squares over the bits of all cohorts: which candidates, how often, with which error. docs/proofs/rappor.md has the formulas.

y_ij = (ones_ij / reports_j - p*) / (q* - p*) estimates the share of cohort j's reports whose word sets bit i: y_j = X_j f + noise
weighted by reports. X_j is the 0/1 matrix of which candidate sets which bit, with a constant last column for `unknown`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hushvec.collect.estimate import WordFrequencies, normal_p_values
from hushvec.collect.oracles import binary_variance

_MOST_LASSO = 4096
_SWEEPS = 200
_SETTLED = 1e-9
_DISTINGUISHABLE = 1e-9   # smallest eigenvalue of the scaled normal equations
_DRAWN_AT_ONCE = 64       # candidates whose rows are summed together, so that they stay in cache
_NOT_TOLD_APART = "candidates must set different bits in some cohort with reports; some of these cannot be told apart"

_Floats = NDArray[np.float64]


class BloomFilter(Protocol):
    """What is asked of a `hushvec.collect.BloomFilter`, which imports this module."""

    bits: int
    hashes: int

    @property
    def f(self) -> float: ...

    @property
    def p(self) -> float: ...

    @property
    def q(self) -> float: ...

    def positions(self, words: Sequence[str]) -> NDArray[np.int64]: ...


@dataclass(frozen=True)
class _Cohort:
    """One cohort's equations. Its matrix is written down by which candidates set a bit: they are few of many."""

    bits_of: NDArray[np.int64]   # [candidates, hashes]; where two hashes name one bit, the second is the number of bits, for none
    shares: _Floats              # y_j, and 0 for no bit
    noise: _Floats               # variance of one report's contribution to each share, given its word; 0 for no bit
    reports: int

    def setters(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Each bit that a candidate sets, and the candidates that do."""
        flat = self.bits_of.ravel()
        order = np.argsort(flat, kind="stable")
        bits, starts = np.unique(flat[order], return_index=True)
        for bit, candidates in zip(bits.tolist(), np.split(order // self.bits_of.shape[1], starts[1:])):
            if bit < len(self.shares) - 1:
                yield bit, candidates

    def of_candidates(self, values: _Floats) -> _Floats:
        total: _Floats = np.bincount(self.bits_of.ravel(), np.repeat(values, self.bits_of.shape[1]), len(self.shares)).astype(float)
        total[-1] = 0.0
        return total


@dataclass(frozen=True)
class _Equations:
    """The equations of a sketch for candidates, cohort by cohort: all of them together may not fit into memory."""

    filter: BloomFilter
    reports: NDArray[np.int64]     # of each cohort
    ones: NDArray[np.int64]        # [cohorts, bits]
    positions: NDArray[np.int64]   # [candidates, cohorts, hashes]
    unknown: bool
    cohorts: tuple[int, ...]       # those used, each with reports

    @property
    def words(self) -> int:
        return len(self.positions)

    @property
    def columns(self) -> int:
        return self.words + self.unknown

    def of(self, candidates: NDArray[np.intp], cohorts: tuple[int, ...]) -> _Equations:
        return replace(self, positions=self.positions[candidates], cohorts=cohorts)

    def __iter__(self) -> Iterator[_Cohort]:
        flipped = self.filter.f / 2
        # q* and p*: that a bit of the word, and any other, is reported as 1
        q = (1 - flipped) * self.filter.q + flipped * self.filter.p
        p = (1 - flipped) * self.filter.p + flipped * self.filter.q
        for j in self.cohorts:
            reports = int(self.reports[j])
            shares = (self.ones[j] / reports - p) / (q - p)
            noise = binary_variance(shares.clip(0, 1), q, p, q - p)
            bits_of = np.sort(self.positions[:, j], axis=1)
            bits_of[:, 1:][bits_of[:, 1:] == bits_of[:, :-1]] = self.filter.bits
            yield _Cohort(bits_of, np.append(shares, 0.0), np.append(noise, 0.0), reports)

    def normal_equations(self) -> tuple[_Floats, _Floats, _Floats]:
        """X^T W X, X^T W y, and the variance of the latter's elements by noise alone."""
        gram = np.zeros((self.columns, self.columns))
        moments, variances = np.zeros(self.columns), np.zeros(self.columns)
        for cohort in self:
            for _, candidates in cohort.setters():
                gram[candidates[:, None], candidates] += cohort.reports
            moments[: self.words] += cohort.reports * _summed(cohort.shares, cohort.bits_of)
            variances[: self.words] += cohort.reports * _summed(cohort.noise, cohort.bits_of)
            if self.unknown:
                everywhere = np.append(np.ones(self.filter.bits), 0.0)
                gram[-1, :-1] += cohort.reports * _summed(everywhere, cohort.bits_of)
                gram[-1, -1] += cohort.reports * self.filter.bits
                moments[-1] += cohort.reports * cohort.shares.sum()
                variances[-1] += cohort.reports * cohort.noise.sum()
        if self.unknown:
            gram[:-1, -1] = gram[-1, :-1]
        return gram, moments, variances


def decoded(
    filter_: BloomFilter, reports: NDArray[np.int64], ones: NDArray[np.int64], candidates: Sequence[str], *, lasso: bool, unknown: bool
) -> WordFrequencies:
    """The estimate for candidates that were checked, from the reports of each cohort and the ones of each of its bits."""
    used = tuple(np.flatnonzero(reports).tolist())
    equations = _Equations(filter_, reports, ones, filter_.positions(candidates), unknown, used)
    if not lasso:
        return _least_squares(equations, candidates)
    if len(candidates) > _MOST_LASSO:
        raise ValueError(f"candidates must be at most {_MOST_LASSO} for the lasso, got {len(candidates)}")
    if len(used) < 2:
        raise ValueError(f"method must be 'least_squares' for reports of fewer than 2 cohorts, got {len(used)}")
    everything = np.arange(len(candidates))
    chosen = _lasso_choice(equations.of(everything, used[0::2]))
    return _least_squares(equations.of(chosen, used[1::2]), [candidates[i] for i in chosen])


def _least_squares(equations: _Equations, words: Sequence[str]) -> WordFrequencies:
    rows = len(equations.cohorts) * equations.filter.bits
    if equations.columns > rows:
        raise ValueError(
            f"candidates must be fewer than the {rows} bits of all cohorts with reports for least squares, got {len(words)}"
        )
    gram, moments, _ = equations.normal_equations()
    inverse = _inverse(gram)
    solution = inverse @ moments
    variances = _variances(equations, inverse, solution)
    frequencies, errors = solution[: len(words)], np.sqrt(variances[: len(words)])
    bits, hashes = equations.filter.bits, equations.filter.hashes
    # a word outside the list sets each bit with 1 - (1 - 1/bits)^hashes, on average over hash functions
    unknown = float(solution[-1]) / -math.expm1(hashes * math.log1p(-1 / bits)) if equations.unknown else None
    return WordFrequencies(
        words=tuple(words), frequencies=frequencies, standard_errors=errors, reports=int(equations.reports.sum()),
        unknown=unknown, p_values_of=lambda: normal_p_values(frequencies / errors),
    )


def _inverse(gram: _Floats) -> _Floats:
    """Inverse of the normal equations, after scaling to a diagonal of ones."""
    if len(gram) == 0:
        return gram
    scale = 1 / np.sqrt(np.diag(gram))
    scaled: _Floats = gram * scale[:, None] * scale
    try:
        inverse = np.linalg.inv(scaled)
    except np.linalg.LinAlgError:
        raise ValueError(_NOT_TOLD_APART) from None
    # No eigenvalue is below one over the inverse's norm. Where that does not settle it, which is rare, they are computed.
    if not np.linalg.norm(inverse) * _DISTINGUISHABLE < 1 and np.linalg.eigvalsh(scaled)[0] < _DISTINGUISHABLE:
        raise ValueError(_NOT_TOLD_APART)
    return np.asarray((inverse + inverse.T) / 2 * scale[:, None] * scale)


def _variances(equations: _Equations, inverse: _Floats, solution: _Floats) -> _Floats:
    """Variances of the solution: the reports' noise, and the random choice of who is in which cohort."""
    shares = solution[: equations.words].clip(0, 1)   # the constant is not a word that somebody draws
    drawn = np.flatnonzero(shares)
    total = np.zeros(len(solution))
    for cohort in equations:
        weights = _weights(equations, cohort, inverse)
        squares = np.zeros(len(solution))
        for start in range(0, len(drawn), _DRAWN_AT_ONCE):
            words = drawn[start : start + _DRAWN_AT_ONCE]
            squares += shares[words] @ _summed(weights, cohort.bits_of[words]) ** 2
        means = cohort.of_candidates(shares) @ weights
        total += cohort.reports * (cohort.noise @ weights**2 + (squares - means**2).clip(0))
    return total


def _weights(equations: _Equations, cohort: _Cohort, inverse: _Floats) -> _Floats:
    """By how much each bit's share moves each element of the solution, [bits + 1, columns]: the last row is 0, for no bit."""
    weights = np.zeros((len(cohort.shares), len(inverse)))
    for bit, candidates in cohort.setters():
        weights[bit] = inverse[candidates].sum(axis=0)
    if equations.unknown:
        weights[:-1] += inverse[-1]
    return weights


def _summed(values: _Floats, bits_of: NDArray[np.int64]) -> _Floats:
    """For each candidate, the sum of a value over its bits."""
    total: _Floats = values[bits_of[:, 0]]
    for column in bits_of.T[1:]:
        total += values[column]
    return total


def _lasso_choice(equations: _Equations) -> NDArray[np.intp]:
    """Candidates that a nonnegative lasso keeps, penalized by sqrt(2 ln candidates) deviations of the correlation with noise."""
    gram, moments, variances = equations.normal_equations()
    words = equations.words
    penalties = math.sqrt(2 * math.log(max(2, words))) * np.sqrt(variances)
    if equations.unknown:
        penalties[-1] = 0.0
    solution = np.zeros(equations.columns)
    gradient = moments - penalties   # of the maximized function, at the solution
    diagonal = np.diag(gram)
    for _ in range(_SWEEPS):
        largest = 0.0
        for i in np.flatnonzero((solution > 0) | (gradient > 0)):
            value = max(0.0, solution[i] + gradient[i] / diagonal[i])
            change = value - solution[i]
            if change != 0.0:
                gradient -= gram[i] * change
                solution[i] = value
                largest = max(largest, abs(change))
        if largest < _SETTLED:
            break
    return np.flatnonzero(solution[:words] > 0)
