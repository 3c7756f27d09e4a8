"""int8 releases follow the ideal law on their grid, the grid and saturation taken into account exactly.

Statistic: U = F(v - 1/2) + V * (F(v + 1/2) - F(v - 1/2)), V uniform, with F = 0 below -127 and 1 above 127, is uniform on [0, 1].
Kolmogorov-Smirnov, n = 4 * 10^6 (4 * 10^7) values, 10^5 (10^6) for the component of PrivUnitG, alpha = 1e-6.
"""

import numpy as np
import pytest
from scipy import special

from evidence.reference import checks
from evidence.reference.sizes import scaled
from evidence.statistical.draws import ALPHA, CIPHERS, generator, noise
from hushvec._native import _core

ROWS, COLUMNS = scaled(4_000, 40_000), 1_000
ENDS = 127


def p_value(values, x, s, cdf):
    """Of int8 values whose ideal law is x + s Z, Z with this cdf: ends count for all that lies beyond them."""
    values = values.reshape(-1).astype(np.float64)
    low = np.where(values == -ENDS, 0.0, cdf((values - 0.5 - x) / s))
    high = np.where(values == ENDS, 1.0, cdf((values + 0.5 - x) / s))
    return checks.uniformity(low + np.random.default_rng(301).random(values.size) * (high - low))


def rows_inside_the_ball(size=0.03):
    return np.random.default_rng(302).uniform(-size, size, (ROWS, COLUMNS)).astype(np.float32)


def gaussian_release(x, sigma, seed=303, cipher="chacha8"):
    values = np.empty(x.shape, np.int8)
    g = _core.clip_and_noise(x, 1.0, sigma, values, generator(seed, cipher), "gaussian", True)
    return values, x.reshape(-1).astype(np.float64) / g, float(np.float32(sigma)) / g


@pytest.mark.parametrize("sigma", (1.0, 1.9375, 0.03125))  # s = 8, 15.5, and 2 where clip_norm sets the grid
@pytest.mark.parametrize("cipher", CIPHERS)
def test_gaussian(sigma, cipher):
    assert p_value(*gaussian_release(rows_inside_the_ball(), sigma, cipher=cipher), special.ndtr) > ALPHA


def test_the_statistic_counts_the_ends():
    """n = 10^6, X = 127 in half of them, s = 15.5."""
    x = np.zeros((1_000_000, 1))
    x[::2] = 127.0
    z = noise("gaussian", x.shape, dtype="float64", seed=304)
    values = np.clip(np.rint(x + 15.5 * z), -ENDS, ENDS)
    assert p_value(values, x.reshape(-1), 15.5, special.ndtr) > ALPHA
    assert p_value(np.where(values == ENDS, 126, values), x.reshape(-1), 15.5, special.ndtr) < ALPHA


def test_wrong_releases_are_rejected():
    values, x, s = gaussian_release(rows_inside_the_ball(), 1.0)
    assert p_value(values, x, 1.02 * s, special.ndtr) < ALPHA
    assert p_value(values, x, s / 2, special.ndtr) < ALPHA
    assert p_value(values, x + 0.08, s, special.ndtr) < ALPHA
    assert p_value(np.where(values == 5, 4, values), x, s, special.ndtr) < ALPHA
    z = noise("gaussian", x.size, dtype="float64", seed=305)
    assert p_value(np.rint(x + s * z), x, s, special.ndtr) > ALPHA
    assert p_value(np.floor(x + s * z), x, s, special.ndtr) < ALPHA


def component_cdf(p, t):
    """Of alpha, PrivUnitG's component along the row."""
    below = special.ndtr(t)

    def cdf(a):
        return (1 - p) * np.minimum(special.ndtr(a) / below, 1) + p * np.maximum(0, 1 - special.ndtr(-a) / special.ndtr(-t))

    return cdf


@pytest.mark.parametrize("epsilon", (2.0, 10.0, 60.0))  # s = 15.5; at 60 the threshold of 10.2 sets the grid, and s = 3.9
@pytest.mark.parametrize("cipher", CIPHERS)
def test_privunit(epsilon, cipher):
    """Rows along the first axis: its element is alpha, the others are standard normal."""
    p, t = _core.privunit_law(epsilon)
    x = np.zeros((scaled(100_000, 1_000_000), 8), np.float32)
    x[:, 0] = 3.0
    values, sigma = np.empty(x.shape, np.int8), 1.9375
    _core.privunit(x, p, t, sigma, values, generator(306, cipher))
    s = sigma / _core.privunit_int8_grid(sigma, t)[1]
    assert p_value(values[:, 0], 0.0, s, component_cdf(p, t)) > ALPHA
    assert p_value(values[:, 1:], 0.0, s, special.ndtr) > ALPHA
    assert p_value(values[:, 0], 0.0, s, component_cdf(p, 1.05 * t)) < ALPHA
    assert p_value(values[:, 1:], 0.0, 1.02 * s, special.ndtr) < ALPHA
