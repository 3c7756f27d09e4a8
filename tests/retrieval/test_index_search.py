"""Rows in, rows out: every store against a sort, ids, deletion, batches. No noise here."""

from dataclasses import replace

import numpy as np
import pytest

import hushvec as hv
from hushvec.errors import MissingExtraError
from hushvec.mechanisms import PublicProjection
from hushvec.retrieval import PrivateIndex
from hushvec.retrieval.stores import ON_DISK
from hushvec.retrieval.stores.numpy_flat import Best, best_of_matrix
from retrieval.index_cases import EXACT, STORES, best_by_sorting, filled, made, some_rows, unit

pytestmark = pytest.mark.ranks

ROWS = some_rows()


@pytest.mark.parametrize("store", STORES)
def test_a_row_finds_itself_with_its_cosines(store):
    index = filled(ROWS, store=store)
    found = index.search(ROWS[:7], k=5)
    places, scores = best_by_sorting(unit(ROWS), unit(ROWS[:7]), 5)
    assert found.ids.dtype == np.int64 and found.scores.dtype == np.float32
    assert found.ids.shape == found.scores.shape == (7, 5)
    assert found.query_receipt is found.score_receipt is None
    if store in EXACT:
        np.testing.assert_array_equal(found.ids, places)
        np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    else:
        np.testing.assert_array_equal(found.ids[:, 0], np.arange(7))
        assert (np.diff(found.scores) <= 0).all()


@pytest.mark.parametrize("store", STORES)
def test_rows_come_back_in_the_order_of_their_ids(store):
    index = filled(ROWS[:40], store=store)
    index.add(ROWS[40:45])
    index.add(ROWS[45])
    np.testing.assert_array_equal(index.ids, np.arange(46))
    np.testing.assert_allclose(index.vectors(), unit(ROWS[:46]), atol=1e-6)


@pytest.mark.parametrize("store", STORES)
def test_deleted_rows_are_not_found_and_the_others_are(store):
    index = filled(ROWS, store=store, ids=[f"row {place}" for place in range(len(ROWS))])
    assert index.delete(["row 59", "row 0", "row 7"]) == 3
    left = np.delete(np.arange(60), [0, 7, 59])
    assert len(index) == 57 and index.ids.tolist() == [f"row {place}" for place in left]
    np.testing.assert_allclose(index.vectors(), unit(ROWS)[left], atol=1e-6)
    found = index.search(ROWS, k=1).ids.ravel()
    assert not set(found) & {"row 0", "row 7", "row 59"}
    assert (found[left] == index.ids).all()
    index.add(ROWS[7], ["row 7"])
    assert index.search(ROWS[7], k=1).ids.tolist() == [["row 7"]]


@pytest.mark.parametrize("store", STORES)
def test_all_rows_can_be_asked_for_and_deleted(store):
    index = filled(ROWS, store=store)
    np.testing.assert_array_equal(np.sort(index.search(ROWS[:3], k=60).ids), np.tile(np.arange(60), (3, 1)))
    assert index.delete(index.ids) == 60
    assert len(index) == len(index.vectors()) == 0
    with pytest.raises(ValueError, match="the index is empty"):
        index.search(ROWS[:1], k=1)
    index.add(ROWS[:5])
    np.testing.assert_array_equal(index.ids, np.arange(60, 65))  # no id comes twice by itself
    assert index.search(ROWS[2], k=1).ids.tolist() == [[62]]


def test_a_graph_is_built_anew_once_half_of_its_rows_are_gone():
    pytest.importorskip("faiss")
    index = filled(ROWS, store="hnsw")
    index.delete(np.arange(29))
    assert index._content.store._index.ntotal == 60
    index.delete([29, 30])
    assert index._content.store._index.ntotal == 29
    np.testing.assert_array_equal(index.search(ROWS[31:], k=1).ids.ravel(), np.arange(31, 60))


@pytest.mark.parametrize("ids", ([5, -3, 2**62], ["a", "b", "c"], np.array([7, 8, 9], np.uint8), np.array(["x", "y", "z"])))
def test_ids_come_back_as_they_were_given(ids):
    index = filled(ROWS[:3], ids=ids, store="numpy")
    assert index.search(ROWS[:3], k=1).ids.ravel().tolist() == list(np.asarray(ids).tolist())
    assert index.ids.dtype == (np.int64 if not isinstance(index.ids[0], str) else object)


def test_ids_that_are_not_given_follow_the_largest():
    index = filled(ROWS[:2], ids=[10, 3], store="numpy")
    index.add(ROWS[2:4])
    assert index.ids.tolist() == [10, 3, 11, 12]
    index.ids[0] = 99  # a copy
    assert index.ids.tolist() == [10, 3, 11, 12]


def test_the_projection_is_for_both_sides():
    projection = PublicProjection.johnson_lindenstrauss(16, 4, seed=1)
    index = filled(ROWS, store="numpy", projection=projection)
    low = unit(projection.transform(ROWS))
    assert index.dimension == 16 and index.columns == 4 and index.projection is projection
    np.testing.assert_allclose(index.vectors(), low, atol=1e-6)
    places, scores = best_by_sorting(low, low[:5], 3)
    found = index.search(ROWS[:5], k=3)
    np.testing.assert_array_equal(found.ids, places)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)


def test_without_normalisation_lengths_count():
    lengths = np.geomspace(0.01, 100, 60, dtype=np.float32)[:, None]
    rows = unit(ROWS) * lengths
    index = filled(rows, store="flat", normalize=False)
    np.testing.assert_array_equal(index.vectors(), rows)
    places, scores = best_by_sorting(rows, rows[:9], 4)
    found = index.search(rows[:9], k=4)
    np.testing.assert_array_equal(found.ids, places)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5)


@pytest.mark.parametrize("store", ("flat", "numpy"))
def test_products_that_overflow_still_give_k_rows(store):
    rows = ROWS[:20].copy()
    rows[3] = 3e38 * np.sign(rows[3])
    index = filled(rows, store=store, normalize=False)
    found = index.search(np.stack([rows[3], rows[4]]), k=20)
    assert [len(set(row)) for row in found.ids.tolist()] == [20, 20]
    assert 3 in found.ids[0][found.scores[0] == np.inf]


def test_zero_rows_stay_zero():
    rows = ROWS[:4].copy()
    rows[1] = 0
    index = filled(rows, store="numpy")
    assert (index.vectors()[1] == 0).all()
    assert index.search(rows[1], k=4).scores.tolist() == [[0.0] * 4]


@pytest.mark.parametrize("dtype", (np.float16, np.float32, np.float64))
def test_every_float_dtype_goes_in(dtype):
    index = filled(ROWS.astype(dtype), store="flat")
    assert index.vectors().dtype == np.float32
    assert index.search(ROWS[:5].astype(dtype), k=1).ids.ravel().tolist() == list(range(5))


def test_tensors_and_strided_rows_go_in():
    torch = pytest.importorskip("torch")
    index = filled(torch.from_numpy(ROWS), store="flat")
    index.add(np.asfortranarray(ROWS))
    np.testing.assert_array_equal(index.vectors()[:60], index.vectors()[60:])
    assert index.search(torch.from_numpy(ROWS[:2]).double(), k=1).ids.shape == (2, 1)


# ---- the k best of blocks ----


SIZES = [(1, 1, 1), (7, 3, 7), (1000, 1, 10), (5000, 3, 1), (3000, 40, 100), (64, 2, 3)]


@pytest.mark.parametrize(("documents", "queries", "k"), SIZES)
def test_blocks_give_what_a_sort_gives(documents, queries, k):
    """Whole numbers: many scores are equal, and products are exact."""
    rng = np.random.default_rng(documents)
    rows, asked = rng.integers(-2, 3, (documents, 6)).astype(np.float32), rng.integers(-2, 3, (queries, 6)).astype(np.float32)
    places, scores = best_by_sorting(rows, asked, k)
    for block in (1, 3, 64, 10_000):
        best = Best(queries, k)
        for first in range(0, documents, block):
            best.offer(np.ascontiguousarray(rows[first : first + block] @ asked.T), first)
        found = best.result()
        np.testing.assert_array_equal(found[0], places)
        np.testing.assert_array_equal(found[1], scores)
    np.testing.assert_array_equal(best_of_matrix(rows, asked, k)[0], places)


def test_scores_that_rise_with_every_block_are_sorted_out_in_between():
    best = Best(2, 3)
    scores = np.arange(20_000, dtype=np.float32).repeat(2).reshape(-1, 2)
    for first in range(0, 20_000, 50):
        best.offer(scores[first : first + 50], first)
        assert best._count <= 64 * 3 * 2 + 2 * 50
    assert best.result()[0].tolist() == [[19_999, 19_998, 19_997]] * 2


def test_a_score_that_is_not_a_number_is_the_lowest():
    scores = np.array([[np.nan], [2.0], [-np.inf], [3.0]], np.float32)
    best = Best(1, 4)
    best.offer(scores, 0)
    assert best.result()[0].tolist() == [[3, 1, 0, 2]]


# ---- settings ----


def test_a_missing_package_is_named(monkeypatch):
    import sys

    for store, module in (("hnsw", "faiss"), ("lancedb", "lancedb"), ("qdrant", "qdrant_client")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtraError) as refused:
            PrivateIndex(16, store=store)
        assert refused.value.extra == {"faiss": "faiss", "lancedb": "lancedb", "qdrant_client": "qdrant"}[module]
    monkeypatch.setitem(sys.modules, "pgvector.psycopg", None)
    with pytest.raises(MissingExtraError) as refused:
        PrivateIndex(16, store="pgvector", path="postgresql://")
    assert refused.value.extra == "pgvector"


@pytest.mark.parametrize("store", STORES)
def test_a_fresh_index_has_the_settings_and_nothing_else(store, tmp_path):
    place = {"path": tmp_path / "rows"} if store in ON_DISK else {}
    index = made(16, store=store, normalize=False, **place)
    index.add(ROWS[:3])
    fresh = index.fresh(hv.Generator.unsafe_seeded(5))
    settings = replace(index.settings, store="flat", store_options=None) if store == "pgvector" else index.settings
    assert len(fresh) == 0 and len(index) == 3 and fresh.settings == settings
    assert fresh.is_seeded and not index.is_seeded
    fresh.add(ROWS[3:9])
    assert len(index) == 3 and fresh.ids.tolist() == list(range(6))
