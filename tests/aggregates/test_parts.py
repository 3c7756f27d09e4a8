"""Sums of parts that other processes added up: the same bits as in one process, each part once, each person in one part."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushvec as hv
from hushvec.aggregates import SumsOfRows, private_sums

TERMS = {"epsilon": 1.0, "delta": 1e-5}
DIMENSION, ROWS = 12, 600
rows = np.random.default_rng(3).standard_normal((ROWS, DIMENSION)).astype(np.float32)
groups = np.random.default_rng(4).integers(0, 4, ROWS)
people = np.sort(np.random.default_rng(5).integers(0, 90, ROWS))   # each in one run of rows


def collector(**more):
    return SumsOfRows(DIMENSION, generator=hv.Generator.unsafe_seeded(7), **TERMS, **more)


def sent(worker):
    return pickle.loads(pickle.dumps(worker))


ENDS = st.lists(st.integers(0, 90), max_size=6)   # the first people of parts


@settings(max_examples=40, deadline=None)
@given(ends=ENDS, data=st.data(), by_group=st.booleans(), most=st.integers(1, 9), share=st.integers(1, 200))
def test_no_split_changes_a_bit(ends, data, by_group, most, share):
    """People's rows stay in one part, as `merge` asks; a part comes in any blocks, and parts in any order."""
    labels, codes = (4, groups) if by_group else (None, None)
    sums = collector(labels=labels, with_people=True, rows_per_person=most)
    places = [0, *np.searchsorted(people, sorted(ends)), ROWS]
    parts = []
    for first, last in pairwise(places):
        blocks = [slice(start, min(start + share, last)) for start in range(first, last, share)]
        parts.append(sent(sums.worker())((rows[one], None if codes is None else codes[one], people[one]) for one in blocks))
    for part in data.draw(st.permutations(parts)):
        sums.merge(part)
    found = sums.release()
    whole = private_sums(
        rows, codes, labels=labels, people=people, rows_per_person=most, generator=hv.Generator.unsafe_seeded(7), **TERMS
    )
    assert np.array_equal(found.sums, whole.sums) and np.array_equal(found.counts, whole.counts)
    assert found.receipt == whole.receipt


def test_rows_may_be_added_here_and_there():
    sums = collector()
    sums.add(rows[:100])
    sums.merge(sent(sums.worker())([(rows[100:], None, None)]))
    assert np.array_equal(sums.release().sums, private_sums(rows, generator=hv.Generator.unsafe_seeded(7), **TERMS).sums)


def refused(sums, *parts):
    before = sums._totals.sums(), sums._totals.counts.copy(), None if sums._people is None else dict(sums._people.seen)
    with pytest.raises(ValueError) as error:
        sums.merge(*parts)
    after = sums._totals.sums(), sums._totals.counts, None if sums._people is None else sums._people.seen
    assert np.array_equal(before[0], after[0]) and np.array_equal(before[1], after[1]) and before[2] == after[2]
    return str(error.value)


def test_a_part_is_merged_once():
    sums = collector()
    part, other = (sums.worker()([(rows[one], None, None)]) for one in (slice(300), slice(300, ROWS)))
    assert refused(sums, other, part, other) == "parts must be merged once: their people would count twice"
    sums.merge(part)
    assert refused(sums, other, part) == "parts must be merged once: their people would count twice"
    sums.merge(other)
    assert sums._totals.counts.sum() == ROWS


def test_a_saved_sum_knows_its_parts(tmp_path):
    sums = collector()
    part = sums.worker()([(rows, None, None)])
    sums.merge(part)
    sums.save(tmp_path / "sums.npz")
    assert refused(SumsOfRows.load(tmp_path / "sums.npz"), part) == "parts must be merged once: their people would count twice"


def test_a_person_has_rows_in_one_part():
    sums = collector(with_people=True)
    first, second = (sums.worker()([(rows[one], None, people[one])]) for one in (slice(301), slice(300, ROWS)))
    assert refused(sums, first, second) == "people must have all their rows in one part, got 1 who have some in two"
    sums.merge(first)
    assert refused(sums, second) == "people must have all their rows in one part, got 1 who have some in two"


def test_parts_of_others_are_refused():
    sums, others = collector(), collector()
    assert refused(sums, others.worker()([(rows, None, None)])) == "parts must be of workers of these sums, got one of others"
    for odd in (b"", b"nothing", pickle.dumps(3), "text"):
        assert refused(sums, odd).startswith("parts must be what workers of these sums returned: ")


def test_a_worker_says_what_is_wrong_with_its_rows():
    bad = rows.copy()
    bad[5, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 5"):
        collector().worker()([(bad, None, None)])
    with pytest.raises(ValueError, match="people must be given in every block"):
        collector(with_people=True).worker()([(rows, None, None)])


def test_nothing_is_merged_after_the_release():
    sums = collector()
    part = sums.worker()([(rows, None, None)])
    sums.merge(part)
    sums.release()
    assert refused(sums, part) == "release must be called once: a second draw would be a second release"


def test_the_budget_is_charged_once():
    budget = hv.PrivacyBudget(max_epsilon=2.0)
    sums = SumsOfRows(DIMENSION, budget=budget, **TERMS)
    sums.merge(*(sent(sums.worker())([(rows[one], None, None)]) for one in (slice(300), slice(300, ROWS))))
    assert budget.consumed() == 0
    assert hv.verify_receipt(sums.release().receipt).status == "holds"
    assert budget.consumed() == 1.0
