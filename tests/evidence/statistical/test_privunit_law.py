"""The law of PrivUnitG as released, projected on and across the direction.

alpha = 1e-6; streams are seeded. The released row is W rounded to a grid of 1/8 to 1/16, so a test along the direction dithers
by nothing and works with statistics that so little rounding cannot move.
"""

import numpy as np
import pytest
from scipy import special, stats

from evidence.reference import checks
from evidence.statistical.draws import ALPHA, CIPHERS, generator
from hushvec._native import _core
from hushvec.mechanisms import PrivUnit

ROWS, DIMENSION = 60_000, 64


def unit_rows(seed=1):
    rows = np.random.default_rng(seed).standard_normal((ROWS, DIMENSION)).astype(np.float32)
    return rows, rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)


def released(rows, cap_probability, threshold, seed=2, cipher="chacha8"):
    """W, up to the grid."""
    out = np.empty_like(rows)
    sigma = 1.0
    _core.privunit(rows, cap_probability, threshold, sigma, out, generator(seed, cipher))
    return out.astype(np.float64)


def component(epsilon, law=None, cipher="chacha8"):
    rows, unit = unit_rows()
    mechanism = PrivUnit(epsilon=epsilon, dimension=DIMENSION)
    w = released(rows, *(law or (mechanism.cap_probability, mechanism.threshold)), cipher=cipher)
    return (w * unit).sum(1), w, unit, mechanism


def mean_score(alpha, mean):
    return (alpha.mean() - mean) / (alpha.std() / np.sqrt(len(alpha)))


EPSILONS = [0.5, 2.0, 8.0, 16.0, 50.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cipher", CIPHERS)
def test_the_mean_inner_product_is_the_stated_one(epsilon, cipher):
    """n = 60,000, statistic: standardised mean, within 4 standard errors."""
    alpha, _, _, mechanism = component(epsilon, cipher=cipher)
    assert abs(mean_score(alpha, mechanism.mean_inner_product)) < 4


@pytest.mark.parametrize("epsilon", [2.0, 8.0, 16.0])
def test_a_mean_five_percent_off_is_rejected(epsilon):
    alpha, _, _, mechanism = component(epsilon)
    assert abs(mean_score(alpha, 1.05 * mechanism.mean_inner_product)) > 5


# Not at 50: there alpha falls off by e^9 a unit above the threshold, which makes even the grid show.
@pytest.mark.parametrize("epsilon", EPSILONS[:-1])
@pytest.mark.parametrize("cipher", CIPHERS)
def test_the_share_of_the_cap(epsilon, cipher):
    """Exact binomial test away from the threshold, where rounding cannot move a row across: P(alpha >= threshold + 1/4)."""
    alpha, _, _, mechanism = component(epsilon, cipher=cipher)
    t = mechanism.threshold
    beyond = mechanism.cap_probability * special.ndtr(-t - 0.25) / special.ndtr(-t)
    assert checks.count(int((alpha >= t + 0.25).sum()), ROWS, beyond) > ALPHA
    assert checks.count(int((alpha >= t + 0.25).sum()), ROWS, 0.9 * beyond) < ALPHA


# At epsilon = 50 the cap's own probability is below what the bivariate law below is computed to.
@pytest.mark.parametrize("epsilon", EPSILONS[:-1])
@pytest.mark.parametrize("cipher", CIPHERS)
def test_the_component_is_a_truncated_normal_on_each_side(epsilon, cipher):
    """Kolmogorov-Smirnov on alpha + N(0, 1/64): a normal of that size swamps the grid, and its law is a known convolution."""
    alpha, _, _, mechanism = component(epsilon, cipher=cipher)
    p, t = mechanism.cap_probability, mechanism.threshold
    blur = 0.125
    noisy = alpha + blur * np.random.default_rng(3).standard_normal(len(alpha))

    def cdf(y, p=p):
        """P(alpha + blur N <= y): both truncated normals, convolved through the bivariate normal law."""
        total = np.sqrt(1 + blur**2)
        joint = special.ndtr(y / total)
        correlation = 1 / total
        below_both = stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]]).cdf(
            np.stack([np.full_like(y, t), y / total], axis=-1)
        )
        q = special.ndtr(t)
        return (1 - p) * below_both / q + p * (joint - below_both) / (1 - q)

    sample = np.sort(noisy[:4000])
    assert checks.uniformity(cdf(sample)) > ALPHA
    wrong = p - 0.1 if p > 0.6 else p + 0.1
    assert checks.uniformity(np.clip(cdf(sample, wrong), 0, 1)) < ALPHA


@pytest.mark.parametrize("epsilon", [1.0, 16.0])
@pytest.mark.parametrize("cipher", CIPHERS)
def test_across_the_direction_it_is_a_standard_normal(epsilon, cipher):
    """Chi-square of the part across, n = 60,000 rows of d - 1 = 63 degrees; the grid adds 1/12 of its square an element."""
    alpha, w, unit, _ = component(epsilon, cipher=cipher)
    across = w - alpha[:, None] * unit
    grid = _core.privunit_grid(1.0)[1]
    total = np.square(across).sum() / (1 + grid**2 / 12)
    degrees = ROWS * (DIMENSION - 1)
    score = (total - degrees) / np.sqrt(2 * degrees)
    assert abs(score) < stats.norm.isf(ALPHA / 2)
    assert abs((1.01 * total - degrees) / np.sqrt(2 * degrees)) > stats.norm.isf(ALPHA / 2)
    other = np.roll(unit, 1, axis=0)
    other -= (other * unit).sum(1, keepdims=True) * unit
    projected = (across * other).sum(1) / np.linalg.norm(other, axis=1)
    assert checks.law(projected / np.sqrt(1 + grid**2 / 12), special.ndtr) > ALPHA
    assert checks.uncorrelated(projected, alpha) > ALPHA


def test_the_whole_norm_is_uncorrelated_with_the_input():
    """Rows of very different lengths and directions get the same law."""
    rows, _ = unit_rows(7)
    scaled = rows * np.exp(np.random.default_rng(8).uniform(-20, 20, (ROWS, 1))).astype(np.float32)
    w = released(scaled, *_core.privunit_law(8.0))
    assert checks.uncorrelated(np.linalg.norm(w, axis=1), np.log(np.linalg.norm(scaled, axis=1))) > ALPHA
