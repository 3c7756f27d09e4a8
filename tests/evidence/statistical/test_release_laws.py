"""Exact releases follow the ideal law on their grid, the grid taken into account exactly.

Two statistics, alpha = 1e-6 each, on the released integers n = round(X + s * Z):
- dithered: U = F(n - 1/2) + V * (F(n + 1/2) - F(n - 1/2)), V uniform, is uniform on [0, 1] for any X;
  Kolmogorov-Smirnov on n = 4 * 10^6 (4 * 10^7) samples with a different X for each;
- cells: chi-square of the counts of n for one X, against cell probabilities from the cdf (about 500 cells).
"""

import numpy as np
import pytest

from evidence.reference import checks
from evidence.reference.sizes import scaled
from evidence.statistical.draws import ALPHA, CDF, CIPHERS, UPPER_TAIL, noise, released_integers

SHAPE = (scaled(4_000, 40_000), 1_000)
LAWS = ("gaussian", "laplacian")
CLIP_NORM = 1.0


def rows_inside_the_ball(dtype="float32"):
    rng = np.random.default_rng(201)
    return rng.uniform(-0.03, 0.03, SHAPE).astype(dtype)  # norm at most 0.03 * sqrt(1000) = 0.95


def dithered_p_value(law, n, x, s):
    return checks.uniformity(checks.dithered_uniforms(n, x, s, CDF[law], np.random.default_rng(202)))


def cells_p_value(law, n, x, s):
    return checks.cells(n, x, s, CDF[law], UPPER_TAIL[law])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sigma", (0.7, 2.0**-19))  # s = 89.6, and s = 4 where the grid is set by clip_norm
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("cipher", CIPHERS)
def test_dithered_releases_are_uniform(law, sigma, dtype, cipher):
    n, x, s = released_integers(law, rows_inside_the_ball(dtype), CLIP_NORM, sigma, seed=203, cipher=cipher)
    assert dithered_p_value(law, n, x, s) > ALPHA


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("offset", (0.0, 0.25, 0.5, -3.375))
@pytest.mark.parametrize("cipher", CIPHERS)
def test_cells(law, offset, cipher):
    """X the same everywhere: on a grid point, beside one, and half way between two."""
    sigma = 1.0
    x = np.full(SHAPE, offset / 64.0, dtype=np.float32)  # g = 1/64
    n, in_grid_units, s = released_integers(law, x, 2.0 * np.sqrt(SHAPE[1]), sigma, seed=204, cipher=cipher)
    assert in_grid_units[0] == offset
    assert cells_p_value(law, n, offset, s) > ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_wrong_releases_are_rejected(law):
    x = rows_inside_the_ball()
    n, in_grid_units, s = released_integers(law, x, CLIP_NORM, 0.7, seed=205)
    z = noise(law, x.size, dtype="float64", seed=206)
    other = noise("laplacian" if law == "gaussian" else "gaussian", x.size, dtype="float64", seed=206)
    rounded = lambda t: np.rint(in_grid_units + s * t)  # noqa: E731
    assert dithered_p_value(law, rounded(z), in_grid_units, s) > ALPHA  # the mutants differ from this by one thing each
    mutants = {
        "scale 5 % too small": rounded(0.95 * z),
        "scale 5 % too large": rounded(1.05 * z),
        "shift of 0.01 sigma": rounded(z + 0.01),
        "the other law": rounded(other),
        "rounded down": np.floor(in_grid_units + s * z),
    }
    for name, mutant in mutants.items():
        assert dithered_p_value(law, mutant, in_grid_units, s) < ALPHA, name


@pytest.mark.parametrize("law", LAWS)
def test_wrong_cells_are_rejected(law):
    size, s, offset = SHAPE[0] * SHAPE[1], 64.0, 0.5
    z = noise(law, size, dtype="float64", seed=207)
    assert cells_p_value(law, np.rint(offset + s * z), offset, s) > ALPHA
    mutants = {
        "scale 5 % too large": np.rint(offset + 1.05 * s * z),
        "shift of 0.01 sigma": np.rint(offset + s * (z + 0.01)),
        "data and noise rounded apart": np.rint(offset) + np.rint(s * z),
        "one cell never drawn": np.where(np.rint(offset + s * z) == 7, 8, np.rint(offset + s * z)),
    }
    for name, mutant in mutants.items():
        assert cells_p_value(law, mutant, offset, s) < ALPHA, name
