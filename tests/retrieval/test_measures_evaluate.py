"""`evaluate` from search to intervals: on indexes whose answers are known, and on private ones."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import PrivUnit, PublicProjection
from hushvec.retrieval import PrivateIndex, VectorNoise, evaluate
from hushvec.retrieval.evaluation import evaluate_results

pytestmark = pytest.mark.ranks

ROWS, DIMENSION = 300, 64


def rows(count=ROWS, seed=1):
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


class Plain:
    """Exact search, which remembers what it was asked."""

    def __init__(self, documents):
        self.documents, self.asked = documents, []

    def search(self, queries, k):
        self.asked.append(np.array(queries))
        return SimpleNamespace(ids=np.argsort(-queries @ self.documents.T, axis=1)[:, :k])


def private(**settings):
    index = PrivateIndex(DIMENSION, store="numpy", generator=hv.Generator.unsafe_seeded(7), **settings)
    index.add(rows())
    return index


def test_all_queries_are_asked_at_once_and_in_order():
    index = Plain(rows())
    evaluation = evaluate(index, rows(), np.arange(ROWS), k=(1, 3))
    (asked,) = index.asked
    assert np.array_equal(asked, rows())
    assert evaluation.metrics["recall_at_1"].value == 1.0


def test_a_plain_index_says_nothing_of_theory():
    evaluation = evaluate(Plain(rows()), rows(), np.arange(ROWS))
    assert evaluation.theoretical_cosine is evaluation.theoretical_query_cosine is evaluation.index_build_time_s is None
    assert list(evaluation.metrics) == [
        "recall_at_1",
        "recall_at_5",
        "recall_at_10",
        "mrr",
        "ndcg_at_1",
        "ndcg_at_5",
        "ndcg_at_10",
    ]


def test_without_noise_nothing_is_lost():
    evaluation = evaluate(private(), rows(), np.arange(ROWS), clean=rows())
    assert evaluation.theoretical_cosine == evaluation.theoretical_query_cosine == 1.0
    assert evaluation.metrics["mean_cosine"].low == pytest.approx(1.0, abs=1e-6)
    assert evaluation.metrics["recall_at_1"].value == 1.0


@pytest.mark.parametrize("mechanism", ["privunit", "gaussian", "laplacian", "l2_laplace"])
def test_the_measured_cosine_of_documents_is_the_theoretical_one(mechanism):
    """300 rows: within five standard errors, read off the interval."""
    epsilon = {"privunit": 16.0, "gaussian": 60.0}.get(mechanism, 100.0)
    evaluation = evaluate(
        private(documents=VectorNoise(epsilon=epsilon, mechanism=mechanism)), rows(), np.arange(ROWS), clean=rows()
    )
    estimate = evaluation.metrics["mean_cosine"]
    error = (estimate.high - estimate.low) / 3.92
    assert abs(estimate.value - evaluation.theoretical_cosine) < 5 * error
    assert evaluation.theoretical_query_cosine == 1.0


def test_rows_that_were_added_at_different_prices_are_averaged():
    index = private(documents=VectorNoise(epsilon=16.0))
    receipts = index.receipts
    cheap = SimpleNamespace(search=index.search, receipts=(*receipts, *receipts, receipt_at(4.0)), settings=index.settings)
    expected = [PrivUnit(epsilon=epsilon, dimension=DIMENSION).expected_cosine() for epsilon in (16.0, 16.0, 4.0)]
    assert evaluate(cheap, rows(), np.arange(ROWS)).theoretical_cosine == pytest.approx(np.mean(expected))


def receipt_at(epsilon):
    return private(documents=VectorNoise(epsilon=epsilon)).receipts[0]


def test_noise_on_queries_is_told_from_noise_on_documents():
    evaluation = evaluate(private(queries=VectorNoise(epsilon=16.0)), rows(), np.arange(ROWS), clean=rows())
    assert evaluation.theoretical_cosine == 1.0
    assert evaluation.theoretical_query_cosine == PrivUnit(epsilon=16.0, dimension=DIMENSION).expected_cosine()


def test_clean_rows_go_through_the_map_of_the_index():
    projection = PublicProjection.fit(rows(seed=9), components=20)
    evaluation = evaluate(private(projection=projection), rows(), np.arange(ROWS), clean=rows())
    assert evaluation.metrics["mean_cosine"].low == pytest.approx(1.0, abs=1e-6)
    noisy = evaluate(private(projection=projection, documents=VectorNoise(epsilon=30.0)), rows(), np.arange(ROWS), clean=rows())
    assert noisy.theoretical_cosine == PrivUnit(epsilon=30.0, dimension=20).expected_cosine()


def test_groups_widen_the_interval_of_queries_that_depend_on_each_other():
    """Every document is asked for four times with the same query, so there are 75 answers and not 300."""
    asked = np.repeat(np.arange(75), 4)
    index = Plain(np.vstack((rows(37), rows(263, seed=5))))
    settings = {"k": 1}
    alone = evaluate(index, rows(75)[asked], asked, **settings).metrics["recall_at_1"]
    together = evaluate(index, rows(75)[asked], asked, groups=asked, **settings)
    width = lambda one: one.high - one.low  # noqa: E731
    assert width(together.metrics["recall_at_1"]) == pytest.approx(2 * width(alone), rel=0.2)
    assert together.to_dict()["groups"] == 75


def test_what_is_written_is_strict_json():
    evaluation = evaluate(private(documents=VectorNoise(epsilon=16.0)), rows(2), [0, 1], k=1, clean=rows())
    written = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert written["queries"] == 2 and written["groups"] is None and written["k"] == [1]
    assert set(written["metrics"]) == {"recall_at_1", "mrr", "ndcg_at_1", "mean_cosine"}
    assert set(written["metrics"]["mrr"]) == {"value", "low", "high", "confidence"}
    assert "recall_at_1" in str(evaluation)


def test_mrr_looks_no_deeper_than_k():
    found = [[1, 2, 3]]
    assert evaluate_results(found, [3], k=2).metrics["mrr"].value == 0.0
    assert evaluate_results(found, [3], k=3).metrics["mrr"].value == pytest.approx(1 / 3)


def test_every_query_is_charged_once():
    budget = hv.PrivacyBudget(max_epsilon=1000.0, max_delta=0.5)
    index = PrivateIndex(DIMENSION, store="numpy", queries=VectorNoise(epsilon=2.0, budget=budget))
    index.add(rows())
    evaluate(index, rows(10), np.arange(10), k=1)
    assert budget.consumed() == 10 * 2.0


@pytest.mark.parametrize(
    "change, error, text",
    [
        ({"queries": rows()[0]}, ValueError, "queries must have shape (queries, dimension) with at least one query, got (64,)"),
        ({"queries": rows()[:0]}, ValueError, "at least one query, got (0, 64)"),
        ({"queries": np.full((300, 64), np.nan, np.float32)}, ValueError, "queries"),
        ({"queries": "text"}, TypeError, "queries"),
        ({"relevant": np.arange(299)}, ValueError, "relevant must have one entry for each of 300 queries, got 299"),
        ({"k": 0}, ValueError, "k must be >= 1, got 0"),
        ({"groups": np.arange(5)}, ValueError, "groups must be one label for each of 300 queries"),
        ({"confidence": 95}, ValueError, "confidence must be > 0 and < 1"),
        ({"clean": rows()}, TypeError, "index must have vectors() where clean is given, got Plain"),
        ({"relevant": np.full(300, -1)}, ValueError, "relevant[0] must not name -1, which stands for a place left empty"),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(change, error, text):
    index = Plain(rows())
    with pytest.raises(error) as raised:
        evaluate(index, **{"queries": rows(), "relevant": np.arange(ROWS), **change})
    assert text in str(raised.value)
    assert not index.asked


def test_a_search_must_reach_as_deep_as_k():
    with pytest.raises(ValueError, match="k must be at most 2, the columns of ids, got 5"):
        evaluate_results([[1, 2]], [1], k=(1, 5))
