"""Poisson sampling: single profiles by integration, compositions against dp-accounting and prv-accountant, both adjacencies."""

import math
import sys

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
    PoissonSampledLaplaceDP,
    PureDP,
    ZeroConcentratedDP,
    amplify_by_poisson_sampling,
    compose,
    poisson,
)
from hushvec.accounting.releases import coarsened, collect

CASES = [(0.5, 0.1), (1.0, 0.01), (1.0, 0.5), (2.0, 0.3), (0.4, 0.9)]
EPSILONS = [0.0, 0.05, 0.5, 2.0, 5.0]


def with_crossing(upper, lower, epsilon, low, high):
    """The two ends and the point between where upper = e^epsilon lower, so that each piece is smooth."""
    difference = lambda x: math.log(upper(x)) - math.log(lower(x)) - epsilon
    if difference(low) * difference(high) > 0:
        return [low, 0.0, high]
    left, right = low, high
    for _ in range(200):
        middle = (left + right) / 2
        left, right = (middle, right) if difference(middle) * difference(high) < 0 else (left, middle)
    return sorted([low, left, high])


@pytest.mark.parametrize("multiplier, probability", CASES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_add_remove_profile_is_the_larger_of_both_directions(multiplier, probability, epsilon):
    base = profiles.normal(0.0, multiplier)
    present = profiles.mixture(probability, profiles.normal(1.0, multiplier), base)
    ends = (-12 * multiplier, 1 + 12 * multiplier)
    removed = profiles.hockey_stick(present, base, epsilon, with_crossing(present, base, epsilon, *ends))
    added = profiles.hockey_stick(base, present, epsilon, with_crossing(base, present, epsilon, *ends))
    loss = PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=probability)
    assert loss.delta(epsilon) == pytest.approx(max(removed, added), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("multiplier, probability", CASES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_replace_one_profile_is_the_integral(multiplier, probability, epsilon):
    deviation = 2 * multiplier   # in units of one vector's norm
    base = profiles.normal(0.0, deviation)
    one = profiles.mixture(probability, profiles.normal(1.0, deviation), base)
    other = profiles.mixture(probability, profiles.normal(-1.0, deviation), base)
    exact = profiles.hockey_stick(one, other, epsilon, with_crossing(one, other, epsilon, -1 - 12 * deviation, 1 + 12 * deviation))
    loss = PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=probability, adjacency="replace-one")
    assert loss.delta(epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("multiplier", [0.1, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("probability", [1e-6, 0.01, 0.7, 0.999])
def test_profiles_are_never_below_fifty_digits(multiplier, probability):
    """Also deep in the tails, where the three terms cancel: the best half line, searched for in 50 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        q, s = mpmath.mpf(probability), mpmath.mpf(multiplier)
        tail = lambda t: mpmath.erfc(t / mpmath.sqrt(2)) / 2
        for epsilon in (0.0, 1e-3, 0.3, 2.0, 20.0, 90.0):
            e = mpmath.exp(mpmath.mpf(epsilon))
            unsampled = mpmath.log(1 + (e - 1) / q)
            exact = q * (tail(unsampled * s - 1 / (2 * s)) - mpmath.exp(unsampled) * tail(unsampled * s + 1 / (2 * s)))
            found = poisson.add_remove_delta(multiplier, probability, epsilon)
            assert exact <= found <= exact * (1 + mpmath.mpf(1e-9)) + mpmath.mpf(1e-300)
            z = 2 * s
            k, r = q * mpmath.exp(-1 / (2 * z * z)), 1 - q
            root = (r * (e - 1) + mpmath.sqrt((r * (e - 1)) ** 2 + 4 * k * k * e)) / (2 * k)
            c = z * z * mpmath.log(root)
            exact = q * tail((c - 1) / z) - q * e * tail((c + 1) / z) - r * (e - 1) * tail(c / z)
            found = poisson.replace_one_delta(multiplier, probability, epsilon)
            assert exact <= found
            assert found <= exact * (1 + mpmath.mpf(1e-6)) + mpmath.mpf(1e-17)


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_opposite_vectors_are_the_worst_replacement(probability, epsilon):
    """Two vectors in the plane, at any angle and with any norms up to 1: docs/proofs/subsampling.md."""
    deviation = 0.8
    loss = PoissonSampledGaussianDP(noise_multiplier=deviation / 2, sampling_probability=probability, adjacency="replace-one")
    bound = loss.delta(epsilon)
    seen = []
    for angle in (math.pi, 2.5, 1.6, 0.5):
        for first, second in ((1.0, 1.0), (1.0, 0.5), (0.5, 1.0)):
            pair = (first, 0.0), (second * math.cos(angle), second * math.sin(angle))
            seen.append(profiles.plane_hockey_stick(probability, *pair, deviation, epsilon, cells=900))
    assert max(seen) <= bound * (1 + 1e-4)
    assert seen[0] == pytest.approx(bound, rel=1e-4, abs=1e-7)   # the quadrature errs by that much


@pytest.mark.parametrize("multiplier, probability", CASES)
@pytest.mark.parametrize("order", [1.3, 2.0, 3.5, 8.0])
def test_renyi_curves_bound_the_integrals(multiplier, probability, order):
    pytest.importorskip("dp_accounting")
    base = profiles.normal(0.0, multiplier)
    present = profiles.mixture(probability, profiles.normal(1.0, multiplier), base)
    reach = order + 14 * multiplier
    exact = max(
        profiles.renyi(present, base, order, [-14 * multiplier, 0, 1, order, reach]),
        profiles.renyi(base, present, order, [-reach, -order, 0, 1, 14 * multiplier]),
    )
    loss = PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=probability)
    found = loss.rdp(order)
    assert exact * (1 - 1e-7) <= found
    if order == int(order):
        assert found == pytest.approx(exact, rel=1e-6)
    deviation = 2 * multiplier
    base = profiles.normal(0.0, deviation)
    one, other = (profiles.mixture(probability, profiles.normal(sign, deviation), base) for sign in (1.0, -1.0))
    reach = 2 * order + 14 * deviation
    exact = profiles.renyi(one, other, order, [-reach, -1, 0, 1, 2 * order, reach])
    replace = PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=probability, adjacency="replace-one")
    assert exact * (1 - 1e-7) <= replace.rdp(order) <= GaussianDP(noise_multiplier=multiplier).rdp(order) * (1 + 1e-12)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_sampling_everyone_is_no_sampling(adjacency):
    everyone = PoissonSampledGaussianDP(noise_multiplier=0.7, sampling_probability=1.0, adjacency=adjacency)
    plain = GaussianDP(noise_multiplier=0.7, adjacency=adjacency)
    for epsilon in (0.0, 1.0, 7.0):
        assert everyone.delta(epsilon) == pytest.approx(plain.delta(epsilon), rel=1e-12)
    assert everyone.epsilon(1e-5) == pytest.approx(plain.epsilon(1e-5), rel=1e-12)


PRV = profiles.vectors("composition_prv.csv")


@pytest.mark.parametrize("row", PRV, ids=lambda row: f"{row['steps']}x{row['sampling_probability']}")
def test_compositions_lie_within_the_bounds_of_prv_accountant(row):
    """prv-accountant encloses epsilon of the worse direction between two proved bounds, 0.01 away from its estimate."""
    pytest.importorskip("dp_accounting")
    step = PoissonSampledGaussianDP(
        noise_multiplier=float(row["noise_multiplier"]), sampling_probability=float(row["sampling_probability"])
    )
    found = compose([(step, int(row["steps"]))], delta=float(row["delta"]))
    assert found.theorem == "pld"
    assert float(row["epsilon_lower"]) <= found.epsilon <= float(row["epsilon_upper"])


@pytest.mark.parametrize(
    "adjacency, probability, multiplier, steps",
    [
        ("add-remove", 0.01, 1.0, 100), ("replace-one", 0.2, 2.0, 50),
        *(pytest.param(*more, marks=pytest.mark.full) for more in (("replace-one", 0.01, 1.0, 100), ("add-remove", 0.2, 2.0, 50))),
    ],
)  # fmt: skip
def test_compositions_are_those_of_dp_accounting_and_never_below(adjacency, probability, multiplier, steps):
    """The same steps on a grid ten times finer, without any allowance: the library's answer is above, and close."""
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution

    relations = accounting.NeighboringRelation
    fine = privacy_loss_distribution.from_gaussian_mechanism(
        multiplier * (1 if adjacency == "add-remove" else 2),
        sampling_prob=probability,
        value_discretization_interval=1e-5,
        neighboring_relation=relations.ADD_OR_REMOVE_ONE if adjacency == "add-remove" else relations.REPLACE_ONE,
    ).self_compose(steps)
    loss = PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=probability, adjacency=adjacency)
    found = compose([(loss, steps)], delta=1e-5)
    exact = fine.get_epsilon_for_delta(1e-5)
    assert exact <= found.epsilon <= exact * 1.002
    delta = compose([(loss, steps)], epsilon=exact).delta
    assert 1e-5 * (1 - 1e-6) <= delta <= 1.02e-5


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("multiplier, probability", [(1.0, 0.1), (0.5, 0.4)])
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.5])
def test_two_steps_are_the_integral_over_the_plane(adjacency, multiplier, probability, epsilon):
    pytest.importorskip("dp_accounting")
    deviation, away = (multiplier, 0.0) if adjacency == "add-remove" else (2 * multiplier, -1.0)
    law = lambda mean: lambda x: np.exp(-((x - mean) ** 2) / (2 * deviation**2)) / (deviation * math.sqrt(2 * math.pi))
    one, other = (profiles.mixture(probability, law(mean), law(0.0)) for mean in (1.0, away))
    reach = 9 * deviation + 1
    exact = max(profiles.twice_hockey_stick(*pair, epsilon, -reach, reach) for pair in ((one, other), (other, one)))
    loss = PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=probability, adjacency=adjacency)
    found = compose([loss, loss], epsilon=epsilon).delta
    assert exact * (1 - 1e-3) - 1e-7 <= found <= exact * (1 + 2e-3) + 1e-7   # the quadrature errs by 5e-4


def test_dp_accounting_under_reports_renyi_for_replace_one():
    """Its RdpAccountant takes the noise multiplier s/C for both relations, but replacing moves a sum by 2 C.

    Its own PLD knows: at s = 3 C epsilon is 2.753, and the Renyi accountant, an upper bound by nature, says 1.386.
    """
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    replace = accounting.NeighboringRelation.REPLACE_ONE
    event, delta = accounting.GaussianDpEvent(3.0), 1e-5
    renyi, exact = RdpAccountant(neighboring_relation=replace), PLDAccountant(replace)
    renyi.compose(event)
    exact.compose(event)
    assert renyi.get_epsilon(delta) < 0.6 * exact.get_epsilon(delta)

    ours = GaussianDP(noise_multiplier=3.0 / 2, adjacency="replace-one")
    assert ours.epsilon(delta) == pytest.approx(exact.get_epsilon(delta), rel=1e-4)
    together = compose([(ours, 5)], delta=delta)
    exact.compose(event, 4)
    assert together.epsilon == pytest.approx(exact.get_epsilon(delta), rel=1e-4)
    by_name = {one.theorem: one.epsilon for one in together.candidates}
    assert by_name["rdp"] >= exact.get_epsilon(delta) * (1 - 1e-6)


def test_dp_accounting_under_reports_renyi_for_laplace_under_replace_one():
    """The same for Laplace noise, whose pure epsilon is 2/s: its Renyi divergences stay below 1/s."""
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import RdpAccountant

    renyi = RdpAccountant(orders=[1e6], neighboring_relation=accounting.NeighboringRelation.REPLACE_ONE)
    renyi.compose(accounting.LaplaceDpEvent(2.0))
    assert renyi.rdp[0] <= 0.5
    ours = LaplaceDP(noise_multiplier=2.0 / 2, adjacency="replace-one")
    assert ours.rdp(1e6) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("probability", [0.001, 0.3, 1.0])
def test_amplification_is_that_of_sampled_randomized_response(epsilon, probability):
    """The worst case: a bit by randomised response if sampled, the other input's answer if not."""
    base = PureDP(epsilon=epsilon, adjacency="add-remove")
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    absent = (1 - truth, truth)
    present = tuple(probability * a + (1 - probability) * b for a, b in zip((truth, 1 - truth), absent))
    amplified = amplify_by_poisson_sampling(base, probability)
    exact = max(abs(math.log(a / b)) for a, b in zip(present, absent))
    assert amplified.epsilon(0.0) == pytest.approx(exact, rel=1e-9)
    assert amplified.epsilon(0.0) <= epsilon


def test_amplification_scales_delta():
    amplified = amplify_by_poisson_sampling(ApproximateDP(epsilon=1.0, delta=1e-5, adjacency="add-remove"), 0.01)
    assert amplified == ApproximateDP(
        epsilon=poisson_epsilon(1.0, 0.01), delta=amplified.delta_bound, adjacency="add-remove"
    )
    assert 1e-7 <= amplified.delta_bound <= 1e-7 * (1 + 1e-14)
    assert amplify_by_poisson_sampling((1.0, 1e-5), 0.01) == amplified


def poisson_epsilon(epsilon, probability):
    from hushvec.accounting.composition import amplified_epsilon

    exact = math.log(1 + probability * (math.exp(epsilon) - 1))
    assert amplified_epsilon(epsilon, probability) == pytest.approx(exact, rel=1e-12)
    return amplified_epsilon(epsilon, probability)


def test_amplification_of_other_losses():
    gaussian = amplify_by_poisson_sampling(GaussianDP(noise_multiplier=2.0, adjacency="add-remove"), 0.1)
    assert gaussian == PoissonSampledGaussianDP(noise_multiplier=2.0, sampling_probability=0.1)
    for loss in (BoundedRangeDP(epsilon=1.0, adjacency="add-remove"), LaplaceDP(noise_multiplier=1.0, adjacency="add-remove")):
        assert amplify_by_poisson_sampling(loss, 0.1).epsilon(0.0) == poisson_epsilon(1.0, 0.1)
    assert amplify_by_poisson_sampling(PureDP(epsilon=1.0, adjacency="add-remove"), 1.0).epsilon(0.0) == 1.0
    assert amplify_by_poisson_sampling(PureDP(epsilon=1e4, adjacency="add-remove"), 0.1).epsilon(0.0) <= 1e4


@pytest.mark.parametrize("loss", [PureDP(epsilon=1.0), GaussianDP(noise_multiplier=1.0), ApproximateDP(epsilon=1.0, delta=1e-6)])
def test_amplification_under_replace_one_is_refused(loss):
    with pytest.raises(ValueError, match="adjacency must be 'add-remove' for amplification by Poisson sampling, got 'replace-one'"):
        amplify_by_poisson_sampling(loss, 0.1)


def test_the_add_remove_formula_is_wrong_for_replace_one():
    """Why it is refused: sampled randomised response under replace-one costs more than ln(1 + q (e^epsilon - 1))."""
    epsilon, q = 1.0, 0.1
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    one, other, absent = (truth, 0.0, 1 - truth), (0.0, truth, 1 - truth), (0.0, 0.0, 1.0)
    # Report one's bit if sampled, with randomised response over {bit, nothing}: one against other differ more than one against none.
    floor = 1e-3
    smooth = lambda law: [floor / 3 + (1 - floor) * p for p in law]
    p, r, n = ([q * a + (1 - q) * b for a, b in zip(smooth(law), smooth(absent))] for law in (one, other, absent))
    base = max(abs(math.log(a / b)) for a, b in zip(smooth(one), smooth(absent)))
    against_none = max(abs(math.log(a / b)) for a, b in zip(p, n))
    against_other = max(abs(math.log(a / b)) for a, b in zip(p, r))
    delta_none = max(profiles.two_point_delta(p, n, 0.0), profiles.two_point_delta(n, p, 0.0))
    delta_other = profiles.two_point_delta(p, r, 0.0)
    assert against_none <= poisson_epsilon(base, q) * (1 + 1e-12)
    assert against_other >= against_none * (1 - 1e-12)
    assert delta_other >= delta_none


@pytest.mark.parametrize(
    "value, error", [(0.0, ValueError), (1.2, ValueError), (math.nan, ValueError), ("x", TypeError), (True, TypeError)]
)
def test_bad_sampling_probabilities_are_refused(value, error):
    with pytest.raises(error, match="sampling_probability must be"):
        amplify_by_poisson_sampling(PureDP(epsilon=1.0, adjacency="add-remove"), value)


def test_losses_without_a_theorem_are_refused():
    for loss in (
        ZeroConcentratedDP(rho=0.1, adjacency="add-remove"),
        PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.5),
    ):
        with pytest.raises(TypeError, match="release must have an epsilon of its own or be GaussianDP"):
            amplify_by_poisson_sampling(loss, 0.1)
    with pytest.raises(ValueError, match="release must be one release, got 3"):
        amplify_by_poisson_sampling((PureDP(epsilon=1.0, adjacency="add-remove"), 3), 0.1)


def test_whole_orders_are_interpolated_from_above():
    pytest.importorskip("dp_accounting")
    sampled = poisson.add_remove_rdp(1.0, 0.05, np.array([2.0, 2.5, 3.0]))
    moments = sampled * np.array([1.0, 1.5, 2.0])
    assert moments[1] == pytest.approx((moments[0] + moments[2]) / 2, rel=1e-12)
    assert poisson.add_remove_rdp(1.0, 0.05, np.array([513.0]))[0] == math.inf


def test_a_noise_schedule_has_an_answer_close_to_its_mean():
    """A thousand different steps: the bound lies between that of the noisiest and of the least noisy, near the middle."""
    pytest.importorskip("dp_accounting")
    schedule = [PoissonSampledGaussianDP(noise_multiplier=1.0 + index / 2000, sampling_probability=0.01) for index in range(1000)]
    together = compose(schedule, delta=1e-5)
    assert together.theorem == "pld"
    middle, first = (compose([(schedule[index], 1000)], delta=1e-5).epsilon for index in (500, 0))
    assert middle * 0.99 < together.epsilon < middle * 1.1 < first
    assert next(one for one in together.candidates if one.theorem == "rdp").epsilon < 1.3 * together.epsilon


@pytest.mark.parametrize("multiplier, probability, count, delta", [(0.3, 0.3, 20, 1e-7), (0.606154651402987, 1e-5, 10**6, 1e-6)])
def test_losses_that_are_nearly_always_the_same_have_an_answer(multiplier, probability, count, delta):
    """Nearly all of the mass in a few cells of many: windows have to be chosen by mass, or "pld" finds none."""
    pytest.importorskip("dp_accounting")
    step = PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=probability)
    composed = compose([(step, count)], delta=delta)
    rdp = next(one for one in composed.candidates if one.theorem == "rdp")
    assert composed.theorem == "pld" and composed.epsilon < 0.95 * rdp.epsilon


@pytest.mark.parametrize("most", [1, 3, 10, 40])
def test_fewer_different_losses_are_never_cheaper(most):
    losses = [
        *(PureDP(epsilon=0.01 + index / 1000) for index in range(10)),
        *(LaplaceDP(noise_multiplier=20.0 + index) for index in range(10)),
        *(
            PoissonSampledGaussianDP(
                noise_multiplier=1.0 + index / 10, sampling_probability=0.1 / (1 + index), adjacency="replace-one"
            )
            for index in range(10)
        ),
        GaussianDP(noise_multiplier=7.0),
    ]
    all_of_them = collect([(loss, index + 1) for index, loss in enumerate(losses)], independent_samples=True)
    few = coarsened(all_of_them, (PureDP, LaplaceDP, PoissonSampledGaussianDP), most)
    assert few.number == all_of_them.number
    assert len(few.counts) <= max(most, 3) + 1 if most < 30 else few is all_of_them
    for kind in (PureDP, LaplaceDP, PoissonSampledGaussianDP):
        before, after = (sorted(steps(one, kind)) for one in (all_of_them, few))
        assert len(before) == len(after) and all(a <= b for a, b in zip(before, after))


def steps(releases, kind):
    """delta(0.01) of every single release of a kind."""
    return [delta for loss, count in releases.of_kind(kind) for delta in [loss.delta(0.01)] * count]


def test_a_batch_gradient_costs_more_than_a_sampled_one():
    """The loss falls with the sampling probability, and the un-sampled price is an upper bound: sanity of the direction."""
    prices = [
        PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=probability).epsilon(1e-6)
        for probability in (0.001, 0.01, 0.1, 1.0)
    ]
    assert prices == sorted(prices) and prices[-1] == pytest.approx(hv.gaussian_epsilon(1e-6, 1.0), rel=1e-12)


TINY = [(0.1, 1e-7, 1.01), (0.3, 1e-9, 1.5), (5.0, 1e-9, 1.5)]   # far beyond ten deviations y is large, and rare


@pytest.mark.parametrize("multiplier, probability, order", [*TINY, (1.0, 0.01, 1.001), (0.5, 0.2, 1.7), (5.0, 0.3, 1.2)])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_low_orders_are_close_to_the_integrals(multiplier, probability, order, adjacency):
    """Where the curve jumps before order 2, a chord from order 1 is far above it: 50.5 for 4e-6 in the first case."""
    pytest.importorskip("dp_accounting")
    deviation = multiplier if adjacency == "add-remove" else 2 * multiplier
    x = np.linspace(-13 * deviation - 1, order + 13 * deviation + 1, 400_001)   # the midpoint rule errs by nothing for normal laws
    base = np.exp(-(x**2) / (2 * deviation**2)) / (deviation * math.sqrt(2 * math.pi))
    one, other = (np.expm1((2 * sign * x - 1) / (2 * deviation**2)) for sign in (1, -1))   # over base, less 1
    ratio = probability * one   # of the first law over the second, less 1
    if adjacency == "replace-one":
        ratio, base = probability * (one - other) / (1 + probability * other), base * (1 + probability * other)
    # above 1, which keeps its digits where it is 1e-9
    excess = (base * (np.expm1(order * np.log1p(np.maximum(ratio, -1 + 1e-16))) - order * ratio)).sum() * (x[1] - x[0])
    exact = math.log1p(excess) / (order - 1)
    found = PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=probability, adjacency=adjacency).rdp(order)
    assert exact * (1 - 1e-6) <= found <= exact * 1.03


@pytest.mark.parametrize("multiplier, probability", [(0.5, 0.2), (2.0, 0.01), (0.1, 0.6), (1.0, 1.0)])
@pytest.mark.parametrize("epsilon", [-1.0, -0.1, 0.0, 0.05, 0.5])
def test_sampled_laplace_profile_is_the_integral(multiplier, probability, epsilon):
    base = profiles.laplace(0.0, multiplier)
    present = profiles.mixture(probability, profiles.laplace(1.0, multiplier), base)
    points = [-40 * multiplier, 0, *np.linspace(0.02, 0.98, 25), 1, 1 + 40 * multiplier]
    for direction, pair in (("remove", (present, base)), ("add", (base, present))):
        exact = profiles.hockey_stick(*pair, epsilon, points)
        found = poisson.sampled_laplace(1 / multiplier, probability, direction, np.array([epsilon]))[0]
        assert exact - 1e-9 <= found <= exact * (1 + 1e-6) + 1e-9, direction
        if epsilon >= 0 and probability < 1:
            loss = PoissonSampledLaplaceDP(noise_multiplier=multiplier, sampling_probability=probability)
            assert exact - 1e-9 <= loss.delta(epsilon)
            assert direction == "add" or loss.delta(epsilon) <= exact * (1 + 1e-6) + 1e-9


def test_amplified_losses_keep_a_share_of_the_total_variation():
    """By the laws themselves: 77 labels on a sample."""
    epsilon, k, q = 1.0, 77, 0.1
    weight = math.exp(epsilon) + k - 1
    loss = PureDP(epsilon=epsilon, total_variation=math.expm1(epsilon) / weight, adjacency="add-remove")
    found = amplify_by_poisson_sampling(loss, q)
    without = np.array([1.0, *[1.0] * (k - 2), math.exp(epsilon)]) / weight   # another label
    sampled = (1 - q) * without + q * without[::-1]
    assert found.pure_epsilon == pytest.approx(math.log((sampled / without).max()), rel=1e-12)
    assert found.total_variation == pytest.approx(np.maximum(0, sampled - without).sum(), rel=1e-12)
    assert compose([(found, 100)], delta=1e-6).epsilon < 0.2 * compose([(PureDP(epsilon=found.pure_epsilon), 100)], delta=1e-6).epsilon


def test_sampled_laplace_noise_is_refused_under_replacement():
    with pytest.raises(ValueError, match="adjacency must be 'add-remove' for PoissonSampledLaplaceDP, got 'replace-one'"):
        PoissonSampledLaplaceDP(noise_multiplier=1.0, sampling_probability=0.1, adjacency="replace-one")
    with pytest.raises(TypeError, match="release must have an epsilon of its own or be GaussianDP, got PoissonSampledLaplaceDP"):
        amplify_by_poisson_sampling(PoissonSampledLaplaceDP(noise_multiplier=1.0, sampling_probability=0.1), 0.1)


def test_a_scaled_delta_is_two_roundings_above_the_product():
    loss = ApproximateDP(epsilon=1.0, delta=2.0**-20, adjacency="add-remove")
    exact = 2.0**-21
    assert exact < amplify_by_poisson_sampling(loss, 0.5).failure_delta <= exact + 2 * math.ulp(exact)


@pytest.mark.parametrize("name", ["dp_accounting", "dp_accounting.rdp", "dp_accounting.pld.privacy_loss_mechanism"])
def test_dp_accounting_without_one_of_its_parts_is_missing(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    assert not poisson.has_dp_accounting()
    with pytest.raises(hv.MissingExtraError, match=r"^a curve needs .*hushvec\[accounting\]"):
        poisson.dp_accounting("a curve")
