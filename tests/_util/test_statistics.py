"""Laws, intervals and p-values against scipy to 1e-12, and against 50-digit sums where scipy is not enough."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from hushvec._util import statistics

CASES = [
    (0, 10, 0.3),
    (10, 10, 0.3),
    (3, 10, 0.3),
    (15, 31, 0.5),
    (16, 33, 0.4),
    (0, 500_000, 1e-6),
    (3, 500_000, 1e-6),
    (249_000, 500_000, 0.5),
    (251_000, 500_000, 0.5),
    (499_990, 500_000, 0.99999),
    (1000, 1_000_000, 0.002),
    (100, 1_000_000, 0.001),
]


def exact_tail(k, n, p, *, of_failures=False):
    """P[X <= k] for k below the mean: terms of 50 digits until they vanish. p is that of a failure if `of_failures`."""
    with mpmath.workdps(50):
        p = 1 - mpmath.mpf(p) if of_failures else mpmath.mpf(p)
        logarithm = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        term = mpmath.exp(logarithm + k * mpmath.log(p) + (n - k) * mpmath.log(1 - p))
        total = term
        for j in range(k, 0, -1):
            term *= j * (1 - p) / ((n - j + 1) * p)
            total += term
            if term < total * mpmath.mpf(10) ** -40:
                break
        return total


@pytest.mark.parametrize(("k", "n", "p"), CASES)
def test_tails(k, n, p):
    assert statistics.binom_cdf(k, n, p, 1 - p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-12)
    assert statistics.binom_sf(k, n, p, 1 - p) == pytest.approx(stats.binom.sf(k, n, p), rel=1e-12)


@pytest.mark.parametrize(("k", "n", "p"), [(3, 40, 0.5), (100, 1000, 0.2), (20, 100_000, 0.001), (0, 1000, 0.3)])
def test_small_tails_to_eleven_digits(k, n, p):
    exact = float(exact_tail(k, n, p))
    assert exact < 1e-3
    assert statistics.binom_cdf(k, n, p, 1 - p) == pytest.approx(exact, rel=1e-11)


def test_probabilities_down_to_zero():
    blocks = list(statistics.binom_logpmf_down(5000, 6000, 0.8, 0.2))
    found = np.concatenate(blocks)
    assert len(blocks) > 1
    assert len(found) == 5001
    expected = stats.binom.logpmf(np.arange(5000, -1, -1), 6000, 0.8)
    assert np.allclose(found, expected, rtol=1e-11, atol=1e-11)  # logarithms of thousands of ratios are summed


@pytest.mark.parametrize("alpha", [0.05, 1e-4, 1e-8])
@pytest.mark.parametrize(
    ("k", "n"),
    [(0, 7), (7, 7), (3, 7), (0, 500_000), (1, 500_000), (12, 500_000), (250_000, 500_000), (499_999, 500_000)],
)
def test_clopper_pearson(k, n, alpha):
    upper, lower = statistics.clopper_pearson_upper(k, n, alpha), statistics.clopper_pearson_lower(k, n, alpha)
    exact_upper = stats.beta.ppf(1 - alpha, k + 1, n - k) if k < n else 1.0
    exact_lower = stats.beta.ppf(alpha, k, n - k + 1) if k else 0.0
    # no closer: where a tail of a million outcomes is flat, its margin of 1e-9 moves the bound by up to as much
    assert upper == pytest.approx(exact_upper, rel=2e-9)
    assert lower == pytest.approx(exact_lower, rel=2e-9)
    # on the safe side
    if k < n:
        assert exact_tail(k, n, upper) <= alpha
    if k:
        assert exact_tail(n - k, n, lower, of_failures=True) <= alpha


@pytest.mark.parametrize(("k", "n", "confidence"), [(0, 12, 0.95), (7, 50, 0.9), (50, 50, 0.99), (120, 4000, 0.999)])
def test_two_sided_interval(k, n, confidence):
    found, exact = statistics.clopper_pearson(k, n, confidence), stats.binomtest(k, n).proportion_ci(confidence, method="exact")
    assert found.value == k / n and found.confidence == confidence
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), rel=2e-9)


@pytest.mark.parametrize("z", [-8.0, -1.0, 0.0, 0.5, 3.0, 8.0, 19.9, 20.0, 25.0, 37.0, 60.0])
def test_normal_tails(z):
    assert statistics.norm_sf(z) == pytest.approx(stats.norm.sf(z), rel=1e-12)
    # ln of a tail near 1 is near 0, and has the absolute error of the tail
    assert statistics.norm_logsf(z) == pytest.approx(stats.norm.logsf(z), rel=1e-12, abs=2e-16)


@pytest.mark.parametrize(("k", "n", "p"), CASES)
def test_p_values_are_never_below_the_tail(k, n, p):
    exact = stats.binomtest(k, n, p, alternative="greater").pvalue
    assert exact <= statistics.binom_p_value(k, n, p) <= exact * (1 + 1.1e-9)
    assert statistics.with_margin(1.0) == 1.0


def test_clopper_pearson_covers():
    """All outcomes of n = 50: the bounds fail with probability at most alpha, whatever p is."""
    n, alpha = 50, 0.1
    uppers = np.array([statistics.clopper_pearson_upper(k, n, alpha) for k in range(n + 1)])
    lowers = np.array([statistics.clopper_pearson_lower(k, n, alpha) for k in range(n + 1)])
    for p in np.linspace(0.001, 0.999, 333):
        weights = stats.binom.pmf(np.arange(n + 1), n, p)
        assert weights[uppers < p].sum() <= alpha
        assert weights[lowers > p].sum() <= alpha


@pytest.mark.parametrize(
    ("both", "first", "second", "n"), [(30, 50, 50, 100), (12, 50, 50, 100), (0, 3, 90, 100), (5, 5, 5, 10), (2, 7, 4, 10)]
)
def test_fisher_p_value(both, first, second, n):
    table = [[both, first - both], [second - both, n - first - second + both]]
    sides = [stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
    assert statistics.fisher_p_value(both, first, second, n) == pytest.approx(min(1.0, 2 * min(sides)), rel=1.1e-9)  # its margin


def test_agreement_of_large_columns():
    n = 100_000
    assert statistics.fisher_p_value(n // 4, n // 2, n // 2, n) == 1.0
    assert statistics.fisher_p_value(n // 2, n // 2, n // 2, n) == 0.0
    assert 1e-12 < statistics.fisher_p_value(n // 4 + 500, n // 2, n // 2, n) < 1e-8


def test_agreement_of_a_constant_column_says_nothing():
    assert statistics.fisher_p_value(0, 0, 40, 100) == 1.0
    assert statistics.fisher_p_value(40, 100, 40, 100) == 1.0


def test_wilson():
    k, n, z = np.array([0.0, 3.0, 50.0, 100.0]), 100, 2.5
    expected = [stats.binomtest(int(count), n).proportion_ci(2 * stats.norm.cdf(z) - 1, method="wilson").high for count in k]
    assert statistics.wilson_upper(k, n, z) == pytest.approx(expected)


def test_edges():
    assert statistics.binom_cdf(-1, 5, 0.5, 0.5) == 0.0
    assert statistics.binom_cdf(5, 5, 0.5, 0.5) == 1.0
    assert statistics.binom_cdf(2, 5, 0.0, 1.0) == 1.0
    assert statistics.binom_cdf(2, 5, 1.0, 0.0) == 0.0
    assert statistics.binom_sf(-1, 5, 0.5, 0.5) == 1.0
    assert statistics.binom_sf(4, 5, 0.5, 0.5) == pytest.approx(2**-5)
    assert math.isclose(statistics.binom_cdf(0, 3, 0.5, 0.5), 0.125)


@pytest.mark.parametrize(
    "correction, expected",
    [("bonferroni", [1.0, 0.03, 0.12]), ("holm", [0.5, 0.03, 0.08]), ("benjamini-hochberg", [0.5, 0.03, 0.06])],
)
def test_adjusted_p_values_are_those_of_p_adjust(correction, expected):
    """Known answers of R's p.adjust, in the order in which the p-values are given."""
    assert statistics.adjusted(np.array([0.5, 0.01, 0.04]), correction) == pytest.approx(expected, rel=1e-15)


def test_blocks_of_a_long_tail_double_up_to_the_largest():
    """Few and long, because each costs some calls of numpy."""
    lengths = [len(block) for block in statistics.binom_logpmf_down(400_000, 1_000_000, 0.5, 0.5)]
    assert lengths[:8] == [2**power for power in range(10, 18)] and set(lengths[8:-1]) == {2**17}
    assert sum(lengths) == 400_001
