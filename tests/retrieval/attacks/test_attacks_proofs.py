"""docs/proofs/membership_bound.md on cases that are small enough to be computed exactly."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from hushvec.audit import one_run_epsilon
from hushvec.retrieval.attacks.bounds import membership_auc_bound, membership_bound
from hushvec.retrieval.attacks.statistics import _quick_bound, bound_of_guesses, epsilon_from_rates

# A pool of 4 documents with one bit each; an index of 2 rows; each row's bit goes through randomized response.
BITS = (1, 0, 0, 1)


def respond(epsilon):
    """P[answer | bit], as a table [bit, answer]."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.array([[truth, 1 - truth], [1 - truth, truth]])


def games():
    """Rows of the index and the probability of each game: pairs, row numbers and coins are uniform."""
    orders = list(itertools.permutations(range(4)))
    for order, coins in itertools.product(orders, itertools.product((0, 1), repeat=2)):
        pairs = (order[:2], order[2:])
        yield tuple(pair[coin] for pair, coin in zip(pairs, coins)), 1 / (len(orders) * 4)


def laws(candidate, table, rows_of=lambda rows: rows):
    """Laws of the answer (a pair of bits) with the candidate in and out."""
    found = {True: np.zeros((2, 2)), False: np.zeros((2, 2))}
    for rows, probability in games():
        first, second = (table[BITS[row]] for row in rows_of(rows))
        found[candidate in rows] += probability * 2 * np.outer(first, second)
    return found[True].ravel(), found[False].ravel()


def test_members_are_a_uniform_half():
    counts = {}
    for rows, probability in games():
        counts[frozenset(rows)] = counts.get(frozenset(rows), 0) + probability
    assert len(counts) == 6 and np.allclose(list(counts.values()), 1 / 6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_exact_rates_of_every_attack_stay_below_the_bound(epsilon):
    """All 16 events for each candidate, and each choice of one for each of the four: rates by enumeration, against claim 2."""
    table = respond(epsilon)
    points = np.array([[rates(*laws(candidate, table), event) for event in events()] for candidate in range(4)])
    for chosen in itertools.product(range(16), repeat=3):
        tpr, fpr = points[np.arange(4), (0, *chosen)].mean(axis=0)
        assert tpr <= membership_bound(epsilon, 0.0, fpr) + 1e-12
    for tpr, fpr in points.reshape(-1, 2):
        assert tpr <= membership_bound(epsilon, 0.0, fpr) + 1e-12
    # the bound of a smaller epsilon is exceeded: not every bound would pass
    assert max(tpr - membership_bound(epsilon / 8, 0.0, fpr) for tpr, fpr in points.reshape(-1, 2)) > 0


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_ids_in_the_order_of_the_pool_would_tell(epsilon):
    """Claim 1 needs random places: with rows in the order of the pool more than one row changes with a member, and ratios exceed
    e^epsilon.
    """
    table = respond(epsilon)
    for candidate in range(4):
        assert largest_ratio(*laws(candidate, table)) <= epsilon + 1e-12
    assert max(largest_ratio(*laws(candidate, table, rows_of=sorted)) for candidate in range(4)) > 1.2 * epsilon


def rates(inside, outside, event):
    return min(1.0, inside[list(event)].sum()), min(1.0, outside[list(event)].sum())


def largest_ratio(inside, outside):
    return np.abs(np.log(inside / outside)).max()


def events():
    return [event for size in range(5) for event in itertools.combinations(range(4), size)]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
def test_exact_area_stays_below_the_bound(epsilon):
    table = respond(epsilon)
    for candidate in range(4):
        inside, outside = laws(candidate, table)
        ratio = inside / outside
        area = sum(
            p * q * (1.0 if one > other else 0.5 if one == other else 0.0)
            for p, one in zip(inside, ratio)
            for q, other in zip(outside, ratio)
        )
        assert 0.5 <= area <= membership_auc_bound(epsilon)


def test_bound_of_guesses_is_that_of_the_audit():
    """Scores that say for certain which coin fell, right in 90 of the surest 100 of 400 pairs."""
    random = np.random.default_rng(1)
    coins = random.integers(0, 2, (2, 200))
    scores = np.where(coins == 0, 1.0, -1.0) * np.linspace(2, 1, 400).reshape(2, 200)
    scores.ravel()[:10] *= -1
    found = bound_of_guesses("x", scores, coins, [0.25], delta=1e-5, confidence=0.95, queries=1)
    assert (found.pairs, found.guesses, found.right) == (400, 100, 90)
    assert found.epsilon_lower == one_run_epsilon(400, 100, 90, 1e-5, 1 - 0.95)
    assert found.epsilon_ceiling == one_run_epsilon(400, 100, 100, 1e-5, 1 - 0.95)
    # of two shares the better one, each at half of what the confidence leaves
    both = bound_of_guesses("x", scores, coins, [0.25, 1.0], delta=1e-5, confidence=0.95, queries=1)
    assert (both.guesses, both.right) == (400, 390)
    assert both.epsilon_lower == one_run_epsilon(400, 400, 390, 1e-5, (1 - 0.95) / 2)


def test_epsilon_from_rates():
    """600 of 1,000 members and 50 of 1,000 others at a threshold, 990 and 700 at another; scipy's intervals as the reference."""
    members = np.repeat([2.0, 1.0, 0.0], [600, 390, 10])
    others = np.repeat([2.0, 1.0, 0.0], [50, 650, 300])
    delta, confidence = 1e-3, 0.95
    found = epsilon_from_rates(members, others, [2.0, 1.0], delta=delta, confidence=confidence)

    def bounds(tp, fp):
        # a two-sided interval at this confidence has tails of (1 - confidence) / 4 each
        interval = lambda count: stats.binomtest(count, 1000).proportion_ci(1 - (1 - confidence) / 2, method="exact")
        tpr, fpr = interval(tp).low, interval(fp).high
        return math.log((tpr - delta) / fpr), math.log((1 - fpr - delta) / (1 - tpr))

    assert found == pytest.approx(max(*bounds(600, 50), *bounds(990, 700)), abs=1e-6)
    assert epsilon_from_rates(others, members, [2.0, 1.0], delta=delta, confidence=confidence) == 0.0
    assert epsilon_from_rates(members, others, [2.0, 1.0], delta=0.9, confidence=confidence) == 0.0


def test_epsilon_from_rates_covers():
    """Randomized response at epsilon = 1: 150 games of 200 members and 200 others, an alarm has a probability below 0.05.

    More alarms than `most` have one below 1e-6; with half the truth as the claim most games alarm.
    """
    random = np.random.default_rng(4)
    truth = 1 / (1 + math.exp(-1.0))
    games = [(random.random(200) < truth, random.random(200) < 1 - truth) for _ in range(150)]
    bounds = np.array([epsilon_from_rates(one * 1.0, other * 1.0, [1.0], delta=0.0, confidence=0.95) for one, other in games])
    most = stats.binom.isf(1e-6, 150, 0.05)
    assert (bounds > 1.0).sum() <= most < 30
    assert (bounds > 0.5).mean() > 0.5


def test_a_lucky_statistic_is_not_chosen():
    """Few shadows and many targets: a statistic that was right 8 of 8 times by luck does not beat one that is right 75 of 100 times.

    The first is blind on the targets. A bound that took the shadows at their word would expect ln(8 / 3) and more of it.
    """
    random = np.random.default_rng(2)
    coins = random.integers(0, 2, 100)
    truth = np.where(coins == 0, 1.0, -1.0)
    steady = truth * np.where(np.arange(100) % 4 == 0, -1.0, 1.0)
    lucky = np.where(np.arange(100) < 8, 10.0 * truth, random.choice([-1.0, 1.0], 100))
    expected = [_quick_bound(scores[None], coins[None], share, 100) for scores, share in ((steady, 1.0), (lucky, 0.08))]
    assert expected[0] > expected[1]
