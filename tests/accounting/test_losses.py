"""One release in every currency: against integrals and enumerations that share no code with the library."""

import itertools
import math
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushvec as hv
from accounting import profiles
from hushvec.accounting import (
    ApproximateDP,
    BoundedRangeDP,
    DiscreteGaussianDP,
    GaussianDP,
    LaplaceDP,
    PoissonSampledGaussianDP,
    PoissonSampledLaplaceDP,
    PrivacyLoss,
    PureDP,
    Shuffled,
    ZeroConcentratedDP,
)
from hushvec.accounting import poisson as extra
from hushvec.accounting.losses import LOSSES

EPSILONS = [1e-6, 0.01, 0.3, 1.0, 4.0, 12.0, 40.0]
ORDERS = [1.01, 1.5, 2.0, 3.0, 8.0, 33.3]

HAS_DP_ACCOUNTING = extra.has_dp_accounting()

ALL = [
    PureDP(epsilon=1.0),
    PureDP(epsilon=1.0, total_variation=0.02),
    ApproximateDP(epsilon=1.0, delta=1e-4),
    BoundedRangeDP(epsilon=1.0),
    ZeroConcentratedDP(rho=0.1),
    DiscreteGaussianDP(sigma=8.0, sensitivity=2),
    DiscreteGaussianDP(sigma=50.0, sensitivity=20.5, coordinates=32),
    GaussianDP(noise_multiplier=2.0),
    LaplaceDP(noise_multiplier=1.5),
    PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.1),
    PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.1, adjacency="replace-one"),
    PoissonSampledLaplaceDP(noise_multiplier=1.0, sampling_probability=0.1),
    Shuffled(epsilon=4.0, n=1_000),
]


def name_of(loss):
    return f"{type(loss).__name__}-{loss.adjacency}"


def randomized_response(t):
    """The two laws of the worst t-DP mechanism."""
    truth = math.exp(t) / (1 + math.exp(t))
    return (truth, 1 - truth), (1 - truth, truth)


@pytest.mark.parametrize("t", EPSILONS[1:-1])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_pure_is_randomized_response(t, share):
    p, q = randomized_response(t)
    exact = profiles.two_point_delta(p, q, share * t)
    assert exact * (1 - 1e-12) <= PureDP(epsilon=t).delta(share * t) <= exact * (1 + 1e-10)


@pytest.mark.parametrize("t", EPSILONS[1:-1])
@pytest.mark.parametrize("order", ORDERS)
def test_pure_renyi_is_that_of_randomized_response(t, order):
    p, q = randomized_response(t)
    exact = math.log(sum(a**order * b ** (1 - order) for a, b in zip(p, q))) / (order - 1)
    assert PureDP(epsilon=t).rdp(order) == pytest.approx(exact, rel=1e-8)
    assert PureDP(epsilon=t).rdp(order) <= t


@pytest.mark.parametrize("t", EPSILONS)
def test_pure_renyi_keeps_its_digits_for_small_epsilon(t):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for order in ORDERS:
            a, e = mpmath.mpf(order), mpmath.mpf(t)
            exact = float(mpmath.log(mpmath.cosh((a - 0.5) * e) / mpmath.cosh(e / 2)) / (a - 1))
            assert exact <= PureDP(epsilon=t).rdp(order) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("t", EPSILONS)
def test_rho_of_pure_bounds_every_order_and_is_below_half_the_square(t):
    loss = PureDP(epsilon=t)
    orders = 1 + np.geomspace(1e-6, 1e6, 400)
    assert np.all(loss.rdp_curve(orders) <= loss.rho * orders * (1 + 1e-12))
    assert loss.rho <= t * t / 2 * (1 + 1e-12)


def among(k, t):
    """Randomized response among k labels: two answers that tell, and one for all that do not."""
    other = 1 / (math.exp(t) + k - 1)
    truth = other * math.exp(t)
    return (truth, other, (k - 2) * other), (other, truth, (k - 2) * other)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 10**6), st.floats(1e-3, 30.0), st.floats(0.0, 0.99), st.floats(1.001, 60.0))
def test_pure_with_a_total_variation_is_randomized_response_among_many(k, t, share, order):
    (p, q), loss = among(k, t), PureDP(epsilon=t, total_variation=math.expm1(t) / (math.exp(t) + k - 1))
    exact = (p[0] - math.exp(share * t) * q[0])
    assert exact * (1 - 1e-9) <= loss.delta(share * t) <= exact * (1 + 1e-9) + 1e-18
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        e, a = mpmath.exp(mpmath.mpf(t)), mpmath.mpf(order)
        v, grown = (e - 1) / (e + k - 1), mpmath.mpf(t)
        moment = v * mpmath.expm1((a - 1) * grown) * -mpmath.expm1(-a * grown) / -mpmath.expm1(-grown)
        renyi = mpmath.log1p(moment) / (a - 1)
        assert renyi * (1 - mpmath.mpf(10) ** -9) <= loss.rdp(order) <= renyi * (1 + mpmath.mpf(10) ** -6) + mpmath.mpf(10) ** -10
        assert renyi <= loss.rho * a * (1 + mpmath.mpf(10) ** -12)


@pytest.mark.parametrize("t", [1e-4, 0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("k", [3, 6, 8, 77, 10**6])
def test_rho_of_a_total_variation_is_the_largest_quotient(k, t):
    loss = PureDP(epsilon=t, total_variation=math.expm1(t) / (math.exp(t) + k - 1))
    orders = 1 + np.concatenate([[1e-5], np.geomspace(1e-3, 250, 40_000) / t])
    largest = (loss.rdp_curve(orders) / orders).max()
    assert largest * (1 - 1e-9) <= loss.rho <= largest * (1 + 1e-5)
    assert loss.rho <= PureDP(epsilon=t).rho


def test_a_total_variation_is_at_most_what_epsilon_allows():
    assert PureDP(epsilon=1.0, total_variation=0.9) == PureDP(epsilon=1.0)
    assert PureDP(epsilon=1.0, total_variation=0.1) != PureDP(epsilon=1.0)


@pytest.mark.parametrize("t", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 3.0])
def test_bounded_range_is_the_worst_two_point_law(t, epsilon):
    """Losses lie in [s - t, s]; two outcomes are worst, and of all s the best one for the attacker counts."""
    exact = 0.0
    for s in np.linspace(0, t, 4001):
        p = (1 - math.exp(s - t)) / (1 - math.exp(-t))
        exact = max(exact, profiles.two_point_delta((p, 1 - p), (p * math.exp(-s), (1 - p) * math.exp(t - s)), epsilon))
    found = BoundedRangeDP(epsilon=t).delta(epsilon)
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-5) + 1e-15
    assert found <= PureDP(epsilon=t).delta(epsilon)


@pytest.mark.parametrize("t", [0.2, 1.0, 3.0])
def test_an_exponential_mechanism_stays_within_its_bounded_range(t):
    """Scores of 12 candidates move by at most 1 either way: probabilities e^(t score/2) against the moved ones."""
    random = np.random.default_rng(7)
    loss = BoundedRangeDP(epsilon=t)
    worst = 0.0
    for _ in range(400):
        scores = random.uniform(0, 5, 12)
        moved = scores + random.choice([-1.0, 1.0], 12)
        p, q = (np.exp(t * one / 2) / np.exp(t * one / 2).sum() for one in (scores, moved))
        for order in (1.1, 2.0, 10.0):
            assert math.log(np.sum(p**order * q ** (1 - order))) / (order - 1) <= loss.rdp(order) * (1 + 1e-9)
        for epsilon in (0.0, t / 4, t / 2):
            assert profiles.two_point_delta(p, q, epsilon) <= loss.delta(epsilon)
        worst = max(worst, profiles.two_point_delta(p, q, 0.0))
    assert worst > 0.8 * loss.delta(0.0)   # the test comes near the bound


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_laplace_profile_is_the_integral(multiplier, share):
    epsilon = share / multiplier
    upper, lower = profiles.laplace(0.0, multiplier), profiles.laplace(1.0, multiplier)
    crossing = (1 - epsilon * multiplier) / 2
    exact = profiles.hockey_stick(upper, lower, epsilon, [-60 * multiplier, 0, crossing, 1, 1 + 60 * multiplier])
    assert LaplaceDP(noise_multiplier=multiplier).delta(epsilon) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("order", [1.2, 2.0, 5.0])
def test_laplace_renyi_is_the_integral(multiplier, order):
    points = [-80 * multiplier, 0, 1, 1 + 80 * multiplier]
    exact = profiles.renyi(profiles.laplace(0.0, multiplier), profiles.laplace(1.0, multiplier), order, points)
    assert LaplaceDP(noise_multiplier=multiplier).rdp(order) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("order", [1.5, 2.0, 6.0])
def test_gaussian_renyi_is_the_integral(multiplier, order):
    reach = 12 * multiplier + order
    laws = profiles.normal(1.0, multiplier), profiles.normal(0.0, multiplier)
    exact = profiles.renyi(*laws, order, [-reach, 0, order, order + reach])
    assert GaussianDP(noise_multiplier=multiplier).rdp(order) == pytest.approx(exact, rel=1e-8)


def test_gaussian_is_the_calibration_itself():
    loss = GaussianDP(noise_multiplier=0.6)
    assert loss.epsilon(1e-5) == hv.gaussian_epsilon(1e-5, 0.6)
    assert loss.delta(8.0) == hv.gaussian_delta(8.0, 0.6)
    assert loss.rho == pytest.approx(1 / (2 * 0.36), rel=1e-14)


def test_laplace_epsilon_is_rounded_up():
    for multiplier in (0.1, 3.0, 7.0, 0.25):
        epsilon = LaplaceDP(noise_multiplier=multiplier).epsilon(0.0)
        assert epsilon * multiplier >= 1 or math.nextafter(epsilon, 0) * multiplier < 1
    assert LaplaceDP(noise_multiplier=0.25).epsilon(0.0) == 4.0


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_epsilon_and_delta_are_inverse_and_on_the_safe_side(loss):
    for delta in (0.2, 1e-2, 2e-4):
        epsilon = loss.epsilon(delta)
        assert loss.delta(epsilon) <= delta
        if epsilon > 1e-3:
            assert loss.delta(epsilon * (1 - 1e-6)) >= delta * (1 - 1e-5)


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_delta_falls_with_epsilon(loss):
    deltas = [loss.delta(epsilon) for epsilon in np.linspace(0, 6, 60)]
    assert all(above >= below for above, below in itertools.pairwise(deltas))
    assert 0 <= deltas[-1] and deltas[0] <= 1


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_renyi_grows_with_the_order_and_stays_below_rho(loss):
    if isinstance(loss, ApproximateDP):
        assert loss.rdp(2.0) == loss.rho == math.inf
        return
    if loss.name == "poisson-gaussian":
        pytest.importorskip("dp_accounting")
    orders = np.array([1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0])
    curve = loss.rdp_curve(orders)
    assert np.all(curve <= loss.rho * orders * (1 + 1e-12))
    if loss.name == "poisson-gaussian" and loss.adjacency == "replace-one":
        return   # its bound is loose near order 1
    assert np.all(np.diff(curve) >= -1e-12 * curve[:-1])


GROWING = [
    (PureDP, "epsilon", {}, 1),
    (BoundedRangeDP, "epsilon", {}, 1),
    (ZeroConcentratedDP, "rho", {}, 1),
    (GaussianDP, "noise_multiplier", {}, -1),
    (LaplaceDP, "noise_multiplier", {}, -1),
    (Shuffled, "epsilon", {"n": 200}, 1),
    (PoissonSampledGaussianDP, "noise_multiplier", {"sampling_probability": 0.2}, -1),
    (PoissonSampledGaussianDP, "sampling_probability", {"noise_multiplier": 0.7}, 1),
    (PoissonSampledGaussianDP, "noise_multiplier", {"sampling_probability": 0.2, "adjacency": "replace-one"}, -1),
    (PoissonSampledGaussianDP, "sampling_probability", {"noise_multiplier": 0.7, "adjacency": "replace-one"}, 1),
]


@pytest.mark.parametrize("kind, name, rest, direction", GROWING, ids=lambda value: getattr(value, "__name__", str(value)))
@settings(max_examples=20, deadline=None)
@given(low=st.floats(0.05, 0.95), factor=st.floats(1.001, 1.05), epsilon=st.floats(0, 3))
def test_loss_is_monotone_in_its_parameter(kind, name, rest, direction, low, factor, epsilon):
    less, more = (kind(**{name: value}, **rest) for value in (low, min(low * factor, 1.0)))
    if direction < 0:
        less, more = more, less
    slack = 1 + 1e-11
    assert less.delta(epsilon) <= more.delta(epsilon) * slack
    assert less.epsilon(1e-4) <= more.epsilon(1e-4) * slack + 1e-12
    assert less.rho <= more.rho * slack
    if kind is not PoissonSampledGaussianDP or HAS_DP_ACCOUNTING:
        assert less.rdp(2.0) <= more.rdp(2.0) * slack


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_losses_are_values(loss):
    again = type(loss)(**loss.arguments)
    assert again == loss and hash(again) == hash(loss) and repr(again) == repr(loss)
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert eval(repr(loss), {type(loss).__name__: type(loss)}) == loss
    with pytest.raises(AttributeError):
        loss.adjacency = "add-remove"


def test_every_loss_has_a_name_of_its_own():
    assert set(LOSSES) == {loss.name for loss in ALL} and all(issubclass(kind, PrivacyLoss) for kind in LOSSES.values())


@pytest.mark.parametrize("kind", LOSSES.values(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "value, error",
    [
        (0.0, ValueError),
        (-1.0, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (True, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_bad_parameters_are_refused(kind, value, error):
    good = {"epsilon": 1.0, "delta": 1e-5, "rho": 0.1, "noise_multiplier": 1.0, "sampling_probability": 0.1, "n": 9}
    good |= {"sigma": 2.0, "sensitivity": 1.0, "coordinates": 1, "total_variation": 0.1}
    names = next(loss for loss in ALL if type(loss) is kind).arguments.keys() - {"adjacency"}
    for name in names - {"n", "coordinates"}:   # whole numbers, which test_shuffling.py and test_discrete_gaussian.py look at
        if (name, value) in (("delta", 0.0), ("total_variation", None)):
            continue
        arguments = {one: good[one] for one in names} | {name: value}
        with pytest.raises(error, match=f"{name} must be"):
            kind(**arguments)


def test_bad_adjacency_and_sampling_probability_are_refused():
    with pytest.raises(ValueError, match="adjacency must be one of"):
        PureDP(epsilon=1.0, adjacency="replace")
    with pytest.raises(ValueError, match="sampling_probability must be > 0 and <= 1, got 1\\.5"):
        PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=1.5)
    with pytest.raises(ValueError, match="delta must be"):
        ApproximateDP(epsilon=1.0, delta=1.0)


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_bad_questions_are_refused(loss):
    for value, error in ((math.nan, ValueError), (-0.1, ValueError), (1.0, ValueError), (True, TypeError), ("a", TypeError)):
        with pytest.raises(error, match="delta must be"):
            loss.epsilon(value)
    for value, error in ((math.nan, ValueError), (-0.1, ValueError), (math.inf, ValueError), (True, TypeError)):
        with pytest.raises(error, match="epsilon must be"):
            loss.delta(value)
    for value in (1.0, 0.5, math.nan):
        with pytest.raises(ValueError, match="order must be"):
            loss.rdp(value)


@pytest.mark.parametrize("loss", [loss for loss in ALL if loss.pure_epsilon == math.inf], ids=name_of)
def test_delta_zero_is_refused_where_no_epsilon_goes_with_it(loss):
    with pytest.raises(ValueError, match=f"delta must be > 0 and < 1 for {type(loss).__name__}, got 0.0"):
        loss.epsilon(0.0)


@pytest.mark.parametrize("epsilon", [0.0, 5.0, 800.0, 1e5])
@pytest.mark.parametrize("pure", [750.0, 2000.0])
def test_enormous_epsilons_do_not_overflow(epsilon, pure):
    for loss in (PureDP(epsilon=pure), BoundedRangeDP(epsilon=pure), LaplaceDP(noise_multiplier=1 / pure)):
        assert 0 <= loss.delta(epsilon) <= 1
        assert loss.rdp(1e6) <= pure * (1 + 1e-12) and loss.rho > 0
    for adjacency in ("add-remove", "replace-one"):
        loss = PoissonSampledGaussianDP(noise_multiplier=1 / pure, sampling_probability=0.5, adjacency=adjacency)
        assert 0 < loss.delta(epsilon) <= 1


@pytest.mark.parametrize("kind, rest", [(LaplaceDP, {}), (PoissonSampledLaplaceDP, {"sampling_probability": 0.5})], ids=str)
def test_the_least_laplace_noise_is_that_with_a_finite_epsilon(kind, rest):
    least = 1 / sys.float_info.max
    while 1 / least == math.inf:
        least = math.nextafter(least, 1)
    assert kind(noise_multiplier=least, **rest).noise_multiplier == least
    below = math.nextafter(least, 0)
    with pytest.raises(ValueError) as error:
        kind(noise_multiplier=below, **rest)
    assert str(error.value) == f"noise_multiplier must be large enough for a finite epsilon, got {below!r}"
