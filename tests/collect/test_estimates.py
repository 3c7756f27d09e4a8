"""What many reports say: unbiased, with the right errors, as good as theory; and the mistakes that would show."""

import math

import numpy as np
import pytest

import hushvec as hv
from collect.surveys import surveyed, vocabulary, zipf_counts
from evidence.reference.sizes import SCALE, scaled

MECHANISMS = ("k_rr", "unary", "hadamard")
COUNTS = np.array([300, 120, 60, 15, 5, 0, 0])
SURVEYS = scaled(1000, 20_000)


def repeated(ours, seed):
    """(frequencies, standard errors) of many surveys of the same 500 people, each a row."""
    generator, codes, n = hv.Generator.unsafe_seeded(seed), np.repeat(np.arange(len(COUNTS)), COUNTS), COUNTS.sum()
    reports = ours.oracle.draw(np.tile(codes, SURVEYS), generator)
    estimates = []
    for part in np.split(reports, SURVEYS):
        sketch = ours.sketch()
        sketch.add(part)
        assert sketch.reports == n
        estimates.append(sketch.estimate())
    return np.array([e.frequencies for e in estimates]), np.array([e.standard_errors for e in estimates])


def exact_errors(ours):
    """Standard errors at the true frequencies, from first principles: E[X^2] - E[X]^2 of what one person contributes."""
    n, f = COUNTS.sum(), COUNTS / COUNTS.sum()
    truth, other = (value / 2**64 for value in ours.oracle.law)
    if ours.mechanism == "hadamard":
        blocks = ours.oracle.blocks
        shares = np.array([f[i % blocks :: blocks].sum() for i in range(len(f))])
        hits = shares * (truth + other) + (1 - shares) * 2 * other
        return np.sqrt((hits / (truth - other) ** 2 - f) / n)
    p, q = (truth, other) if ours.mechanism == "k_rr" else (0.5, other)
    return np.sqrt((f * p * (1 - p) + (1 - f) * q * (1 - q)) / n) / (p - q)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_estimates_are_unbiased_and_their_errors_are_right(mechanism, epsilon):
    """1,000 surveys (20,000 in the full run) of 500 people. Means within 5.5 of their standard errors, as 7 normals are but for 3e-7;
    variances within 5.5 of theirs, sqrt(2 / surveys).
    """
    ours = vocabulary(len(COUNTS), epsilon, mechanism)
    estimates, errors = repeated(ours, seed=5)
    exact = exact_errors(ours)
    z = (estimates.mean(axis=0) - COUNTS / COUNTS.sum()) / (exact / math.sqrt(SURVEYS))
    assert np.abs(z).max() < 5.5
    ratio = estimates.var(axis=0, ddof=1) / exact**2
    assert np.abs(ratio - 1).max() < 5.5 * math.sqrt(2 / SURVEYS)
    # what is stated beside an estimate is computed from the estimate: near the exact error on average
    assert np.allclose(errors.mean(axis=0), exact, rtol=0.06)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_estimators_are_noticed(mechanism):
    """Estimates that take epsilon for 10 % larger than it was fail by far: their mean is off by more than 10 standard errors."""
    ours, wrong = vocabulary(len(COUNTS), 3.0, mechanism), vocabulary(len(COUNTS), 3.0 * 1.15, mechanism)
    reports = ours.oracle.draw(np.tile(np.repeat(np.arange(7), COUNTS), 1500), hv.Generator.unsafe_seeded(6))
    sketches = ours.sketch(), wrong.sketch()
    for sketch in sketches:
        sketch.add(reports)
    error = exact_errors(ours)[0] / math.sqrt(1500)
    right, off = (abs(sketch.estimate().frequencies[0] - 0.6) / error for sketch in sketches)
    assert right < 5.5
    assert off > 10


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_errors_over_a_dictionary_are_those_of_theory(mechanism, epsilon):
    """Zipf words; 10^5 reports over 1,000 words (10^6 over 10,000 in the full run). The mean of k squared errors has a relative
    standard deviation of about sqrt(2 / k): a ratio of 1.1 in the root is 4.7 of them for 1,000, 15 for 10,000.
    """
    k, people = scaled((1000, 100_000), (10_000, 1_000_000))
    ours, counts = vocabulary(k, epsilon, mechanism), zipf_counts(k, people)
    estimate = surveyed(ours, counts, seed=7).estimate()
    errors = estimate.frequencies - counts / people
    ratio = math.sqrt((errors**2).mean()) / ours.root_mean_square_error(people)
    assert 1 / 1.1 < ratio < 1.1
    assert abs(estimate.frequencies.sum() - 1) < 6 * math.sqrt(k) * ours.root_mean_square_error(people)
    assert (errors / estimate.standard_errors).std() == pytest.approx(1, abs=5.5 / math.sqrt(2 * k))


@pytest.mark.skipif(SCALE != "full", reason="minutes: HUSHVEC_TEST_SCALE=full runs it")
def test_the_most_frequent_words_are_found():
    """10^6 reports over 10,000 words at epsilon = 4: most of the 100 most frequent words are among the 100 largest estimates."""
    counts = zipf_counts(10_000, 1_000_000)
    ours = vocabulary(10_000, 4.0, "unary")
    found = {word for word, _, _ in surveyed(ours, counts, seed=8).estimate().top(100)}
    assert len(found & {ours.words[i] for i in np.argsort(-counts)[:100]}) >= 75


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_errors_before_any_report(mechanism):
    """`standard_error` is the formula that estimates use, and its mean over even frequencies is the one over the dictionary."""
    ours = vocabulary(64, 1.5, mechanism)
    assert ours.standard_error(1 / 64, 400) == pytest.approx(ours.root_mean_square_error(400), rel=1e-9)
    assert ours.standard_error(0.0, 400) == pytest.approx(10 * ours.standard_error(0.0, 40_000), rel=1e-12)
    for frequency, reports in ((-0.1, 10), (1.1, 10), (math.nan, 10), (0.5, 0), (0.5, 1.5), (True, 10)):
        with pytest.raises((TypeError, ValueError)):
            ours.standard_error(frequency, reports)


def test_published_variances():
    """n Var of a word that nobody has: e^eps + k - 2 over (e^eps - 1)^2 (k-RR), 4 e^eps over it (OUE), (e^eps + 1)^2 over it (one
    Hadamard block): Wang et al. (2017), table 1; Acharya, Sun, Zhang (2019).
    """
    for epsilon in (0.3, 1.0):
        e, k = math.exp(epsilon), 1000
        square = (e - 1) ** 2
        assert vocabulary(k, epsilon, "k_rr").standard_error(0.0, 1) ** 2 == pytest.approx((e + k - 2) / square, rel=1e-9)
        assert vocabulary(k, epsilon, "unary").standard_error(0.0, 1) ** 2 == pytest.approx(4 * e / square, rel=1e-9)
        assert vocabulary(k, epsilon, "hadamard").standard_error(0.0, 1) ** 2 == pytest.approx((e + 1) ** 2 / square, rel=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_large_epsilon_gives_the_counts(mechanism):
    ours = vocabulary(5, 700.0, mechanism)
    sketch = ours.sketch()
    sketch.add(ours.report(["word0"] * 600 + ["word3"] * 400, generator=hv.Generator.unsafe_seeded(9)))
    estimate = sketch.estimate()
    tolerance = 0.2 if mechanism == "unary" else 1e-12  # a true word is reported with 1/2 only, whatever epsilon is
    assert np.allclose(estimate.counts / 1000, [0.6, 0, 0, 0.4, 0], atol=tolerance)


def test_other_is_a_word():
    ours = vocabulary(5, 700.0, "k_rr", unknown="other")
    sketch = ours.sketch()
    sketch.add(ours.report(["word1", "nobody knows", "<other>"]))
    assert sketch.estimate().counts.round().tolist() == [0, 1, 0, 0, 0, 2]
    assert ours.words[-1] == "<other>"


def test_the_order_of_top():
    ours = vocabulary(4, 700.0, "k_rr")
    sketch = ours.sketch()
    sketch.add(np.array([2, 2, 2, 1, 1, 3], np.uint8))
    estimate = sketch.estimate()
    assert [word for word, _, _ in estimate.top(2)] == ["word2", "word1"]
    assert [word for word, _, _ in estimate.top(9)] == ["word2", "word1", "word3", "word0"]
    for k in (0, 1.5, True):
        with pytest.raises((TypeError, ValueError)):
            estimate.top(k)


def test_an_empty_sketch_has_nothing_to_say():
    with pytest.raises(ValueError, match="sketch must hold at least one report, got 0"):
        vocabulary(4, 1.0, "k_rr").sketch().estimate()
