"""Likelihood ratios per candidate: close to the ideal ones, and blind where there is nothing to see."""

import numpy as np
import pytest
from scipy import stats

from hushvec.retrieval.attacks.curves import RocCurve
from hushvec.retrieval.attacks.statistics import LikelihoodRatio


def couples(shadows, candidates, random):
    """Members of shadows in couples."""
    first = random.integers(0, 2, (shadows // 2, candidates)).astype(bool)
    return np.stack([first, ~first], axis=1).reshape(shadows, candidates)


def area(scores, members):
    return RocCurve.of(scores[members], scores[~members]).auc


def scene(shadows, candidates, *, between, signal, seed=1):
    """Values candidate + signal if in + N(0, 1), candidates spread by `between`; shadows, and one target."""
    random = np.random.default_rng(seed)
    members = couples(shadows + 2, candidates, random)
    values = between * random.standard_normal(candidates) + signal * members + random.standard_normal(members.shape)
    return values[:-2], members[:-2], values[-2], members[-2]


@pytest.mark.parametrize("shadows", [4, 16, 64])
def test_candidates_that_differ_are_told_apart_by_their_own_laws(shadows):
    """n = 4000; the values alone have an area of 0.53, the true ratio 0.760; 64 shadows come within 0.02 of it."""
    values, members, target, inside = scene(shadows, 4000, between=9.0, signal=1.0)
    fitted = LikelihoodRatio(values, members)
    alone, found = area(target, inside), area(fitted.ratios(target), inside)
    assert alone < 0.56
    assert found > {4: 0.66, 16: 0.72, 64: 0.74}[shadows]
    assert found < stats.norm.cdf(1 / np.sqrt(2)) + 0.03


def test_candidates_that_are_alike_share_what_is_known():
    """Means are drawn together: with 4 shadows as good as with the one true law, 0.760 (n = 4000, deviation 0.008)."""
    values, members, target, inside = scene(4, 4000, between=0.0, signal=1.0)
    assert area(LikelihoodRatio(values, members).ratios(target), inside) > 0.72


def test_with_many_shadows_the_ratio_is_that_of_two_normal_laws():
    random = np.random.default_rng(2)
    members = couples(2000, 5, random)
    spread = np.array([0.5, 1.0, 2.0, 1.0, 1.0])
    values = np.arange(5) + members * np.array([1.0, 1.0, 1.0, 0.0, 3.0]) + spread * random.standard_normal(members.shape)
    fitted = LikelihoodRatio(values, members)
    points = np.arange(5) + 0.7
    law = lambda values: stats.norm(values.mean(), values.std())
    own = [
        law(column[inside]).logpdf(point) - law(column[~inside]).logpdf(point)
        for point, column, inside in zip(points, values.T, members.T)
    ]
    np.testing.assert_allclose(fitted.ratios(points), own, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("shadows", [4, 6, 16])
@pytest.mark.parametrize("between", [0.0, 9.0])
def test_shadows_left_out_are_judged_as_targets_are(shadows, between):
    """Without signal the area over n = 4000 x shadows values is 1/2; deviations of more than 0.02 have a probability below 1e-6."""
    values, members, _, _ = scene(shadows, 4000, between=between, signal=0.0)
    left_out = LikelihoodRatio(values, members).ratios_left_out(values, members)
    assert abs(area(left_out, members) - 0.5) < 0.02


def test_without_leaving_out_shadows_would_look_like_members():
    """Why it is done: judged by themselves shadows have an area far above 1/2 where there is nothing to see."""
    values, members, _, _ = scene(4, 4000, between=9.0, signal=0.0)
    assert area(LikelihoodRatio(values, members).ratios(values), members) > 0.6


def test_constant_values_say_nothing():
    members = couples(4, 10, np.random.default_rng(1))
    np.testing.assert_array_equal(LikelihoodRatio(np.ones((4, 10)), members).ratios(np.ones(10)), 0.0)


def test_members_that_all_score_the_same():
    """As the own vector's score without noise: 1 for members, less for others; infinite certainty stays finite."""
    random = np.random.default_rng(3)
    members = couples(8, 100, random)
    values = np.where(members, 1.0, random.random(members.shape) * 0.9)
    ratios = LikelihoodRatio(values, members).ratios(values[0])
    assert np.isfinite(ratios).all()
    assert area(ratios, members[0]) == 1.0
