"""Optimal composition: every outcome of randomised response in 60 digits (tests/evidence/vectors/make_accounting_vectors.py)."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting import profiles
from hushvec.accounting import ApproximateDP, PureDP, compose, optimal
from hushvec.accounting.closed_forms import variation_of

EXACT = [row for row in profiles.vectors("composition_exact.csv") if row["kind"] == "pure"]


def groups_of(text):
    return of_one_bit((float(epsilon), int(count)) for epsilon, count in (group.split("x") for group in text.split(";")))


def of_one_bit(pairs):
    """Randomized response on one bit: (epsilon, its total variation, count)."""
    return tuple((epsilon, variation_of(epsilon), count) for epsilon, count in pairs)


def on_grid(groups):
    return optimal._on_grid(sorted(groups), 2**14 if len(groups) > 100 else 2**15)


def case(row):
    return f"{row['releases'][:30]}@{row['epsilon']}"


@pytest.mark.parametrize("row", EXACT, ids=case)
def test_known_answers(row):
    groups, epsilon, exact = groups_of(row["releases"]), float(row["epsilon"]), float(row["delta"])
    found = optimal.delta_of(groups, epsilon)
    # beyond MOST_ATOMS a grid overstates a little
    margin = 1e-10 if math.prod(count + 1 for *_, count in groups) <= optimal.MOST_ATOMS else 1e-4
    assert exact * (1 - 1e-14) <= found <= exact * (1 + margin)
    back = optimal.epsilon_of(groups, exact * (1 + margin))
    assert back <= epsilon * (1 + 1e-12)
    assert optimal.delta_of(groups, back) <= exact * (1 + margin)
    assert optimal.delta_of(groups, back * (1 - 1e-9)) >= exact * (1 - 1e-6)


@pytest.mark.parametrize("row", EXACT, ids=case)
def test_the_grid_never_undercuts_and_is_close(row):
    groups, epsilon, exact = groups_of(row["releases"]), float(row["epsilon"]), float(row["delta"])
    found = on_grid(groups).delta(epsilon)
    # Where epsilon is itself one of the sums the error is of first order in the grid step: the most that occurs here.
    assert exact * (1 - 1e-14) <= found <= exact * 1.002 + 1e-17


def enumerated(epsilons, epsilon):
    """All outcomes of all releases, in floating point, each sum by fsum."""
    total = []
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        loss = math.fsum(sign * one for sign, one in zip(signs, epsilons))
        weight = math.prod(1 / (1 + math.exp(-sign * one)) for sign, one in zip(signs, epsilons))
        total.append(weight * max(0.0, -math.expm1(epsilon - loss)))
    return math.fsum(total)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=8), st.floats(0.01, 0.95))
def test_heterogeneous_releases_are_enumerated(epsilons, share):
    epsilon = share * math.fsum(epsilons)
    exact = enumerated(epsilons, epsilon)
    groups = of_one_bit((one, epsilons.count(one)) for one in sorted(set(epsilons)))
    assert exact * (1 - 1e-9) - 1e-15 <= optimal.delta_of(groups, epsilon) <= exact * (1 + 1e-9) + 1e-14
    assert exact * (1 - 1e-9) - 1e-15 <= on_grid(groups).delta(epsilon) <= exact * 1.005 + 1e-4


def test_coarser_grids_only_overstate():
    groups = sorted(of_one_bit((0.02 + 0.001 * i, 1) for i in range(60)))
    fine = on_grid(groups)
    for cells in (2**8, 2**9, 2**11):
        coarse = optimal._on_grid(groups, cells)
        for epsilon in (0.2, 0.5, 1.0, 2.0):
            assert coarse.delta(epsilon) >= fine.delta(epsilon) * (1 - 1e-12)


def test_what_leaves_the_grid_counts():
    """With a tail of 1e-2 in place of 1e-40 the grid is too short: delta must grow, not shrink."""
    groups = sorted(of_one_bit((0.02 + 0.001 * i, 1) for i in range(60)))
    full = on_grid(groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal, "TAIL", 0.2)
        short = on_grid(groups)
    assert short.unbounded > 0
    for epsilon in (0.2, 0.5, 1.0, 2.0, 3.0):
        assert short.delta(epsilon) >= full.delta(epsilon) * (1 - 1e-12)


def test_splitting_keeps_probability_and_the_other_law():
    step = 0.125
    losses, weights = np.array([-1.3, -0.06, 0.0, 0.11, 2.99]), np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    cells, split = optimal.split_upwards(losses, weights, step)
    assert split.sum() == pytest.approx(1.0, rel=1e-14)
    assert (split * np.exp(-cells * step)).sum() == pytest.approx((weights * np.exp(-losses)).sum(), rel=1e-12)


def test_binomial_weights_of_many():
    scipy_stats = pytest.importorskip("scipy.stats")
    for epsilon, count in ((0.001, 100_000), (0.5, 200), (5.0, 50), (40.0, 3)):
        losses, weights, error = optimal._repeated(epsilon, variation_of(epsilon), count)
        exact = scipy_stats.binom.pmf(np.arange(count + 1), count, 1 / (1 + math.exp(epsilon)))
        seen = exact > 1e-250
        assert np.allclose(weights[seen], exact[seen], rtol=max(error, 3e-9))   # scipy's own error leads here
        assert losses[0] == pytest.approx(count * epsilon) and losses[-1] == -losses[0]


def test_prv_accountant_agrees():
    prv = pytest.importorskip("prv_accountant")
    from prv_accountant.privacy_random_variables import PureDPMechanism

    accountant = prv.PRVAccountant(prvs=[PureDPMechanism(eps=0.1)], max_self_compositions=[200], eps_error=0.01, delta_error=1e-9)
    low, _, high = accountant.compute_epsilon(1e-6, [200])
    assert low <= compose([(PureDP(epsilon=0.1), 200)], delta=1e-6).epsilon <= high


def test_deltas_of_the_releases_are_composed_too():
    """Murtagh and Vadhan: (epsilon, delta) is reached iff the pure part has 1 - (1 - delta)/prod(1 - delta_i)."""
    releases = [(ApproximateDP(epsilon=0.3, delta=1e-6), 5), (ApproximateDP(epsilon=0.7, delta=3e-6), 2)]
    together = compose(releases, delta=1e-4)
    left = 1 - (1 - 1e-4) / ((1 - 1e-6) ** 5 * (1 - 3e-6) ** 2)
    assert together.theorem == "optimal"
    exact = optimal.epsilon_of(of_one_bit([(0.3, 5), (0.7, 2)]), left)
    assert exact * (1 - 1e-9) <= together.epsilon <= exact * (1 + 1e-9)


def test_ten_thousand_distinct_epsilons_stay_close_to_their_normal_limit():
    draw = random.Random(3)
    epsilons = [draw.uniform(0.001, 0.02) for _ in range(10_000)]
    together = compose([(epsilon, 0) for epsilon in epsilons], delta=1e-6)
    # For small epsilons the loss is nearly normal: one Gaussian release with 1/s^2 = sum epsilon^2.
    limit = compose_limit(math.fsum(epsilon**2 for epsilon in epsilons))
    assert together.theorem == "optimal"
    assert limit * 0.998 <= together.epsilon <= limit * 1.003


def compose_limit(square):
    import hushvec as hv

    return hv.gaussian_epsilon(1e-6, 1 / math.sqrt(square))


def test_orders_of_magnitude_apart():
    """One large epsilon among many tiny ones: the grid is coarse for the tiny ones, and still on the safe side."""
    groups = tuple(sorted([(3.0, 1), *((1e-4 * (1 + i / 100), 1) for i in range(30))]))
    found = compose([(PureDP(epsilon=one), count) for one, count in groups], delta=1e-6)
    assert 2.99 < found.epsilon <= math.fsum(one * count for one, count in groups)


def test_enormous_epsilons_fall_back_to_their_sum():
    assert compose([(PureDP(epsilon=900.0), 3)], delta=0.0).epsilon == 2700.0
    assert 2700.0 - 1.0001e-6 < compose([(PureDP(epsilon=900.0), 3)], delta=1e-6).epsilon <= 2700.0
    assert compose([(PureDP(epsilon=900.0), 3)], epsilon=100.0).delta == 1.0
    assert compose([(PureDP(epsilon=0.001), optimal.MOST_EQUAL + 1)], delta=1e-6).theorem in ("zcdp", "rdp")


def of_many_labels(epsilon, k):
    weight = math.exp(epsilon) + k - 1
    return epsilon, math.expm1(epsilon) / weight, (math.exp(epsilon) / weight, (k - 2) / weight, 1 / weight)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.integers(2, 1000)), min_size=1, max_size=6), st.floats(0.01, 0.95))
def test_three_points_are_enumerated(answers, share):
    """Every outcome of answers among different numbers of labels; on a grid too."""
    laws = [of_many_labels(*one) for one in answers]
    epsilon, exact = share * math.fsum(one for one, _, _ in laws), 0.0
    for outcome in itertools.product(range(3), repeat=len(laws)):
        loss = math.fsum((1 - place) * law[0] for place, law in zip(outcome, laws))
        exact += math.prod(law[2][place] for place, law in zip(outcome, laws)) * max(0.0, -math.expm1(epsilon - loss))
    groups = tuple(sorted((one, variation, 1) for one, variation, _ in laws))
    assert exact * (1 - 1e-9) - 1e-15 <= optimal.delta_of(groups, epsilon) <= exact * (1 + 1e-9) + 1e-14
    assert exact * (1 - 1e-9) - 1e-15 <= on_grid(groups).delta(epsilon) <= exact * 1.005 + 1e-4


@pytest.mark.parametrize("epsilon, k, count", [(0.5, 77, 100), (0.01, 3, 300), (8.0, 1000, 40), (1e-3, 2.0001, 200), (40.0, 10**6, 7)])
def test_weights_of_many_labels_are_those_of_their_convolution(epsilon, k, count):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(80):
        grown = mpmath.exp(mpmath.mpf(epsilon))
        truth, other, between = grown / (grown + k - 1), 1 / (grown + k - 1), (k - 2) / (grown + k - 1)
        exact = [mpmath.mpf(1)]
        for _ in range(count):
            exact = [
                truth * (exact[i] if i < len(exact) else 0)
                + between * (exact[i - 1] if 0 < i <= len(exact) else 0)
                + other * (exact[i - 2] if i > 1 else 0)
                for i in range(len(exact) + 2)
            ]
        losses, weights, error = optimal._repeated(epsilon, math.expm1(epsilon) / (math.exp(epsilon) + k - 1), count)
        tails = np.cumsum(weights)
        assert losses[0] == pytest.approx(count * epsilon) and len(losses) == len(exact)
        for place in range(0, len(exact), max(1, len(exact) // 50)):   # a larger loss in distribution, and hardly one
            above = mpmath.fsum(exact[: place + 1])
            assert above * (1 - error) <= tails[place] * (1 + 1e-12) and tails[place] <= above * (1 + 1e-11)
