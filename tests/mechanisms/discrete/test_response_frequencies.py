"""What randomized answers say together, and what a mechanism says before the first one."""

import math
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms.randomized_response import RandomizedResponse
from mechanisms.discrete import discrete_reference as reference

SHARES = np.array([0.6, 0.25, 0.1, 0.05, 0.0])


def repeated_estimates(mechanism, answers, repetitions, seed):
    """Estimates and standard errors of `repetitions` surveys with the same people."""
    people = np.repeat(np.arange(5), (SHARES * answers).astype(int))
    generator = hv.Generator.unsafe_seeded(seed)
    surveys = mechanism.respond(np.tile(people, (repetitions, 1)), generator=generator)
    estimates = [mechanism.estimate_frequencies(np.bincount(survey, minlength=5)) for survey in surveys]
    return np.array([e.frequencies for e in estimates]), np.array([e.standard_errors for e in estimates])


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_estimates_are_unbiased_and_their_errors_are_right(epsilon):
    """4,000 surveys of 1,000 people. The mean of the estimates is normal with standard error s / sqrt(4000): z stays below 5.5 in all
    5 labels with probability 1 - 2e-7. The variance of 4,000 normals has relative standard deviation sqrt(2/3999): 5.5 of those too.
    """
    mechanism = RandomizedResponse(epsilon=epsilon, k=5)
    estimates, errors = repeated_estimates(mechanism, 1000, 4000, seed=21)
    exact = np.array([mechanism.standard_error(share, 1000) for share in SHARES])
    z = (estimates.mean(axis=0) - SHARES) / (exact / math.sqrt(4000))
    assert np.abs(z).max() < 5.5
    ratio = estimates.var(axis=0, ddof=1) / exact**2
    assert np.abs(ratio - 1).max() < 5.5 * math.sqrt(2 / 3999)
    # the stated error is that of the plugged-in estimate: near the exact one
    assert np.allclose(errors.mean(axis=0), exact, rtol=0.02)


def test_a_biased_estimator_is_noticed():
    """The raw shares of the answers, and an estimator with k in place of k - 1, fail the same test by far."""
    mechanism = RandomizedResponse(epsilon=2.0, k=5)
    estimates, _ = repeated_estimates(mechanism, 1000, 4000, seed=22)
    p, q = mechanism.probability_of_truth, mechanism.probability_of_each_other
    shares = estimates * (p - q) + q
    wrong_p = math.exp(2) / (math.exp(2) + 5)
    wrong_q = (1 - wrong_p) / 4
    for wrong in (shares, (shares - wrong_q) / (wrong_p - wrong_q)):
        exact = np.array([mechanism.standard_error(share, 1000) for share in SHARES])
        z = (wrong.mean(axis=0) - SHARES) / (exact / math.sqrt(4000))
        assert np.abs(z).max() > 20


def test_standard_error_is_the_formula():
    mechanism = RandomizedResponse(epsilon=1.0, k=4)
    p, q = math.e / (math.e + 3), 1 / (math.e + 3)
    for f in (0.0, 0.2, 1.0):
        expected = math.sqrt((f * p * (1 - p) + (1 - f) * q * (1 - q)) / 50) / (p - q)
        assert mechanism.standard_error(f, 50) == pytest.approx(expected, rel=1e-12)
    assert mechanism.standard_error(1.0, 50) > 0


def test_estimates_sum_to_one_and_large_epsilon_gives_the_counts():
    counts = [5, 0, 3, 2]
    assert RandomizedResponse(epsilon=0.3, k=4).estimate_frequencies(counts).frequencies.sum() == pytest.approx(1)
    exact = RandomizedResponse(epsilon=700.0, k=4).estimate_frequencies(counts)
    assert np.allclose(exact.frequencies, [0.5, 0, 0.3, 0.2], atol=1e-15)
    assert exact.standard_errors.max() < 1e-9
    assert exact.answers == 10


def test_counts_of_answers():
    mechanism = RandomizedResponse(epsilon=1.0, labels=["a", "b", "c"])
    assert mechanism.count(["a", "a", "c"]).tolist() == [2, 0, 1]
    assert mechanism.count(np.array([["a", "b"], ["b", "b"]])).tolist() == [1, 3, 0]
    assert mechanism.count([]).tolist() == [0, 0, 0]
    assert RandomizedResponse(epsilon=1.0, k=3).count(np.array([2, 2, 0], dtype=np.uint8)).tolist() == [1, 0, 2]
    with pytest.raises(ValueError, match="must be one of the 3 labels"):
        mechanism.count(["z"])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2], r"counts must have shape \(3,\), got \(2,\)"),
        ([1, -2, 3], "counts must be whole numbers >= 0"),
        ([1.0, 2.0, 3.0], "counts must be whole numbers >= 0"),
        ([True, False, True], "counts must be whole numbers >= 0"),
        ([math.nan, 1, 2], "counts must be whole numbers >= 0"),
        ([0, 0, 0], "counts must hold at least one answer"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        RandomizedResponse(epsilon=1.0, k=3).estimate_frequencies(counts)


def test_answers_without_information_are_refused():
    with pytest.raises(ValueError, match="epsilon must be large enough for answers that carry anything"):
        RandomizedResponse(epsilon=1e-300, k=2).estimate_frequencies([1, 1])


@pytest.mark.parametrize(("frequency", "answers"), [(-0.1, 10), (1.1, 10), (math.nan, 10), (0.5, 0), (0.5, 1.5), (True, 10)])
def test_bad_questions_are_refused(frequency, answers):
    with pytest.raises((TypeError, ValueError)):
        RandomizedResponse(epsilon=1.0, k=3).standard_error(frequency, answers)


def test_the_mechanism_knows_its_price_before_anything_is_spent():
    mechanism = RandomizedResponse(epsilon=1.0, labels=["a", "b", "c"])
    assert mechanism.cost == (1.0, 0.0)
    assert mechanism.probability_of_truth == pytest.approx(math.e / (math.e + 2), rel=1e-15)
    assert mechanism.probability_of_each_other == pytest.approx(1 / (math.e + 2), rel=1e-15)
    assert 1 - 1e-15 < mechanism.epsilon_as_sampled <= 1.0
    text = " ".join(mechanism.describe())
    assert "0.5761" in text
    assert f"{mechanism.standard_error(0.1, 1000):.2g}" in text


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0, 44.0, 44.4, 60.0])
@pytest.mark.parametrize("k", [2, 10, 2**24])
def test_epsilon_as_sampled_is_an_upper_bound_of_the_ratio(epsilon, k):
    mechanism = RandomizedResponse(epsilon=epsilon, k=k)
    truth, other = reference.response_law(epsilon, k)
    exact = reference.ball(Fraction(truth, other)).log()
    assert mechanism.epsilon_as_sampled <= epsilon
    assert exact <= reference.ball(mechanism.epsilon_as_sampled)
    assert float(exact) == pytest.approx(mechanism.epsilon_as_sampled, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(("epsilon", "k"), [(3.6979530842852515e-18, 9), (1e-15, 2), (1e-13, 3), (1e-11, 5)])
def test_a_tiny_epsilon_as_sampled_is_an_upper_bound_too(epsilon, k):
    """The quotient is near 1: its logarithm has fewer digits than it has."""
    mechanism = RandomizedResponse(epsilon=epsilon, k=k)
    exact = reference.ball(Fraction(*mechanism.law)).log()
    assert exact <= reference.ball(mechanism.epsilon_as_sampled) <= reference.ball(epsilon)


def test_loss_in_the_accounting_currency():
    accounting = pytest.importorskip("hushvec.accounting")
    for k in (2, 3, 77):
        mechanism = RandomizedResponse(epsilon=1.5, k=k)
        variation = Fraction(mechanism.law[0] - mechanism.law[1], 2**64)
        assert mechanism.loss == accounting.PureDP(epsilon=1.5, total_variation=mechanism.loss.total_variation)
        assert variation <= Fraction(mechanism.loss.total_variation) <= variation * (1 + Fraction(1, 2**48))
