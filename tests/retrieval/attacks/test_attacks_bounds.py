"""What (epsilon, delta) allows: the bounds against mechanisms that reach them, and against integration."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize

from hushvec.retrieval.attacks.bounds import attribute_bound, epsilon_for, membership_auc_bound, membership_bound
from hushvec.retrieval.attacks.inversion import identification_bound

EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.5, 10.0, 40.0]
DELTAS = [0.0, 1e-5, 1e-2, 0.3]


def best_test(first, second, fpr):
    """The largest probability under `first` of a randomised event that has at most fpr under `second`: linear programming."""
    found = optimize.linprog(-first, A_ub=[second], b_ub=[fpr], bounds=[(0, 1)] * len(first))
    return -found.fun


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0, 2.5, 10.0])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("fpr", [0.0, 0.001, 0.01, 0.3, 0.9, 1.0])
def test_a_mechanism_reaches_the_bound(epsilon, delta, fpr):
    """The pair (delta, 0, and randomized response on the rest) is (epsilon, delta)-DP and the worst there is."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    first = np.array([delta, (1 - delta) * p, (1 - delta) * (1 - p), 0.0])
    second = first[::-1].copy()
    assert membership_bound(epsilon, delta, fpr) == pytest.approx(best_test(first, second, fpr), abs=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_area_is_that_under_the_bound(epsilon, delta):
    meeting = (1 - delta) / (1 + math.exp(epsilon))
    area, _ = integrate.quad(
        lambda fpr: membership_bound(epsilon, delta, fpr), 0, 1, points=[meeting, 1 - delta, 1e-9], limit=500, epsabs=1e-11
    )
    assert membership_auc_bound(epsilon, delta) == pytest.approx(area, abs=1e-8)
    assert membership_auc_bound(epsilon, 0.0) == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)), rel=1e-12)


def test_bounds_are_on_the_safe_side():
    from fractions import Fraction

    for epsilon in (0.5, 1.0, 2.5):
        exact = Fraction(math.nextafter(math.exp(epsilon), 0)) * Fraction(0.01) + Fraction(1e-5)
        assert Fraction(membership_bound(epsilon, 1e-5, 0.01)) >= exact


def test_large_epsilon_overflows_nothing():
    assert membership_bound(1e6, 0.0, 1e-9) == 1.0
    assert membership_bound(1e6, 1e-5, 0.0) == pytest.approx(1e-5)
    assert membership_auc_bound(1e6) == 1.0


@pytest.mark.parametrize("target,fpr,delta", [(0.01, 0.001, 0.0), (0.1, 0.001, 1e-5), (0.9, 0.01, 1e-3), (0.999, 0.5, 0.0)])
def test_epsilon_for_is_the_largest(target, fpr, delta):
    epsilon = epsilon_for(target, fpr, delta)
    assert membership_bound(epsilon, delta, fpr) <= target
    assert membership_bound(epsilon + 1e-6, delta, fpr) > target


def test_no_epsilon_meets_a_target_below_chance():
    assert epsilon_for(0.001, 0.01, 0.0) == 0.0
    assert epsilon_for(1e-6, 0.01, 1e-5) == 0.0


@pytest.mark.parametrize("candidates", [2, 3, 100])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 5.0])
def test_randomized_response_reaches_the_identification_bound(candidates, epsilon):
    truth = math.exp(epsilon) / (math.exp(epsilon) + candidates - 1)
    assert identification_bound(epsilon, 0.0, candidates) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("labels", [2, 3, 100])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 5.0])
def test_randomized_response_reaches_the_attribute_bound(labels, epsilon):
    truth = math.exp(epsilon) / (math.exp(epsilon) + labels - 1)
    assert attribute_bound(epsilon, 0.0, 1 / labels) == pytest.approx(truth, rel=1e-12)
    assert attribute_bound(epsilon, 0.0, 0.8) >= 0.8


def test_no_guess_of_a_leaking_response_is_above_the_attribute_bound():
    """With probability delta the label comes out, else randomized response; the best guess by Bayes' rule, for uneven labels."""
    for epsilon in (0.1, 1.0, 3.0):
        for shares in ([0.7, 0.2, 0.1], [0.34, 0.33, 0.33], [0.9, 0.1]):
            delta, labels = 0.02, len(shares)
            told = math.exp(epsilon) / (math.exp(epsilon) + labels - 1)
            response = np.full((labels, labels), (1 - told) / (labels - 1))
            np.fill_diagonal(response, told)
            right = delta + (1 - delta) * (np.array(shares)[:, None] * response).max(axis=0).sum()
            assert right <= attribute_bound(epsilon, delta, max(shares)) + 1e-12


def test_identification_bound_with_delta_holds_for_randomized_response_that_leaks():
    """With probability delta the truth comes out, else randomized response: (epsilon, delta)-DP, and it stays below."""
    epsilon, delta, candidates = 1.0, 0.01, 50
    share = delta + (1 - delta) * math.exp(epsilon) / (math.exp(epsilon) + candidates - 1)
    assert share <= identification_bound(epsilon, delta, candidates) <= share + delta


@pytest.mark.parametrize(
    "call,words",
    [
        (lambda: membership_bound(-1.0, 0.0, 0.1), "epsilon must be >= 0, got -1.0"),
        (lambda: membership_bound(math.nan, 0.0, 0.1), "epsilon must be finite, got nan"),
        (lambda: membership_bound(1.0, 1.0, 0.1), "delta must be > 0 and < 1, got 1.0"),
        (lambda: membership_bound(1.0, 0.0, 1.5), "fpr must be in [0, 1], got 1.5"),
        (lambda: membership_auc_bound(1.0, -0.1), "delta must be > 0 and < 1, got -0.1"),
        (lambda: identification_bound(1.0, 0.0, 0), "candidates must be >= 1, got 0"),
    ],
)
def test_bad_values(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == words


def test_bad_kinds():
    with pytest.raises(TypeError, match="epsilon must be a number, got bool"):
        membership_bound(True, 0.0, 0.1)
