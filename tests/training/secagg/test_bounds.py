"""The proved bounds against exact laws: sums of discrete Gaussians, rounding and wrapping, all enumerated."""

import itertools
import math

import numpy as np
import pytest

from hushvec.accounting.closed_forms import zcdp_epsilon
from hushvec.training.secagg import bounds

ORDERS = (1.0001, 1.5, 2.0, 4.0)
# sigma, shares, and the coordinates of a shift: noise far below a whole number, about one, and well above it.
CASES = [
    (0.5, 2, (1,)), (0.5, 10, (1,)), (0.5, 40, (1, 1)), (0.6, 3, (2,)), (0.7, 5, (1,)), (1.0, 2, (1, 1)), (1.0, 10, (2, -1)),
    (2.0, 5, (3,)), (3.0, 10, (5,)), (1.5, 4, (1, 2)), (10.0, 4, (10,)), (4.0, 1, (3,)),
]  # fmt: skip


def law(sigma, shares):
    """Probabilities of the sum of so many independent discrete Gaussians around 0; what is left out is below 1e-80."""
    reach = math.ceil(20 * sigma) + 2
    numbers = np.arange(-reach, reach + 1)
    one = np.exp(-(numbers**2) / (2 * sigma**2))
    one /= one.sum()
    together = one
    for _ in range(shares - 1):
        together = np.convolve(together, one)
    return together


def pair(sigma, shares, shifts):
    """Probabilities of all outcomes of a vector of such sums, shifted and not."""
    moved, still = np.ones(1), np.ones(1)
    for shift in shifts:
        sums = law(sigma, shares)
        moved, still = (
            np.outer(known, np.pad(sums, pad)).ravel()
            for known, pad in ((moved, (max(shift, 0), max(-shift, 0))), (still, (max(-shift, 0), max(shift, 0))))
        )
    return moved, still


def divergence(moved, still, order):
    both = (moved > 1e-280) & (still > 1e-280)
    loss = np.log(moved[both]) - np.log(still[both])
    return math.log(np.exp(np.log(moved[both]) + (order - 1) * loss).sum()) / (order - 1)


def exact_delta(moved, still, epsilon):
    return np.maximum(moved - math.exp(epsilon) * still, 0).sum()


def terms(sigma, shares, shifts):
    return sum(shift**2 for shift in shifts), sigma, shares, len(shifts)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_divergences_are_at_most_the_bound(case):
    moved, still = pair(*case)
    rho = bounds.rho(*terms(*case))
    for order in ORDERS:
        exact = divergence(moved, still, order)
        assert exact <= rho * order * (1 + 1e-9)
        if case[0] >= 1:
            assert rho * order <= 1.004 * exact


def test_divergences_exceed_the_bound_without_tau(monkeypatch):
    """The sum of discrete Gaussians is no discrete Gaussian."""
    monkeypatch.setattr(bounds, "tau", lambda sigma, shares: 0.0)
    case = (0.5, 10, (1,))
    assert divergence(*pair(*case), 2.0) > 1.1 * bounds.rho(*terms(*case)) * 2.0
    case = (0.5, 40, (1, 1))
    assert exact_delta(*pair(*case), bounds.gaussian_route(1e-2, *terms(*case), 1)) > 1.04e-2


@pytest.mark.parametrize("delta", [1e-5, 1e-2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_epsilon_holds_for_the_exact_law(case, delta):
    moved, still = pair(*case)
    square, sigma, shares, dimension = terms(*case)
    epsilon = bounds.epsilon(delta, square, sigma, shares, dimension, 1)
    assert exact_delta(moved, still, epsilon) <= delta
    if shares * sigma**2 >= 90:   # a tenth of a sigma's square is spent on smoothing before
        assert exact_delta(moved, still, 0.985 * epsilon) > delta
    route = bounds.gaussian_route(delta, square, sigma, shares, dimension, 1)
    assert route == math.inf or exact_delta(moved, still, route) <= delta


def test_rounds_add_up():
    """Two rounds with one vector are a round with a vector that repeats it."""
    moved, still = pair(2.0, 5, (1, 1))
    epsilon = bounds.epsilon(1e-3, 1, 2.0, 5, 1, 2)
    assert exact_delta(moved, still, epsilon) <= 1e-3 < exact_delta(moved, still, 0.9 * epsilon)
    assert bounds.epsilon(1e-3, 2, 2.0, 5, 2, 1) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(("sigma", "shares"), [(0.5, 2), (0.8, 100), (1.5, 5000), (0.6, 9000), (30.0, 3)])
def test_tau_is_above_the_exact_one_and_near(sigma, shares):
    exact = 10 * math.fsum(math.exp(-2 * (math.pi * sigma) ** 2 * k / (k + 1)) for k in range(1, shares))
    assert exact < bounds.tau(sigma, shares) <= max(1.001 * exact, 1e-290)
    assert bounds.tau(sigma, 1) == 0.0


def test_the_slower_bound_is_the_larger_where_it_is_left_out():
    for sigma, shares in ((40.0, 1), (4.0, 100), (3.0, 1000)):
        route = bounds.gaussian_route(1e-5, 100, sigma, shares, 4096, 1)
        assert route == bounds.epsilon(1e-5, 100, sigma, shares, 4096, 1)
        assert route < zcdp_epsilon(bounds.rho(100, sigma, shares, 4096), 1e-5)


@pytest.mark.parametrize("vector", [(0.5,) * 4, (2.3, -0.2, 0.0, 1.0), (5.5, 0.0, 0.0, 0.0), (0.01, 0.01, -0.01, 7.99)])
@pytest.mark.parametrize("clients", [1, 30])
def test_rounding_stays_within_its_bound_with_the_promised_probability(vector, clients):
    norm = math.dist(vector, (0,) * 4)
    bound = bounds.square_after_rounding(norm, 4, clients)
    within = 0.0
    for ups in itertools.product((0, 1), repeat=4):
        whole = [math.floor(x) + up for x, up in zip(vector, ups)]
        chance = math.prod(x - math.floor(x) if up else 1 - x + math.floor(x) for x, up in zip(vector, ups))
        within += chance * (sum(one**2 for one in whole) <= bound)
    assert within >= 1 - 1 / (clients + 1)
    assert bound <= (norm + 2) ** 2 + 1e-9


@pytest.mark.parametrize(("bits", "sigma"), [(6, 2.0), (7, 6.0), (8, 15.0)])
def test_sums_wrap_at_most_as_often_as_stated(bits, sigma):
    """Three clients with the same vector (5, 0): the rotation has signs alone, and a coordinate of the sum is +-15 / sqrt(2)."""
    sums, clients, margin = law(sigma, 3), 3, 2 ** (bits - 1)
    values = np.arange(len(sums)) - len(sums) // 2
    # rounding moves each of the three by less than 1: the sum of the vectors is within 3 of 10.6
    outside = sums[values + 15 / math.sqrt(2) - 3 >= margin].sum()
    stated = bounds.ModularSum(bits, 5.0, 15.0, sigma, clients, 2).wrap_probability
    assert 0 < outside < stated < 1
    assert bounds.ModularSum(bits - 1, 5.0, 15.0, sigma, clients, 2).wrap_probability > stated
    assert bounds.ModularSum(3, 1e13, 3e13, sigma, clients, 2).wrap_probability == 1.0


@pytest.mark.parametrize(("bits", "sigma"), [(6, 3.0), (6, 4.0), (7, 9.0), (8, 17.0)])
@pytest.mark.parametrize("place", [0.0, 15 / math.sqrt(2)])
def test_wrapping_adds_at_most_the_stated_error(bits, sigma, place):
    """The exact law of three shares around a coordinate of a sum of length 15: what modulo 2^bits adds to its mean square."""
    noise = law(sigma, 3)
    values = np.arange(len(noise)) - len(noise) // 2
    half, center = 2 ** (bits - 1), round(place)
    wrapped = (values + center + half) % (2 * half) - half - center
    added = (noise * (wrapped**2 - values**2)).sum()
    multiples = ((values - wrapped) ** 2 * noise).sum()
    stated = bounds.ModularSum(bits, 5.0, 15.0, sigma, 3, 2).wrap_error
    assert max(added, 0) <= multiples <= stated < math.inf
    assert bounds.ModularSum(bits, 5.0, 0.0, 0.7 * sigma, 3, 2).wrap_error < multiples   # of less noise, and no vectors
    assert bounds.ModularSum(3, 1e13, 3e13, sigma, 3, 2).wrap_error == math.inf
