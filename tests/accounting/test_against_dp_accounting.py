"""Compositions beside dp-accounting, which bounds the exact value from below: never below it, at most 1 % above."""

import functools
import math
import random

import pytest

from evidence.reference.sizes import scaled
from hushvec.accounting import DiscreteGaussianDP, LaplaceDP, PureDP, amplify_by_poisson_sampling, compose

pytest.importorskip("dp_accounting")
from dp_accounting.pld import privacy_loss_distribution as distributions  # noqa: E402

ADJACENCY = {"adjacency": "add-remove"}


def labels(epsilon, k):
    """Randomized response among k."""
    weight = math.exp(epsilon) + k - 1
    loss = PureDP(epsilon=epsilon, total_variation=math.expm1(epsilon) / weight, **ADJACENCY)
    return loss, lambda **grid: distributions.from_randomized_response(k / weight, k, **grid)


def laplace(z, q):
    """Laplace noise on one number, of a Poisson sample."""
    loss = amplify_by_poisson_sampling(LaplaceDP(noise_multiplier=z, **ADJACENCY), q)
    return loss, lambda **grid: distributions.from_laplace_mechanism(z, sampling_prob=q, use_connect_dots=False, **grid)


def discrete(sigma, sensitivity):
    """Discrete Gaussian noise on one whole number."""
    loss = DiscreteGaussianDP(sigma=sigma, sensitivity=sensitivity, **ADJACENCY)
    return loss, lambda **grid: distributions.from_discrete_gaussian_mechanism(sigma, sensitivity, **grid)


KINDS = {"labels": labels, "laplace": laplace, "discrete": discrete}
TABLE = [
    *(("labels", 0.5, k, 100, 1e-6) for k in (2, 10, 77)),
    ("labels", 1.0, 77, 50, 1e-6),
    ("laplace", 0.5, 0.2, 300, 1e-6),
    ("laplace", 2.0, 1.0, 50, 1e-6),
    *(("discrete", sigma, 2, count, 1e-6) for sigma, count in ((4.0, 10), (8.0, 50), (40.0, 200))),
]


def drawn(kind, draw):
    delta, count = 10.0 ** draw.uniform(-9, -3), round(10 ** draw.uniform(0.3, 2.7))
    if kind == "labels":
        epsilon, k = 10 ** draw.uniform(-1.5, 0.7), round(2 + 10 ** draw.uniform(-1, 4))
        return kind, epsilon, k, min(count, math.ceil(300 / epsilon)), delta   # e^loss is a float
    if kind == "laplace":
        return kind, 10 ** draw.uniform(-0.7, 1.5), 10 ** draw.uniform(-3, 0), count, delta
    sigma, distance = 10 ** draw.uniform(-0.3, 2.7), draw.randint(1, 3)
    return kind, sigma, distance, min(count, math.ceil(100 * (sigma / distance) ** 2)), delta


def lower_bound(makers, delta, found):
    """What dp-accounting proves from below: losses go down to a grid that moves the sum by some thousandths of its epsilon."""
    step = 0.004 * found / sum(count for _, count in makers)
    laws = [make(value_discretization_interval=step, pessimistic_estimate=False).self_compose(count) for make, count in makers]
    return functools.reduce(lambda whole, law: whole.compose(law), laws).get_epsilon_for_delta(delta)


def require_tight(items, delta):
    found = compose([(loss, count) for (loss, _), count in items], delta=delta).epsilon
    if found == 0:
        return
    below = lower_bound([(make, count) for (_, make), count in items], delta, found)
    assert below * (1 - 1e-9) <= found <= 1.01 * below, (found, below)


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_table_is_exact_to_a_hundredth(row):
    kind, first, second, count, delta = row
    require_tight([(KINDS[kind](first, second), count)], delta)


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_compositions_are_exact_to_a_hundredth(kind):
    draw = random.Random(f"{kind} 52")
    for _ in range(scaled(8, 200)):
        _, first, second, count, delta = drawn(kind, draw)
        require_tight([(KINDS[kind](first, second), count)], delta)


def test_mixtures_are_exact_to_a_hundredth():
    """Labels of several k and epsilons with noise on numbers: the three-point law stands for each, whatever the others are."""
    draw = random.Random(52)
    for kinds in (("labels", "labels", "labels"), ("labels", "laplace"), ("discrete", "labels", "discrete"), tuple(KINDS)):
        items = []
        for kind in kinds:
            _, first, second, count, delta = drawn(kind, draw)
            items.append((KINDS[kind](first, second), min(count, 50)))
        require_tight(items, delta)
