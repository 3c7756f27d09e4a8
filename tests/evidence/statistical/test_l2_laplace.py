"""L2-Laplace noise has density proportional to exp(-|z|_2 / scale): radius Gamma(d, scale), direction uniform.

Statistics, alpha = 1e-6 each: Kolmogorov-Smirnov of the radius; Kolmogorov-Smirnov of two coordinates of the direction,
whose (1 + u_j) / 2 is Beta((d - 1)/2, (d - 1)/2); chi-square of the mean direction; correlations of radius and
direction, of two coordinates, and of neighbouring rows. n = 10^5 rows (2 * 10^4 for d = 768).
"""

import numpy as np
import pytest
from scipy import special, stats

from evidence.reference import checks
from evidence.reference.sizes import scaled
from evidence.statistical.draws import ALPHA, CIPHERS, noise

DIMENSIONS = (1, 2, 3, 16, 100, 768)
SCALE = 0.3


def rows_for(dimension):
    return scaled(20_000 if dimension == 768 else 100_000, 200_000)


def radius_p_value(rows, dimension=None):
    radius = np.linalg.norm(rows.astype(np.float64), axis=1)
    return checks.uniformity(special.gammainc(dimension or rows.shape[1], radius / SCALE))


def direction_p_value(rows):
    rows = rows.astype(np.float64)
    count, dimension = rows.shape
    radius = np.linalg.norm(rows, axis=1)
    unit = rows / radius[:, None]
    if dimension == 1:
        return checks.count(int((unit > 0).sum()), count, 0.5)
    shape = 0.5 * (dimension - 1)
    p_values = [checks.uniformity(special.betainc(shape, shape, 0.5 * (1.0 + unit[:, j]))) for j in (0, dimension - 1)]
    mean = unit.mean(axis=0)
    p_values.append(float(stats.chi2.sf(count * dimension * np.dot(mean, mean), dimension)))
    p_values.append(checks.uncorrelated(radius, np.square(unit[:, 0])))
    p_values.append(checks.uncorrelated(unit[:, 0], unit[:, -1]))
    return min(1.0, len(p_values) * min(p_values))


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_radius_and_direction(dimension, dtype, cipher):
    rows = noise("l2_laplace", (rows_for(dimension), dimension), scale=SCALE, dtype=dtype, seed=501, cipher=cipher)
    assert radius_p_value(rows) > ALPHA
    assert direction_p_value(rows) > ALPHA


@pytest.mark.parametrize("dimension", (2, 16))
@pytest.mark.parametrize("cipher", CIPHERS)
def test_rows_are_independent(dimension, cipher):
    rows = noise("l2_laplace", (rows_for(dimension), dimension), scale=SCALE, seed=502, cipher=cipher).astype(np.float64)
    assert checks.independent_at_lag(np.linalg.norm(rows, axis=1), 1) > ALPHA
    assert checks.independent(rows[:-1, 0], rows[1:, 0]) > ALPHA


def test_wrong_radii_are_rejected():
    dimension = 16
    rows = noise("l2_laplace", (rows_for(dimension), dimension), scale=SCALE, seed=503).astype(np.float64)
    gaussian = noise("gaussian", rows.shape, dtype="float64", seed=503)
    assert radius_p_value(rows) > ALPHA
    mutants = {
        "scale 5 % too large": 1.05 * rows,
        "Gaussian of the same mean square": gaussian * SCALE * np.sqrt(dimension + 1.0),
        "scale 5 % too small": 0.95 * rows,
    }
    for name, mutant in mutants.items():
        assert radius_p_value(mutant) < ALPHA, name
    assert radius_p_value(rows, dimension - 1) < ALPHA
    assert radius_p_value(rows, dimension + 1) < ALPHA


def test_wrong_directions_are_rejected():
    dimension = 16
    rows = noise("l2_laplace", (rows_for(dimension), dimension), scale=SCALE, seed=504).astype(np.float64)
    uniform = np.random.default_rng(505).uniform(-1.0, 1.0, rows.shape)
    wider = rows.copy()
    wider[:, 0] *= 1.05
    tied = rows.copy()
    tied[:, 0] *= np.linalg.norm(rows, axis=1) / (dimension * SCALE)
    assert direction_p_value(rows) > ALPHA
    mutants = {
        "a cube's directions": uniform,
        "one coordinate 5 % wider": wider,
        "direction follows the radius": tied,
        "a constant added": rows + 0.05 * SCALE,
    }
    for name, mutant in mutants.items():
        assert direction_p_value(mutant) < ALPHA, name
