"""From (epsilon, delta, C) to noise: sensitivities, calibration, cost and expected harm."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import (
    MECHANISMS,
    EmpiricalGaussian,
    Gaussian,
    L2Laplace,
    Laplacian,
    element_variance,
    root_up,
    rounded_up,
    sensitivity,
)

EPSILONS = [0.01, 1.0, 8.0, 100.0]
SIZES = [1, 2, 3, 384, 1920]
ADDITIVE = "'gaussian', 'laplacian', 'l2_laplace', 'empirical'"
OTHERS = "'privunit', 'discrete_gaussian', 'discrete_laplacian'"


def is_float32(value):
    return float(np.float32(value)) == value


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("clip_norm", [0.1, 1.0, 1.5])
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_gaussian_is_calibrated_to_the_joint_sensitivity(epsilon, clip_norm, rows):
    mechanism = Gaussian(epsilon=epsilon, delta=1e-5, clip_norm=clip_norm, dimension=384, rows_per_person=rows)
    exact = hv.gaussian_sigma(epsilon, 1e-5, 2 * clip_norm * math.sqrt(rows))
    assert is_float32(mechanism.sigma)
    assert exact * (1 - 1e-15) <= mechanism.sigma <= exact * (1 + 2**-22)
    assert hv.gaussian_delta(epsilon, mechanism.sigma, mechanism.sensitivity) <= 1e-5
    assert mechanism.cost == (epsilon, 1e-5)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dimension", SIZES)
@pytest.mark.parametrize("rows", [1, 4])
def test_laplacian_pays_for_the_dimension(epsilon, dimension, rows):
    mechanism = Laplacian(epsilon=epsilon, clip_norm=1.5, dimension=dimension, rows_per_person=rows)
    assert is_float32(mechanism.scale)
    assert (Fraction(mechanism.scale) * Fraction(epsilon)) ** 2 >= (2 * Fraction(1.5) * rows) ** 2 * dimension
    assert mechanism.scale == pytest.approx(math.sqrt(dimension) * 2 * 1.5 * rows / epsilon, rel=2**-22)
    assert mechanism.cost == (epsilon, 0.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dimension", SIZES)
@pytest.mark.parametrize("rows", [1, 4])
def test_l2_laplace_does_not(epsilon, dimension, rows):
    mechanism = L2Laplace(epsilon=epsilon, clip_norm=1.5, dimension=dimension, rows_per_person=rows)
    assert is_float32(mechanism.scale)
    assert Fraction(mechanism.scale) * Fraction(epsilon) >= 2 * Fraction(1.5) * rows
    assert mechanism.scale == pytest.approx(3.0 * rows / epsilon, rel=2**-22)
    assert mechanism.grid is None


# design facts: sigma on unit vectors, delta = 1e-5, and the epsilon that it buys
@pytest.mark.parametrize(("sigma", "epsilon"), [(0.2, 91.8), (0.1, 284.0)])
def test_empirical_states_what_sigma_buys(sigma, epsilon):
    mechanism = EmpiricalGaussian(chosen_sigma=sigma, delta=1e-5, dimension=1920)
    assert mechanism.epsilon == pytest.approx(epsilon, abs=0.5)
    assert hv.gaussian_delta(mechanism.epsilon, mechanism.sigma, 2.0) <= 1e-5
    assert hv.gaussian_delta(mechanism.epsilon * (1 - 1e-8), mechanism.sigma, 2.0) > 1e-5


def test_a_ceiling_below_what_sigma_buys_is_refused():
    asked = {"delta": 1e-5, "sigma": 0.5, "dimension": 8}
    with pytest.raises(ValueError, match=r"epsilon must be >= .*, what sigma = 0\.5 buys at delta = 1e-05, or be left out; got 1\.0"):
        EmpiricalGaussian.from_arguments(epsilon=1.0, **asked)
    assert EmpiricalGaussian.from_arguments(epsilon=1000.0, **asked).sigma == 0.5


def test_a_receipt_states_delta_of_what_has_one():
    assert Gaussian.stated_names == ("dimension", "clip_norm", "epsilon", "delta", "sigma")
    assert Laplacian.stated_names == ("dimension", "clip_norm", "epsilon", "scale")


def test_sensitivity_is_rounded_up():
    for clip_norm, rows, dimension in itertools.product([2.0**-99, 0.1, 1.0, 1.1, 2.0**99], [1, 2, 3, 10**6], SIZES):
        one = 2 * Fraction(clip_norm)
        at_once, in_turn = one**2 * rows, (one * rows) ** 2
        squares = {"gaussian": at_once, "empirical": at_once, "laplacian": in_turn * dimension}
        for name in MECHANISMS:
            square, case = squares.get(name, in_turn), (name, clip_norm, rows, dimension)
            found = sensitivity(name, clip_norm=clip_norm, rows_per_person=rows, dimension=dimension)
            assert Fraction(found) ** 2 >= square, case
            assert Fraction(math.nextafter(math.nextafter(found, 0), 0)) ** 2 < square, case
            if rows == 1 and name != "laplacian":
                assert found == 2 * clip_norm


def test_expected_harm_matches_what_happens():
    x = np.zeros((400, 384), np.float32)
    x[:, 0] = 1.0
    settings = {"dimension": 384, "clip_norm": 1.0}
    mechanisms = [
        Gaussian(epsilon=50.0, delta=1e-5, **settings),
        Laplacian(epsilon=200.0, **settings),
        L2Laplace(epsilon=200.0, **settings),
        EmpiricalGaussian(chosen_sigma=0.05, **settings),
    ]
    for mechanism in mechanisms:
        y = np.empty_like(x)
        mechanism.apply(x, y, hv.Generator.unsafe_seeded(3))
        norms = np.linalg.norm(y - x, axis=1)
        assert np.sqrt(np.mean(norms**2)) == pytest.approx(mechanism.noise_norm, rel=0.02)
        assert np.mean((y - x) ** 2) == pytest.approx(mechanism.element_variance, rel=0.04)
        cosines = y[:, 0] / np.linalg.norm(y, axis=1)
        assert cosines.mean() == pytest.approx(mechanism.expected_cosine(), abs=0.012)
        assert mechanism.expected_cosine(norm=0.5) < mechanism.expected_cosine()


def test_l2_laplace_is_gentler_than_laplacian():
    for dimension in (64, 384):
        pure = {"epsilon": 10.0, "dimension": dimension}
        ratio = Laplacian(**pure).noise_norm / L2Laplace(**pure).noise_norm
        assert ratio == pytest.approx(math.sqrt(2), rel=0.01)


def test_root_up():
    assert root_up(Fraction(4)) == 2.0
    assert root_up(Fraction(2)) ** 2 >= 2
    for square in range(2, 300):
        assert Fraction(root_up(Fraction(square))) ** 2 >= square


@pytest.mark.parametrize("value", [91.81728962466387, 1e-300, 123456789012.3, 5e-324, 0.1])
def test_rounded_up(value):
    found = rounded_up(value, 10)
    assert value <= found <= max(value * (1 + 1e-8), 5e-324)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Gaussian(epsilon=0.0, dimension=3), "epsilon must be > 0"),
        (lambda: Gaussian(epsilon=1.0, delta=0.0, dimension=3), "delta must be > 0 and < 1"),
        (lambda: Gaussian(epsilon=1.0, dimension=0), "dimension must be >= 1"),
        (lambda: Gaussian(epsilon=1.0, dimension=3, rows_per_person=0), "rows_per_person must be >= 1"),
        (lambda: Laplacian(epsilon=-1.0, dimension=3), "epsilon must be > 0"),
        (lambda: L2Laplace(epsilon=1.0, clip_norm=0.0, dimension=3), "clip_norm must be > 0"),
        (lambda: EmpiricalGaussian(chosen_sigma=-0.2, dimension=3), "sigma must be > 0"),
        (lambda: EmpiricalGaussian(chosen_sigma=1e-12, dimension=3).sigma, "clip_norm / sigma must be <= 2\\^30"),
    ],
)
def test_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_what_can_be_released_is_said_of_arrays_too():
    """Of checked rows it is said on the way of `privatize`."""
    x = np.ones((2, 4), np.float32)
    assert Gaussian(epsilon=1.0, delta=1e-5, dimension=4).require_release(x) is None
    with pytest.raises(TypeError, match=r"^x must be float32 or float64 or float16, got int64$"):
        Gaussian(epsilon=1.0, delta=1e-5, dimension=4).require_release(x.astype(np.int64))


def test_a_mechanism_cannot_be_changed():
    mechanism = Gaussian(epsilon=1.0, dimension=3)
    with pytest.raises(AttributeError):
        mechanism.epsilon = 100.0


@pytest.mark.parametrize(
    "name, error, message",
    [
        ("laplace", ValueError, f"mechanism must be one of {ADDITIVE}, {OTHERS}, got 'laplace'"),
        (None, TypeError, "mechanism must be a str, got NoneType"),
    ],
)
def test_sensitivity_refuses_an_unknown_name(name, error, message):
    with pytest.raises(error) as caught:
        sensitivity(name, clip_norm=1.0, rows_per_person=1, dimension=4)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["privunit", "laplace"])
def test_the_variance_of_an_element_is_known_of_additive_noise_only(name):
    with pytest.raises(ValueError) as caught:
        element_variance(name, 4)
    assert str(caught.value) == f"mechanism must be one of {ADDITIVE}, got {name!r}"


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_densities_behind_a_row_near_a_candidate_are_those_of_one_normal_law(spread):
    """The noise and the row's own spread add up: ln density = -|x - rho c|^2 / (2 (sigma^2 + spread)), less a constant."""
    mechanism, rng = Gaussian(epsilon=2.0, delta=1e-5, dimension=8), np.random.default_rng(0)
    rows, candidates = (rng.standard_normal((count, 8)).astype(np.float32) for count in (4, 3))
    found = mechanism.candidate_densities(rows, candidates, rho=0.7, spread=spread)
    squares = ((rows[:, None].astype(np.float64) - 0.7 * candidates) ** 2).sum(axis=2)
    np.testing.assert_allclose(found, -squares / (2 * (mechanism.sigma**2 + spread)), rtol=1e-5)


def test_arrays_of_another_library_get_results_in_it():
    strict = pytest.importorskip("array_api_strict")
    rows = np.random.default_rng(0).standard_normal((4, 8))
    mechanism, seeded = Gaussian(epsilon=2.0, delta=1e-5, dimension=8), hv.Generator.unsafe_seeded
    wanted = mechanism.apply(rows, None, seeded(1))
    given, out = strict.asarray(rows), strict.zeros(rows.shape)
    assert type(mechanism.apply(given, None, seeded(1))) is type(given)
    assert mechanism.apply(given, out, seeded(1)) is out
    np.testing.assert_array_equal(np.from_dlpack(out), wanted)
    assert mechanism.apply(rows, out, seeded(2)) is out
    np.testing.assert_array_equal(np.from_dlpack(out), mechanism.apply(rows, None, seeded(2)))


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 100.0])
def test_the_chance_to_be_the_nearest_of_two_is_that_of_one_normal_difference(epsilon):
    """N(s, 1) exceeds N(0, 1) with probability Phi(s / sqrt 2); and among none it always does."""
    mechanism = Gaussian(epsilon=epsilon, delta=1e-5, dimension=64)
    signal = 8 / mechanism.noise_norm
    assert mechanism.top_1_probability(1) == pytest.approx(math.erfc(-signal / 2) / 2, rel=1e-9)
    assert mechanism.top_1_probability(0) == pytest.approx(1.0, rel=1e-12)
    assert mechanism.top_1_probability(1000) < mechanism.top_1_probability(10) < mechanism.top_1_probability(1)
