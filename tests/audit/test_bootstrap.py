"""The bootstrap: is it the law of drawing with replacement, does its interval cover, and what does a wrong one do?

alpha = 1e-6 for every statistical test; streams are seeded, so a test always passes or never.
"""

import time

import numpy as np
import pytest

from evidence.reference.sizes import scaled
from hushvec._util.statistics import Estimate
from hushvec.audit.bootstrap import bootstrap, resampled_counts, resampled_means, unit_sums

stats = pytest.importorskip("scipy.stats")

ALPHA = 1e-6


def plain_resample(values, groups, rng):
    """The definition: draw groups with replacement, put their queries together, take the mean."""
    members = [np.flatnonzero(groups == label) for label in np.unique(groups)]
    drawn = np.concatenate([members[one] for one in rng.integers(0, len(members), len(members))])
    return values[drawn].mean()


def drawn_means(values, groups=None, resamples=20_000, seed=1):
    sums, sizes = unit_sums(np.asarray(values, float)[:, None], groups)
    return resampled_means(sums, sizes, resamples, np.random.default_rng(seed))[:, 0]


# ---- the law ----


@pytest.mark.parametrize("share, units", [(0.5, 60), (0.03, 500), (0.97, 41)])
def test_a_share_is_resampled_by_the_binomial_law(share, units):
    """n = 20,000 resamples, statistic: chi-square of the number of hits against Binomial(units, share)."""
    hits = round(share * units)
    values = np.r_[np.ones(hits), np.zeros(units - hits)]
    counted = np.rint(drawn_means(values) * units).astype(int)
    assert chi_square_p_value(counted, units, hits / units) > ALPHA
    assert chi_square_p_value(counted, units, 0.9 * hits / units) < ALPHA


def chi_square_p_value(counted, units, share):
    expected = len(counted) * stats.binom.pmf(np.arange(units + 1), units, share)
    often = expected > 10
    seen = np.bincount(counted, minlength=units + 1)
    pooled = [np.r_[table[often], table[~often].sum() + 1e-9] for table in (seen, expected)]
    statistic = ((pooled[0] - pooled[1]) ** 2 / pooled[1]).sum()
    return stats.chi2.sf(statistic, len(pooled[0]) - 1)


def test_counts_are_multinomial():
    """n = 4,000 rows of 30: sums exactly 30; means and variances of each count; covariances are those of the multinomial law."""
    counts = np.concatenate(list(resampled_counts(30, 4000, np.random.default_rng(3))))
    assert counts.shape == (4000, 30) and (counts.sum(axis=1) == 30).all()
    assert np.abs(counts.mean(axis=0) - 1).max() < 5.5 * np.sqrt(29 / 30 / 4000)
    covariance = np.cov(counts.T)
    expected = np.eye(30) - 1 / 30
    assert np.abs(covariance - expected).max() < 0.2


@pytest.mark.parametrize("kinds", [3, 400])
def test_both_ways_to_resample_have_one_law_and_it_is_the_plain_one(kinds):
    """400 queries of few kinds (multinomial over kinds) or all different (unit by unit), against plain drawing; n = 20,000 and
    2,000, statistic: two-sample Kolmogorov-Smirnov; rejected at alpha when one query in twenty is left out of the draw."""
    rng = np.random.default_rng(11)
    values = rng.integers(0, kinds, 400) / kinds + (rng.random(400) if kinds == 400 else 0)
    ours = drawn_means(values)
    plain = np.array([values[rng.integers(0, 400, 400)].mean() for _ in range(2000)])
    fewer = np.array([values[rng.integers(0, 300, 300)].mean() for _ in range(2000)])
    assert stats.ks_2samp(ours, plain).pvalue > ALPHA
    assert stats.ks_2samp(ours, fewer).pvalue < ALPHA


@pytest.mark.parametrize("continuous", [False, True])
def test_groups_of_different_sizes_are_drawn_whole(continuous):
    """Statistic: two-sample Kolmogorov-Smirnov against plain drawing of groups, n = 20,000 and 2,000."""
    rng = np.random.default_rng(12)
    groups = np.sort(rng.integers(0, 40, 300))
    base = rng.random(40)[groups]
    values = base + rng.random(300) if continuous else (rng.random(300) < base).astype(float)
    plain = np.array([plain_resample(values, groups, rng) for _ in range(2000)])
    ungrouped = np.array([values[rng.integers(0, 300, 300)].mean() for _ in range(2000)])
    ours = drawn_means(values, np.unique(groups, return_inverse=True)[1])
    assert stats.ks_2samp(ours, plain).pvalue > ALPHA
    assert stats.ks_2samp(ours, ungrouped).pvalue < ALPHA


@pytest.mark.parametrize("law", ["hits", "ranks", "continuous"])
def test_intervals_are_those_of_scipy(law):
    """Both with 20,000 resamples; ends differ by the error of two estimated quantiles, at most 0.06 of the interval's width."""
    rng = np.random.default_rng(21)
    values = {"hits": rng.random(500) < 0.8, "ranks": 1.0 / rng.integers(1, 11, 500), "continuous": rng.normal(0.2, 0.05, 500)}[
        law
    ].astype(float)
    ours = bootstrap({"x": values}, resamples=20_000, confidence=0.9)["x"]
    theirs = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=20_000,
        batch=500,
        method="percentile",
        confidence_level=0.9,
        random_state=np.random.default_rng(22),
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    assert np.abs(np.array([ours.low - theirs.low, ours.high - theirs.high])).max() < 0.06 * (theirs.high - theirs.low)


# ---- does it cover? ----

DATA_SETS = scaled(1000, 10_000)


def covered(data_sets, mean, *, groups=None, **settings):
    """How many intervals hold the true mean."""
    estimates = [
        bootstrap({"x": values}, groups=groups, resamples=200, seed=number, **settings)["x"]
        for number, values in enumerate(data_sets)
    ]
    return sum(one.low <= mean <= one.high for one in estimates)


def coverage_is(count, total, low, high):
    """Whether a coverage of [low, high] is not refuted at alpha by `count` of `total`."""
    return stats.binom.cdf(count, total, low) > ALPHA and stats.binom.sf(count - 1, total, high) > ALPHA


def test_an_interval_covers_at_about_its_confidence():
    """200 queries with hit rate 0.7, 1,000 data sets: a coverage within [0.93, 0.96] is not refuted, 0.89 and 0.98 are."""
    rng = np.random.default_rng(31)
    count = covered((rng.random((DATA_SETS, 200)) < 0.7).astype(float), 0.7)
    assert coverage_is(count, DATA_SETS, 0.93, 0.96)
    assert not coverage_is(count, DATA_SETS, 0.0, 0.89)
    assert not coverage_is(count, DATA_SETS, 0.98, 1.0)


def correlated(rng, data_sets, documents=60, per_document=5):
    """Hits of queries about one document: each document has its own chance, 0.7 on average."""
    chances = rng.beta(0.7, 0.3, (data_sets, documents, 1))
    return (rng.random((data_sets, documents, per_document)) < chances).reshape(data_sets, -1).astype(float)


def test_queries_of_one_document_must_be_grouped():
    """60 documents with 5 queries each. Grouped: coverage within [0.92, 0.96]. Ungrouped: below 0.80, refuted as 0.90."""
    values = correlated(np.random.default_rng(32), DATA_SETS)
    grouped = covered(values, 0.7, groups=np.repeat(np.arange(60), 5))
    assert coverage_is(grouped, DATA_SETS, 0.92, 0.96)
    alone = covered(values, 0.7)
    assert not coverage_is(alone, DATA_SETS, 0.90, 1.0)
    assert coverage_is(alone, DATA_SETS, 0.60, 0.80)


def test_perfect_scores_still_have_an_interval():
    """True hit rate 0.99, 100 queries: 37 % of data sets are perfect, and their bootstrap says [1, 1]. With limits the interval holds
    0.99 in all of those."""
    rng = np.random.default_rng(33)
    values = (rng.random((400, 100)) < 0.99).astype(float)
    perfect = values[values.all(axis=1)]
    assert len(perfect) > 100
    assert covered(perfect, 0.99) == 0
    assert covered(perfect, 0.99, limits=(0.0, 1.0)) == len(perfect)


@pytest.mark.parametrize("value, low, high", [(1.0, 0.9638, 1.0), (0.0, 0.0, 0.0362), (0.5, 0.4819, 0.5181)])
def test_units_that_are_all_alike(value, low, high):
    """100 units: Clopper and Pearson's share is at least 0.9638 (0.025 ** (1 / 100))."""
    one = bootstrap({"x": np.full(100, value)}, limits=(0.0, 1.0))["x"]
    assert (one.value, round(one.low, 4), round(one.high, 4)) == (value, low, high)
    assert stats.binomtest(100, 100).proportion_ci(0.95, "exact").low == pytest.approx(0.025 ** (1 / 100), abs=1e-12)
    bare = bootstrap({"x": np.full(100, value)})["x"]
    assert (bare.low, bare.high) == (value, value)


def test_perfect_groups_count_as_groups():
    one = bootstrap({"x": np.ones(100)}, groups=np.repeat(np.arange(20), 5), limits=(0.0, 1.0))["x"]
    assert one.low == pytest.approx(0.025 ** (1 / 20), abs=1e-6)


# ---- the rest ----


def test_the_same_seed_gives_the_same_interval_and_another_one_another():
    values = np.random.default_rng(41).random(50)
    first, again, other = (bootstrap({"x": values}, seed=seed)["x"] for seed in (1, 1, 2))
    assert first == again != other


def test_columns_are_resampled_together():
    """A column and its complement have mirrored intervals."""
    values = np.random.default_rng(42).random(80)
    both = bootstrap({"x": values, "y": 1 - values})
    assert both["x"].low == pytest.approx(1 - both["y"].high, abs=1e-12)


def test_labels_of_groups_may_be_strings():
    values = np.random.default_rng(43).random(60)
    numbers = np.repeat(np.arange(20), 3)
    names = np.array([f"document {one:02}" for one in numbers])
    assert bootstrap({"x": values}, groups=numbers) == bootstrap({"x": values}, groups=names)


def test_one_query():
    assert bootstrap({"x": [0.25]})["x"] == Estimate(0.25, 0.25, 0.25, 0.95)


def test_estimates_as_dictionaries():
    assert Estimate(0.5, 0.4, 0.6, 0.9).to_dict() == {"value": 0.5, "low": 0.4, "high": 0.6, "confidence": 0.9}


@pytest.mark.alone
def test_ten_metrics_of_22000_queries_take_well_under_two_seconds():
    """Both ways to resample."""
    rng = np.random.default_rng(51)
    ranks = rng.integers(1, 12, 22_000)
    tables = [{f"{one}": (ranks <= one) / ranks for one in range(1, 11)}, {f"{one}": rng.random(22_000) for one in range(10)}]
    for table in tables:
        start = time.process_time()
        bootstrap(table, resamples=1000)
        assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "columns, settings, error, text",
    [
        ({}, {}, ValueError, "at least one column"),
        ({"x": []}, {}, ValueError, "x must have one value for each query and at least one"),
        ({"x": [[1.0]]}, {}, ValueError, "x must have one value"),
        ({"x": [1.0, np.nan]}, {}, ValueError, "x must be finite, got"),
        ({"x": ["a"]}, {}, TypeError, "x must be numbers"),
        ({"x": [1.0], "y": [1.0, 2.0]}, {}, ValueError, "columns must have equal lengths, got x: 1, y: 2"),
        ({"x": [1.0]}, {"confidence": 1.0}, ValueError, "confidence must be > 0 and < 1, got 1.0"),
        ({"x": [1.0]}, {"confidence": float("nan")}, ValueError, "confidence must be finite"),
        ({"x": [1.0]}, {"resamples": 0}, ValueError, "resamples must be >= 1, got 0"),
        ({"x": [1.0]}, {"resamples": True}, TypeError, "resamples must be a whole number, got bool"),
        ({"x": [1.0]}, {"seed": -1}, ValueError, "seed must be >= 0, got -1"),
        ({"x": [1.0]}, {"groups": [1, 2]}, ValueError, "groups must be one label for each of 1 queries, got shape (2,)"),
        ({"x": [1.0]}, {"groups": [1.5]}, TypeError, "groups must be whole numbers or strings, got float64"),
    ],
)
def test_bad_input(columns, settings, error, text):
    with pytest.raises(error) as raised:
        bootstrap(columns, **settings)
    assert text in str(raised.value)
