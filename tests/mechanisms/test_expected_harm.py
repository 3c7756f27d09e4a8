"""Expected cosine and noise norm, stated before anything is spent, against what releases show.

Statistics, alpha = 1e-6 each, n = 2,000 rows of 384 elements (4,000 for L2-Laplace's one radius a row):
- the mean of |noise|^2 over the rows against noise_norm^2, a normal test with the exact variance of the law;
- the mean cosine of a row and its noisy version against expected_cosine, a normal test with the sample's standard error.
The stated cosine is an approximation; its distance from the exact mean is bounded by a second test, without sampling.
"""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

import hushvec as hv
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian, MetricLaplace

ALPHA = 1e-6
D = 384


def variance_of_square(law, scale, dimension):
    """Var |z|^2 of one row's noise."""
    if law == "gaussian":
        return 2 * dimension * scale**4
    if law == "laplacian":   # E z^2 = 2 b^2 and E z^4 = 24 b^4 an element
        return dimension * 20 * scale**4
    moment = lambda k: scale**k * math.exp(special.gammaln(dimension + k) - special.gammaln(dimension))  # noqa: E731
    return moment(4) - moment(2) ** 2


def released(mechanism, rows, length=1.0, seed=31):
    x = np.zeros((rows, mechanism.dimension), np.float32)
    x[:, 0] = length
    generator = hv.Generator.unsafe_seeded(seed)
    if isinstance(mechanism, MetricLaplace):
        return x, mechanism.release(x, generator=generator)
    y = np.empty_like(x)
    mechanism.apply(x, y, generator)
    return x, y


def norm_p_value(stated, x, y, mechanism, scale):
    squares = np.square(y.astype(np.float64) - x).sum(axis=1)
    spread = math.sqrt(variance_of_square(mechanism.law, scale, mechanism.dimension) / len(x))
    return 2 * stats.norm.sf(abs(squares.mean() - stated**2) / spread)


def cosine_p_value(stated, y):
    wide = y.astype(np.float64)
    cosines = wide[:, 0] / np.linalg.norm(wide, axis=1)
    return 2 * stats.norm.sf(abs(cosines.mean() - stated) / (cosines.std(ddof=1) / math.sqrt(len(cosines))))


MECHANISMS = {
    "gaussian": Gaussian(epsilon=50.0, delta=1e-5, dimension=D),
    "gaussian, 4 rows, other clip norm": Gaussian(epsilon=200.0, delta=1e-5, dimension=D, clip_norm=0.5, rows_per_person=4),
    "empirical": EmpiricalGaussian(chosen_sigma=0.15, dimension=D),
    "laplacian": Laplacian(epsilon=400.0, dimension=D),
    "l2_laplace": L2Laplace(epsilon=300.0, dimension=D),
    "metric": MetricLaplace(epsilon=150.0, dimension=D),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_noise_norm_is_what_happens(name):
    mechanism = MECHANISMS[name]
    scale = mechanism.scale if hasattr(mechanism, "scale") else mechanism.sigma
    x, y = released(mechanism, 4000 if mechanism.law == "l2_laplace" else 2000, length=0.1)
    assert norm_p_value(mechanism.noise_norm, x, y, mechanism, scale) > ALPHA
    mutants = {
        "5 % more": 1.05 * mechanism.noise_norm,
        "5 % less": 0.95 * mechanism.noise_norm,
        "2 C written as C": mechanism.noise_norm / 2,
        "sqrt(d) dropped": mechanism.noise_norm / math.sqrt(D),
        "sqrt(2) dropped or added": mechanism.noise_norm / math.sqrt(2),
    }
    for told, mutant in mutants.items():
        assert norm_p_value(mutant, x, y, mechanism, scale) < ALPHA, told


@pytest.mark.parametrize("name", MECHANISMS)
def test_expected_cosine_is_what_happens(name):
    mechanism = MECHANISMS[name]
    length = getattr(mechanism, "clip_norm", 1.0)
    _, y = released(mechanism, 2000, length)
    stated = mechanism.expected_cosine(length)
    assert 0.1 < stated < 0.9
    assert cosine_p_value(stated, y) > ALPHA
    ratio = mechanism.noise_norm / length
    element = ratio / math.sqrt(D)
    mutants = {
        "1 / sqrt(1 + d sigma)": 1 / math.sqrt(1 + D * element),
        "1 / sqrt(1 + sigma^2)": 1 / math.sqrt(1 + element**2),
        "1 / (1 + d sigma^2)": 1 / (1 + ratio**2),
        "1 / sqrt(1 + sqrt(d) sigma)": 1 / math.sqrt(1 + ratio),
        "1 / (1 + sqrt(d) sigma)": 1 / (1 + ratio),
        "2 C written as C": 1 / math.sqrt(1 + ratio**2 / 4),
        "5 % more noise": 1 / math.sqrt(1 + (1.05 * ratio) ** 2),
    }
    for told, mutant in mutants.items():
        assert cosine_p_value(mutant, y) < ALPHA, told


@pytest.mark.parametrize("norm", [0.25, 0.5, 1.0])
def test_shorter_rows_suffer_more(norm):
    mechanism = Gaussian(epsilon=200.0, delta=1e-5, dimension=D)
    _, y = released(mechanism, 2000, norm, seed=32)
    assert cosine_p_value(mechanism.expected_cosine(norm), y) > ALPHA
    assert cosine_p_value(mechanism.expected_cosine(norm * 1.2), y) < ALPHA


def exact_mean_cosine(sigma, dimension):
    """E (1 + sigma a) / sqrt((1 + sigma a)^2 + sigma^2 c), a normal and c chi-square with d - 1 degrees of freedom."""
    law = stats.chi2(dimension - 1)

    def over_a(c):
        inner = lambda a: (1 + sigma * a) / math.hypot(1 + sigma * a, sigma * math.sqrt(c)) * stats.norm.pdf(a)  # noqa: E731
        return integrate.quad(inner, -9, 9, epsabs=1e-9)[0]

    nodes, weights = np.polynomial.legendre.leggauss(40)
    low, high = law.ppf(1e-12), law.isf(1e-12)
    points = (high - low) / 2 * nodes + (high + low) / 2
    return (high - low) / 2 * sum(w * law.pdf(c) * over_a(c) for c, w in zip(points, weights))


@pytest.mark.parametrize("dimension", [100, 384])
@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.5, 5.0])
def test_the_approximation_is_within_one_percent(dimension, sigma):
    stated = EmpiricalGaussian(chosen_sigma=sigma, dimension=dimension).expected_cosine()
    assert stated == pytest.approx(exact_mean_cosine(sigma, dimension), rel=0.01)
    assert 1 / math.sqrt(1 + dimension * sigma) != pytest.approx(exact_mean_cosine(sigma, dimension), rel=0.01)
