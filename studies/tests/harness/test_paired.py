"""The sign-flip test against exact enumeration, scipy and its own null law; effect sizes. alpha = 1e-6 where a test is statistical."""

import itertools
import math

import numpy as np
import pytest

from evidence.reference.sizes import scaled
from hushvec_studies.harness.paired import paired_test, sign_flip_p_value

stats = pytest.importorskip("scipy.stats")

ALPHA = 1e-6
FLIPS = 40_000


def exact_p_value(differences):
    """Over all 2^n signs."""
    signs = np.array(list(itertools.product((-1, 1), repeat=len(differences))))
    return float((np.abs(signs @ differences) >= abs(np.sum(differences)) - 1e-12).mean())


def is_the_rate(p_value, exact, flips=FLIPS):
    """Whether (1 + extreme) / (1 + flips) is not refuted as an estimate of `exact`."""
    extreme = round(p_value * (1 + flips) - 1)
    return stats.binomtest(extreme, flips, exact).pvalue > ALPHA


@pytest.mark.parametrize("law", ["hits", "ranks", "continuous", "shifted"])
def test_the_p_value_is_the_enumerated_one(law):
    rng = np.random.default_rng(1)
    differences = {
        "hits": rng.integers(-1, 2, 14).astype(float),
        "ranks": 1 / rng.integers(1, 4, 14) - 1 / rng.integers(1, 4, 14),
        "continuous": rng.normal(0, 1, 14),
        "shifted": rng.normal(0.5, 1, 14),
    }[law]
    p_value = sign_flip_p_value(differences, FLIPS, np.random.default_rng(2))
    exact = exact_p_value(differences)
    assert is_the_rate(p_value, exact)
    assert not is_the_rate(p_value, min(1.0, 0.8 * exact + 1e-9))


def test_hits_are_mcnemars_exact_test():
    first, second = np.r_[np.ones(30), np.zeros(70)], np.r_[np.ones(18), np.zeros(77), np.ones(5)]
    ahead, behind = int((first > second).sum()), int((first < second).sum())
    exact = stats.binomtest(ahead, ahead + behind, 0.5).pvalue
    assert is_the_rate(paired_test(first, second, flips=FLIPS).p_value, exact)


def test_the_p_value_is_that_of_scipy():
    rng = np.random.default_rng(3)
    first, second = rng.random(60), rng.random(60) - 0.08
    ours = paired_test(first, second, flips=20_000).p_value
    theirs = stats.permutation_test(
        (first, second),
        lambda x, y: np.mean(x - y),
        permutation_type="samples",
        n_resamples=20_000,
        random_state=np.random.default_rng(4),
    ).pvalue
    assert abs(ours - theirs) < 5 * math.sqrt(2 * theirs * (1 - theirs) / 20_000)


DATA_SETS = scaled(400, 6000)


def rejected(first, second, **settings):
    """How often the test at 0.05 rejects."""
    return sum(paired_test(a, b, flips=99, resamples=1, **settings).p_value <= 0.05 for a, b in zip(first, second))


def test_equal_systems_are_rejected_as_often_as_stated():
    """Two indexes with the same hit rate, 80 queries, 400 data sets: at most 0.05 of them, by the upper binomial tail."""
    rng = np.random.default_rng(5)
    first, second = (rng.random((2, DATA_SETS, 80)) < 0.6).astype(float)
    count = rejected(first, second)
    assert stats.binom.sf(count - 1, DATA_SETS, 0.05) > ALPHA
    assert stats.binom.cdf(count, DATA_SETS, 0.02) > ALPHA  # hits are discrete, so it may be less than 0.05, but not by much
    better = (rng.random((200, 80)) < 0.85).astype(float)
    assert rejected(better, second[:200]) > 150


def test_dependent_queries_must_be_grouped():
    """20 documents with 6 queries that nearly agree. Grouped: 0.05. Ungrouped: refuted as 0.15."""
    rng = np.random.default_rng(6)
    document = rng.normal(0, 1, (2, DATA_SETS, 20, 1))
    first, second = (document + rng.normal(0, 0.2, (2, DATA_SETS, 20, 6))).reshape(2, DATA_SETS, -1)
    groups = np.repeat(np.arange(20), 6)
    assert stats.binom.sf(rejected(first, second, groups=groups) - 1, DATA_SETS, 0.05) > ALPHA
    assert stats.binom.cdf(rejected(first, second), DATA_SETS, 0.15) > 1 - ALPHA


def test_the_effect_is_cohens_d_of_the_differences():
    rng = np.random.default_rng(7)
    first, second = rng.normal(1, 1, 50), rng.normal(0.5, 1, 50)
    test = paired_test(first, second)
    # t of the paired test is d sqrt(n)
    assert test.cohens_d == pytest.approx(stats.ttest_rel(first, second).statistic / math.sqrt(50))
    assert test.n == 50 and test.difference.value == pytest.approx((first - second).mean())


def test_the_effect_of_groups_is_that_of_their_means():
    rng = np.random.default_rng(8)
    first, second = rng.random(60), rng.random(60)
    groups = np.repeat(np.arange(15), 4)
    means = (first - second).reshape(15, 4).mean(axis=1)
    test = paired_test(first, second, groups=groups)
    assert test.n == 15 and test.cohens_d == pytest.approx(means.mean() / means.std(ddof=1))


def test_no_difference_at_all():
    test = paired_test(np.ones(9), np.ones(9))
    assert (test.p_value, test.cohens_d, test.difference.value) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("first, second, effect", [(1.0, 0.0, math.inf), (0.0, 1.0, -math.inf)])
def test_a_difference_that_never_varies(first, second, effect):
    test = paired_test(np.full(30, first), np.full(30, second))
    assert test.p_value == 1e-4
    assert test.cohens_d == effect


def test_a_single_pair_says_nothing():
    test = paired_test([1.0], [0.0])
    assert test.p_value == 1.0 and math.isnan(test.cohens_d)


@pytest.mark.parametrize(
    "arguments, settings, error, text",
    [
        (([1.0], [1.0, 2.0]), {}, ValueError, "columns must have equal lengths"),
        (([np.inf], [1.0]), {}, ValueError, "first must be finite"),
        (([1.0], [1.0]), {"flips": 0}, ValueError, "flips must be >= 1"),
        (([1.0], [1.0]), {"groups": [1, 2]}, ValueError, "groups must be one label"),
    ],
)
def test_bad_input(arguments, settings, error, text):
    with pytest.raises(error, match=text):
        paired_test(*arguments, **settings)


def test_a_difference_that_all_queries_agree_on_still_has_an_interval():
    """20 queries, each found by both or by one alone: nothing is known of more than 1 - 0.025 ** (1 / 20) of all queries."""
    found, lost, open_share = np.ones(20), np.zeros(20), 1 - 0.025 ** (1 / 20)
    same, worse = (paired_test(one, found, limits=(-1.0, 1.0)).difference for one in (found, lost))
    assert (same.low, same.value, same.high) == pytest.approx((-open_share, 0.0, open_share))
    assert (worse.low, worse.value, worse.high) == pytest.approx((-1.0, -1.0, -1.0 + 2 * open_share))
