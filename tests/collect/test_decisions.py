"""Which words are "present": p-values against scipy, corrections against their definitions, and the errors they promise."""

import math

import numpy as np
import pytest
from scipy import stats

from collect.surveys import surveyed, vocabulary
from evidence.reference.sizes import scaled
from hushvec._util.statistics import CORRECTIONS, adjusted
from hushvec.collect.estimate import binomial_p_values, normal_p_values
from hushvec.collect.oracles import oracle_for

MECHANISMS = ("k_rr", "unary", "hadamard")
SURVEYS = scaled(100, 5000)


def test_binomial_tails_are_those_of_scipy():
    rng = np.random.default_rng(0)
    for n, q in ((50, 0.5), (1000, 0.01), (1_000_000, 0.27), (1_000_000, 1e-4)):
        successes = np.unique(np.concatenate((rng.binomial(n, q, 100), [0, n], n * q + math.sqrt(n * q) * np.arange(10)))).astype(int)
        ours = binomial_p_values(successes, np.full(len(successes), n), q)
        exact = stats.binom.sf(successes - 1, n, q)
        above = successes > n * q
        assert (ours[~above] == 1).all()
        assert (ours[above] >= exact[above] * (1 - 1e-12)).all()
        assert np.allclose(ours[above], np.minimum(exact[above], 1), rtol=1e-6, atol=1e-300)


def test_normal_tails_are_those_of_scipy():
    z = np.linspace(-5, 30, 50)
    assert np.allclose(normal_p_values(z), stats.norm.sf(z), rtol=1e-12)


def test_corrections_by_their_definitions():
    """What each rejects at every level, from the step rules themselves."""
    rng = np.random.default_rng(1)
    for size in (1, 2, 10, 60):
        p = np.minimum(1, rng.random(size) ** 4 + (rng.random(size) < 0.2) * 1e-3)
        order = np.sort(p)
        for alpha in (0.01, 0.05, 0.3):
            bonferroni = p * size <= alpha
            steps = order <= alpha / np.arange(size, 0, -1)
            first_kept = size if steps.all() else int(np.argmin(steps))
            holm = p < order[first_kept] if first_kept < size else np.ones(size, bool)
            below = np.flatnonzero(order <= alpha * np.arange(1, size + 1) / size)
            hochberg = p <= order[below[-1]] if len(below) else np.zeros(size, bool)
            for name, expected in (("bonferroni", bonferroni), ("holm", holm), ("benjamini-hochberg", hochberg)):
                assert ((adjusted(p, name) <= alpha) == expected).all(), name
    assert (adjusted(p, "holm") <= adjusted(p, "bonferroni")).all()
    assert (adjusted(p, "benjamini-hochberg") <= adjusted(p, "holm")).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_absent_words_are_hardly_ever_called_present(mechanism):
    """100 surveys (5,000 in the full run) of 3,000 people over 40 words, of which 35 nobody has. Holm at alpha = 0.2: the surveys with
    a false "present" are at most binomial with 0.2; alpha of this test 1e-6. Without a correction nearly every survey has one.
    """
    counts = np.array([1500, 800, 400, 200, 100] + [0] * 35)
    absent = {f"word{i}" for i in range(5, 40)}
    ours, false, uncorrected, found = vocabulary(40, 2.0, mechanism), 0, 0, 0
    for seed in range(SURVEYS):
        estimate = surveyed(ours, counts, seed=seed).estimate()
        present = estimate.present(alpha=0.2)
        false += bool(absent & set(present))
        found += "word0" in present
        uncorrected += bool((estimate.p_values[5:] <= 0.2).any())
    assert stats.binom.sf(false - 1, SURVEYS, 0.2) > 1e-6
    assert found == SURVEYS
    assert stats.binom.sf(uncorrected - 1, SURVEYS, 0.2) < 1e-6


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_p_values_of_absent_words_are_valid(mechanism):
    """p-values of 20 absent words in 100 surveys: at most alpha of them are below alpha, up to 1e-6 chance and a factor for words of
    one survey that depend on each other.
    """
    counts = np.array([900, 100] + [0] * 20)
    ours = vocabulary(22, 1.0, mechanism)
    p = np.concatenate([surveyed(ours, counts, seed=seed).estimate().p_values[2:] for seed in range(SURVEYS)])
    for alpha in (0.01, 0.1, 0.4):
        low = (p <= alpha).sum()
        assert low <= len(p) * alpha + 4.9 * math.sqrt(2 * len(p) * alpha * (1 - alpha))
    assert (p <= 0.4).sum() > 0.25 * len(p)  # and they are not all 1


def test_present_words_come_in_the_order_of_their_estimates():
    counts = np.array([10, 5000, 0, 2000])
    present = surveyed(vocabulary(4, 4.0, "unary"), counts, seed=1).estimate().present(correction="bonferroni")
    assert present[:2] == ["word1", "word3"]
    assert "word2" not in present


@pytest.mark.parametrize("alpha", [0, 1, -0.1, math.nan, True, "0.05"])
def test_alpha_is_a_probability(alpha):
    estimate = surveyed(vocabulary(4, 1.0, "k_rr"), np.array([5, 5, 0, 0]), seed=1).estimate()
    with pytest.raises((TypeError, ValueError), match="alpha must be"):
        estimate.present(alpha=alpha)


def test_corrections_have_names():
    estimate = surveyed(vocabulary(4, 1.0, "k_rr"), np.array([5, 5, 0, 0]), seed=1).estimate()
    assert CORRECTIONS == ("holm", "bonferroni", "benjamini-hochberg")
    with pytest.raises(ValueError, match="correction must be one of 'holm', 'bonferroni', 'benjamini-hochberg', got 'none'"):
        estimate.present(correction="none")


def test_no_oracle_for_an_unknown_name():
    with pytest.raises(ValueError) as caught:
        oracle_for("rappor", 10, 1.0)
    assert str(caught.value) == "mechanism must be one of 'auto', 'k_rr', 'unary', 'hadamard', got 'rappor'"
