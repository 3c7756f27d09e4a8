"""The integer law of randomized response: never above e^epsilon, and the closest to it that 64 bits allow."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.discrete import discrete_reference as reference

NEAR_ONE = math.nextafter(1.0, 2.0)
EPSILONS = [1e-3, 0.1, math.log(2), math.log(3), 1.0, NEAR_ONE, 5.0, 10.2, 20.0, 40.0, 44.3, 44.4, 45.0, 46.0, 700.0, 1e300]
COUNTS = [2, 3, 10, 255, 256, 10_000, 2**20, 2**24]


def at_most_e_to_the(ratio, epsilon):
    """ratio <= e^epsilon, proved."""
    ctx.prec = 1500
    return ratio <= 1 or (epsilon > 60 and ratio < 2**80) or bool(reference.ball(ratio) < reference.ball(epsilon).exp())


def law_or_none(core, epsilon, k):
    try:
        return core.response_law(epsilon, k)
    except ValueError:
        return None


@pytest.mark.parametrize("k", COUNTS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_law_is_the_largest_truth_that_is_private(core, epsilon, k):
    truth, other = core.response_law(epsilon, k)
    assert truth + (k - 1) * other == 2**64
    assert other <= truth
    assert at_most_e_to_the(Fraction(truth, other), epsilon)
    if other > 1:  # one value less for every other label would break the promise
        assert not at_most_e_to_the(Fraction(truth + k - 1, other - 1), epsilon)


@pytest.mark.parametrize("k", COUNTS)
@pytest.mark.parametrize("epsilon", [e for e in EPSILONS if e < 45])
def test_the_law_is_that_of_the_reference(core, epsilon, k):
    assert core.response_law(epsilon, k) == reference.response_law(epsilon, k)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(epsilon=st.floats(min_value=5e-324, max_value=60.0, exclude_min=True), k=st.integers(2, 2**24))
def test_any_law(core, epsilon, k):
    law = law_or_none(core, epsilon, k)
    expected = reference.response_law(epsilon, k)
    if expected[0] < expected[1]:  # 64 bits cannot: refused
        assert law is None
        assert epsilon < k * (k + 1) * 2.0**-62
    else:
        assert law == expected


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-19, 2.0**-62, 2.0**-60])
def test_two_labels_take_any_epsilon(core, epsilon):
    """k divides 2^64, so that a tiny epsilon becomes exactly 0 rather than something above itself."""
    truth, other = core.response_law(epsilon, 2)
    assert truth >= other
    assert at_most_e_to_the(Fraction(truth, other), epsilon)


def test_an_epsilon_that_64_bits_cannot_hold_is_refused(core):
    with pytest.raises(ValueError, match=r"epsilon must be larger for 3 labels, as 64 random bits cannot"):
        core.response_law(1e-20, 3)


def test_rounding_the_probability_to_the_nearest_double_would_not_do(core):
    """The direct way, a threshold from floating point, exceeds e^epsilon for about half of all epsilons."""
    broken = 0
    for epsilon in np.linspace(0.5, 5, 100):
        k = 10
        p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
        truth = Fraction(p)
        broken += not at_most_e_to_the(truth / ((1 - truth) / (k - 1)), epsilon)
        assert at_most_e_to_the(Fraction(*core.response_law(epsilon, k)), epsilon)
    assert 20 < broken < 80


@pytest.mark.parametrize("k", [2, 3, 10, 257, 10_000, 2**24])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 12.0, 50.0])
def test_intervals_have_the_sizes_of_the_law(core, hooks, epsilon, k):
    """Every interval begins and ends where the law says: its first and last value, for all of them or 1,000 at either end."""
    truth, other = core.response_law(epsilon, k)
    numbers = sorted({*range(1, min(k, 1000)), *range(max(1, k - 1000), k)})
    values = [0, truth - 1, truth // 2, 2**64 - 1]
    expected = [0, 0, 0, k - 1]
    for j in numbers:
        first = truth + (j - 1) * other
        values += [first, first + other - 1]
        expected += [j, j]
    got = hooks.response_intervals(epsilon, k, np.array(values, dtype=np.uint64))
    assert got.tolist() == expected


def test_a_reversed_ratio_is_private_too(core):
    """other <= truth, so that no answer is more likely than e^epsilon times as likely, whichever label is true."""
    for epsilon in (1e-6, 0.5, 30.0):
        for k in (2, 7, 1000):
            truth, other = core.response_law(epsilon, k)
            assert Fraction(other, truth) <= 1


def test_epsilon_is_used_as_the_double_that_it_is(core):
    """Neighbouring doubles have different laws where 64 bits can tell them apart."""
    assert core.response_law(1.0, 10) != core.response_law(NEAR_ONE, 10)
