"""ROC curves against scikit-learn and against counting, and what their intervals cover."""

import numpy as np
import pytest
from scipy import stats

from hushvec._util.statistics import clopper_pearson
from hushvec.retrieval.attacks.curves import RocCurve, at_threshold

RANDOM = np.random.default_rng(3)
CASES = {
    "apart": (RANDOM.normal(1, 1, 80), RANDOM.normal(0, 1, 120)),
    "ties": (RANDOM.integers(0, 5, 50).astype(float), RANDOM.integers(0, 4, 70).astype(float)),
    "constant": (np.zeros(4), np.zeros(9)),
    "perfect": (np.ones(30), np.zeros(20)),
    "wrong way": (np.zeros(30), np.ones(20)),
    "one each": (np.array([2.0]), np.array([1.0])),
}


@pytest.mark.parametrize("name", CASES)
def test_area_is_that_of_scikit_learn(name):
    metrics = pytest.importorskip("sklearn.metrics")
    members, others = CASES[name]
    truth = np.repeat([1, 0], [len(members), len(others)])
    assert RocCurve.of(members, others).auc == pytest.approx(
        metrics.roc_auc_score(truth, np.concatenate([members, others])), abs=1e-14
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fpr", [0.001, 0.05, 0.1, 0.5, 0.99])
def test_rates_are_those_of_counting(name, fpr):
    members, others = CASES[name]
    best, threshold = 0.0, np.inf
    for value in sorted(np.concatenate([members, others]), reverse=True):
        if (others >= value).sum() <= fpr * len(others):
            best, threshold = (members >= value).mean(), value
    curve = RocCurve.of(members, others)
    assert curve.tpr_at(fpr) == best
    assert curve.threshold_at(fpr) == threshold


def test_a_rate_that_is_a_whole_number_of_others_is_reached():
    """0.01 of 300 others is 3, though 0.01 * 300 is a little less in floating point for some such products."""
    for others in range(100, 3000, 100):
        curve = RocCurve.of(np.full(10, 2.0), np.arange(others) / others)
        assert curve.threshold_at(0.01) == pytest.approx(1 - 1 / others * (others // 100))


def test_curve_goes_from_corner_to_corner():
    curve = RocCurve.of(*CASES["ties"])
    assert curve.tpr[0] == curve.fpr[0] == 0 and curve.tpr[-1] == curve.fpr[-1] == 1
    assert (np.diff(curve.tpr) >= 0).all() and (np.diff(curve.fpr) >= 0).all()


def test_intervals_cover_the_truth():
    """n = 400 games of 150 + 150 normal scores 1 apart; 95 % intervals of the area and of the rate at 10 %.

    Coverage is binomial: below 0.88 or at 1.0 has a probability under 1e-6 for true coverage 0.94 to 0.97, so that half the width
    (coverage about 0.67) is rejected.
    """
    random = np.random.default_rng(5)
    area, rate = stats.norm.cdf(1 / np.sqrt(2)), stats.norm.cdf(stats.norm.ppf(0.1) + 1)
    hits = np.zeros(2)
    half = 0
    for _ in range(400):
        curve = RocCurve.of(random.normal(1, 1, 150), random.normal(0, 1, 150))
        auc, rates = curve.intervals((0.1,), confidence=0.95, resamples=150, random=random)
        hits += [auc.low <= area <= auc.high, rates[0.1].low <= rate <= rates[0.1].high]
        half += abs(auc.value - area) <= (auc.high - auc.low) / 4
    assert (hits / 400 > 0.88).all() and (hits < 400).all()
    assert half / 400 < 0.88


def test_width_of_the_area_is_that_of_mann_and_whitney():
    """Without ties and without signal the deviation of the area is sqrt((n + m + 1) / (12 n m))."""
    random = np.random.default_rng(6)
    curve = RocCurve.of(random.random(500), random.random(700))
    auc, _ = curve.intervals((0.1,), confidence=0.95, resamples=2000, random=random)
    assert auc.high - auc.low == pytest.approx(2 * 1.96 * np.sqrt(1201 / (12 * 500 * 700)), rel=0.1)


def test_a_perfect_attack_has_an_interval():
    curve = RocCurve.of(np.ones(50), np.zeros(40))
    auc, rates = curve.intervals((0.01,), confidence=0.95, resamples=50, random=np.random.default_rng(1))
    assert (auc.value, auc.high) == (1.0, 1.0) and auc.low == pytest.approx(0.025 ** (1 / 40))
    assert (rates[0.01].value, rates[0.01].high) == (1.0, 1.0) and rates[0.01].low == pytest.approx(0.025 ** (1 / 50))


def test_clopper_and_pearson():
    found = clopper_pearson(7, 50, 0.9)
    wanted = stats.binomtest(7, 50).proportion_ci(0.9, method="exact")
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


def test_fixed_threshold_counts_ties_as_positive():
    rates = at_threshold(np.array([1.0, 2.0, 2.0]), np.array([0.0, 2.0]), 2.0, 0.95)
    assert (rates.tpr.value, rates.fpr.value) == (2 / 3, 0.5)


def test_both_sides_are_needed():
    with pytest.raises(ValueError, match="scores must have members and others, got 0 and 3"):
        RocCurve.of(np.array([]), np.ones(3))
