"""Calibration as a user sees it: known answers to their last digit, edges, kinds, shapes, promises of the docstrings.

The known answers are compared as exact fractions: "never below" means never, not up to a rounding of the comparison.
"""

import csv
import doctest
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushvec as hv
from hushvec._native import _core
from hushvec.noise import calibration

VECTORS = Path(__file__).parents[1] / "evidence" / "vectors"

SIGMA_EXCESS = 4e-14
DELTA_EXCESS = 2.5e-14
EPSILON_EXCESS = 1e-13
SMALLEST = 5e-324

ratios = st.floats(1e-12, 1e12)
epsilons = st.floats(1e-9, 1e9)
deltas = st.floats(SMALLEST, 1.0, exclude_max=True)


def known_answers(name):
    with open(VECTORS / name, newline="") as file:
        return [list(row.values()) for row in csv.DictReader(file)]


def excess(answer, exact_text):
    """(answer - exact)/exact, and the difference, without rounding."""
    exact = Fraction(exact_text)
    difference = Fraction(answer) - exact
    return difference / exact if exact else difference, difference


# known answers


def test_sigma_known_answers():
    for epsilon, delta, sigma in known_answers("gaussian_sigma.csv"):
        relative, _ = excess(hv.gaussian_sigma(float(epsilon), float(delta)), sigma)
        assert 0 <= relative <= SIGMA_EXCESS, (epsilon, delta)


def test_delta_known_answers():
    for epsilon, sigma, sensitivity, delta in known_answers("gaussian_delta.csv"):
        answer = hv.gaussian_delta(float(epsilon), float(sigma), float(sensitivity))
        relative, difference = excess(answer, delta)
        # the text has 30 digits: 1.0 stands for a delta a little below 1
        assert relative >= 0 or answer == 1.0, (epsilon, sigma, sensitivity)
        assert relative <= DELTA_EXCESS or difference <= Fraction(SMALLEST), (epsilon, sigma, sensitivity)


def test_epsilon_known_answers():
    for delta, sigma, epsilon in known_answers("gaussian_epsilon.csv"):
        answer = hv.gaussian_epsilon(float(delta), float(sigma))
        _, difference = excess(answer, epsilon)
        assert 0 <= difference <= EPSILON_EXCESS * (float(epsilon) + min(1.0, 1.0 / float(sigma))), (delta, sigma)
        assert (answer == 0.0) == (Fraction(epsilon) == 0), (delta, sigma)


@pytest.mark.parametrize("chunks, epsilon, delta, sensitivity, basic, joint", known_answers("seed_receipts.csv"))
def test_sigma_of_published_receipts(chunks, epsilon, delta, sensitivity, basic, joint):
    sensitivity = float(sensitivity)
    assert hv.gaussian_sigma(float(epsilon), float(delta), sensitivity) == pytest.approx(float(basic), rel=1e-9)
    together = sensitivity * math.sqrt(int(chunks))
    assert hv.gaussian_sigma(16.0, 1e-3, together) == pytest.approx(float(joint), rel=1e-9)


# the classical formula


@pytest.mark.parametrize(
    "epsilon, delta, analytic, classical, really",
    [
        (1, 1e-5, 3.7306, 4.8448, 4.1e-8),
        (8, 1e-5, 0.60023, 0.60561, 8.0e-6),
        (10, 1e-5, 0.49989, 0.48448, 2.3e-5),
        (20, 1e-5, 0.29004, 0.24224, 1.5e-3),
        (50, 1e-5, 0.14976, 0.09690, 0.59),
        (16, 1e-3, 0.28861, 0.23603, 3.2e-2),
    ],
)
def test_classical_facts(epsilon, delta, analytic, classical, really):
    sigma = hv.gaussian_sigma(epsilon, delta, method="classical", allow_unproven=True)
    assert sigma == pytest.approx(classical, rel=6e-5)
    assert hv.gaussian_sigma(epsilon, delta) == pytest.approx(analytic, rel=3e-5)
    assert hv.gaussian_delta(epsilon, sigma) == pytest.approx(really, rel=3e-2)


def test_classical_is_safe_where_it_is_proved():
    epsilon = np.geomspace(1e-6, 0.999999, 200)[:, None]
    delta = np.concatenate([np.geomspace(1e-300, 1e-3, 100), np.linspace(0.01, 0.99, 99)])
    classical = hv.gaussian_sigma(epsilon, delta, 2.0, method="classical")
    assert np.all(classical >= hv.gaussian_sigma(epsilon, delta, 2.0))


@pytest.mark.parametrize("epsilon", [1.0, 8.0, [0.5, 1.0]])
def test_classical_refuses_what_is_not_proved(epsilon):
    refusal = r"epsilon(\[1\])? must be < 1 for the classical sigma, got .* \(allow_unproven=True accepts it"
    with pytest.raises(ValueError, match=refusal):
        hv.gaussian_sigma(epsilon, 1e-5, method="classical")


# promises, over the whole range


@settings(max_examples=2000, deadline=None)
@given(epsilons, deltas, ratios)
def test_sigma_keeps_its_promise(epsilon, delta, sensitivity):
    sigma = hv.gaussian_sigma(epsilon, delta, sensitivity)
    assert hv.gaussian_delta(epsilon, sigma, sensitivity) <= delta


@settings(max_examples=2000, deadline=None)
@given(epsilons, deltas, ratios)
def test_sigma_is_not_wasteful(epsilon, delta, sensitivity):
    sigma = hv.gaussian_sigma(epsilon, delta, sensitivity)
    assert hv.gaussian_delta(epsilon, sigma * (1.0 - 2.0 * SIGMA_EXCESS), sensitivity) > delta


@settings(max_examples=2000, deadline=None)
@given(deltas, ratios)
def test_epsilon_keeps_its_promise(delta, sigma):
    epsilon = hv.gaussian_epsilon(delta, sigma)
    assert hv.gaussian_delta(epsilon, sigma) <= delta


@settings(max_examples=1000, deadline=None)
@given(st.floats(1e-2, 1e3), st.floats(1e-300, 0.4))
def test_round_trip(epsilon, delta):
    sigma = hv.gaussian_sigma(epsilon, delta)
    assert hv.gaussian_epsilon(delta, sigma) == pytest.approx(epsilon, rel=1e-11)
    assert hv.gaussian_delta(epsilon, sigma) == pytest.approx(delta, rel=1e-9)


def test_monotone():
    grid = np.geomspace(1e-3, 1e3, 2000)
    assert np.all(np.diff(hv.gaussian_sigma(grid, 1e-6)) < 0)
    assert np.all(np.diff(hv.gaussian_sigma(1.0, np.geomspace(1e-300, 0.99, 2000))) < 0)
    assert np.all(np.diff(hv.gaussian_sigma(1.0, 1e-6, grid)) > 0)
    assert np.all(np.diff(hv.gaussian_epsilon(1e-6, grid)) < 0)
    assert np.all(np.diff(hv.gaussian_delta(np.linspace(0, 30, 2000), 1.0)) < 0)
    assert np.all(np.diff(hv.gaussian_delta(1.0, np.geomspace(0.1, 30, 2000))) < 0)


def test_replace_one_needs_twice_the_clip_norm():
    """2 C written as C must be seen."""
    clip_norm = 1.0
    mutant = hv.gaussian_sigma(1.0, 1e-5, clip_norm)
    assert hv.gaussian_delta(1.0, mutant, 2.0 * clip_norm) > 1e-5


def test_figures_of_the_documentation():
    assert hv.gaussian_sigma(1.0, 1e-5, 2.0) == pytest.approx(7.46, abs=5e-3)
    assert hv.gaussian_epsilon(1e-5, 0.2, 2.0) == pytest.approx(91.8, abs=0.05)
    assert hv.gaussian_epsilon(1e-5, 0.1, 2.0) == pytest.approx(284, abs=0.5)


# edges


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda: hv.gaussian_delta(1.0, 1e-300), 1.0),
        (lambda: hv.gaussian_delta(1.0, 1e300), SMALLEST),
        (lambda: hv.gaussian_delta(1.7976931348623157e308, 1.0), SMALLEST),
        (lambda: hv.gaussian_epsilon(0.4, 1.0), 0.0),
        (lambda: hv.gaussian_epsilon(1e-5, 1e-160), math.inf),
        (lambda: hv.laplace_scale(0.5, 3.0), 6.0),
        (lambda: hv.laplace_scale(1.7976931348623157e308, SMALLEST), SMALLEST),
        (lambda: calibration.expected_cosine(0.0, 10), 1.0),
        (lambda: calibration.expected_cosine(1e308, 10**9, 1e-300), 0.0),
    ],
)
def test_edge(call, expected):
    assert call() == expected


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: hv.gaussian_sigma(0.0, 1e-5), "epsilon must be > 0 and finite, got 0.0"),
        (lambda: hv.gaussian_sigma(-1, 1e-5), "epsilon must be > 0 and finite, got -1.0"),
        (lambda: hv.gaussian_sigma(10**400, 1e-5), "epsilon must be > 0 and finite, got inf"),
        (lambda: hv.gaussian_sigma(math.nan, 1e-5), "epsilon must be > 0 and finite, got nan"),
        (lambda: hv.gaussian_sigma(1.0, 0.0), "delta must be > 0 and < 1, got 0.0"),
        (lambda: hv.gaussian_sigma(1.0, 1), "delta must be > 0 and < 1, got 1.0"),
        (lambda: hv.gaussian_sigma(1.0, math.nan), "delta must be > 0 and < 1, got nan"),
        (lambda: hv.gaussian_sigma(1.0, 1e-5, 0.0), "sensitivity must be > 0 and finite, got 0.0"),
        (lambda: hv.gaussian_sigma(1.0, 1e-5, math.inf), "sensitivity must be > 0 and finite, got inf"),
        (lambda: hv.gaussian_sigma(1.0, 1e-300, 1e308), "sigma must be at most 1.7976931348623157e+308, got inf"),
        (lambda: hv.gaussian_sigma([1.0, 2.0], [0.5, 1.5]), "delta[1] must be > 0 and < 1, got 1.5"),
        (lambda: hv.gaussian_sigma([[1.0, 2.0], [3.0, -4.0]], 0.5), "epsilon[3] must be > 0 and finite, got -4.0"),
        (
            lambda: hv.gaussian_sigma([1.0, 2.0], [0.1, 0.2, 0.3]),
            "epsilon, delta, sensitivity must broadcast against each other, got shapes (2,), (3,), ()",
        ),
        (lambda: hv.gaussian_sigma(1.0, 1e-5, method="exact"), "method must be 'analytic' or 'classical', got 'exact'"),
        (lambda: hv.gaussian_delta(-1.0, 1.0), "epsilon must be >= 0 and finite, got -1.0"),
        (lambda: hv.gaussian_delta(1.0, 0.0), "sigma must be > 0 and finite, got 0.0"),
        (lambda: hv.gaussian_epsilon(2.0, 1.0), "delta must be > 0 and < 1, got 2.0"),
        (lambda: hv.laplace_scale(0.0, 1.0), "epsilon must be > 0 and finite, got 0.0"),
        (lambda: hv.laplace_scale(1e-300, 1e300), "scale must be at most 1.7976931348623157e+308, got inf"),
        (lambda: calibration.expected_cosine(-0.1, 10), "sigma must be >= 0 and finite, got -0.1"),
        (lambda: calibration.expected_cosine([0.1, math.nan], 10), "sigma[1] must be >= 0 and finite, got nan"),
        (lambda: calibration.expected_cosine(0.1, 0), "dimension must be >= 1, got 0.0"),
        (lambda: calibration.expected_cosine(0.1, 10, 0.0), "norm must be > 0 and finite, got 0.0"),
    ],
)
def test_value_error(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message


@pytest.mark.parametrize("value", [True, "1", b"1", 1j, None, object(), [True], ["1"], np.bool_(True), np.array([1j])])
@pytest.mark.parametrize("function", [hv.gaussian_sigma, hv.gaussian_delta, hv.gaussian_epsilon, hv.laplace_scale])
def test_type_error(function, value):
    for arguments in ((value, 0.5), (0.5, value)):
        with pytest.raises(TypeError, match="must be a real number or an array of them, got "):
            function(*arguments)


def test_type_error_of_options():
    with pytest.raises(TypeError, match="method must be a str, got NoneType"):
        hv.gaussian_sigma(1.0, 1e-5, method=None)
    with pytest.raises(TypeError, match="allow_unproven must be a bool, got int"):
        hv.gaussian_sigma(1.0, 1e-5, method="classical", allow_unproven=1)
    with pytest.raises(TypeError, match="dimension must be an integer"):
        calibration.expected_cosine(0.1, 10.5)
    with pytest.raises(TypeError, match="dimension must be an integer"):
        calibration.expected_cosine(0.1, True)


# shapes and kinds


@pytest.mark.parametrize("scalar", [1, 1.0, np.float32(1), np.float64(1), np.int64(1), Fraction(1)])
def test_scalars_give_a_float(scalar):
    sigma = hv.gaussian_sigma(scalar, 1e-5)
    assert type(sigma) is float
    assert sigma == hv.gaussian_sigma(1.0, 1e-5)


def test_arrays_broadcast():
    epsilon, delta = np.array([[0.5], [1.0], [2.0]]), np.array([1e-3, 1e-5])
    sigma = hv.gaussian_sigma(epsilon, delta, 2)
    assert sigma.shape == (3, 2) and sigma.dtype == np.float64
    one_by_one = [[hv.gaussian_sigma(float(e), d, 2.0) for d in (1e-3, 1e-5)] for e in epsilon[:, 0]]
    assert sigma.tolist() == one_by_one
    assert np.all(hv.gaussian_delta(epsilon, sigma, 2) <= delta)
    assert hv.gaussian_epsilon(delta, sigma, 2).shape == (3, 2)
    assert hv.laplace_scale(epsilon, delta).shape == (3, 2)
    assert calibration.expected_cosine(sigma, [384, 768]).shape == (3, 2)


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2, 3]),
        np.array([1, 2, 3], np.float32),
        np.array([1.0, 0.0, 2.0, 0.0, 3.0])[::2],
        np.array([3.0, 2.0, 1.0])[::-1],
        [1, 2, 3],
        (1.0, 2.0, 3.0),
    ],
)
def test_other_kinds_of_arrays(values):
    assert np.array_equal(hv.gaussian_sigma(values, 1e-5), hv.gaussian_sigma(np.array([1.0, 2.0, 3.0]), 1e-5))


def test_empty_array_and_zero_dimensions():
    assert hv.gaussian_sigma(np.empty((0, 3)), 1e-5).shape == (0, 3)
    assert isinstance(hv.gaussian_sigma(np.array(1.0), 1e-5), np.ndarray)


@pytest.mark.parametrize(
    "arrays, error, message",
    [
        ((np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2))), ValueError, "epsilon must have 1 dimension, got 2"),
        ((np.ones(2), np.full(3, 0.5), np.ones(2)), ValueError, "delta must have 2 elements, got 3"),
        ((np.array([1]), np.array([0.5]), np.array([1.0])), TypeError, "incompatible function arguments"),
        ((np.ones(4)[::2], np.full(2, 0.5), np.ones(2)), TypeError, "incompatible function arguments"),
    ],
)
def test_core_converts_nothing(arrays, error, message):
    with pytest.raises(error, match=message):
        _core.gaussian_sigma(*arrays)


# the other formulas


@settings(max_examples=1000, deadline=None)
@given(st.floats(1e-100, 1e100), st.floats(1e-100, 1e100))
def test_laplace_scale_is_the_quotient_rounded_up(epsilon, sensitivity):
    scale = hv.laplace_scale(epsilon, sensitivity)
    assert Fraction(scale) * Fraction(epsilon) >= Fraction(sensitivity)
    assert Fraction(math.nextafter(scale, 0.0)) * Fraction(epsilon) < Fraction(sensitivity)


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.5])
def test_expected_cosine_is_the_mean_cosine(sigma):
    dimension, norm, rows = 384, 2.0, 4000
    noise = np.random.default_rng(7).standard_normal((rows, dimension)) * sigma
    vector = np.full(dimension, norm / math.sqrt(dimension))
    noisy = vector + noise
    cosines = noisy @ vector / (np.linalg.norm(noisy, axis=1) * norm)
    mean = cosines.mean()
    tolerance = 5.0 * cosines.std() / math.sqrt(rows) + 1e-3 * mean  # sampling, and the formula itself
    assert abs(calibration.expected_cosine(sigma, dimension, norm) - mean) <= tolerance
    assert abs(calibration.expected_cosine(1.05 * sigma, dimension, norm) - mean) > tolerance


def test_examples_run():
    results = doctest.testmod(calibration)
    assert results.attempted >= 10 and results.failed == 0
