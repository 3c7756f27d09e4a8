"""Everything that is refused: with one clear error, before anything is charged, and before anything is stored."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import Gaussian, PrivUnit, PublicProjection
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from hushvec.retrieval.noise import noise_on_scores
from hushvec.retrieval.stores import ON_DISK, open_store
from retrieval.index_cases import STORES, Counting, filled, released, some_rows

ROWS = some_rows(20)
BAD = ROWS[:3].copy()
BAD[1, 5] = np.nan
INF = ROWS[:3].copy()
INF[2, 0] = np.inf


def budget():
    return hv.PrivacyBudget(1000.0, max_delta=0.5)


ADDED = [
    (ROWS[:2], [1, 1], ValueError, "ids must be unique, got 1 twice"),
    (ROWS[:2], ["a", "a"], ValueError, "ids must be unique, got 'a' twice"),
    (ROWS[:2], ["a", "\ud800"], ValueError, "ids must be Unicode text"),
    (ROWS[:2], [3, 4], ValueError, "ids must be new, got 3, which the index has"),
    (ROWS[:2], [30], ValueError, "ids must be as many as the 2 vectors, got 1"),
    (ROWS[:2], ["a", "b"], TypeError, "ids must be integers as those in the index, got strings"),
    (ROWS[:2], [30, "b"], TypeError, "all integers or all strings, got str"),
    (ROWS[:2], [True, 30], TypeError, "all integers or all strings, got bool"),
    (ROWS[:2], [30, 31.0], TypeError, "all integers or all strings, got float"),
    (ROWS[:2], [30, 2**63], ValueError, "ids must fit into 64 bits"),
    (ROWS[:2], np.array([30, 2**63], np.uint64), ValueError, "ids must fit into 64 bits"),
    (ROWS[:2], [[30], [31]], TypeError, "all integers or all strings, got list"),
    (ROWS[:2], np.array([[30], [31]]), ValueError, "ids must have one dimension, got 2"),
    (ROWS[:2], "ab", TypeError, "ids must be a sequence of integers or of strings, got str"),
    (ROWS[:2], 3, TypeError, "ids must be a sequence of integers or of strings, got int"),
    (ROWS[:, :7], None, ValueError, "vectors must have 16 columns, got 7"),
    (ROWS[0, :7], None, ValueError, "vectors must have 16 columns, got 7"),
    (ROWS[:0], None, ValueError, "vectors must have at least 1 row, got 0"),
    (BAD, None, ValueError, "must be finite, got nan in row 1"),
    (INF, None, ValueError, "must be finite, got inf in row 2"),
    (ROWS.astype(bool), None, TypeError, "vectors must be float32 or float64 or float16, got bool"),
    ([[1.0] * 16, [1.0] * 15], None, ValueError, "vectors must have rows of one length, got 15 in row 1 and 16 in row 0"),
    ([["a"] * 16], None, TypeError, "vectors must hold numbers, got str in it"),
    (np.full((2, 16), 1 << 25), None, ValueError, "vectors must hold whole numbers of at most 2\\^24 in size"),
    (ROWS[None], None, ValueError, "vectors must have 1 or 2 dimensions, got 3"),
]


@pytest.mark.parametrize(("vectors", "ids", "error", "message"), ADDED)
@pytest.mark.parametrize("noisy", (True, False))
def test_refused_rows_cost_nothing_and_are_not_stored(noisy, vectors, ids, error, message):
    spent = budget()
    index = filled(ROWS, store="numpy", documents=VectorNoise(epsilon=1.0, budget=spent) if noisy else None)
    before, rows = spent.consumed(), index.vectors()
    with pytest.raises(error, match=message):
        index.add(vectors, ids)
    assert spent.consumed() == before
    assert len(index) == 20 and len(index.receipts) == noisy and index.ids.tolist() == list(range(20))
    np.testing.assert_array_equal(index.vectors(), rows)
    index.add(ROWS[:2], [40, 41])
    assert index.ids.tolist() == [*range(20), 40, 41]


SEARCHED = [
    (ROWS[:, :7], 3, ValueError, "queries must have 16 columns, got 7"),
    (ROWS[:0], 3, ValueError, "queries must have at least 1 row, got 0"),
    (BAD, 3, ValueError, "queries must be finite, got nan in row 1"),
    (INF, 3, ValueError, "queries must be finite, got inf in row 2"),
    (ROWS, 0, ValueError, "k must be >= 1, got 0"),
    (ROWS, -1, ValueError, "k must be >= 1, got -1"),
    (ROWS, 2.0, TypeError, "k must be a whole number, got float"),
    (ROWS, True, TypeError, "k must be a whole number, got bool"),
    (ROWS.astype(bool), 3, TypeError, "queries must be float32"),
    ("text", 3, TypeError, "queries must be a numpy array"),
]


@pytest.mark.parametrize(("queries", "k", "error", "message"), SEARCHED)
@pytest.mark.parametrize("mechanism", ("laplacian", "gaussian", "gumbel", None))
def test_refused_searches_cost_nothing(mechanism, queries, k, error, message):
    asked, answered = budget(), budget()
    index = filled(
        ROWS,
        store="flat",
        queries=VectorNoise(epsilon=1.0, budget=asked),
        scores=ScoreNoise(epsilon=1.0, mechanism=mechanism, budget=answered) if mechanism else None,
    )
    with pytest.raises(error, match=message):
        index.search(queries, k)
    assert asked.consumed() == answered.consumed() == 0
    index.search(ROWS[:2], 3)
    assert asked.consumed() == 2 and (answered.consumed() > 0) == (mechanism is not None)


@pytest.mark.parametrize("k", (20, 21, 10**9))
@pytest.mark.parametrize("mechanism", ("laplacian", "gaussian", "gumbel", None))
def test_a_search_for_more_than_there_is_gives_all(mechanism, k):
    scores = ScoreNoise(epsilon=1.0, mechanism=mechanism) if mechanism else None
    found = filled(ROWS, store="flat", scores=scores).search(ROWS[:2], k)
    assert [sorted(ids) for ids in found.ids.tolist()] == [list(range(20))] * 2
    assert filled(ROWS[:3], store="flat", scores=scores).search(ROWS[:1]).ids.shape == (1, 3)


@pytest.mark.parametrize("mechanism", ("laplacian", "gaussian", "gumbel", None))
def test_an_empty_index_answers_nothing_for_nothing(mechanism):
    asked, answered = budget(), budget()
    scores = ScoreNoise(epsilon=1.0, mechanism=mechanism, budget=answered) if mechanism else None
    index = PrivateIndex(16, store="numpy", queries=VectorNoise(epsilon=1.0, budget=asked), scores=scores)
    with pytest.raises(ValueError, match="the index is empty: add vectors before searching it"):
        index.search(ROWS, 1)
    assert asked.consumed() == answered.consumed() == 0


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([3, 99], ValueError, "ids must be in the index, got 99"),
        ([3, 3], ValueError, "ids must be unique, got 3 twice"),
        (["a"], TypeError, "ids must be integers as those in the index, got strings"),
        (3, TypeError, "ids must be a sequence"),
        ([None], TypeError, "all integers or all strings, got NoneType"),
    ],
)
@pytest.mark.parametrize("store", STORES)
def test_a_refused_deletion_deletes_nothing(store, ids, error, message):
    index = filled(ROWS, store=store)
    with pytest.raises(error, match=message):
        index.delete(ids)
    assert len(index) == 20 and len(index.vectors()) == 20


def test_nothing_to_delete_is_no_error():
    index = filled(ROWS, store="numpy")
    assert index.delete([]) == 0
    assert PrivateIndex(4).delete([]) == 0
    with pytest.raises(ValueError, match="ids must be in the index, got 5"):
        PrivateIndex(4).delete([5])


def test_an_exhausted_budget_stores_nothing_and_answers_nothing():
    spent, answered = hv.PrivacyBudget(1.5), hv.PrivacyBudget(4.0)
    index = filled(
        ROWS, store="numpy", documents=VectorNoise(epsilon=1.0, budget=spent), scores=ScoreNoise(epsilon=1.0, budget=answered)
    )
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        index.add(ROWS)
    assert len(index) == len(index.vectors()) == 20 and spent.consumed() == 1.0
    index.search(ROWS[:4], 2)
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        index.search(ROWS[0], 2)
    assert answered.consumed() == 4.0


def test_of_two_budgets_the_one_of_the_documents_refuses_first():
    asked, answered = budget(), hv.PrivacyBudget(0.5)
    index = filled(
        ROWS, store="numpy", queries=VectorNoise(epsilon=1.0, budget=asked), scores=ScoreNoise(epsilon=1.0, budget=answered)
    )
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        index.search(ROWS[0], 2)
    assert asked.consumed() == answered.consumed() == 0


def test_queries_that_cannot_be_released_cost_no_scores():
    """What only the release of the queries would refuse is refused before the scores are charged."""
    answered = budget()
    three = VectorNoise(mechanism=PrivUnit(epsilon=3.0, dimension=16, rows_per_person=3), per="release")
    projection = PublicProjection(np.zeros(16, np.float32), np.eye(16, dtype=np.float32), np.full(16, 1e38, np.float32))
    for settings, queries, message in (
        ({"queries": three}, ROWS[:2], "mechanism.rows_per_person must be 2 for this input, got 3"),
        ({"normalize": False}, np.full((1, 16), 1e200), "queries in the range of float32 must be finite"),
        ({"projection": projection}, np.full((1, 16), 1e3), "in the range of float32 must be finite"),
    ):
        index = filled(ROWS / 1000, store="numpy", scores=ScoreNoise(epsilon=1.0, budget=answered), **settings)
        with pytest.raises(ValueError, match=message):
            index.search(queries, 2)
    assert answered.consumed() == 0


def test_rows_beyond_float32_are_refused_without_noise():
    index = PrivateIndex(16, store="numpy", normalize=False)
    with pytest.raises(ValueError, match="vectors in the range of float32 must be finite"):
        index.add(np.full((2, 16), 1e200))
    assert len(index) == 0
    index = PrivateIndex(16, store="numpy")
    index.add(np.full((1, 16), 1e200))
    np.testing.assert_allclose(index.vectors(), 0.25)


def test_a_projection_that_overflows_costs_nothing():
    spent = budget()
    projection = PublicProjection(np.zeros(2, np.float32), np.eye(2, dtype=np.float32), np.full(2, 1e38, np.float32))
    index = PrivateIndex(2, store="numpy", projection=projection, documents=VectorNoise(epsilon=1.0, budget=spent))
    with pytest.raises(ValueError, match="must be finite, got inf in row 0"):
        index.add(np.full((1, 2), 100.0, np.float32))
    assert spent.consumed() == 0 and len(index) == 0


def test_a_store_that_fails_keeps_rows_and_ids_together(monkeypatch):
    spent = budget()
    index = filled(ROWS, store="numpy", documents=VectorNoise(epsilon=1.0, budget=spent))

    def full(rows):
        raise OSError("no space left")

    monkeypatch.setattr(index._content.store, "add", full)
    with pytest.raises(OSError, match="no space left"):
        index.add(ROWS)
    assert len(index) == 20 and len(index.receipts) == 1
    assert spent.consumed() == 2.0  # the charge came first and stands


# ---- settings ----

PROJECTION = PublicProjection.johnson_lindenstrauss(16, 4, seed=1)

SETTINGS = [
    ({"dimension": 0}, ValueError, "dimension must be >= 1, got 0"),
    ({"dimension": 16.0}, TypeError, "dimension must be a whole number"),
    ({"store": "flatt"}, ValueError, "store must be one of 'flat', 'numpy'"),
    ({"store": None}, TypeError, "store must be a str"),
    ({"store": "hnsw", "store_options": {"neighbours": 3}}, ValueError, "'hnsw' .neighbors, ef_construction, ef_search., got 'neigh"),
    ({"store": "numpy", "store_options": {"cells": 3}}, ValueError, "those of 'numpy' .none., got 'cells'"),
    ({"store_options": 3}, TypeError, "store_options must be a mapping"),
    ({"store": "hnsw", "store_options": {"ef_search": 0}}, ValueError, "ef_search must be >= 1"),
    ({"store": "flat", "path": "x"}, ValueError, "path must be None for store 'flat'"),
    ({"documents": ScoreNoise(epsilon=1.0)}, TypeError, "documents must be a hushvec.retrieval.VectorNoise or None, got ScoreNoise"),
    ({"queries": 1.0}, TypeError, "queries must be a hushvec.retrieval.VectorNoise"),
    ({"scores": VectorNoise(epsilon=1.0)}, TypeError, "scores must be a hushvec.retrieval.ScoreNoise"),
    ({"normalize": 1}, TypeError, "normalize must be True or False"),
    ({"generator": 7}, TypeError, "generator must be a hushvec.Generator"),
    ({"projection": PROJECTION, "dimension": 8}, ValueError, "projection must be for 8 elements, got one for 16"),
    ({"projection": "pca"}, TypeError, "projection must be a hushvec.mechanisms.PublicProjection"),
    ({"documents": VectorNoise(epsilon=1.0, clip_norm=2.0)}, ValueError, "clip_norm must be 1.0 with normalize=True"),
    ({"documents": VectorNoise(mechanism=PrivUnit(epsilon=1.0, dimension=8))}, ValueError, "mechanism.dimension must be 16"),
    ({"queries": VectorNoise(mechanism=Gaussian(epsilon=1.0, dimension=16)), "projection": PROJECTION}, ValueError, "must be 4"),
    ({"scores": ScoreNoise(epsilon=1.0), "documents": VectorNoise(epsilon=1.0, per="release")}, ValueError, "must have per='record'"),
    (
        {"scores": ScoreNoise(epsilon=1.0, budget=Counting()), "generator": hv.Generator.unsafe_seeded(1)},
        ValueError,
        "budget must be None with a seeded generator",
    ),
    *(
        ({"scores": ScoreNoise(epsilon=1.0), "store": store}, ValueError, "store must be 'flat' or 'numpy' with noise on scores")
        for store in ("hnsw", "lancedb", "qdrant", "pgvector")
    ),
]


@pytest.mark.parametrize(("settings", "error", "message"), SETTINGS)
def test_settings_that_are_refused(settings, error, message):
    if settings.get("store") == "hnsw" and "scores" not in settings:
        pytest.importorskip("faiss")
    with pytest.raises(error, match=message):
        PrivateIndex(**{"dimension": 16, **settings})


NOISE = [
    (VectorNoise, {}, TypeError, "epsilon must be given for mechanism 'privunit'"),
    (VectorNoise, {"epsilon": -1.0}, ValueError, "epsilon must be > 0, got -1.0"),
    (VectorNoise, {"epsilon": float("nan")}, ValueError, "epsilon must be finite"),
    (VectorNoise, {"epsilon": True}, TypeError, "epsilon must be a number, got bool"),
    (VectorNoise, {"epsilon": 1.0, "mechanism": "gumbel"}, ValueError, "mechanism must be one of"),
    (VectorNoise, {"epsilon": 1.0, "mechanism": "gaussian", "delta": 0.0}, ValueError, "delta must be > 0"),
    (VectorNoise, {"epsilon": 1.0, "sigma": 0.2}, ValueError, "sigma must be None"),
    (VectorNoise, {"mechanism": "empirical"}, TypeError, "sigma must be given"),
    (VectorNoise, {"mechanism": PrivUnit(epsilon=1.0, dimension=8), "epsilon": 1.0}, ValueError, "must be left out"),
    (VectorNoise, {"epsilon": 1.0, "clip_norm": 0.0}, ValueError, "clip_norm must be > 0"),
    (VectorNoise, {"epsilon": 1.0, "per": "person"}, ValueError, "per must be one of"),
    (VectorNoise, {"epsilon": 1.0, "renormalize": None}, TypeError, "renormalize must be True or False"),
    (VectorNoise, {"epsilon": 1.0, "budget": 5.0}, TypeError, "budget must have a method consume"),
    (ScoreNoise, {"epsilon": 0.0}, ValueError, "epsilon must be > 0"),
    (ScoreNoise, {"epsilon": float("inf")}, ValueError, "epsilon must be finite"),
    (ScoreNoise, {"epsilon": 1.0, "mechanism": "privunit"}, ValueError, "mechanism must be one of 'laplacian', 'gaussian', 'gumbel'"),
    (ScoreNoise, {"epsilon": 1.0, "mechanism": "gaussian", "delta": 0}, ValueError, "delta must be > 0"),
    (ScoreNoise, {"epsilon": 1.0, "delta": 1.0}, ValueError, "delta must be > 0 and < 1"),
    (ScoreNoise, {"epsilon": 1.0, "score_range": (1.0, -1.0)}, ValueError, r"low < high, got \(1.0, -1.0\)"),
    (ScoreNoise, {"epsilon": 1.0, "score_range": (0.5, 0.5)}, ValueError, "low < high"),
    (ScoreNoise, {"epsilon": 1.0, "score_range": (0.0, float("nan"))}, ValueError, "score_range must be finite"),
    (ScoreNoise, {"epsilon": 1.0, "score_range": (0.0, 1.0, 2.0)}, TypeError, "score_range must be a pair"),
    (ScoreNoise, {"epsilon": 1.0, "score_range": 1.0}, TypeError, "score_range must be a pair"),
    (ScoreNoise, {"epsilon": 1.0, "score_range": (-1e38, 1e38)}, ValueError, "must be in"),
    (ScoreNoise, {"epsilon": 1.0, "budget": object()}, TypeError, "budget must have a method consume"),
]


@pytest.mark.parametrize(("kind", "arguments", "error", "message"), NOISE)
def test_noise_that_is_refused(kind, arguments, error, message):
    with pytest.raises(error, match=message):
        kind(**arguments)


@pytest.mark.parametrize("count", (0, -1, 1.0, True))
def test_the_number_of_queries_is_a_whole_number(count):
    index = PrivateIndex(16, store="numpy", scores=ScoreNoise(epsilon=1.0))
    with pytest.raises((ValueError, TypeError), match="queries must be"):
        index.document_guarantee(count)
    with pytest.raises((ValueError, TypeError), match="queries must be"):
        index.settings.scores.cost(count)


@pytest.mark.parametrize("store", [store for store in STORES if store.values[0] in ON_DISK])
def test_a_folder_with_rows_is_not_taken_for_a_new_index(store, tmp_path):
    first = PrivateIndex(16, store=store, path=tmp_path / "rows")
    first.add(ROWS[:3])
    released(first)
    with pytest.raises(ValueError, match=r"path must be new, or of an index that is loaded: .* holds 3 rows"):
        PrivateIndex(16, store=store, path=tmp_path / "rows")


@pytest.mark.parametrize("store", [store for store in STORES if store.values[0] in ON_DISK])
def test_a_folder_with_other_columns_is_refused(store, tmp_path):
    first = PrivateIndex(16, store=store, path=tmp_path / "rows")
    released(first)
    with pytest.raises(ValueError, match=r"must have (rows|inner products) of 8 elements"):
        PrivateIndex(8, store=store, path=tmp_path / "rows")


def test_a_store_that_nobody_knows_is_not_opened():
    with pytest.raises(ValueError) as caught:
        open_store("faiss", 4)
    known = "'flat', 'numpy', 'hnsw', 'lancedb', 'qdrant', 'pgvector'"
    assert str(caught.value) == f"store must be one of {known}, got 'faiss'"


def test_scores_get_no_noise_of_an_unknown_law():
    with pytest.raises(ValueError) as caught:
        noise_on_scores("gumbel", 1.0, 1e-5, 1.0, 1)
    assert str(caught.value) == "mechanism must be one of 'laplacian', 'gaussian', got 'gumbel'"
