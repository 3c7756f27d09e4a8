"""The profile of discrete Gaussian noise against sums over all whole numbers, to 50 digits."""

import math
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from hushvec.accounting import DiscreteGaussianDP, GaussianDP, PureDP, ZeroConcentratedDP, compose, discrete

EPSILONS = (0.0, 0.1, 1.0, 5.0, 30.0)


@cache
def weights(sigma, end):
    with mp.workdps(50):
        return [mp.exp(-mp.mpf(k) ** 2 / (2 * mp.mpf(sigma) ** 2)) for k in range(end + 1)]


def exact_delta(epsilon, sigma, distance):
    """sum of max(0, p(k) - e^epsilon p(k + distance)), p the law of `hushvec.discrete_gaussian`."""
    end = math.ceil(40 * sigma) + distance + 5
    with mp.workdps(50):
        w = weights(sigma, end + distance)
        above = mp.fsum(max(mp.mpf(0), w[abs(k)] - mp.exp(epsilon) * w[abs(k + distance)]) for k in range(-end, end + 1))
        return above / (2 * mp.fsum(w) - 1)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 2.5, 8.0])
@pytest.mark.parametrize("distance", [1, 2, 7, 100])
def test_delta_of_one_number_is_exact(sigma, distance):
    loss = DiscreteGaussianDP(sigma=sigma, sensitivity=distance)
    for epsilon in EPSILONS:
        exact, found = exact_delta(epsilon, sigma, distance), loss.delta(epsilon)
        assert exact - found <= exact * mp.mpf(10) ** -40, epsilon
        if exact > 1e-30:
            assert found <= exact * (1 + mp.mpf(10) ** -8), epsilon


def test_a_wrong_profile_is_noticed():
    """The continuous Gaussian's delta, and that of a sigma one per cent larger, are below the exact one."""
    assert GaussianDP(noise_multiplier=0.3).delta(1.0) < exact_delta(1.0, 0.3, 1)
    assert DiscreteGaussianDP(sigma=0.303, sensitivity=1).delta(1.0) < exact_delta(1.0, 0.3, 1)


@pytest.mark.parametrize("sigma", [3.0, 8.0])
@pytest.mark.parametrize("distance", [1, 3, 20])
def test_the_bound_by_the_gaussian_is_above_the_exact_delta(sigma, distance, monkeypatch):
    monkeypatch.setattr(discrete, "LARGEST_SUMMED", 0.0)
    for epsilon in EPSILONS[:4]:
        assert exact_delta(epsilon, sigma, distance) <= discrete.discrete_gaussian_delta(epsilon, sigma, float(distance), 1)


def test_the_bound_of_vectors_is_above_the_exact_delta():
    """Two and three coordinates that move together, by enumeration: the hockey-stick divergence of the product laws."""
    for sigma, move in ((6.0, (4, 3)), (6.0, (5, 0)), (3.0, (2, 2, 1))):
        k = np.arange(-12 * int(sigma) - 8, 12 * int(sigma) + 9)
        laws = []
        for shift in (*[0] * len(move), *move):
            law = np.exp(-((k + shift) ** 2) / (2 * sigma**2))
            laws.append(law / np.exp(-(np.arange(-200, 201) ** 2) / (2 * sigma**2)).sum())
        first, second = (_product(laws[: len(move)]), _product(laws[len(move) :]))
        loss = DiscreteGaussianDP(sigma=sigma, sensitivity=math.hypot(*move), coordinates=len(move))
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            assert np.maximum(0, first - math.exp(epsilon) * second).sum() <= loss.delta(epsilon) * (1 + 1e-12)


def _product(laws):
    product = laws[0]
    for law in laws[1:]:
        product = product[..., None] * law
    return product


@pytest.mark.parametrize(("sigma", "coordinates"), [(4.0, 384), (100.0, 384), (1e4, 384), (1e4, 1), (510.0, 1), (2.0**39, 10**6)])
def test_it_lies_between_the_gaussian_and_rho(sigma, coordinates):
    loss = DiscreteGaussianDP(sigma=sigma, sensitivity=sigma / 2, coordinates=coordinates)
    for delta in (1e-3, 1e-9):
        by_rho = ZeroConcentratedDP(rho=loss.rho).epsilon(delta)
        assert GaussianDP(noise_multiplier=2.0).epsilon(delta) * 0.9999 <= loss.epsilon(delta) <= by_rho
    assert loss.rho == 0.125
    if sigma >= 1e4:
        assert loss.epsilon(1e-6) <= GaussianDP(noise_multiplier=2.0).epsilon(1e-6) * 1.0001


def test_it_composes():
    one = DiscreteGaussianDP(sigma=40.0, sensitivity=2)
    together = compose([one, GaussianDP(noise_multiplier=10.0)], delta=1e-6)
    assert one.epsilon(1e-6) < together.epsilon <= ZeroConcentratedDP(rho=one.rho + 0.005).epsilon(1e-6) * (1 + 1e-9)
    assert compose([one], delta=1e-6).epsilon == one.epsilon(1e-6) < ZeroConcentratedDP(rho=one.rho).epsilon(1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sigma": 1.0, "sensitivity": 0.5}, ValueError, "sensitivity must be >= 1 for whole numbers, got 0.5"),
        ({"sigma": 1.0, "coordinates": 0}, ValueError, "coordinates must be >= 1, got 0"),
        ({"sigma": 1.0, "coordinates": 1.5}, TypeError, "coordinates must be a whole number, got float"),
        ({"sigma": 1e-200}, ValueError, "sigma must be large enough for a finite rho, got 1e-200"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        DiscreteGaussianDP(**arguments)


def test_vectors_of_whole_numbers_compose_by_the_gaussian():
    """Nearly as Gaussian noise where sigma^2 is far above the numbers, and never below it; rho alone costs several per cent more."""
    one, other = (DiscreteGaussianDP(sigma=sigma, sensitivity=sigma / 8, coordinates=384) for sigma in (2e3, 1e4))
    together = compose([(one, 20), (other, 30)], delta=1e-6)
    continuous = compose([(GaussianDP(noise_multiplier=8.0), 50)], delta=1e-6).epsilon
    assert together.theorem == "gaussian" and continuous <= together.epsilon <= continuous * 1.002
    assert ZeroConcentratedDP(rho=50 * one.rho).epsilon(1e-6) > 1.04 * together.epsilon
    assert continuous <= compose([(one, 20), (other, 30), (PureDP(epsilon=1e-6), 1)], delta=1e-6).epsilon <= continuous * 1.002
    assert compose([(one, 20), (other, 30)], epsilon=together.epsilon).delta == pytest.approx(1e-6, rel=1e-2)


def test_the_bound_by_the_gaussian_holds_for_compositions(monkeypatch):
    """Numbers whose law is summed otherwise: the way of vectors is never below it, for several sigmas together."""
    settings = ((6.0, 2), (9.0, 5), (30.0, 7))
    releases = [(DiscreteGaussianDP(sigma=sigma, sensitivity=sensitivity), 4) for sigma, sensitivity in settings]
    exact = [compose(releases, delta=delta).epsilon for delta in (1e-2, 1e-4, 1e-7)]
    monkeypatch.setattr(discrete, "LARGEST_SUMMED", 0.0)
    for delta, least in zip((1e-2, 1e-4, 1e-7), exact):
        bound = next(one for one in compose(releases, delta=delta).candidates if one.theorem == "gaussian")
        assert least * (1 - 1e-6) <= bound.epsilon <= 1.5 * least + 1


def test_curves_of_one_number_are_exact_for_both_signs():
    for sigma, distance in ((0.4, 1), (3.0, 2), (40.0, 7)):
        epsilons = np.linspace(-3.0, 3.0, 25)
        found = discrete.discrete_gaussian_curve(sigma, distance, epsilons)
        for epsilon, delta in zip(epsilons.tolist(), found.tolist()):
            exact = float(exact_delta(epsilon, sigma, distance))
            assert exact <= delta <= exact * (1 + 1e-9) + 1e-12
