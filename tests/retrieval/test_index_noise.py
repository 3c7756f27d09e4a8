"""Sides of an index: what each releases, what it says that costs, and what it charges."""

import math
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from hushvec.accounting import GaussianDP, LaplaceDP, PureDP, ZeroConcentratedDP, compose
from hushvec.mechanisms import (
    EmpiricalGaussian,
    Gaussian,
    GumbelTopK,
    Laplacian,
    PrivUnit,
    PublicProjection,
    top_1_bound,
)
from hushvec.receipts.selections import SelectionReceipt
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from hushvec.retrieval.index.searching import NOTE_SCORES
from retrieval.index_cases import STORES, Counting, best_by_sorting, filled, some_rows, unit

ROWS = some_rows()
RANGES = [(-1.0, 1.0), (0.0, 1.0), (-0.1, 0.1), (1 / 3, 0.7), (-5.0, 3.0)]


# ---- documents ----


def test_documents_are_released_before_they_are_stored():
    noise = VectorNoise(epsilon=8.0, delta=1e-6, mechanism="gaussian")
    seeded = hv.Generator.unsafe_seeded(3)
    index = filled(ROWS, store="flat", documents=noise, generator=seeded)
    same = hv.privatize(
        ROWS, epsilon=8.0, delta=1e-6, mechanism="gaussian", normalize=True, generator=hv.Generator.unsafe_seeded(3)
    )
    np.testing.assert_array_equal(index.vectors(), same.values)
    assert index.receipts == (same.receipt,)
    assert np.abs(index.vectors() - unit(ROWS)).mean() > 0.1


@pytest.mark.parametrize("store", STORES)
def test_every_store_holds_released_rows_alone(store):
    noise = VectorNoise(epsilon=200.0, renormalize=True)
    index = filled(ROWS, store=store, documents=noise, generator=hv.Generator.unsafe_seeded(5))
    stored = index.vectors()
    np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1, atol=1e-5)
    assert not np.isclose(stored, unit(ROWS), atol=1e-3).all(axis=1).any()
    assert (index.search(ROWS, k=1).ids.ravel() == np.arange(60)).mean() > 0.9


@pytest.mark.parametrize(
    "noise",
    [
        VectorNoise(epsilon=4.0),
        VectorNoise(epsilon=4.0, mechanism="gaussian", delta=1e-6),
        VectorNoise(epsilon=4.0, mechanism="laplacian"),
        VectorNoise(mechanism="empirical", sigma=0.5),
        VectorNoise(mechanism=PrivUnit(epsilon=4.0, dimension=16, corpus_size=60)),
        VectorNoise(epsilon=4.0, per="release"),
        VectorNoise(epsilon=4.0, mechanism="gaussian", per="release", renormalize=True),
    ],
)
def test_receipts_hold_and_say_what_is_guaranteed(noise):
    index = PrivateIndex(16, store="numpy", documents=noise, queries=noise if noise.per is None else None)
    assert index.receipts == ()
    first, second = index.add(ROWS[:40]), index.add(ROWS[40:])
    assert index.receipts == (first, second)
    for receipt in index.receipts:
        assert hv.verify_receipt(receipt).status == "holds"
        assert (receipt.epsilon, receipt.delta) == index.document_guarantee() == index.document_guarantee(1000)
    if noise.per is None:
        for queries in (1, 3):
            found = index.search(ROWS[:queries], k=2)
            assert hv.verify_receipt(found.query_receipt).status == "holds"
            assert (found.query_receipt.epsilon, found.query_receipt.delta) == index.query_guarantee(queries)


def test_the_guarantee_of_given_noise_for_a_person_of_many_rows_is_that_of_the_largest_release():
    noise = VectorNoise(mechanism="empirical", sigma=0.5, per="release")
    index = PrivateIndex(16, store="numpy", documents=noise)
    before = index.document_guarantee()
    index.add(ROWS[:9])
    index.add(ROWS[9:11])
    assert before == noise.cost(16) and index.document_guarantee() == noise.cost(16, rows=9) > before


def test_charges_of_documents_are_of_every_add_and_stay_after_deletion():
    budget = hv.PrivacyBudget(10.0)
    index = PrivateIndex(16, store="numpy", documents=VectorNoise(epsilon=2.0, budget=budget))
    index.add(ROWS[:10])
    index.add(ROWS[10:])
    index.delete(np.arange(10))
    assert budget.consumed() == 4.0
    index.add(ROWS[:10], np.arange(10))  # a deleted row that comes back is a new release
    assert budget.consumed() == 6.0 and len(index.receipts) == 3
    assert hv.verify_charges(index.receipts, budget.export()).status == "holds"


def test_a_projection_is_named_in_receipts():
    projection = PublicProjection.johnson_lindenstrauss(16, 4, seed=1)
    index = filled(ROWS, store="numpy", projection=projection, documents=VectorNoise(epsilon=4.0), queries=VectorNoise(epsilon=4.0))
    found = index.search(ROWS[:2], k=1)
    for receipt in (*index.receipts, found.query_receipt):
        assert receipt.projection == projection.digest and receipt.dimension == 4
        assert hv.verify_receipt(receipt).status == "holds"


# ---- queries ----


def test_queries_are_released_once_and_the_rest_is_a_sort():
    index = filled(ROWS, store="numpy", queries=VectorNoise(epsilon=6.0), generator=hv.Generator.unsafe_seeded(9))
    found = index.search(ROWS[:5], k=4)
    asked = hv.privatize(ROWS[:5], epsilon=6.0, mechanism="privunit", normalize=True, generator=hv.Generator.unsafe_seeded(9))
    places, scores = best_by_sorting(unit(ROWS), asked.values, 4)
    np.testing.assert_array_equal(found.ids, places)
    np.testing.assert_allclose(found.scores, scores, atol=1e-5)
    assert (found.query_receipt.epsilon, found.query_receipt.threshold) == (30.0, asked.receipt.threshold)
    assert index.document_guarantee() is None  # nothing of this protects a document


def test_queries_of_one_person_are_charged_together():
    alone, together = Counting(), Counting()
    for budget, per in ((alone, "record"), (together, "release")):
        index = filled(ROWS, store="numpy", queries=VectorNoise(epsilon=2.0, per=per, budget=budget))
        index.search(ROWS[:4], k=1)
    assert alone.charges == together.charges == [(2.0, 0.0)]


@pytest.mark.parametrize("mechanism", ("privunit", "gaussian", "laplacian"))
def test_every_query_of_a_search_is_charged(mechanism):
    """The noise of a query does not depend on how many are asked with it; the price is that of all of them."""
    budget = hv.PrivacyBudget(100.0, max_delta=0.1)
    index = filled(ROWS, store="numpy", queries=VectorNoise(epsilon=1.0, mechanism=mechanism, budget=budget))
    one, three = (index.search(ROWS[:queries], k=1).query_receipt for queries in (1, 3))
    assert (one.epsilon, one.per, three.per) == (1.0, "record", "release")
    assert (one.sigma, one.scale) == (three.sigma, three.scale)
    if mechanism == "gaussian":
        assert three.epsilon == pytest.approx(hv.gaussian_epsilon(1e-5, one.sigma, 2 * math.sqrt(3)), rel=1e-9)
        assert 1.0 < three.epsilon < 3.0
    else:
        assert three.epsilon == 3.0
    assert (three.epsilon, three.delta) == index.query_guarantee(3)
    assert budget.consumed() == pytest.approx(1.0 + three.epsilon, rel=1e-9)
    assert hv.verify_charges([one, three], budget.export()).status == "holds"
    assert any("epsilon = 1.0" in note and "for all of them" in note for note in three.notes)
    assert not any("for all of them" in note for note in one.notes)


def test_queries_of_different_people_are_charged_as_one_where_the_caller_says_so():
    budget = Counting()
    index = filled(ROWS, store="numpy", queries=VectorNoise(epsilon=1.0, per="record", budget=budget))
    receipt = index.search(ROWS[:3], k=1).query_receipt
    assert budget.charges == [(1.0, 0.0)] and (receipt.per, receipt.epsilon) == ("record", 1.0)
    assert index.query_guarantee(3) == (1.0, 0.0)


def test_a_ready_mechanism_of_one_query_is_charged_for_each():
    mechanism = PrivUnit(epsilon=2.0, dimension=16, corpus_size=60)
    index = filled(ROWS, store="numpy", queries=VectorNoise(mechanism=mechanism))
    one, many = (index.search(ROWS[:queries], k=1).query_receipt for queries in (1, 50))
    assert (one.epsilon, many.epsilon) == (2.0, 100.0) and one.threshold == many.threshold
    assert hv.verify_receipt(many).status == "holds"


def test_noise_per_query_is_for_queries():
    with pytest.raises(ValueError, match="documents must have per='record' or 'release', got 'query', which is for queries"):
        PrivateIndex(16, documents=VectorNoise(epsilon=1.0, per="query"))
    with pytest.raises(ValueError, match="per must be one of 'record', 'release', 'query', got 'person'"):
        VectorNoise(epsilon=1.0, per="person")
    index = PrivateIndex(16, documents=VectorNoise(epsilon=1.0), queries=VectorNoise(epsilon=1.0))
    assert (index.settings.documents.per, index.settings.queries.per) == ("record", "query")


# ---- scores ----


@pytest.mark.parametrize("score_range", RANGES)
@pytest.mark.parametrize("mechanism", ("laplacian", "gaussian", "gumbel"))
@pytest.mark.parametrize("queries", (1, 2, 7, 33))
def test_noise_of_a_query_is_that_of_a_search_of_one(mechanism, score_range, queries):
    noise = ScoreNoise(epsilon=0.7, mechanism=mechanism, score_range=score_range)
    low, high = score_range
    one, many = noise.for_queries(1, k=3), noise.for_queries(queries, k=3)
    if mechanism == "gumbel":
        assert one == many == GumbelTopK(k=3, sensitivity=noise.half_range, epsilon=0.7)
        return
    assert one.noise_parameter == many.noise_parameter
    assert one.clip_norm == noise.half_range
    assert Fraction(many.clip_norm) ** 2 >= queries * ((Fraction(high) - Fraction(low)) / 2) ** 2
    exact = hv.gaussian_sigma(0.7, 1e-5, high - low) if mechanism == "gaussian" else (high - low) / 0.7
    assert exact * (1 - 1e-12) <= one.noise_parameter <= exact * (1 + 2e-7)
    assert isinstance(one, Gaussian if mechanism == "gaussian" else Laplacian)
    assert type(many) is (EmpiricalGaussian if mechanism == "gaussian" and queries > 1 else type(one))


def test_costs_of_a_search_are_those_of_its_queries():
    assert ScoreNoise(epsilon=0.5).cost(8) == (4.0, 0.0)
    assert ScoreNoise(epsilon=0.5, mechanism="gumbel").cost(8) == (4.0, 0.0)
    gaussian = ScoreNoise(epsilon=0.5, delta=1e-6, mechanism="gaussian")
    assert gaussian.cost() == (0.5, 1e-6)
    epsilon, delta = gaussian.cost(8)
    sigma = gaussian.for_queries(1, k=1).sigma
    assert delta == 1e-6 and epsilon == pytest.approx(hv.gaussian_epsilon(1e-6, sigma, 2 * math.sqrt(8)), rel=1e-9)
    assert epsilon < 4.0


@pytest.mark.parametrize("mechanism", ("laplacian", "gaussian", "gumbel"))
def test_score_receipts_hold_and_are_charged_once_a_search(mechanism):
    budget = hv.PrivacyBudget(100.0, max_delta=0.1)
    index = filled(ROWS, store="flat", scores=ScoreNoise(epsilon=0.5, mechanism=mechanism, budget=budget))
    receipts = []
    for queries in (1, 8):
        found = index.search(ROWS[:queries], k=4)
        receipts.append(found.score_receipt)
        assert (found.scores is None) == (mechanism == "gumbel")
        assert (found.score_receipt.epsilon, found.score_receipt.delta) == index.settings.scores.cost(queries)
    assert budget.consumed() == pytest.approx(sum(receipt.epsilon for receipt in receipts), rel=1e-9)
    if mechanism == "gumbel":
        assert all(isinstance(receipt, SelectionReceipt) for receipt in receipts)
        assert {hv.verify_receipt(receipt).status for receipt in receipts} == {"holds"}
        assert receipts[1].selections == 8 and receipts[1].picks == 4 and receipts[1].candidates == 60
        assert SelectionReceipt.from_json(receipts[1].to_json()) == receipts[1]
    else:
        assert {hv.verify_receipt(receipt).status for receipt in receipts} == {"holds"}
        assert hv.verify_charges(receipts, budget.export()).status == "holds"
        assert receipts[1].rows == 60 and receipts[1].dimension == 8
        assert NOTE_SCORES.format(low=-1.0, high=1.0) in receipts[1].notes


@pytest.mark.parametrize("mechanism", ("laplacian", "gaussian", "gumbel"))
def test_a_budget_in_rho_is_charged_the_rho_of_the_noise(mechanism):
    budget = hv.PrivacyBudget(max_rho=50.0)
    index = filled(ROWS, store="flat", scores=ScoreNoise(epsilon=0.5, mechanism=mechanism, budget=budget))
    receipt = index.search(ROWS[:6], k=4).score_receipt
    spent = budget.consumed()
    if mechanism == "gumbel":
        assert spent == pytest.approx(6 * 4 * (0.5 / 4) ** 2 / 8, rel=1e-9)
    elif mechanism == "gaussian":
        assert spent == pytest.approx(6 * 2.0**2 / (2 * receipt.sigma**2), rel=1e-6)
    else:
        assert spent == pytest.approx(PureDP(epsilon=3.0).rho, rel=1e-9)
    assert spent >= receipt.rho * (1 - 1e-12)


# ---- what documents are promised ----


@pytest.mark.parametrize("queries", (2, 10, 500))
def test_many_queries_cost_what_the_accountant_proves(queries):
    gaussian = PrivateIndex(16, store="numpy", scores=ScoreNoise(epsilon=0.1, delta=1e-6, mechanism="gaussian"))
    loss = gaussian.settings.scores.for_queries(1, k=1).loss
    assert isinstance(loss, GaussianDP)
    assert gaussian.document_guarantee(queries) == (compose([(loss, queries)], delta=1e-6).epsilon, 1e-6)
    for mechanism, losses in (
        ("laplacian", (PureDP(epsilon=0.1), LaplaceDP(noise_multiplier=10.0))),
        ("gumbel", (PureDP(epsilon=0.1), ZeroConcentratedDP(rho=0.1**2 / 8))),
    ):
        index = PrivateIndex(16, store="numpy", scores=ScoreNoise(epsilon=0.1, delta=1e-6, mechanism=mechanism))
        epsilon, delta = index.document_guarantee(queries)
        best = min(compose([(one, queries)], delta=1e-6).epsilon for one in losses)
        assert epsilon <= queries * 0.1 * (1 + 1e-12)
        assert (epsilon, delta) == pytest.approx((best, 1e-6), rel=1e-6) or (delta == 0 and best > 0.99 * queries * 0.1)


def test_without_a_delta_the_epsilons_add_up():
    index = PrivateIndex(16, store="numpy", scores=ScoreNoise(epsilon=0.1, delta=0))
    assert index.document_guarantee(500) == (pytest.approx(50.0, rel=1e-12), 0.0)
    assert index.document_guarantee() == (0.1, 0.0)


def test_two_grounds_hold_at_once_and_the_smaller_is_stated():
    index = PrivateIndex(16, store="numpy", documents=VectorNoise(epsilon=4.0), scores=ScoreNoise(epsilon=1.0, delta=0))
    assert [index.document_guarantee(queries) for queries in (1, 3, 5, 10_000)] == [(1.0, 0.0), (3.0, 0.0), (4.0, 0.0), (4.0, 0.0)]
    assert PrivateIndex(16, store="numpy", documents=VectorNoise(epsilon=4.0)).document_guarantee(7) == (4.0, 0.0)
    assert PrivateIndex(16, store="numpy", queries=VectorNoise(epsilon=4.0)).document_guarantee() is None
    assert PrivateIndex(16, store="numpy", documents=VectorNoise(epsilon=4.0)).query_guarantee() is None


def test_descriptions_say_who_is_protected():
    def lines(**settings):
        return " | ".join(PrivateIndex(16, store="numpy", **settings).describe())

    assert "documents have no protection" in lines()
    assert "no document gains from it" in lines(queries=VectorNoise(epsilon=2.0))
    assert "charged, by the number of queries in a search: 1: (2, 0); 10: (20, 0)" in lines(queries=VectorNoise(epsilon=2.0))
    assert "two of one person cost it twice" in lines(queries=VectorNoise(epsilon=2.0, per="record"))
    assert "documents have no protection" in lines(queries=VectorNoise(epsilon=2.0))
    assert "only answers are protected" in lines(scores=ScoreNoise(epsilon=2.0))
    assert "1: (2, 0); 10: (20, 0)" in lines(scores=ScoreNoise(epsilon=2.0, delta=0))
    assert "privunit, epsilon = 2.0, delta = 0.0 for each row" in lines(documents=VectorNoise(epsilon=2.0))
    assert "only answers" not in lines(documents=VectorNoise(epsilon=2.0), scores=ScoreNoise(epsilon=2.0))
    assert "NOT a DP claim" in lines(documents=VectorNoise(epsilon=2.0), generator=hv.Generator.unsafe_seeded(1))
    assert "grade float" in lines(documents=VectorNoise(epsilon=2.0, mechanism="l2_laplace"))
    assert "NOT a DP claim" not in lines(documents=VectorNoise(epsilon=2.0), scores=ScoreNoise(epsilon=2.0))


def test_a_description_has_the_bound_on_what_can_be_found():
    """Only where it holds: pure epsilon, every row another person's, and more than one row."""

    def line(rows=60, **noise):
        index = PrivateIndex(16, store="numpy", documents=VectorNoise(**noise))
        index.add(ROWS[:rows])
        return next((line for line in index.describe() if "independent rows" in line), None)

    told = line(epsilon=4.0)
    assert told.startswith("of 60 independent rows, at most ") and "any mechanism of epsilon = 4 and delta = 0" in told
    assert f"at most {math.ceil(1000 * top_1_bound(4.0, 60, noise_on='documents')) / 10:g} %" in told
    assert line(rows=1, epsilon=4.0) is None
    assert line(epsilon=4.0, mechanism="gaussian") is None
    assert line(epsilon=4.0, per="release") is None


def test_seeded_noise_claims_nothing():
    index = filled(
        ROWS,
        store="numpy",
        documents=VectorNoise(epsilon=4.0),
        queries=VectorNoise(epsilon=4.0),
        scores=ScoreNoise(epsilon=1.0, mechanism="gumbel"),
        generator=hv.Generator.unsafe_seeded(1),
    )
    found = index.search(ROWS[:2], k=3)
    assert not any(receipt.is_dp_claim for receipt in (*index.receipts, found.query_receipt, found.score_receipt))
    assert hv.verify_receipt(found.score_receipt).status == "not a DP claim"
    again = filled(
        ROWS,
        store="numpy",
        documents=VectorNoise(epsilon=4.0),
        queries=VectorNoise(epsilon=4.0),
        scores=ScoreNoise(epsilon=1.0, mechanism="gumbel"),
        generator=hv.Generator.unsafe_seeded(1),
    )
    np.testing.assert_array_equal(again.search(ROWS[:2], k=3).ids, found.ids)
