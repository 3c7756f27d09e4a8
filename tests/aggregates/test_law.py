"""The noise of aggregates is Gaussian with the stated deviations, and exact: kept to the grid and added to integers.

Seeded, hence the same in every run. Each test says n, its statistic and alpha, and rejects a wrong law.
"""

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from hushvec.aggregates.moments import noisy_moments
from hushvec.aggregates.spending import Spending, Terms
from hushvec.aggregates.sums import private_sums
from hushvec.aggregates.totals import GroupTotals, MomentTotals

ALPHA = 1e-4


def spending(seed, **terms):
    return Spending(Terms(1.0, 1e-5, generator=hv.Generator.unsafe_seeded(seed), **terms), "test")


def is_normal(values, sigma):
    """Kolmogorov-Smirnov against N(0, sigma^2); the grid of sigma / 64 moves the statistic by 0.004 at most."""
    return stats.kstest(values / sigma, "norm").pvalue > ALPHA


def test_sums_and_counts_have_their_noise():
    """n = 60 x 384 = 23,040 sums and 60 counts a release; alpha = 1e-4; rejected: sums 10 % off, counts 50 %."""
    rng = np.random.default_rng(0)
    rows, codes = rng.normal(size=(300, 384)).astype(np.float32), rng.integers(0, 60, 300)
    totals = GroupTotals(60, 384, 1.0)
    totals.add(rows, codes.astype(np.uint32))
    released = [
        private_sums(rows, codes, labels=60, epsilon=1.0, delta=1e-5, generator=hv.Generator.unsafe_seeded(seed)) for seed in range(20)
    ]
    noise = released[0].sums - totals.sums() * totals.unit
    sigma, count_sigma = released[0].noise
    assert is_normal(noise.ravel(), sigma)
    assert not is_normal(noise.ravel() * 1.1, sigma) and not is_normal(noise.ravel() / 1.1, sigma)
    counted = np.concatenate([one.counts - totals.counts for one in released])
    assert is_normal(counted, count_sigma) and not is_normal(counted * 1.5, count_sigma)
    together = np.stack([(one.sums - totals.sums() * totals.unit).ravel() for one in released[:2]])
    assert abs(np.corrcoef(together)[0, 1]) < 4 / np.sqrt(together.shape[1])  # two releases share nothing


@pytest.mark.parametrize("dimension", [200])
def test_moments_have_less_noise_beside_the_diagonal(dimension):
    """n = 19,900 elements beside the diagonal and 10 x 200 on it; alpha = 1e-4; equal noise everywhere is rejected."""
    totals = MomentTotals(dimension, 1.0)
    totals.add(np.random.default_rng(0).normal(size=(50, dimension)).astype(np.float32))
    given, diagonal = spending(1), []
    sigma = given.moments("test", dimension, 1.0, 0.5)
    for _ in range(10):
        noise = noisy_moments(given, totals.total(), 1.0, sigma) - totals.total() * totals.unit
        assert (noise == noise.T).all()
        diagonal.append(np.diagonal(noise))
    beside = noise[np.triu_indices(dimension, 1)]
    assert is_normal(beside, sigma / np.sqrt(2)) and not is_normal(beside, sigma)
    assert is_normal(np.concatenate(diagonal), sigma) and not is_normal(np.concatenate(diagonal), sigma / np.sqrt(2))


def test_counts_with_little_noise():
    """n = 5,000 counts with a deviation of about 0.002; whole numbers are not rounded to the grid of a larger noise."""
    given = Spending(Terms(2e6, 1e-5, generator=hv.Generator.unsafe_seeded(3)), "test")
    sigma = given.counts("test", 5000, None)
    assert sigma < 0.002
    counts = np.arange(5000)
    assert is_normal(given.noisy_counts(counts, sigma) - counts, sigma)


def test_large_totals_keep_every_unit():
    """n = 4,096 totals near 2^61 units, whose float64 form would lose 2^9 of them; the same noise as of small ones."""
    wide = np.full(4096, 2**61 - 3, np.int64)
    noisy = [spending(5).noisy(totals, 2.0**-30, 100.0) for totals in (wide, wide - (2**61 - 2**40))]
    assert (noisy[0] - noisy[1] == (2**61 - 2**40) * 2.0**-30).all()
