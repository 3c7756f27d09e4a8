"""Reports of many periods under one guarantee: what a person moves in all of them, the law of the noise of any span, growth between
spans that share noise, and journals.

Statistics, with seeds fixed: the noise of spans, n = 4,000 counts, a Kolmogorov test at alpha = 1e-6 that rejects independent noise;
growth where nothing grows, n = 200 pairs of spans with 4 counts, 5 deviations of a binomial.
"""

import contextlib
import json
import math
import os
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hushvec as hv
from hushvec.aggregates import PrivateTopics, PublicTopics, RowsInParts, TopicPeriods, private_topics
from hushvec.aggregates.journals import Journal
from hushvec.receipts.aggregates import squared_mu
from scripts.test_loop_scripts import script

TERMS = {"epsilon": 1.0, "delta": 1e-5}
DIMENSION, KINDS = 6, 3
AROUND = 0.05 * np.random.default_rng(0).normal(size=(60, DIMENSION))
POOL = PublicTopics.fit(np.eye(DIMENSION)[np.arange(60) % KINDS] + AROUND, topics=KINDS)
# rows whose vote is for each topic, and one that nothing covers
VOTERS = np.eye(DIMENSION, dtype=np.float32)[[0, 1, 2, 5]]
VOTES = POOL.votes(VOTERS)


def seeded(seed=3):
    return hv.Generator.unsafe_seeded(seed)


def series(periods=6, **terms):
    return TopicPeriods(terms.pop("pool", POOL), periods, **{**TERMS, "generator": seeded(), **terms})


# ---- what one person moves


rows_of_a_person = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), max_size=4)   # a period and a vote for each row


@settings(deadline=None, max_examples=200)
@given(mine=rows_of_a_person, other=rows_of_a_person, bound=st.integers(1, 3), periods=st.integers(6, 9))
def test_a_person_moves_all_draws_together_by_no_more_than_the_receipt_says(mine, other, bound, periods):
    """In whole numbers, over all periods: add-remove and replace-one, rows in any periods, beyond the bound dropped."""
    def mixed(own):
        weeks = series(periods, with_people=True, rows_per_person=bound)
        drawn = []
        weeks._spending.noisy_counts = lambda whole, sigma: drawn.append(whole) or whole.astype(np.float64)
        for week in range(1, periods + 1):
            votes = [vote for at, vote in own if at == week]
            weeks.report(VOTERS[[0, *votes]], ["other", *["mine"] * len(votes)])
        return np.stack(drawn).astype(np.int64)

    for adjacency, one in (("add-remove", mixed([])), ("replace-one", mixed(other))):
        found = series(periods, adjacency=adjacency, rows_per_person=bound)
        moved = sum(int(step) ** 2 for step in (mixed(mine) - one).ravel())
        claimed = squared_mu(found.receipt.statistics, adjacency, bound)
        assert Fraction(moved) / Fraction(found._sigma) ** 2 <= claimed <= 1 / Fraction(found.receipt.noise_multiplier) ** 2


def test_the_bound_is_reached():
    """Of a person whose one row is in the first period, up to what is cut from the coefficients."""
    weeks = series(40)
    square = sum(one * one for one in weeks._mixing)
    claimed = squared_mu(weeks.receipt.statistics, "add-remove", 1)
    assert claimed * (1 - Fraction(1, 10**5)) < Fraction(square) / Fraction(weeks._sigma) ** 2 <= claimed


def test_a_person_has_no_more_rows_than_promised_in_all_periods():
    weeks = series(with_people=True, rows_per_person=2, epsilon=1e4)
    totals = [weeks.report(VOTERS[[0, 0]], ["a", "b"]).total for _ in range(3)]
    assert np.round(totals).tolist() == [2, 2, 1]   # at least 1 is said of none


# ---- noise


def test_a_total_of_a_year_has_a_third_of_the_noise_of_independent_reports():
    weeks, alone = series(52), private_topics(VOTERS, pool=POOL, **TERMS).sigma
    for _ in range(52):
        weeks.report(VOTERS)
    year, week = weeks.between(1, 52), weeks.between(30, 30)
    assert 0.30 < year.sigma / (alone * math.sqrt(52)) < 0.335
    assert 1.5 < weeks.between(1, 1).sigma / alone < week.sigma / alone < 1.75
    assert year.receipt == week.receipt and year.receipt.statistics[0].groups == 52 * (KINDS + 1)


@pytest.mark.parametrize("span", [(1, 1), (3, 3), (1, 5)])
def test_the_noise_of_a_span_is_normal_with_its_sigma(span):
    noise, source = [], seeded(4)
    for _ in range(1000):
        weeks = series(5, generator=source)
        for _ in range(5):
            weeks.report(VOTERS)
        found = weeks.between(*span)
        noise += ((found.counts - np.bincount(VOTES, minlength=4) * (span[1] - span[0] + 1)) / found.sigma).tolist()
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    independent = found.sigma / (private_topics(VOTERS, pool=POOL, **TERMS).sigma * math.sqrt(span[1] - span[0] + 1))
    assert stats.kstest(np.array(noise) * independent, "norm").pvalue < 1e-6


def test_growth_knows_that_spans_share_noise():
    rng, hits, source, told = np.random.default_rng(1), 0, seeded(5), []
    for _ in range(200):
        weeks = series(4, generator=source)
        for _ in range(4):
            weeks.report(VOTERS[rng.choice(4, 400)])
        later, earlier = weeks.between(3, 4), weeks.between(1, 2)
        found = later.growth(earlier)
        hits += (np.abs(found.difference / found.standard_error) > 1.959964).sum()
        told.append(later.sigma**2 + earlier.sigma**2 - 2 * np.dot(later.noise, earlier.noise))
    assert abs(hits / 800 - 0.05) < 5 * math.sqrt(0.05 * 0.95 / 200)
    assert len(set(map(float, np.round(told, 6)))) == 1 and told[0] > 0


@pytest.mark.parametrize("spans", [((3, 4), (1, 2)), ((2, 2), (1, 1)), ((1, 4), (2, 3))])
def test_the_standard_error_of_growth_is_that_of_the_noise_that_both_have(spans):
    """At a common share p the noise of a draw enters with w / total - w' / total', and of all counts by 1 - 2 p + (k + 1) p^2."""
    weeks = series(4, rows_per_person=2)
    early = {}
    for week in range(1, 5):
        weeks.report(VOTERS[np.arange(300 + 50 * week) % 4])
        early[week] = weeks.between(1, week)
    for later, earlier in (*((weeks.between(*one), weeks.between(*other)) for one, other in [spans]), (weeks.between(3, 4), early[2])):
        found, totals = later.growth(earlier), (later.total, earlier.total)
        common = np.clip((later.counts + earlier.counts + 1) / sum(totals), 0, 1)
        one, other = (np.pad(part.noise, (0, 4 - len(part.noise))) / part.total for part in (later, earlier))
        of_noise = ((one - other) ** 2).sum() * (1 - 2 * common + 4 * common**2)
        of_people = 2 * common * (1 - common) * (1 / totals[0] + 1 / totals[1])
        assert found.standard_error**2 == pytest.approx(of_noise + of_people, rel=1e-9)


def test_growth_of_other_series_has_independent_noise():
    one, other = (series(2, generator=None) for _ in range(2))
    later, earlier = one.report(VOTERS), other.report(VOTERS)
    assert later.series != earlier.series
    alone = [PrivateTopics(**{**vars(found), "series": "", "noise": ()}) for found in (later, earlier)]
    assert later.growth(earlier).standard_error.tolist() == alone[0].growth(alone[1]).standard_error.tolist()
    again = PrivateTopics.from_json(later.to_json())
    assert (again.series, again.noise, again.sigma) == (later.series, later.noise, later.sigma)


# ---- guarantees, budgets, journals


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_both_verifiers_accept_the_receipt_which_does_not_count_rows(adjacency):
    receipt = series(adjacency=adjacency, generator=None).report(VOTERS).receipt
    assert hv.verify_receipt(receipt).status == "holds" and receipt.rows is None
    assert script("check_receipt").check_receipt(json.loads(receipt.to_json()))[0] == "holds"


def test_a_budget_is_charged_once_for_all_periods_also_after_a_restart(tmp_path):
    budget = hv.PrivacyBudget(2.0, 1e-4)
    given_terms = {"budget": budget, "generator": None, "journal": tmp_path / "weeks.npz", "with_people": True}
    weeks = series(3, **given_terms)
    first = weeks.report(VOTERS, list("abcd"))
    del weeks
    again = series(3, **given_terms)
    assert again.between(1, 1).counts.tolist() == first.counts.tolist() and again.between(1, 1).series == first.series
    assert again.report(VOTERS, list("abef")).receipt.charge is not None and budget.consumed() == 1.0
    assert again._exact.sum(axis=1).tolist() == [4, 2]   # who was there has no more rows
    again.report(VOTERS, list("ghij"))
    with pytest.raises(ValueError, match="report must be called at most 3 times, once a period"):
        again.report(VOTERS, list("klmn"))


def test_a_journal_is_refused_where_a_period_might_be_drawn_again(tmp_path):
    journal = tmp_path / "weeks.npz"
    weeks = series(journal=journal)
    weeks.report(VOTERS)
    with pytest.raises(ValueError, match="journal must be in use by one TopicPeriods"):
        series(journal=journal)
    (tmp_path / "copy.npz").write_bytes(journal.read_bytes())
    del weeks
    with pytest.raises(ValueError, match="journal must be the file that was written, got a copy"):
        series(journal=tmp_path / "copy.npz")
    other_pool = PublicTopics.fit(np.eye(DIMENSION)[np.arange(60) % KINDS] - AROUND, topics=KINDS)
    changes = ({"periods": 7}, {"epsilon": 2.0}, {"delta": 1e-6}, {"rows_per_person": 2}, {"with_people": True},
               {"adjacency": "replace-one"}, {"pool": other_pool})  # fmt: skip
    for other in changes:
        with pytest.raises(ValueError, match="journal must be of this pool and these terms"):
            series(**other, journal=journal)
    assert len(series(journal=journal)._drawn) == 1


def test_what_fails_leaves_no_period(tmp_path):
    weeks, bad = series(journal=tmp_path / "weeks.npz", with_people=True), VOTERS.copy()
    bad[1, 1] = np.nan
    for rows, people, said in (
        (bad, list("abcd"), "finite"),
        (VOTERS, None, "people must be given in every period"),
        (VOTERS, list("abc"), "people must have 4 elements"),
        (VOTERS[:, :5], list("abcd"), "rows must have 6 columns"),
    ):
        with pytest.raises(ValueError, match=said):
            weeks.report(rows, people)
    assert len(weeks._exact) == 0 and weeks._people.seen == {}
    with pytest.raises(ValueError, match="first and last must be periods in order, up to the 0 reported, got 1 and 1"):
        weeks.between(1, 1)


def test_a_period_that_could_not_be_kept_is_not_known_and_comes_again(tmp_path, monkeypatch):
    """A restart would draw it a second time. Its people are not taken for seen."""
    weeks = series(journal=tmp_path / "weeks.npz", with_people=True)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", lambda self, **arrays: os.write(-1, b""))
        with pytest.raises(OSError):
            weeks.report(VOTERS, list("abcd"))
    with pytest.raises(ValueError, match="up to the 0 reported"):
        weeks.between(1, 1)
    weeks.report(VOTERS, list("abcd"))
    assert weeks._exact.sum() == 4
    del weeks
    assert series(journal=tmp_path / "weeks.npz", with_people=True)._people.seen == dict.fromkeys("abcd", 1)


class Meter:
    """A budget that knows no ids of charges."""

    def __init__(self):
        self.charged = []

    def consume(self, epsilon, delta):
        self.charged.append((epsilon, delta))


def test_two_series_are_charged_twice():
    """However alike they are: a ledger takes none for the other."""
    budget = hv.PrivacyBudget(5.0, 1e-3)
    charges = [series(generator=None, budget=budget).receipt.charge for _ in range(2)]
    assert budget.consumed() == 2.0 and len({one.charge_id for one in charges}) == 2


def test_a_receipt_says_whether_people_are_counted():
    assert [series(with_people=one).receipt.rows_bound for one in (True, False)] == ["people", "promised"]


def test_each_period_is_drawn_once_however_many_report(monkeypatch):
    """The second waits until the first is kept, and comes in the next period."""
    weeks, inside, original = series(2), threading.Barrier(2), TopicPeriods._counted

    def slowly(self, rows, people):
        with contextlib.suppress(threading.BrokenBarrierError):
            inside.wait(0.1)
        return original(self, rows, people)

    monkeypatch.setattr(TopicPeriods, "_counted", slowly)
    threads = [threading.Thread(target=weeks.report, args=(VOTERS,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside.broken and weeks._exact.sum(axis=1).tolist() == [4, 4] and len(weeks._drawn) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_copy_is_refused():
    weeks, (reader, writer) = series(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            weeks.report(VOTERS)
        except RuntimeError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 50) == b"TopicPeriods must be used in the process that made"
    os.close(reader)


def test_rows_in_parts_have_no_people_over_periods():
    parts = RowsInParts(lambda worker: [worker([(VOTERS, None, None)])], DIMENSION)
    assert round(series(epsilon=1e4).report(parts).total) == 4
    counted = RowsInParts(lambda worker: [worker([(VOTERS, None, list("aaaa"))])], DIMENSION, with_people=True)
    for weeks, given_rows in ((series(with_people=True), (parts, list("abcd"))), (series(), (counted,))):
        said = "rows must be an array with people, whose rows are counted over all periods; got RowsInParts"
        with pytest.raises(TypeError, match=said):
            weeks.report(*given_rows)
        assert len(weeks._drawn) == 0


def test_a_budget_without_ids_is_charged_once_over_restarts(tmp_path):
    """Also where the first process had none: the journal knows who has paid."""
    meter, terms = Meter(), {"generator": None, "journal": tmp_path / "weeks.npz"}
    for budget, charged in ((None, 0), (meter, 1), (meter, 1), (None, 1), (meter, 1)):
        series(**terms, budget=budget)   # before the first report, too
        series(**terms, budget=budget).report(VOTERS)
        assert meter.charged == [(1.0, 1e-5)] * charged


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"periods": 0}, ValueError, "periods must be >= 1"),
        ({"periods": 1025}, ValueError, "periods must be <= 1024"),
        ({"epsilon": -1.0}, ValueError, "epsilon must be > 0"),
        ({"with_people": 1}, TypeError, "with_people must be"),
        ({"budget": 3, "generator": None}, TypeError, "budget must"),
    ],
)
def test_bad_terms_are_named(change, error, said):
    with pytest.raises(error, match=said):
        series(**change)
    with pytest.raises(TypeError, match="pool must be a PublicTopics, got ndarray"):
        TopicPeriods(VOTERS, 3, **TERMS)
