"""Rows in parts that an engine holds: the same bits as in one process whatever the split, each person in one part, the same parts in
every pass, and nothing charged for what a worker finds wrong."""

import io
import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushvec as hv
from hushvec.aggregates import (
    PublicTopics,
    RowsInParts,
    class_centroids,
    private_classifier,
    private_covariance,
    private_mean,
    private_pca,
    private_regression,
    private_snapshot,
    private_stand_ins,
    private_sums,
    private_topics,
    totals,
)
from hushvec.aggregates.rows import PrivateRows
from hushvec.aggregates.spending import Terms

TERMS = {"epsilon": 1.0, "delta": 1e-5}
DIMENSION, ROWS = 12, 600
rows = np.random.default_rng(3).standard_normal((ROWS, DIMENSION)).astype(np.float32)
groups = np.random.default_rng(4).integers(0, 4, ROWS)
people = np.sort(np.random.default_rng(5).integers(0, 90, ROWS))   # each in one run of rows
TOPICS = PublicTopics.fit(rows[::7], topics=5)

TEXTS = {"pool": rows[:20], "texts": [f"text {row}" for row in range(20)]}


def parts_of_snapshot(found):
    return found.topics.counts, found.components.variances, found.stand_ins.weights, found.classifier.coef_


# of each the function, whether rows have groups, and what is released
CALLS = {
    "sums": (partial(private_sums, clip_norm=2.0), True, lambda found: (found.sums, found.counts)),
    "mean": (partial(private_mean, clip_norm=2.0), False, lambda found: (found.mean, found.count)),
    "centroids": (class_centroids, True, lambda found: (found.mean_, found.coef_)),
    "classifier": (partial(private_classifier, steps=2), True, lambda found: (found.mean_, found.coef_)),
    "covariance": (partial(private_covariance, clip_norm=2.0), False, lambda found: (found.covariance, found.mean)),
    "pca": (partial(private_pca, components=3), False, lambda found: (found.projection.mean, found.variances)),
    "topics": (partial(private_topics, pool=TOPICS), False, lambda found: (found.counts,)),
    "stand-ins": (partial(private_stand_ins, **TEXTS), False, lambda found: (found.vectors, found.weights)),
    "labels": (partial(private_stand_ins, **TEXTS), True, lambda found: (found.weights, found.classifier.coef_)),
    "snapshot": (partial(private_snapshot, components=2, **TEXTS), True, parts_of_snapshot),
}


def run_of(parts, worker):
    """As an engine does: the worker travels, and parts come in any order."""
    return [pickle.loads(pickle.dumps(worker))(part) for part in parts]


def in_parts(places, by_group, by_person, block=50):
    def blocks(first, last):
        ends = [*range(first, last, block), last]
        return [(rows[one:end], groups[one:end] if by_group else None, people[one:end] if by_person else None)
                for one, end in pairwise(ends)]  # fmt: skip

    return RowsInParts(partial(run_of, [blocks(*ends) for ends in places]), DIMENSION, by_group, by_person)


def released(name, given_rows, *beside, seed=7, **terms):
    function, by_group, _ = CALLS[name]
    named = {"labels": 4} if by_group else {}
    key = None if "budget" in terms else hv.Generator.unsafe_seeded(seed)
    return function(given_rows, *beside, generator=key, **named, **TERMS, **terms)


def same(name, one, other):
    return all(np.array_equal(a, b) for a, b in zip(*map(CALLS[name][2], (one, other)))) and one.receipt == other.receipt


ENDS = st.lists(st.integers(0, 90), max_size=6)   # the first people of parts


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(CALLS)), ends=ENDS, data=st.data(), most=st.integers(1, 9), block=st.integers(1, 200),
       adjacency=st.sampled_from(["add-remove", "replace-one"]), by_person=st.booleans())  # fmt: skip
def test_no_split_changes_a_bit(name, ends, data, most, block, adjacency, by_person):
    """People's rows stay in one part; a part comes in any blocks, and parts in any order."""
    by_group = CALLS[name][1]
    bounds = [0, *np.searchsorted(people, sorted(ends)).tolist(), ROWS]
    places = data.draw(st.permutations(list(pairwise(bounds))))
    terms = {"rows_per_person": most, "adjacency": adjacency}
    found = released(name, in_parts(places, by_group, by_person, block), **terms)
    beside = (groups,) if by_group else ()
    assert same(name, found, released(name, rows, *beside, people=people if by_person else None, **terms))


@pytest.mark.parametrize("name", CALLS)
def test_what_is_wrong_is_said_and_nothing_is_charged(name):
    by_group, budget = CALLS[name][1], hv.PrivacyBudget(2.0)
    bad = rows.copy()
    bad[5, 3] = np.nan
    halves = [(0, 301), (300, ROWS)]

    def run(block):
        return RowsInParts(partial(run_of, [[block]]), DIMENSION, by_group, True)

    codes = groups if by_group else None
    for given_rows, error, said in (
        (in_parts(halves, by_group, True), ValueError, "people must have all their rows in one part, got 1 who have some in two"),
        (run((bad, codes, people)), ValueError, "finite"),
        (run((rows, codes, None)), ValueError, "people must be given in every block, as RowsInParts says"),
        (RowsInParts(run((rows, codes, people)).run, DIMENSION, by_group), ValueError, "people must be left out in every block"),
        (run((rows, codes, people[1:])), ValueError, "people must have 600 elements"),
        (run((rows[:, :1], codes, people)), ValueError, "rows must have 12 columns in every block, as RowsInParts says, got 1"),
        (run((np.hstack([rows, rows]), codes, people)), ValueError, "rows must have 12 columns in every block, .* got 24"),
        (in_parts([(0, ROWS)], not by_group, False), ValueError, "groups and labels must be given together"),
    )[: None if by_group or name == "mean" else -1]:
        with pytest.raises(error, match=said):
            released(name, given_rows, budget=budget)
    with pytest.raises(TypeError, match="groups and people must be left out with RowsInParts, which have their own"):
        released(name, in_parts(halves, by_group, False), people=people, budget=budget)
    assert budget.consumed() == 0
    assert released(name, in_parts([(0, 300), (300, ROWS)], by_group, False), budget=budget).receipt.charge is not None
    assert budget.consumed() == 1.0


def test_ids_are_of_one_kind_in_all_parts():
    """1 and "1" would be two people."""
    parts = [[(rows[:2], None, [1, 2])], [(rows[2:4], None, ["1", "2"])]]
    with pytest.raises(TypeError, match="people must be all str or all int, got both in different parts"):
        released("topics", RowsInParts(partial(run_of, parts), DIMENSION, with_people=True))


LENGTHS = [(0, 300), (300, ROWS)], [(0, 299), (299, ROWS)]
# as many rows, of others: the first and the last one of two people
OWNERS = [(rows[:4], groups[:4], list("aabb")), (rows[4:8], groups[4:8], list("ccdd"))], [
    (rows[:4], groups[:4], list("aabc")), (rows[4:8], groups[4:8], list("bcdd"))]  # fmt: skip


@pytest.mark.parametrize(
    ("passes", "by_person"),
    [([in_parts(one, True, False) for one in LENGTHS], False),
     ([RowsInParts(partial(run_of, [[part] for part in parts]), DIMENSION, True, True) for parts in OWNERS], True)],
    ids=["lengths", "people"],
)  # fmt: skip
def test_every_pass_has_the_same_parts(passes, by_person):
    """Otherwise a person might be in two parts of a later one, which nobody looks for any more."""
    for name in ("centroids", "snapshot"):
        run = partial(lambda ordered, worker: next(ordered).run(worker), iter(passes))
        with pytest.raises(ValueError, match="rows must come in the same parts in every pass"):
            released(name, RowsInParts(run, DIMENSION, True, by_person), rows_per_person=2)


def test_parts_may_come_in_another_order_in_every_pass():
    parts = [(0, 200), (200, 300), (300, ROWS)]
    passes = iter([parts, parts[::-1], parts[1:] + parts[:1], parts])
    run = lambda worker: in_parts(next(passes), True, False).run(worker)
    assert same("classifier", released("classifier", RowsInParts(run, DIMENSION, True)), released("classifier", rows, groups))


def test_all_parts_together_have_no_more_rows_than_integers_hold(monkeypatch):
    monkeypatch.setattr(totals, "MOST_ROWS_OF_MOMENTS", ROWS - 1)
    budget = hv.PrivacyBudget(2.0)
    for name in ("pca", "snapshot"):
        with pytest.raises(ValueError, match=rf"rows must be at most 2\^9, got 0 \+ {ROWS}"):
            released(name, in_parts([(0, 300), (300, ROWS)], CALLS[name][1], False), budget=budget)
    assert budget.consumed() == 0


class Harm:
    """When it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("what a worker returns was unpickled",)


def test_what_workers_return_is_not_unpickled():
    def run(worker):
        np.savez(file := io.BytesIO(), about=np.frombuffer(b"{}", np.uint8), total=np.array([Harm()], object))
        return [file.getvalue()]

    with pytest.raises(ValueError, match="allow_pickle=False"):
        released("topics", RowsInParts(run, DIMENSION))


def test_a_part_of_the_terms_plans_its_own_mean():
    """Otherwise its noise would be that of a share of the whole, and in no receipt."""
    whole = PrivateRows(rows, Terms(1.0, 1e-5, generator=hv.Generator.unsafe_seeded(1)), "test")
    planned = whole.plan_mean(1.0, 0.1)
    given_part = whole.part(0.5)
    assert given_part.mean(1.0, 0.1)[1] > planned.sigma / ROWS
    assert [one.sigma > planned.sigma for one in whole.spending.receipt(None).statistics] == [False, True]


def test_a_regression_reads_no_parts():
    with pytest.raises(TypeError, match="rows must be an array: a regression does not read rows in parts"):
        private_regression(in_parts([(0, ROWS)], False, False), groups, low=0, high=3, **TERMS)
