"""Theory of the cosine against what releases show, within 1 %, for every mechanism in 384 and 1920 dimensions.

n is chosen so that the standard error of the measured mean is at most 0.2 % of it: 1 % is five of them, which puts alpha below 1e-6.
Mechanisms whose noise is 3 % larger or smaller than stated must fail.
"""

import math

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian, PrivUnit
from hushvec.retrieval.measures import cosines, theoretical_cosine

WITHIN = 0.01
LARGEST_ERROR = 0.002

# epsilon (or sigma) that leaves a cosine of about 0.4 to 0.6, where few rows say much; smaller ones are in the clinical study.
CASES = {
    384: [
        Gaussian(epsilon=200.0, delta=1e-5, dimension=384),
        EmpiricalGaussian(chosen_sigma=0.1, dimension=384),
        Laplacian(epsilon=800.0, dimension=384),
        L2Laplace(epsilon=500.0, dimension=384),
        PrivUnit(epsilon=50.0, dimension=384),
        PrivUnit(epsilon=50.0, dimension=384, corpus_size=2000),
    ],
    1920: [
        Gaussian(epsilon=1000.0, delta=1e-5, dimension=1920),
        EmpiricalGaussian(chosen_sigma=0.05, dimension=1920),
        Laplacian(epsilon=4000.0, dimension=1920),
        L2Laplace(epsilon=2500.0, dimension=1920),
        PrivUnit(epsilon=200.0, dimension=1920),
        PrivUnit(epsilon=200.0, dimension=1920, corpus_size=1000),
    ],
}
ALL = [mechanism for some in CASES.values() for mechanism in some]


def named(mechanism):
    return f"{mechanism.name}-{mechanism.dimension}{'-corpus' if getattr(mechanism, 'corpus_size', None) else ''}"


def unit_rows(rows, dimension, seed=1):
    drawn = np.random.default_rng(seed).standard_normal((rows, dimension), dtype=np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def measured(mechanism, seed=1):
    """(mean cosine, its standard error, receipt), of as many rows as the error asks for."""
    expected = mechanism.expected_cosine()
    spread = (1 - expected**2) / math.sqrt(mechanism.dimension) + 0.02 * expected
    clean = unit_rows(int(1.3 * (spread / (LARGEST_ERROR * expected)) ** 2), mechanism.dimension)
    release = hv.privatize(clean, mechanism=mechanism, delta=1e-5, generator=hv.Generator.unsafe_seeded(seed, rounds=8))
    values = cosines(clean, release.values)
    return values.mean(), values.std(ddof=1) / math.sqrt(len(values)), release.receipt


@pytest.mark.parametrize("mechanism", ALL, ids=named)
def test_theory_and_measurement_agree_within_one_percent(mechanism):
    mean, error, receipt = measured(mechanism)
    theory = theoretical_cosine(mechanism)
    assert error < LARGEST_ERROR * mean
    assert abs(mean / theory - 1) < WITHIN
    assert theoretical_cosine(receipt) == theory


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_noise_three_percent_off_is_found_out(factor):
    mean, error, _ = measured(EmpiricalGaussian(chosen_sigma=0.2 * factor, dimension=384))
    assert error < LARGEST_ERROR * mean
    assert abs(mean / theoretical_cosine(EmpiricalGaussian(chosen_sigma=0.2, dimension=384)) - 1) > WITHIN


def test_the_formula_of_gaussian_noise_on_unit_rows():
    assert theoretical_cosine(EmpiricalGaussian(chosen_sigma=0.2, dimension=1920)) == pytest.approx(
        1 / math.sqrt(1 + 1920 * 0.04), rel=1e-7
    )


@pytest.mark.parametrize("dimension, within", [(384, 0.004), (1920, 0.001)])
@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.2, 1.0, 5.0])
def test_the_formula_against_the_exact_mean(dimension, within, sigma):
    """Without sampling: E (1 + s z) / sqrt((1 + s z)^2 + s^2 chi^2_{d-1}), by quadrature over z and chi."""
    stats = pytest.importorskip("scipy.stats")
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    quantiles = (np.arange(4000) + 0.5) / 4000
    across = sigma * np.sqrt(stats.chi2.ppf(quantiles, dimension - 1))
    along = 1 + sigma * z
    exact = (weight / weight.sum()) @ (along[:, None] / np.hypot(along[:, None], across)).mean(axis=1)
    theory = theoretical_cosine(EmpiricalGaussian(chosen_sigma=sigma, delta=0.1, dimension=dimension))
    assert abs(theory / exact - 1) < within


@pytest.mark.parametrize("length", [0.25, 1.0, 7.0])
def test_shorter_rows_are_hidden_better_and_longer_ones_are_clipped(length):
    clean = length * unit_rows(12_000, 64)
    mechanism = EmpiricalGaussian(chosen_sigma=0.2, dimension=64)
    values = cosines(clean, hv.privatize(clean, mechanism=mechanism, generator=hv.Generator.unsafe_seeded(3)).values)
    # 64 dimensions: the formula itself is 2 % off
    assert values.mean() == pytest.approx(theoretical_cosine(mechanism, length), rel=0.03)
    assert theoretical_cosine(mechanism, 7.0) == theoretical_cosine(mechanism)


def test_cosines_are_those_of_numpy_and_zero_rows_have_none():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 5000, 6))
    a[7] = 0
    expected = [0.0 if not row.any() else row @ other / np.linalg.norm(row) / np.linalg.norm(other) for row, other in zip(a, b)]
    assert cosines(a, b) == pytest.approx(expected)
    assert cosines(a.astype(np.float32), b.astype(np.float32)) == pytest.approx(expected, abs=1e-6)
    assert cosines(a[:0], b[:0]).shape == (0,)


@pytest.mark.parametrize(
    "clean, noisy, error, text",
    [
        (np.ones((2, 3)), np.ones((3, 3)), ValueError, "clean and noisy must have the same shape, got (2, 3) and (3, 3)"),
        (np.ones(3), np.ones(3), ValueError, "clean must have shape (rows, dimension), got (3,)"),
        (np.ones((2, 3)), np.full((2, 3), np.nan), ValueError, "noisy must be finite, row 0 is not"),
        (np.ones((2, 3), int), np.ones((2, 3)), TypeError, "clean must be a float array, got int64"),
    ],
)
def test_bad_input(clean, noisy, error, text):
    with pytest.raises(error) as raised:
        cosines(clean, noisy)
    assert text in str(raised.value)
