"""Laws, intervals and p-values with numpy alone, named as scipy.stats names them. Bounds are on the safe side.

A binomial tail is a sum of probabilities that fall from its edge outwards. The first comes from Loader's saddle-point form, which has
no cancellation, the others from their ratios. Compared with 50-digit arithmetic the error is below 1e-11, relative; MARGIN covers
a hundred times that wherever a decision depends on a tail.

Binomial functions take p of success and q = 1 - p, so that the small one keeps its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Estimate", "adjusted", "binom_logpmf_down", "binom_p_value", "binom_sf", "clopper_pearson", "clopper_pearson_lower",
    "clopper_pearson_upper", "fisher_p_value", "norm_logsf", "norm_sf", "wilson_upper", "with_margin",
]

MARGIN = 1e-9

_FIRST_BLOCK = 1 << 10
_LARGEST_BLOCK = 1 << 17
_NEGLIGIBLE = 1e-18
_LARGEST_TABLED = 15
_BRACKET = 1e-12

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number and its interval.

    Args:
        value: the estimate.
        low, high: ends of the interval.
        confidence: of the interval, in (0, 1).
    """

    value: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def to_dict(self) -> dict[str, float]:
        """The four fields by name."""
        return asdict(self)


# ---- laws ----


def norm_sf(z: float) -> float:
    """P[N(0, 1) >= z]."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def norm_logsf(z: float) -> float:
    """ln P[N(0, 1) >= z]; where erfc nears the smallest floats, by Laplace's continued fraction."""
    if z < 20:
        return math.log(norm_sf(z))
    fraction = z
    for step in range(40, 0, -1):
        fraction = z + step / fraction
    return -z * z / 2 - math.log(fraction * math.sqrt(2 * math.pi))


def binom_cdf(k: int, n: int, p: float, q: float) -> float:
    """P[Binomial(n, p) <= k]."""
    if k < 0:
        return 0.0
    if k >= n or p == 0:
        return 1.0
    if q == 0:
        return 0.0
    if k > n * p:
        return max(0.0, 1.0 - _falling_sum(n - k - 1, n, q, p))
    return _falling_sum(k, n, p, q)


def binom_sf(k: int, n: int, p: float, q: float) -> float:
    """P[Binomial(n, p) > k]."""
    return binom_cdf(n - k - 1, n, q, p)


def binom_logpmf_down(k: int, n: int, p: float, q: float) -> Iterator[_Floats]:
    """ln P[Binomial(n, p) = j] for j = k, k - 1, ..., 0, in blocks."""
    first, top, size = _log_probability(k, n, p, q), k, _FIRST_BLOCK
    while top >= 0:
        j = np.arange(top, max(top - size, -1), -1, dtype=np.float64)
        inner = j[j > 0]  # from 0 there is no next
        to_next = np.append(np.log(inner * q) - np.log((n - inner + 1) * p), np.zeros(len(j) - len(inner)))
        block = first + np.concatenate(([0.0], np.cumsum(to_next[:-1])))
        yield block
        first, top = float(block[-1] + to_next[-1]), top - len(j)
        size = min(2 * size, _LARGEST_BLOCK)


# ---- intervals ----


def clopper_pearson(successes: int, trials: int, confidence: float) -> Estimate:
    """A share and its exact two-sided interval."""
    alpha = (1 - confidence) / 2
    low, high = (bound(successes, trials, alpha) for bound in (clopper_pearson_lower, clopper_pearson_upper))
    return Estimate(successes / trials, low, high, confidence)


def clopper_pearson_upper(k: int, n: int, alpha: float) -> float:
    """At most this is the success probability, except with probability alpha: k successes in n trials (Clopper and Pearson,
    1934)."""
    if k >= n:
        return 1.0
    return _bisect(lambda p: binom_cdf(k, n, p, 1.0 - p) * (1 + MARGIN) <= alpha, holds=1.0, fails=k / n)


def clopper_pearson_lower(k: int, n: int, alpha: float) -> float:
    """At least this is the success probability, except with probability alpha."""
    if k <= 0:
        return 0.0
    return _bisect(lambda p: binom_sf(k - 1, n, p, 1.0 - p) * (1 + MARGIN) <= alpha, holds=0.0, fails=k / n)


def wilson_upper(k: _Floats, n: int, z: float) -> _Floats:
    """The upper end of Wilson's interval (1927): a quick substitute for Clopper-Pearson where nothing is claimed."""
    share = k / n
    root = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    upper: _Floats = np.minimum((share + z * z / (2 * n) + root) / (1 + z * z / n), 1.0)
    return upper


# ---- tests ----


def binom_p_value(successes: int, trials: int, p: float) -> float:
    """p-value of a one-sided exact test: P[Binomial(trials, p) >= successes], with the margin."""
    return with_margin(binom_sf(successes - 1, trials, p, 1 - p))


def with_margin(p_value: float) -> float:
    """A valid p-value: raised by more than its computation can be off, and at most 1."""
    return min(1.0, p_value * (1 + MARGIN))


def fisher_p_value(both: int, first: int, second: int, n: int) -> float:
    """Two-sided exact test that two yes/no columns of n rows are independent: twice the smaller tail, at most 1 (Fisher, 1935).

    `both` rows have a yes in both columns, `first` in the first, `second` in the second one.
    """
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1, dtype=np.float64)))))

    def log_choose(total: int, part: NDArray[np.intp]) -> _Floats:
        chosen: _Floats = log_factorial[total] - log_factorial[part] - log_factorial[total - part]
        return chosen

    possible = np.arange(max(0, first + second - n), min(first, second) + 1)
    weights = log_choose(first, possible) + log_choose(n - first, second - possible)
    probabilities = np.exp(weights - weights.max())
    probabilities /= probabilities.sum()
    tails = probabilities[possible <= both].sum(), probabilities[possible >= both].sum()
    return float(min(1.0, 2 * (1 + MARGIN) * min(tails)))


# Of p-values in rising order.
_CORRECTIONS: dict[str, Callable[[_Floats], _Floats]] = {
    "holm": lambda p: np.maximum.accumulate(p * np.arange(len(p), 0, -1)),
    "bonferroni": lambda p: p * len(p),
    "benjamini-hochberg": lambda p: np.minimum.accumulate((p * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1],
}
CORRECTIONS = tuple(_CORRECTIONS)


def adjusted(p_values: _Floats, correction: str) -> _Floats:
    """p-values of many tests that may each be compared with alpha.

    "bonferroni" and "holm" (1979; never less powerful) keep the probability of a single false rejection at most alpha, whatever
    the dependence; "benjamini-hochberg" (1995) keeps the expected share of false ones among all rejections at most alpha where
    the tests are independent.
    """
    order = np.argsort(p_values, kind="stable")
    result = np.empty_like(p_values)
    result[order] = np.minimum(_CORRECTIONS[correction](p_values[order]), 1.0)
    return result


# ---- how binomial probabilities are computed ----


def _bisect(condition: Callable[[float], bool], *, holds: float, fails: float) -> float:
    """A probability at which the condition holds, next to where it fails."""
    while abs(fails - holds) > _BRACKET * min(holds, 1.0 - holds):
        middle = (holds + fails) / 2
        if middle in (holds, fails):
            break
        if condition(middle):
            holds = middle
        else:
            fails = middle
    return holds


def _falling_sum(k: int, n: int, p: float, q: float) -> float:
    """P[X <= k] for k below the mean, where probabilities fall from k downwards."""
    total = 0.0
    for block in binom_logpmf_down(k, n, p, q):
        terms = np.exp(block)
        total += float(terms.sum())
        if terms[-1] <= _NEGLIGIBLE * total:
            break
    return min(total, 1.0)


def _log_probability(k: int, n: int, p: float, q: float) -> float:
    """ln P[Binomial(n, p) = k]: Loader, "Fast and accurate computation of binomial probabilities" (2000)."""
    if k == 0:
        return n * _log_of_complement(p, q)
    if k == n:
        return n * _log_of_complement(q, p)
    stirling = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    deviance = _deviance(k, n * p) + _deviance(n - k, n * q)
    return stirling - deviance + 0.5 * math.log(n / (2 * math.pi * k * (n - k)))


def _log_of_complement(p: float, q: float) -> float:
    """ln q, from whichever of p and q is more accurate."""
    return math.log1p(-p) if p < 0.5 else math.log(q)


def _stirling_error(n: int) -> float:
    """ln n! - ln(sqrt(2 pi n) (n/e)^n)."""
    if n <= _LARGEST_TABLED:
        return math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    square = 1.0 / (n * n)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - square / 1188) * square) * square) * square) / n


def _deviance(x: int, mean: float) -> float:
    """x ln(x/mean) + mean - x, without cancellation for x near mean."""
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = (x - mean) / (x + mean)
    total, power, order = (x - mean) * v, 2 * x * v, 1
    while True:
        power *= v * v
        further = total + power / (2 * order + 1)
        if further == total:
            return total
        total, order = further, order + 1
