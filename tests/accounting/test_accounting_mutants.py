"""Mistakes that have been made elsewhere, put in on purpose: the check that is meant to notice each of them does.

Every mutant replaces one function. The check passes on the library as it is, and raises AssertionError on the mutant.
"""

import math

import numpy as np
import pytest

import hushvec as hv
from accounting import profiles
from hushvec.accounting import (
    ApproximateDP,
    BoundedRangeDP,
    GaussianDP,
    LaplaceDP,
    PoissonSampledGaussianDP,
    PureDP,
    amplify_by_poisson_sampling,
    closed_forms,
    compose,
    composition,
    losses,
    optimal,
    pld,
    poisson,
    releases,
    theorems,
    tilted,
)


def candidate(composition, theorem):
    return next(one for one in composition.candidates if one.theorem == theorem)


def check_advanced_is_the_published_formula():
    found = candidate(compose([(PureDP(epsilon=0.5), 10)], delta=1e-5), "advanced").epsilon
    exact = 0.5 * math.sqrt(2 * 10 * math.log(1e5)) + 10 * 0.5 * (math.exp(0.5) - 1)
    assert exact <= found <= exact * (1 + 1e-9)


def check_replacing_is_twice_as_far_as_removing():
    """Vectors of norm C with sigma = C, everyone sampled with probability 1/2: against the integral of the two mixtures."""
    base = profiles.normal(0.0, 1.0)
    one, other = (profiles.mixture(0.5, profiles.normal(sign, 1.0), base) for sign in (1.0, -1.0))
    exact = profiles.hockey_stick(one, other, 0.5, [-12.0, -1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 13.0])
    loss = PoissonSampledGaussianDP(noise_multiplier=0.5, sampling_probability=0.5, adjacency="replace-one")
    assert exact * (1 - 1e-4) <= loss.delta(0.5) <= exact * (1 + 1e-4)


def check_replace_one_compositions_agree_with_the_profile():
    """Two steps with everyone sampled are one Gaussian of 1/s^2 twice as large, also through dp-accounting."""
    pytest.importorskip("dp_accounting")
    step = PoissonSampledGaussianDP(noise_multiplier=2.0, sampling_probability=1.0, adjacency="replace-one")
    found = candidate(compose([(step, 2)], delta=1e-5), "pld").epsilon
    exact = hv.gaussian_epsilon(1e-5, 2.0 / math.sqrt(2))
    assert exact <= found <= exact * 1.001


def check_sampling_once_multiplies_by_the_probability_once():
    base = profiles.normal(0.0, 1.0)
    present = profiles.mixture(0.1, profiles.normal(1.0, 1.0), base)
    crossing = math.log(1 + (math.exp(0.2) - 1) / 0.1) + 0.5
    exact = profiles.hockey_stick(present, base, 0.2, [-12.0, 0.0, crossing, 14.0])
    found = PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.1).delta(0.2)
    assert exact * (1 - 1e-6) <= found <= exact * (1 + 1e-6)


def check_amplified_epsilon_is_that_of_the_mixture():
    truth = math.exp(1.0) / (1 + math.exp(1.0))
    ratio = (0.1 * truth + 0.9 * (1 - truth)) / (1 - truth)
    found = amplify_by_poisson_sampling(PureDP(epsilon=1.0, adjacency="add-remove"), 0.1).epsilon(0.0)
    assert found == pytest.approx(math.log(ratio), rel=1e-12)


def check_joint_gaussians_add_their_squares():
    found = compose([GaussianDP(noise_multiplier=2.0)] * 4, delta=1e-5).epsilon
    assert found == pytest.approx(hv.gaussian_epsilon(1e-5, 1.0), rel=1e-12)


def check_failures_are_not_dropped():
    together = compose([(ApproximateDP(epsilon=0.5, delta=1e-6), 4)], epsilon=2.0)
    assert together.delta >= -math.expm1(4 * math.log1p(-1e-6)) * (1 - 1e-12)


def check_optimal_is_the_enumeration():
    p, q = np.ones(1), np.ones(1)
    for epsilon in (0.3, 0.5, 0.8):
        law = np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
        p, q = np.multiply.outer(p, law).ravel(), np.multiply.outer(q, law[::-1]).ravel()
    exact = profiles.two_point_delta(p, q, 0.7)
    together = compose([PureDP(epsilon=0.3), PureDP(epsilon=0.5), PureDP(epsilon=0.8)], epsilon=0.7)
    assert exact * (1 - 1e-12) <= candidate(together, "optimal").delta <= exact * (1 + 1e-9)


def check_the_grid_overstates():
    groups = [(epsilon, math.tanh(epsilon / 2), count) for epsilon, count in ((0.11, 3), (0.17, 2), (0.29, 2))]
    exact = optimal._exact(groups)
    grid = optimal._on_grid(groups, 2**8)
    for epsilon in np.linspace(0.01, 1.1, 100):
        assert grid.delta(epsilon) >= exact.delta(epsilon) * (1 - 1e-9)


def check_zcdp_never_undercuts_the_gaussian():
    for multiplier in (0.5, 2.0, 10.0):
        assert closed_forms.zcdp_epsilon(1 / (2 * multiplier**2), 1e-5) >= hv.gaussian_epsilon(1e-5, multiplier)


def check_bounded_range_covers_the_exponential_mechanism():
    scores, moved = np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])
    p, q = (np.exp(one / 2) / np.exp(one / 2).sum() for one in (scores, moved))
    loss = BoundedRangeDP(epsilon=1.0)
    for order in (1.01, 2.0, 20.0):
        assert math.log(np.sum(p**order * q ** (1 - order))) / (order - 1) <= loss.rho * order
    # and the two-point law that is the worst one
    t = 0.5
    upper = (1 - math.exp(t - 1)) / (1 - math.exp(-1))
    exact = profiles.two_point_delta((upper, 1 - upper), (upper * math.exp(-t), (1 - upper) * math.exp(1 - t)), 0.0)
    assert loss.delta(0.0) >= exact * (1 - 1e-12)


def check_distributions_never_undercut_where_rounding_shows():
    """Sampling with probability 1 is no sampling: 10,000 steps through Fourier transforms against the exact Gaussian."""
    pytest.importorskip("dp_accounting")
    step = PoissonSampledGaussianDP(noise_multiplier=100.0, sampling_probability=1.0)
    for epsilon in (1.0, 6.0, 8.0, 12.0):
        found = candidate(compose([(step, 10_000)], epsilon=epsilon), "pld").delta
        assert found >= hv.gaussian_delta(epsilon, 1.0)


def check_one_laplace_number_is_its_integral():
    exact = profiles.hockey_stick(profiles.laplace(0.0, 1.0), profiles.laplace(1.0, 1.0), 0.4, [-60, 0, 0.3, 1, 61])
    assert LaplaceDP(noise_multiplier=1.0).delta(0.4) == pytest.approx(exact, rel=1e-8)


def wrong_advanced(squares, drift, slack):
    """Without ln(1/delta'): what is left when the slack is dropped."""
    return math.sqrt(2 * squares) + drift


def sqrt_k_only(squares, drift, slack):
    """sqrt(k) epsilon, which no theorem says."""
    return math.sqrt(squares)


def replace_as_remove(noise_multiplier, sampling_probability, epsilon):
    """The noise multiplier of one vector's norm used as if it were that of the replacement."""
    return Original.replace_one_delta(2 * noise_multiplier, sampling_probability, epsilon)


def probability_squared(noise_multiplier, sampling_probability, epsilon):
    return Original.add_remove_delta(noise_multiplier, sampling_probability**2, epsilon)


class Original:
    """The functions as they are, for mutants that call them."""

    replace_one_delta = staticmethod(poisson.replace_one_delta)
    add_remove_delta = staticmethod(poisson.add_remove_delta)
    gaussian_curve = staticmethod(pld._gaussian_curve)
    zcdp_epsilon = staticmethod(closed_forms.zcdp_epsilon)
    split = staticmethod(optimal.split_upwards)
    convolved = staticmethod(tilted.Sum._convolved)
    repeated = staticmethod(optimal._repeated)


def of_one_vector(loss, direction):
    """One vector taken away, where another takes its place: half the distance."""
    deviation, probability, _ = Original.gaussian_curve(loss, direction)
    return deviation, probability, "remove"


def half_of_them(sums, *window):
    return Original.convolved(tilted.Sum([(law, count // 2) for law, count in sums.laws], sums.step), *window)


def rounded_down(values, weights, step):
    """All weight to the lower grid point."""
    return np.floor(values / step).astype(np.int64), weights


def fair_coins(epsilon, variation, count):
    """Randomised response that forgets which answer is the likelier one."""
    values, weights, error = Original.repeated(epsilon, variation, count)
    coins = np.array([math.comb(count, index) / 2**count for index in range(count + 1)])
    return values, coins, error


MUTANTS = [
    ("delta' dropped in advanced composition", theorems, "advanced_epsilon", wrong_advanced, check_advanced_is_the_published_formula),
    ("sqrt(k) epsilon as a theorem", theorems, "advanced_epsilon", sqrt_k_only, check_advanced_is_the_published_formula),
    (
        "add-remove sensitivity used for replace-one",
        poisson,
        "replace_one_delta",
        replace_as_remove,
        check_replacing_is_twice_as_far_as_removing,
    ),
    (
        "sensitivity of one vector in replace-one compositions",
        pld,
        "_gaussian_curve",
        of_one_vector,
        check_replace_one_compositions_agree_with_the_profile,
    ),
    (
        "sampling probability squared",
        poisson,
        "add_remove_delta",
        probability_squared,
        check_sampling_once_multiplies_by_the_probability_once,
    ),
    (
        "sampling probability squared in amplification",
        composition,
        "amplified_epsilon",
        lambda epsilon, q: math.log1p(q * q * math.expm1(epsilon)),
        check_amplified_epsilon_is_that_of_the_mixture,
    ),
    (
        "epsilon times q as amplification",
        composition,
        "amplified_epsilon",
        lambda epsilon, q: q * epsilon,
        check_amplified_epsilon_is_that_of_the_mixture,
    ),
    (
        "noise multipliers averaged",
        theorems,
        "joint_multiplier",
        lambda core: core.counts[0][0].noise_multiplier,
        check_joint_gaussians_add_their_squares,
    ),
    ("deltas of releases dropped", theorems, "with_failure", lambda delta, failure: delta, check_failures_are_not_dropped),
    ("the likelier answer forgotten", optimal, "_repeated", fair_coins, check_optimal_is_the_enumeration),
    ("losses rounded down", optimal, "split_upwards", rounded_down, check_the_grid_overstates),
    (
        "a larger delta in the conversion",
        closed_forms,
        "zcdp_epsilon",
        lambda rho, delta: Original.zcdp_epsilon(rho, 20 * delta),
        check_zcdp_never_undercuts_the_gaussian,
    ),
    (
        "bounded range as half of pure",
        losses.BoundedRangeDP,
        "_delta",
        lambda loss, epsilon: PureDP(epsilon=loss.epsilon_bound / 2).delta(epsilon) / 2,
        check_bounded_range_covers_the_exponential_mechanism,
    ),
    (
        "half of the releases in the transform",
        tilted.Sum,
        "_convolved",
        half_of_them,
        check_distributions_never_undercut_where_rounding_shows,
    ),
    (
        "Laplace scale halved",
        losses.LaplaceDP,
        "_delta",
        lambda loss, epsilon: -math.expm1(epsilon - 1 / loss.noise_multiplier),
        check_one_laplace_number_is_its_integral,
    ),
]


@pytest.fixture
def forget():
    """Compositions that are kept from one call to the next."""
    kept = (optimal.compose_losses, pld._composed)
    for cache in kept:
        cache.cache_clear()
    yield
    for cache in kept:
        cache.cache_clear()


@pytest.mark.parametrize("name, where, what, mutant, check", MUTANTS, ids=[mutant[0].replace(" ", "_") for mutant in MUTANTS])
def test_mutant_is_caught(name, where, what, mutant, check, monkeypatch, forget):
    check()
    for cache in (optimal.compose_losses, pld._composed):
        cache.cache_clear()
    monkeypatch.setattr(where, what, mutant)
    with pytest.raises(AssertionError):
        check()


def test_releases_of_a_composition_are_not_lost(monkeypatch):
    """A count that is read and not used."""
    twice = compose([(GaussianDP(noise_multiplier=3.0), 2)], delta=1e-5).epsilon
    monkeypatch.setattr(releases, "gaussian_part", lambda core: 1 / 9)
    monkeypatch.setattr(theorems, "gaussian_part", lambda core: 1 / 9)
    assert candidate(compose([(GaussianDP(noise_multiplier=3.0), 2)], delta=1e-5), "gaussian").epsilon < 0.8 * twice
