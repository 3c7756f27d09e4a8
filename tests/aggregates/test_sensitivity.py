"""How far one person moves what is released, in exact integers, against the formulas of docs/proofs/aggregates.md."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from hushvec.aggregates.spending import Spending, Terms
from hushvec.aggregates.totals import GroupTotals, MomentTotals
from hushvec.receipts.aggregates import AggregateStatistic, squared_mu

C, SIGMA, COUNT_SIGMA, GROUPS, DIMENSION = 0.75, 3.0, 2.0, 3, 4
UNIT = Fraction(GroupTotals(1, 1, C).unit)


def sums_statistic(counts):
    return AggregateStatistic("sums", "", GROUPS, DIMENSION, C, SIGMA, COUNT_SIGMA if counts else None)


def rows_of_people():
    """Rows that are adversarial: as long as can be, opposite, orthogonal, beyond the clipping norm, tiny."""
    axes = np.eye(DIMENSION, dtype=np.float32)
    chosen = itertools.product((1e-6, 0.75, 100.0), (1, -1), (0, 1), (0, 2))
    return [(size * sign * axes[axis], group) for size, sign, axis, group in chosen]


def totals_of(rows):
    totals = GroupTotals(GROUPS, DIMENSION, C)
    if rows:
        totals.add(np.array([row for row, _ in rows]), np.array([group for _, group in rows], np.uint32))
    return totals.sums().ravel().tolist(), totals.counts.tolist()


def squared_distance(one, other, counts):
    """Of the totals of two inputs, in units of the noise, as a fraction."""
    (sums, counted), (other_sums, other_counted) = one, other
    square = sum((step - other_step) ** 2 for step, other_step in zip(sums, other_sums)) * UNIT**2 / Fraction(SIGMA) ** 2
    if counts:
        square += sum((step - other_step) ** 2 for step, other_step in zip(counted, other_counted)) / Fraction(COUNT_SIGMA) ** 2
    return square


def largest(adjacency, rows_per_person, counts):
    """Over all pairs of people whose rows are of a few adversarial ones, next to some rows of others."""
    others = [(np.full(DIMENSION, 0.3, np.float32), 0), (np.full(DIMENSION, -2.0, np.float32), 1)]
    people = [[]] + [[row] * rows_per_person for row in rows_of_people()]
    people += [list(pair) for pair in itertools.product(rows_of_people()[1::3], repeat=2)] if rows_per_person == 2 else []
    totals = [totals_of(others + rows) for rows in people]
    pairs = itertools.combinations(totals, 2) if adjacency == "replace-one" else ((totals[0], one) for one in totals[1:])
    return max(squared_distance(one, other, counts) for one, other in pairs)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows_per_person", [1, 2])
@pytest.mark.parametrize("counts", [False, True])
def test_sums_and_counts_of_a_person(adjacency, rows_per_person, counts):
    bound = squared_mu([sums_statistic(counts)], adjacency, rows_per_person)
    found = largest(adjacency, rows_per_person, counts)
    assert found <= bound
    assert found > bound * (1 - Fraction(1, 10**4))  # and no smaller formula would do: C for 2 C, or counts without noise


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_moments_of_a_person(adjacency):
    rng = np.random.default_rng(0)
    statistic = AggregateStatistic("moments", "", 1, DIMENSION, C, SIGMA, None)
    bound = squared_mu([statistic], adjacency, 1)
    people = [np.zeros((0, DIMENSION), np.float32), *(row[None] for row, _ in rows_of_people())]
    people += list(rng.normal(size=(50, 1, DIMENSION)).astype(np.float32))
    totals = []
    for rows in people:
        total = MomentTotals(DIMENSION, C)
        total.add(np.concatenate([np.full((2, DIMENSION), 0.3, np.float32), rows]))
        totals.append(total)
    pairs = itertools.combinations(totals, 2) if adjacency == "replace-one" else ((totals[0], one) for one in totals[1:])
    found = max(sum(step**2 for step in (one.total() - other.total()).ravel().tolist()) for one, other in pairs)
    square = found * Fraction(total.unit) ** 2 / Fraction(SIGMA) ** 2  # of the whole matrix: elements beside the diagonal twice
    assert bound * (1 - Fraction(1, 10**3)) < square <= bound


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows_per_person", [1, 3])
@pytest.mark.parametrize("dimension", [1, 2, 384])
def test_noise_spends_what_it_is_given(adjacency, rows_per_person, dimension):
    """Shares add up to the whole, and little of it is left unused."""
    spending = Spending(Terms(1.0, 1e-5, adjacency, None, rows_per_person), "test")
    spending.sums("a", 1, dimension, 2.0, 0.05)
    spending.counts("b", 7, 0.1)
    spending.moments("c", dimension, 1.5, 0.5)
    spending.sums("d", 9, dimension, 0.1, None, counts=False)
    receipt = spending.receipt(0)
    spent = squared_mu(receipt.statistics, adjacency, rows_per_person) * Fraction(spending.noise_multiplier) ** 2
    assert 1 - Fraction(1, 10**5) < spent <= 1
    with pytest.raises(ValueError, match="shares of epsilon must be > 0 and at most 1 together"):
        spending.counts("e", 2, 0.01)
