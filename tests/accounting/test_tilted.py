"""Sums of losses by tilted transforms: against exact convolution, far into the tail, and the grids they are made of."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from hushvec.accounting import poisson, tilted
from hushvec.accounting.poisson import sampled_gaussian
from hushvec.accounting.tilted import GridLaw, Sum, shortfall


def exact_delta(laws, step, epsilon):
    """By convolution in fractions; the exponentials in float64."""
    total = {0: Fraction(1)}
    certain = Fraction(1)
    for law, count in laws:
        certain *= (1 - Fraction(law.unbounded)) ** count
        for _ in range(count):
            following = {}
            for cell, mass in total.items():
                for index, more in enumerate(law.masses):
                    place = cell + law.first + index
                    following[place] = following.get(place, Fraction(0)) + mass * Fraction(float(more))
            total = following
    parts = (float(mass) * -math.expm1(epsilon - cell * step) for cell, mass in total.items() if cell * step > epsilon)
    return math.fsum(parts) + float(1 - certain)


def law(first, masses, unbounded=0.0):
    """A law that stands for itself: its curve is short of nothing."""
    masses = np.asarray(masses, float)
    return GridLaw(first, masses, unbounded, np.zeros(len(masses)))


LAWS = {
    "two points": [(law(-3, [0.4, 0, 0, 0, 0, 0, 0.6]), 12)],
    "skewed": [(law(-1, [0.9, 0.0999, 0.0, 0.0, 1e-4]), 20)],
    "far and rare": [(law(0, [1 - 1e-9, *[0.0] * 30, 1e-9]), 6)],
    "unbounded": [(law(-2, [0.2, 0.3, 0.1, 0.2, 0.2 - 1e-7], 1e-7), 5)],
    "two kinds": [(law(-2, [0.3, 0.3, 0.4]), 5), (law(1, [0.7, 0.2, 0.1], 1e-12), 4)],
}


@pytest.mark.parametrize("name", LAWS)
def test_deltas_are_those_of_exact_convolution(name):
    """Never below, and within 1e-5 of them, down to 1e-30: no floor where transforms usually have theirs."""
    laws, step = LAWS[name], 0.125
    sums = Sum(laws, step)
    largest = sum((law.first + len(law.masses) - 1) * count for law, count in laws) * step
    for share in (0.0, 0.3, 0.6, 0.9, 0.99):
        exact, found = exact_delta(laws, step, share * largest), sums.delta(share * largest)
        assert exact * (1 - 1e-13) <= found <= exact * (1 + 1e-5) + 1e-300
    assert sums.delta(largest + 1) <= (sums.unbounded + 1e-40) * (1 + 1e-8)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_epsilons_go_back_to_their_delta(name, delta):
    laws, step = LAWS[name], 0.125
    sums = Sum(laws, step)
    epsilon = sums.epsilon(delta)
    if delta <= sums.unbounded:
        assert epsilon == math.inf
        return
    assert exact_delta(laws, step, epsilon) <= delta
    assert epsilon == 0.0 or exact_delta(laws, step, epsilon - 1e-7) > delta * (1 - 1e-6)


def test_ten_thousand_losses_keep_their_tail():
    """A binomial sum: loss +h with probability 0.51 and -h else, 10,000 times. The exact tail by its weights."""
    step, count, up = 1e-3, 10_000, 0.51
    sums = Sum([(law(-1, [1 - up, 0.0, up]), count)], step)
    for epsilon in (0.2, 0.6, 1.0):
        least = math.floor((epsilon / step + count) / 2) + 1
        ways = [math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(least, count + 1)]
        logs = [way + k * math.log(up) + (count - k) * math.log(1 - up) for k, way in zip(range(least, count + 1), ways)]
        exact = math.fsum(
            math.exp(value) * -math.expm1(epsilon - (2 * k - count) * step) for k, value in zip(range(least, count + 1), logs)
        )
        assert sums.delta(epsilon) == pytest.approx(exact, rel=1e-7)


def test_the_error_bound_covers_the_error():
    """The transform's law against convolution in extended precision, in the 2-norm."""
    source = np.random.default_rng(0)
    masses = source.dirichlet(np.ones(50))
    sums = Sum([(law(-20, masses), 30)], 0.1)
    found = sums._tilted(0.7)
    weights = masses.astype(np.longdouble) * np.exp(np.longdouble(0.7) * (np.arange(50) - 20) * np.longdouble(0.1))
    weights /= weights.sum()
    total = np.ones(1, np.longdouble)
    for _ in range(30):
        total = np.convolve(total, weights)
    aligned = np.zeros(len(found.masses), np.longdouble)
    np.add.at(aligned, (np.arange(len(total)) - 20 * 30 - found.first) % len(aligned), total)
    assert float(np.linalg.norm(aligned - found.masses)) <= found.error


CURVES = [(1.0, 0.01), (2.0, 0.3), (0.6, 1.0), (30.0, 0.5)]


@pytest.mark.parametrize("deviation, probability", CURVES)
def test_curves_are_the_profiles_and_each_other_s_mirror(deviation, probability):
    """At epsilon >= 0 the exact profiles; at -epsilon H(P, Q) = 1 - e^-epsilon + e^-epsilon H(Q, P) at epsilon. Never below."""
    epsilons = np.array([0.0, 1e-4, 0.01, 0.1, 0.5, 2.0])

    def curve(direction, at):
        return sampled_gaussian(deviation, probability, direction, np.asarray(at, float))

    removal = [poisson.add_remove_delta(deviation, probability, epsilon) for epsilon in epsilons]
    replacement = [poisson.replace_one_delta(deviation / 2, probability, epsilon) for epsilon in epsilons]
    for found, exact in ((curve("remove", epsilons), removal), (curve("replace", epsilons), replacement)):
        assert np.all(found >= np.array(exact) * (1 - 1e-9) - 1e-17) and np.allclose(found, exact, rtol=1e-8, atol=1e-13)
    mirrors = {"remove": "add", "add": "remove", "replace": "replace"}
    for direction, mirror in mirrors.items():
        expected = -np.expm1(-epsilons) + np.exp(-epsilons) * curve(mirror, epsilons)
        assert np.allclose(curve(direction, -epsilons), expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("deviation, probability, direction", [(2.0, 0.1, "remove"), (2.0, 0.1, "add"), (2.0, 0.1, "replace")])
def test_a_grid_that_is_too_small_is_noticed_and_paid_for(deviation, probability, direction):
    """A millionth of the mass above a loss taken away: the curve is short there, and what it is short of is added to every sum."""
    step = 0.01
    cells = np.arange(-200, 201)
    curve = partial(sampled_gaussian, deviation, probability, direction)
    whole = connected(curve(cells * step), cells, step)
    assert float(shortfall(whole, step, curve).max()) < 1e-13
    masses = whole.masses.copy()
    masses[cells >= 2] *= 1 - 1e-6
    cut = whole._replace(masses=masses)
    short = shortfall(cut, step, curve)
    assert short.max() > 1e-9 and np.all(short >= 0)
    complete = Sum([(whole._replace(short=shortfall(whole, step, curve)), 20)], step)
    for epsilon in (0.05, 0.2, 0.5):
        exact = complete.delta(epsilon)
        assert Sum([(cut._replace(short=np.zeros(len(cells))), 20)], step).delta(epsilon) < exact * (1 - 1e-7)
        assert exact <= Sum([(cut._replace(short=short), 20)], step).delta(epsilon) < exact * 1.1


def connected(deltas, cells, step):
    """Connect the Dots: masses whose delta curve passes through the given one at every cell."""
    growth = math.expm1(step)
    slopes = np.diff(deltas) / growth
    masses = np.empty(len(deltas))
    masses[1:-1] = slopes[1:] - slopes[:-1] * (1 + growth)
    masses[0], masses[-1] = 1 - deltas[0] + slopes[0], -slopes[-1] * (1 + growth)
    return GridLaw(int(cells[0]), np.maximum(masses, 0.0), float(deltas[-1]))


def test_a_window_that_is_too_long_is_taken_at_a_lower_tilt_where_that_is_shorter(monkeypatch):
    sums, step = Sum(LAWS["far and rare"], 0.125), 0.125
    monkeypatch.setattr(tilted, "MOST_CELLS", 150)
    found = sums._tilted(5.0)
    assert found is not None and 2.9 < found.tilt < 3.0, "five steps down"
    exact = exact_delta(sums.laws, step, 4.0)
    assert exact <= found.delta(4.0) <= 1.01 * exact
    assert Sum(LAWS["two points"], step)._tilted(5.0) is not None
    monkeypatch.setattr(tilted, "MOST_CELLS", 60)
    assert Sum(LAWS["two points"], step)._tilted(5.0) is None, "there a lower tilt has a longer window"


@pytest.mark.parametrize(
    ("curve", "exact", "most"),
    [
        (lambda epsilon: math.exp(-epsilon), -math.log(1e-5), 6),
        (lambda epsilon: math.exp(-epsilon * epsilon), math.sqrt(-math.log(1e-5)), 20),
        (lambda epsilon: math.exp(-1e-3 * epsilon - max(0.0, epsilon - 900.0) ** 2), 903.25724857, 45),
    ],
    ids=["straight", "bent", "bent late"],
)
def test_an_epsilon_is_found_with_few_values_of_its_curve(curve, exact, most):
    """An end that stays where it is for two steps counts half (the Illinois rule): without that the last takes 170."""
    asked = []

    def counted(epsilon):
        asked.append(epsilon)
        return curve(epsilon)

    found = tilted._solved(counted, 1e-5, 10.0 if exact < 10 else 1000.0 if exact > 900 else 50.0)
    assert found == pytest.approx(exact, rel=1e-9) and curve(found) <= 1e-5
    assert len(asked) <= most
