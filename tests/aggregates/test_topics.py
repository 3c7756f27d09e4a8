"""Private topics: what one person moves, what intervals cover, what a growth test finds, and what does not depend on private rows.

Statistics, with seeds fixed: intervals at 0.95 over 200 releases of 21 counts (share covered, 5 deviations of a binomial with one
release as one trial); the level of the growth test at 0.05 (uncorrected, each topic) and of Holm's (the family) over 300 pairs without
growth (binomial, alpha = 1e-4); power over 40 pairs of 4,000 people of whom 60 more write about one topic.
"""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hushvec as hv
from hushvec.aggregates import PrivateTopics, PublicTopics, private_topics
from hushvec.aggregates.spending import People
from hushvec.aggregates.topics import UNLIKE, _merged
from scripts.test_loop_scripts import script

TERMS = {"epsilon": 1.0, "delta": 1e-5}
KINDS, DIMENSION = 20, 24


def around(codes, rng, spread=0.1):
    """Unit-ish rows near the axes of these numbers; the axes from KINDS on are nobody's topic."""
    codes = np.asarray(codes, np.int64)
    return (np.eye(DIMENSION)[codes] + spread * rng.standard_normal((len(codes), DIMENSION))).astype(np.float32)


POOL = around(np.arange(300) % KINDS, np.random.default_rng(1))
TOPICS = PublicTopics.fit(POOL, topics=KINDS)


def seeded(seed):
    return hv.Generator.unsafe_seeded(seed)


def released(rows, seed, **terms):
    return private_topics(rows, pool=TOPICS, generator=seeded(seed), **{**TERMS, **terms})


# ---- what is public


def test_topics_are_the_groups_of_the_pool_and_examples_are_theirs():
    texts = [f"text of {row % KINDS}" for row in range(300)]
    found = PublicTopics.fit(POOL, texts=texts, topics=KINDS)
    assert sorted({examples[0] for examples in found.examples}) == sorted(set(texts))
    assert all(len(examples) == 5 and len(set(examples)) == 1 for examples in found.examples)
    assert np.linalg.norm(found.centers, axis=1) == pytest.approx(1, abs=1e-6) and TOPICS.digest != found.digest


def test_merges_are_those_of_scikit_learn():
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import adjusted_rand_score

    rows = np.random.default_rng(2).standard_normal((150, 6)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for count in (2, 9, 40):
        assert adjusted_rand_score(AgglomerativeClustering(count).fit_predict(rows), _merged(rows, count)) == 1


def test_the_same_pool_gives_the_same_topics_and_order_of_repeats_does_not_count():
    again = PublicTopics.fit(POOL.copy(), topics=KINDS)
    assert again.digest == TOPICS.digest and again.centers.tobytes() == TOPICS.centers.tobytes()
    doubled = PublicTopics.fit(np.concatenate([POOL, POOL[:50]]), topics=KINDS)
    assert doubled.digest == TOPICS.digest
    assert len(PublicTopics.fit(POOL).centers) == 26  # 1.5 sqrt(300)


def test_the_threshold_is_a_quantile_of_the_pool_and_does_not_depend_on_private_rows():
    unit = POOL.astype(np.float64) / np.linalg.norm(POOL.astype(np.float64), axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -1)
    assert TOPICS.threshold == pytest.approx(np.quantile(cosines.max(axis=1), UNLIKE), abs=1e-6)
    for rows in (POOL, -POOL, np.zeros((3, DIMENSION))):
        found = private_topics(rows, pool=POOL, topics=KINDS, **TERMS)
        assert (found.threshold, found.pool) == (TOPICS.threshold, TOPICS.digest)


def test_rows_like_the_pool_are_covered_and_others_are_not():
    rng = np.random.default_rng(3)
    votes = TOPICS.votes(around(np.arange(2000) % KINDS, rng))
    assert (votes == KINDS).mean() < 3 * UNLIKE
    with pytest.raises(ValueError, match="rows must be finite, got nan in row 1"):
        TOPICS.votes(np.where(np.arange(3)[:, None] == 1, np.nan, np.ones((3, DIMENSION))))
    strange = np.concatenate([around(np.full(50, KINDS), rng), np.zeros((1, DIMENSION), np.float32)])
    assert (TOPICS.votes(strange) == KINDS).all()


def test_a_row_is_covered_by_whatever_pool_row_is_near():
    """By one of another topic too; against all cosines with all pool rows."""
    rng = np.random.default_rng(6)
    pool = PublicTopics.fit(around(np.arange(120) % 3, rng, 0.5), topics=9)
    rows = around(rng.integers(0, 3, 400), rng, 0.45)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines, nearest = unit @ pool.pool.T, (unit @ pool.centers.T).argmax(axis=1)
    covered = cosines.max(axis=1) >= pool.threshold
    assert (pool.votes(rows) == np.where(covered, nearest, 9)).all() and 0 < covered.sum() < 400
    own = (pool.pool @ pool.centers.T).argmax(axis=1) == nearest[:, None]
    assert (covered & (np.where(own, cosines, -1).max(axis=1) < pool.threshold)).any()   # by others alone


# ---- what one person moves


def counts_of(rows, people, rows_per_person):
    """What the noise is added to, as `private_topics` counts it."""
    kept = People(rows_per_person).kept(people, len(rows))
    return np.bincount(TOPICS.votes(np.asarray(rows, np.float32).reshape(-1, DIMENSION))[kept], minlength=KINDS + 1)


def test_the_count_of_the_tests_is_that_of_the_function():
    rng = np.random.default_rng(4)
    rows, people = around(rng.integers(0, KINDS + 2, 500), rng), rng.integers(0, 200, 500)
    found = released(rows, 1, epsilon=1e5, people=people, rows_per_person=2)
    assert np.abs(found.counts - counts_of(rows, people, 2)).max() < 0.5 and found.sigma < 0.1


axes = st.lists(st.integers(0, DIMENSION - 1), max_size=5)


@settings(deadline=None)
@given(mine=axes, other=axes, rest=st.lists(st.tuples(st.integers(0, DIMENSION - 1), st.integers(1, 3)), max_size=6),
       bound=st.integers(1, 3), size=st.sampled_from([1e-20, 1.0, 1e20]))  # fmt: skip
def test_a_person_moves_counts_by_no_more_than_the_receipt_says(mine, other, rest, bound, size):
    """Add-remove: at most r in L2; replace-one: sqrt(2) r. The outlier axes are uncovered, and sizes do not count."""
    def counted(own):
        rows = [size * np.eye(DIMENSION)[axis] for axis in own] + [np.eye(DIMENSION)[axis] for axis, _ in rest]
        return counts_of(rows, [0] * len(own) + [person for _, person in rest], bound).astype(np.int64)

    without, one, replaced = counted([]), counted(mine), counted(other)
    for adjacency, moved, square in (("add-remove", one - without, bound**2), ("replace-one", one - replaced, 2 * bound**2)):
        assert moved @ moved <= square
        receipt = released(POOL[:5], 2, adjacency=adjacency, rows_per_person=bound).receipt
        assert receipt.statistics[0].count_sigma ** 2 >= square * receipt.noise_multiplier**2 * (1 - 1e-12)
        if adjacency == "add-remove":
            assert (np.delete(one, np.flatnonzero(moved)) == np.delete(without, np.flatnonzero(moved))).all()


TRIALS = 1000
CANARIES = {"in every row": (0, 50), "one topic": (7, 1), "an outlier": (KINDS + 1, 1)}


@pytest.mark.parametrize("canary", CANARIES)
def test_a_canary_is_seen_no_better_than_claimed(canary):
    """TRIALS releases with the canary person and as many without, and the best test of somebody who knows everybody else, whether
    the count is above the middle of the two: right guesses less false alarms are 2 Phi(1 / 2m) - 1 for noise multiplier m, within
    5 deviations. The means differ by one row, within 5: of a person in many rows one enters."""
    axis, rows_given = CANARIES[canary]
    rows = around(np.arange(40) % KINDS, np.random.default_rng(5))
    own = np.tile((1e6 if axis > KINDS else 1) * np.eye(DIMENSION, dtype=np.float32)[axis], (rows_given, 1))
    people, source = [*range(40), *[99] * rows_given], seeded(8)
    place = int(TOPICS.votes(own)[0])
    assert (place == KINDS) == (canary == "an outlier")

    def counted(given_rows, ids):
        found = [private_topics(given_rows, pool=TOPICS, people=ids, generator=source, **TERMS) for _ in range(TRIALS)]
        return np.array([one.counts[place] for one in found]), found[0].receipt.noise_multiplier

    (with_it, multiplier), (without, _) = counted(np.concatenate([rows, own]), people), counted(rows, people[:40])
    middle = counts_of(rows, people[:40], 1)[place] + 0.5
    advantage, claimed = (with_it > middle).mean() - (without > middle).mean(), 2 * stats.norm.cdf(1 / (2 * multiplier)) - 1
    assert abs(advantage - claimed) < 5 * np.sqrt(2 * 0.25 / TRIALS)
    assert abs(with_it.mean() - without.mean() - 1) < 5 * multiplier * np.sqrt(2 / TRIALS)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_both_verifiers_accept_the_receipt(adjacency):
    receipt = private_topics(POOL, pool=TOPICS, adjacency=adjacency, rows_per_person=2, **TERMS).receipt
    assert hv.verify_receipt(receipt).status == "holds"
    assert script("check_receipt").check_receipt(json.loads(receipt.to_json()))[0] == "holds"
    assert receipt.statistics[0].groups == KINDS + 1 and (receipt.epsilon, receipt.delta) == (1.0, 1e-5)


# ---- intervals and growth


PEOPLE = np.append(np.random.default_rng(9).dirichlet(np.full(KINDS, 2.0)) * 0.95, 0.05)


def made(codes, seed, **terms):
    """A result with these exact votes, without rows."""
    found = hv.aggregates.private_histogram(codes, KINDS + 1, generator=seeded(seed), **{**TERMS, **terms})
    return PrivateTopics(found.counts, found.sigma, TOPICS.examples, TOPICS.threshold, TOPICS.digest, found.receipt)


@pytest.mark.parametrize("people", [60, 400, 4000])
def test_intervals_cover_the_exact_shares_as_often_as_they_say(people):
    """60 people are so few that an interval may be of all shares, which covers more often."""
    rng, covered = np.random.default_rng(people), []
    for seed in range(200):
        codes = rng.choice(KINDS + 1, people, p=PEOPLE)
        low, high = made(codes, seed).intervals().T
        exact = np.bincount(codes, minlength=KINDS + 1) / people
        covered.append(((low <= exact) & (exact <= high)).mean())
    assert np.mean(covered) > 0.95 - 5 * np.sqrt(0.95 * 0.05 / 200)
    assert people == 60 or np.mean(covered) < 0.95 + 5 * np.sqrt(0.95 * 0.05 / 200)


def test_too_few_rows_give_intervals_of_everything():
    assert made(np.zeros(0, np.int64), 1).intervals().tolist() == [[0.0, 1.0]] * (KINDS + 1)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_where_nothing_grows_the_test_has_its_level(epsilon):
    rng, rejected, family = np.random.default_rng(10), [], 0
    for seed in range(300):
        before, after = (made(rng.choice(KINDS + 1, 3000, p=PEOPLE), 2 * seed + part, epsilon=epsilon) for part in (0, 1))
        found = after.growth(before)
        rejected.append(np.abs(found.difference / found.standard_error) > 1.959964)
        family += found.p_values.min() <= 0.05
    assert stats.binomtest(family, 300, 0.05, alternative="greater").pvalue > 1e-4
    of_each = np.mean(rejected, axis=0)  # the mean over topics has no larger a deviation than one of them
    assert abs(of_each.mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 300)


def test_a_topic_that_grows_by_a_point_and_a_half_is_first():
    rng, first = np.random.default_rng(11), 0
    for seed in range(40):
        before, after = (rng.choice(KINDS + 1, 4000, p=PEOPLE) for _ in range(2))
        grown = int(np.argsort(PEOPLE)[seed % 5])
        after[rng.choice(4000, 60, replace=False)] = grown
        first += made(after, 2 * seed).growth(made(before, 2 * seed + 1)).order[0] == grown
    assert first >= 36


def test_growth_needs_the_same_pool():
    one, other = released(POOL, 1), private_topics(POOL, pool=PublicTopics.fit(POOL, topics=5), **TERMS)
    with pytest.raises(ValueError, match=r"earlier must have the pool [0-9a-f]{16}\.\.\., that of the later result, got [0-9a-f]{16}"):
        one.growth(other)
    with pytest.raises(TypeError, match="earlier must be a PrivateTopics, got dict"):
        one.growth({})
    assert "uncovered" in str(released(POOL, 2).growth(one)) and "growth" in released(POOL, 2).growth(one)._repr_html_()


# ---- results, and what is refused


def test_a_result_is_printed_and_kept():
    found = released(POOL, 3)
    assert "votes for 20 topics" in str(found) and "uncovered" in str(found) and "<table" in found._repr_html_()
    again = PrivateTopics.from_json(found.to_json())
    assert again.counts.tolist() == found.counts.tolist()
    assert dataclasses.replace(again, counts=found.counts) == found
    assert found.shares.sum() == pytest.approx(1) and found.order()[-1] == KINDS


REFUSED = r"text must be of PrivateTopics\.to_json, got"


DAMAGED = [
    {"format": "other"}, {"counts": [1.0]}, {"counts": ["a"] * 21}, {"counts": [float("inf")] * 21}, {"receipt": {}}, {"more": 1},
    {"sigma": 0.0}, {"examples": [[]] * 20},
]  # fmt: skip


@pytest.mark.parametrize("change", DAMAGED)
def test_a_damaged_result_is_refused(change):
    text = json.dumps({**json.loads(released(POOL, 3).to_json()), **change})
    with pytest.raises(ValueError, match=REFUSED):
        PrivateTopics.from_json(text)
    for text in ("[]", "3", "", "{}"):
        with pytest.raises(ValueError, match=REFUSED):
            PrivateTopics.from_json(text)


WRONG = {
    "no rows in pool": ({"pool": np.ones((1, 4))}, ValueError, "pool must have at least two rows and one column, got shape"),
    "few different": ({"pool": np.ones((9, 4))}, ValueError, "pool must have at least 3 different rows, got 1"),
    "zeros in pool": ({"pool": np.zeros((9, 4))}, ValueError, "pool must have no row of zeros, which has no direction"),
    "NaN in pool": ({"pool": np.full((9, 4), np.nan)}, ValueError, "pool must be finite"),
    "texts": ({"texts": ["a"]}, ValueError, "texts must have 300 elements, one for each row of pool, got 1"),
    "no texts": ({"texts": "abc"}, TypeError, "texts must be a sequence of strings, got str"),
    "topics": ({"topics": 301}, ValueError, "topics must be <= 300"),
    "one topic": ({"topics": 1}, ValueError, "topics must be >= 2"),
    "a word": ({"topics": "many"}, ValueError, "topics must be"),
    "both": ({"pool": TOPICS, "topics": 3}, TypeError, "texts and topics must not be given with PublicTopics"),
    "columns": ({"rows": np.ones((3, 5))}, ValueError, "rows must have 24 columns, those of pool, got 5"),
    "NaN": ({"rows": np.full((3, DIMENSION), np.nan)}, ValueError, "rows must be finite"),
    "epsilon": ({"epsilon": 0.0}, ValueError, "epsilon must be > 0, got 0.0"),
    "adjacency": ({"adjacency": "x"}, ValueError, "adjacency must be"),
    "people": ({"people": [1]}, ValueError, "people must have 300 elements, one for each row, got 1"),
    "rows per person": ({"rows_per_person": 0}, ValueError, "rows_per_person must be >= 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_named_and_charges_nothing(case):
    change, error, text = WRONG[case]
    budget = hv.PrivacyBudget(2.0)
    given_all = {"rows": POOL, "pool": POOL, "budget": budget, **TERMS, **change}
    with pytest.raises(error, match=text):
        private_topics(given_all.pop("rows"), **given_all)
    assert budget.consumed() == 0


def test_a_budget_is_charged_once():
    budget = hv.PrivacyBudget(2.0)
    found = private_topics(POOL, pool=POOL, budget=budget, **TERMS)
    assert budget.consumed() == 1.0 and found.receipt.charge is not None
