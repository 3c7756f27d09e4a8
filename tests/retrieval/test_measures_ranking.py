"""Recall, mrr and ndcg against definitions written out in plain Python, and against scikit-learn and ir-measures (trec_eval)."""

import math

import numpy as np
import pytest

from hushvec.retrieval.measures import cutoffs, judgements, per_query

QUERIES, DOCUMENTS, DEPTH = 300, 40, 10


def recall(answer, grades, k):
    relevant = {one for one, grade in grades.items() if grade > 0}
    return len(relevant & set(answer[:k])) / min(k, len(relevant))


def reciprocal_rank(answer, grades, k):
    return next((1 / rank for rank, one in enumerate(answer[:k], start=1) if grades.get(one, 0) > 0), 0.0)


def dcg(grades, *, base=1, gain=lambda grade: grade):
    return sum(gain(grade) / math.log2(rank + base) for rank, grade in enumerate(grades, start=1))


def ndcg(answer, grades, k, **variant):
    best = sorted(grades.values(), reverse=True)[:k]
    return dcg([grades.get(one, 0) for one in answer[:k]], **variant) / dcg(best, **variant)


def searches(seed=1):
    """Scores of every document, and the ids that they order."""
    scores = np.random.default_rng(seed).random((QUERIES, DOCUMENTS))
    return scores, np.argsort(-scores, axis=1)


def graded(seed=2):
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(DOCUMENTS)[: rng.integers(1, 25)] for _ in range(QUERIES)]
    return [{int(one): float(rng.choice([0.0, 0.5, 1.0, 3.0])) for one in some} | {int(some[0]): 2.0} for some in chosen]


@pytest.mark.parametrize("kind", ["one", "set", "list", "array", "graded"])
@pytest.mark.parametrize("as_strings", [False, True])
def test_measures_are_their_definitions(kind, as_strings):
    _, ids = searches()
    grades = graded()
    given = {
        "one": lambda entry: next(iter(entry)),
        "set": set,
        "list": list,
        "array": lambda entry: np.array(list(entry)),
        "graded": dict,
    }[kind]
    if kind == "one":
        grades = [{next(iter(entry)): 1.0} for entry in grades]
    elif kind != "graded":
        grades = [dict.fromkeys(entry, 1.0) for entry in grades]
    name = (lambda one: f"post {one}") if as_strings else int
    grades = [{name(one): grade for one, grade in entry.items()} for entry in grades]
    answers = [[name(one) for one in answer[:DEPTH]] for answer in ids.tolist()]
    returned = np.array(answers, dtype=object) if as_strings else np.array(answers)
    measured = per_query(judgements(returned, [given(entry) for entry in grades]), (1, 5, 10))
    for k in (1, 5, 10):
        assert measured[f"recall_at_{k}"] == pytest.approx([recall(a, g, k) for a, g in zip(answers, grades)])
        assert measured[f"ndcg_at_{k}"] == pytest.approx([ndcg(a, g, k) for a, g in zip(answers, grades)])
    assert measured["mrr"] == pytest.approx([reciprocal_rank(a, g, 10) for a, g in zip(answers, grades)])
    assert all(0 <= column.min() and column.max() <= 1 for column in measured.values())


def test_an_array_of_single_ids_is_a_list_of_them():
    _, ids = searches()
    right = np.arange(QUERIES) % DOCUMENTS
    one, other = (per_query(judgements(ids[:, :DEPTH], given), (1, 10)) for given in (right, [{int(x)} for x in right]))
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_ndcg_is_that_of_scikit_learn(k):
    metrics = pytest.importorskip("sklearn.metrics")
    scores, ids = searches(5)
    grades = graded(6)
    truth = np.zeros((QUERIES, DOCUMENTS))
    for row, entry in zip(truth, grades):
        row[list(entry)] = list(entry.values())
    ours = (
        per_query(judgements(ids[:, :DEPTH], grades), (k, 10))[f"ndcg_at_{k}"]
        if k < 10
        else per_query(judgements(ids, grades), (k,))[f"ndcg_at_{k}"]
    )
    assert ours.mean() == pytest.approx(metrics.ndcg_score(truth, scores, k=k), abs=1e-12)
    for variant in ({"base": 2}, {"gain": lambda grade: 2**grade - 1}):
        other = np.mean([ndcg(answer, entry, 10, **variant) for answer, entry in zip(ids.tolist(), grades)])
        assert abs(other - per_query(judgements(ids, grades), (10,))["ndcg_at_10"].mean()) > 1e-4


def test_recall_at_k_is_that_of_scikit_learn_for_one_relevant_document():
    metrics = pytest.importorskip("sklearn.metrics")
    scores, ids = searches(7)
    right = np.random.default_rng(8).integers(0, DOCUMENTS, QUERIES)
    for k in (1, 5, 10):
        expected = metrics.top_k_accuracy_score(right, scores, k=k, labels=np.arange(DOCUMENTS))
        assert per_query(judgements(ids[:, :DEPTH], right), (k,))[f"recall_at_{k}"].mean() == pytest.approx(expected)


def test_measures_are_those_of_trec_eval():
    """Whole grades, as trec_eval's; its recall counts all relevant documents, ours at most as many as there are places."""
    ir_measures = pytest.importorskip("ir_measures", exc_type=ImportError)
    scores, ids = searches(9)
    grades = [{one: float(int(grade)) for one, grade in entry.items()} for entry in graded(10)]
    ours = per_query(judgements(ids, grades), (5, 10))
    judged = {str(query): {str(one): int(grade) for one, grade in entry.items()} for query, entry in enumerate(grades)}
    run = {str(query): {str(one): float(score) for one, score in enumerate(row)} for query, row in enumerate(scores)}
    named = {"nDCG@5": "ndcg_at_5", "nDCG@10": "ndcg_at_10", "RR": "mrr"}
    found = {name: np.full(QUERIES, np.nan) for name in named}
    for one in ir_measures.iter_calc([ir_measures.parse_measure(name) for name in named], judged, run):
        found[str(one.measure)][int(one.query_id)] = one.value
    for name, own in named.items():
        np.testing.assert_allclose(ours[own], found[name], rtol=0, atol=1e-12)


def test_more_relevant_documents_than_places():
    """Recall is 1 when the places are full: three relevant ones in two places."""
    measured = per_query(judgements([[1, 2]], [{1, 2, 3}]), (1, 2))
    assert measured["recall_at_1"] == measured["recall_at_2"] == [1.0]


def test_places_left_empty_are_nobodys():
    measured = per_query(judgements(np.array([[4, -1, -1], [-1, -1, -1]]), [4, 4]), (3,))
    assert measured["recall_at_3"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "ids, relevant, error, text",
    [
        ([[1, 2]], [1, 2], ValueError, "relevant must have one entry for each of 1 queries, got 2"),
        ([[1, 1]], [1], ValueError, "ids[0] must name each document once, got 1 twice"),
        ([["a", "a"]], ["a"], ValueError, "twice"),
        ([[1, 2]], ["a"], TypeError, "relevant must hold whole numbers as the returned ids do, got strings"),
        ([["a", "b"]], [3], TypeError, "relevant must hold strings as the returned ids do, got whole numbers"),
        ([[1, 2]], [{"a"}], TypeError, "relevant must hold whole numbers"),
        ([[1, 2]], [set()], ValueError, "relevant[0] must name at least one relevant document"),
        ([[1, 2]], [{1: 0.0}], ValueError, "relevant[0] must name at least one relevant document"),
        ([[1, 2]], [{1: -1.0}], ValueError, "relevant[0][1] must be >= 0, got -1.0"),
        ([[1, 2]], [{1: float("nan")}], ValueError, "must be finite"),
        ([[1, 2]], [{1: True}], TypeError, "must be a number, got bool"),
        ([[1, -1]], [{-1, 1}], ValueError, "relevant[0] must not name -1"),
        ([[1, 2]], [True], TypeError, "whole numbers or strings, got bool"),
        ([[1, 2]], [1.0], TypeError, "whole numbers or strings, got float"),
        ([[1, 2]], "a", TypeError, "one entry for each query, got str"),
        ([[1, 2]], 1, TypeError, "one entry for each query, got int"),
        ([[1.0, 2.0]], [1], TypeError, "ids must be whole numbers or strings, got float64"),
        ([1, 2], [1], ValueError, "ids must have shape (queries, depth)"),
        (np.zeros((0, 3), int), [], ValueError, "ids must have shape (queries, depth)"),
        (np.array([[None, "a"]], object), ["a"], TypeError, "array of other objects"),
    ],
)
def test_bad_input(ids, relevant, error, text):
    with pytest.raises(error) as raised:
        judgements(ids, relevant)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "k, error", [(0, ValueError), (True, TypeError), (1.0, TypeError), ((), ValueError), ((1, 1), ValueError), ("5", TypeError)]
)
def test_bad_cutoffs(k, error):
    with pytest.raises(error, match="k must be"):
        cutoffs(k)


def test_cutoffs_are_sorted():
    assert cutoffs([10, 1, 5]) == (1, 5, 10) and cutoffs(3) == (3,)
