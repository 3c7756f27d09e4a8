"""Texts and metadata beside the rows: what comes back, what a filter leaves, what is refused, and that receipts claim no more."""

import dataclasses
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec.retrieval import PrivateIndex, ScoreNoise, StoredDocument, VectorNoise
from hushvec.retrieval.index.content import NOTE_BESIDE
from retrieval.index_cases import STORES, best_by_sorting, filled, loaded, made, some_rows, unit

ROWS = some_rows(200)
QUERIES = some_rows(7, seed=1)
TEXTS = [f"text {place}" for place in range(200)]
METADATA = [{"n": place, "even": place % 2 == 0, "tags": ["a", "b"] if place % 3 == 0 else ["c"]} for place in range(200)]

FILTERS = [
    ({"even": True}, lambda place: place % 2 == 0),
    ({"n": {"$gte": 10}}, lambda place: place >= 10),
    ({"n": {"$lt": 9}}, lambda place: place < 9),
    ({"tags": "a", "even": False}, lambda place: place % 6 == 3),
    ({"n": {"$gte": 0}}, lambda place: True),
]


def documented(*, store="flat", **settings):
    index = made(16, store=store, **settings)
    index.add(ROWS, metadata=METADATA, texts=TEXTS)
    return index


@pytest.mark.ranks
@pytest.mark.parametrize("store", STORES)
def test_a_filter_leaves_the_best_of_the_rows_that_match(store):
    index = documented(store=store)
    index.delete([0, 17, 18])
    for where, belongs in FILTERS:
        left = np.array([place for place in range(200) if belongs(place) and place not in (0, 17, 18)])
        assert index.find(where).tolist() == left.tolist()
        found = index.search(QUERIES, k=5, where=where)
        places, scores = best_by_sorting(unit(ROWS)[left], unit(QUERIES), 5)
        np.testing.assert_array_equal(found.ids, left[places])
        np.testing.assert_allclose(found.scores, scores, atol=1e-5)
        among = index.search(QUERIES, k=5, among=left[::-1])
        np.testing.assert_array_equal(among.ids, found.ids)


@pytest.mark.ranks
def test_a_filter_that_leaves_only_rows_far_from_the_query_finds_them():
    """Of as many as an approximate store is asked for, none matches: the rows that match are scored one by one."""
    pytest.importorskip("faiss")
    index = PrivateIndex(16, store="hnsw")
    cosines = unit(ROWS) @ unit(QUERIES[:1])[0]
    index.add(ROWS, metadata=[{"far": bool(cosine < np.median(cosines))} for cosine in cosines])
    far = np.flatnonzero(cosines < np.median(cosines))
    found = index.search(QUERIES[:1], k=3, where={"far": True})
    assert found.ids[0].tolist() == far[np.argsort(-cosines[far])[:3]].tolist()


@pytest.mark.parametrize("store", STORES)
def test_fewer_matches_than_k_are_all_of_them(store):
    index = documented(store=store)
    found = index.search(QUERIES, k=150, where={"n": {"$in": [3, 5, 8]}})
    assert found.ids.shape == found.scores.shape == (7, 3) and set(found.ids.ravel()) == {3, 5, 8}
    both = index.search(QUERIES, k=9, where={"even": True}, among=[3, 8, 8, 12])
    assert both.ids.shape == (7, 2) and set(both.ids.ravel()) == {8, 12}


@pytest.mark.parametrize("mechanism", ("laplacian", "gumbel", None))
def test_no_match_answers_nothing_and_costs_nothing(mechanism):
    asked, answered = hv.PrivacyBudget(5.0), hv.PrivacyBudget(5.0)
    scores = ScoreNoise(epsilon=1.0, mechanism=mechanism, budget=answered) if mechanism else None
    index = documented(store="numpy", queries=VectorNoise(epsilon=1.0, budget=asked), scores=scores)
    found = index.search(QUERIES, k=5, where={"n": -1})
    assert found.ids.shape == (7, 0) and found.query_receipt is found.score_receipt is None
    assert found.scores is None if mechanism == "gumbel" else found.scores.shape == (7, 0)
    assert index.search(QUERIES, k=5, among=[]).ids.shape == (7, 0)
    assert asked.consumed() == answered.consumed() == 0


# ---- noise on scores: the candidates are public ----


@pytest.mark.ranks
@pytest.mark.parametrize("mechanism", ("laplacian", "gaussian", "gumbel"))
def test_a_filtered_search_is_a_search_of_the_rows_that_match(mechanism):
    """The same key gives the same bits as an index of these rows alone: so its proof and price are those of that index."""

    def index(keep, rows=ROWS):
        source = hv.Generator.unsafe_seeded(7)
        scores = ScoreNoise(epsilon=2.0, mechanism=mechanism)
        made = PrivateIndex(16, store="numpy", scores=scores, normalize=False, generator=source)
        made.add(rows[keep], np.flatnonzero(keep), metadata=[METADATA[place] for place in np.flatnonzero(keep)])
        return made

    odd = np.arange(200) % 2 == 1
    everything = np.ones(200, bool)
    alone = index(odd).search(QUERIES, k=4)
    filtered = index(everything).search(QUERIES, k=4, where={"even": False})
    np.testing.assert_array_equal(filtered.ids, alone.ids)
    if mechanism != "gumbel":
        np.testing.assert_array_equal(filtered.scores, alone.scores)
    assert filtered.score_receipt == alone.score_receipt
    others = ROWS.copy()
    others[~odd] = 7.0  # rows that do not match: nothing of them is in the answer
    again = index(everything, others).search(QUERIES, k=4, where={"even": False})
    np.testing.assert_array_equal(again.ids, alone.ids)


def test_a_filtered_search_is_charged_as_any_other():
    spent = hv.PrivacyBudget(100.0)
    index = documented(store="numpy", scores=ScoreNoise(epsilon=1.0, mechanism="gumbel", budget=spent))
    receipt = index.search(QUERIES, k=9, where={"n": {"$lt": 4}}).score_receipt
    assert (receipt.candidates, receipt.picks, receipt.epsilon) == (4, 4, 7.0) and spent.consumed() == 7.0
    assert hv.verify_receipt(receipt).status == "holds"


# ---- receipts claim nothing about what lies beside ----


def test_a_receipt_says_that_texts_are_not_covered_and_claims_what_it_did():
    def receipt(**beside):
        index = PrivateIndex(16, documents=VectorNoise(epsilon=3.0), generator=hv.Generator.unsafe_seeded(3))
        return index, index.add(ROWS, **beside)

    (bare, plain), (index, noted) = receipt(), receipt(texts=TEXTS, metadata=METADATA)
    assert noted == dataclasses.replace(plain, notes=(*plain.notes, NOTE_BESIDE))
    assert hv.verify_receipt(noted).status == hv.verify_receipt(plain).status == "not a DP claim"  # of a seed, both
    np.testing.assert_array_equal(index.vectors(), bare.vectors())
    line = "200 texts and the metadata of 200 rows are stored as they are: nothing protects them"
    assert any(each.startswith(line) for each in index.describe()) and not any("texts" in each for each in bare.describe())
    assert receipt(metadata=[{}] * 200)[1] == plain  # nothing is stored, nothing is to be said


# ---- in and out ----


def test_texts_metadata_and_rows_by_ids():
    index = documented(store="numpy")
    assert index.get([9, 4, 9]) == [StoredDocument(place, TEXTS[place], METADATA[place]) for place in (9, 4, 9)]
    np.testing.assert_array_equal(index.vectors([9, 4, 9]), index.vectors()[[9, 4, 9]])
    index.get([4])[0].metadata["tags"].append("changed")
    METADATA[4]["later"] = 1
    assert index.get([4])[0].metadata == {key: value for key, value in METADATA.pop(4).items() if key != "later"}
    METADATA.insert(4, index.get([4])[0].metadata)
    index.add(ROWS[:2], [500, 501])
    assert index.get([500]) == [StoredDocument(500, None, {})] and len(index.get()) == 202
    assert index.has([500, 999, 3]).tolist() == [True, False, True] and index.has(["a"]).tolist() == [False]
    index.delete([4, 500])
    assert [document.id for document in index.get()] == index.ids.tolist()
    assert index.get([5])[0].text == "text 5"


@pytest.mark.parametrize("store", STORES)
def test_rows_by_ids_are_those_of_all_rows(store):
    index = filled(ROWS, store=store)
    index.delete([3, 7])
    wanted = [150, 2, 150, 199]
    np.testing.assert_array_equal(index.vectors(wanted), index.vectors()[[148, 2, 148, 197]])
    assert index.vectors([]).shape == (0, 16)


def test_updates_change_what_lies_beside_and_cost_nothing():
    spent = hv.PrivacyBudget(10.0)
    index = PrivateIndex(16, store="numpy", documents=VectorNoise(epsilon=2.0, budget=spent))
    index.add(ROWS[:3], metadata=[{"n": 1}] * 3)
    before = index.vectors()
    index.update([2, 0], metadata=[{"n": 5}, {}], texts=["two", "zero"])
    assert index.get() == [StoredDocument(0, "zero", {}), StoredDocument(1, None, {"n": 1}), StoredDocument(2, "two", {"n": 5})]
    assert spent.consumed() == 2.0 and (index.vectors() == before).all()


@pytest.mark.parametrize("store", STORES)
def test_rows_that_are_replaced_are_released_again(store):
    spent = hv.PrivacyBudget(5.0)
    index = made(16, store=store, documents=VectorNoise(epsilon=2.0, budget=spent))
    index.add(ROWS[:20], texts=TEXTS[:20])
    before = index.vectors([5])
    index.add(ROWS[:3], [2, 77, 4], texts=["new", "newer", "newest"], replace=True)
    assert spent.consumed() == 4.0 and len(index) == len(index.vectors()) == 21 and len(index.receipts) == 2
    assert index.ids.tolist() == [*(place for place in range(20) if place not in (2, 4)), 2, 77, 4]
    assert [each.text for each in index.get([2, 5, 4])] == ["new", "text 5", "newest"]
    np.testing.assert_array_equal(index.vectors([5]), before)
    rows = index.vectors()
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        index.add(ROWS[:1], [2], texts=["refused"], replace=True)
    np.testing.assert_array_equal(index.vectors(), rows)
    assert index.get([2])[0].text == "new"


@pytest.mark.parametrize("store", STORES)
def test_documents_come_back_from_a_folder(store, tmp_path):
    index = documented(store=store)
    index.update([11], texts=["line\nend\u2028 and \x85 'quotes' \"\\"])
    index.delete([3, 150])
    index.save(tmp_path)
    again = loaded(tmp_path)
    assert again.get() == index.get()
    np.testing.assert_array_equal(again.search(QUERIES, k=3, where={"n": 12}).ids, [[12]] * 7)
    (file,) = tmp_path.glob("documents-*.jsonl")
    assert file.stat().st_mode & 0o777 == 0o600 and len(file.read_text().split("\n")) == 199
    assert json.loads(file.read_text().split("\n")[0]) == {"text": "text 0", "metadata": METADATA[0]}
    again.delete(again.ids)
    again.add(ROWS)
    again.save(tmp_path)
    assert not list(tmp_path.glob("documents-*")) and loaded(tmp_path).get()[0].text is None


def test_rows_that_a_store_on_disk_lost_take_their_documents_with_them(tmp_path):
    pytest.importorskip("lancedb")
    index = PrivateIndex(16, store="lancedb", path=tmp_path / "rows")
    index.add(ROWS[:9], texts=TEXTS[:9])
    index.save(tmp_path / "index")
    index.delete([3])
    with pytest.warns(UserWarning, match="1 rows of the saved index are no longer in its store"):
        again = PrivateIndex.load(tmp_path / "index")
    assert [document.text for document in again.get()] == [text for text in TEXTS[:9] if text != "text 3"]


# ---- what is refused ----

REFUSED = [
    ({"texts": ["a"]}, ValueError, "texts must be as many as the 2 vectors, got 1"),
    ({"texts": "ab"}, TypeError, "texts must be a sequence of strings, got str"),
    ({"texts": ["a", None]}, TypeError, "texts of row 1 must be a str, got NoneType"),
    ({"texts": ["a", b"b"]}, TypeError, "texts of row 1 must be a str, got bytes"),
    ({"texts": ["a", "\ud800"]}, ValueError, "texts of row 1: must be text that UTF-8 can hold"),
    ({"texts": iter("ab")}, TypeError, "texts must be a sequence of strings, got str_"),
    ({"metadata": {"n": 1}}, TypeError, "metadata must be a sequence of mappings, got dict"),
    ({"metadata": [{}]}, ValueError, "metadata must be as many as the 2 vectors, got 1"),
    ({"metadata": [{}, None]}, TypeError, "metadata of row 1 must be a mapping, got NoneType"),
    ({"metadata": [{}, {1: 2}]}, TypeError, "metadata of row 1 must have strings as keys, got int"),
    ({"metadata": [{}, {"$n": 2}]}, ValueError, r"metadata of row 1 must have keys that do not begin with '\$', .*got '\$n'"),
    ({"metadata": [{}, {"n": {"m": 2}}]}, TypeError, "metadata of row 1 must have values of JSON .*, got dict in 'n'"),
    ({"metadata": [{}, {"n": [[2]]}]}, TypeError, "got list in 'n'"),
    ({"metadata": [{}, {"n": (2, 3)}]}, TypeError, "got tuple in 'n'"),
    ({"metadata": [{}, {"n": np.int64(2)}]}, TypeError, "got int64 in 'n'"),
    ({"metadata": [{}, {"n": float("nan")}]}, ValueError, "metadata of row 1 must be JSON: JSON has no NaN or Infinity"),
    ({"metadata": [{}, {"\udfff": 1}]}, ValueError, "metadata of row 1 must be JSON: it has half of a surrogate pair"),
    ({"replace": 1}, TypeError, "replace must be True or False, got int"),
]


@pytest.mark.parametrize(("beside", "error", "message"), REFUSED)
def test_refused_documents_cost_nothing_and_are_not_stored(beside, error, message):
    spent = hv.PrivacyBudget(10.0)
    index = PrivateIndex(16, store="numpy", documents=VectorNoise(epsilon=1.0, budget=spent))
    with pytest.raises(error, match=message):
        index.add(ROWS[:2], **beside)
    assert spent.consumed() == 0 and len(index) == len(index.get()) == 0
    index.add(ROWS[:2], texts=["a", "b"])
    kept = {name: value for name, value in beside.items() if name != "replace"}
    if kept:
        with pytest.raises(error, match=message):
            index.update([0, 1], **kept)
    assert [document.text for document in index.get()] == ["a", "b"]


SEARCHED = [
    ({"where": []}, TypeError, "where must be a mapping"),
    ({"where": {"n": {"$regex": "a"}}}, ValueError, r"operators among .*, got '\$regex'"),
    ({"among": [3, 999]}, ValueError, "ids must be in the index, got 999"),
    ({"among": ["a"]}, TypeError, "ids must be integers as those in the index, got strings"),
    ({"among": 3}, TypeError, "ids must be a sequence"),
    ({"where": {"n": 3}, "k": 0}, ValueError, "k must be >= 1, got 0"),
]


@pytest.mark.parametrize(("options", "error", "message"), SEARCHED)
def test_refused_searches_cost_nothing(options, error, message):
    asked, answered = hv.PrivacyBudget(100.0), hv.PrivacyBudget(100.0)
    queries, scores = VectorNoise(epsilon=1.0, budget=asked), ScoreNoise(epsilon=1.0, budget=answered)
    index = documented(store="numpy", queries=queries, scores=scores)
    with pytest.raises(error, match=message):
        index.search(QUERIES, **{"k": 3, **options})
    assert asked.consumed() == answered.consumed() == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda index: index.get([999]), ValueError, "ids must be in the index, got 999"),
        (lambda index: index.get(3), TypeError, "ids must be a sequence"),
        (lambda index: index.vectors(["a"]), TypeError, "ids must be integers as those in the index"),
        (lambda index: index.update([3, 3], texts=["a", "b"]), ValueError, "ids must be unique, got 3 twice"),
        (lambda index: index.update([999], texts=["a"]), ValueError, "ids must be in the index, got 999"),
        (lambda index: index.find(None), TypeError, "where must be a mapping"),
        (lambda index: index.has([1.5]), TypeError, "all integers or all strings"),
        (lambda index: index.add(ROWS[:2], [1, 1], replace=True), ValueError, "ids must be unique, got 1 twice"),
        (lambda index: index.add(ROWS[:1], ["a"], replace=True), TypeError, "ids must be integers as those in the index"),
    ],
)
def test_wrong_ids_change_nothing(call, error, message):
    index = documented(store="numpy")
    before = index.get()
    with pytest.raises(error, match=message):
        call(index)
    assert index.get() == before


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"text": "a", "metadata": {}}'], "must have one line for each of the 2 rows, got 1"),
        (['{"text": "a"}'] * 2, r"documents-\w+\.jsonl: line 1: has no key 'metadata'"),
        (['{"text": 1, "metadata": {}}'] * 2, "does not describe an index: .*texts of row 0 must be a str, got int"),
        (['{"text": "a", "metadata": {"n": {}}}'] * 2, "does not describe an index: .*metadata of row 0 must have values of JSON"),
        (['{"text": "a", "metadata": {"n": NaN}}'] * 2, "metadata of row 0 must be JSON"),
        (["[]"] * 2, r"documents-\w+\.jsonl: line 1: must be an object, got list"),
        (["{"] * 2, "cannot be read as JSON|Expecting"),
    ],
)
def test_forged_documents_are_refused(tmp_path, lines, message):
    """With lengths and digests that fit."""
    index = PrivateIndex(16, store="numpy")
    index.add(ROWS[:2], texts=["a", "b"])
    index.save(tmp_path)
    manifest = json.loads((tmp_path / "index.json").read_text())
    entry = manifest["files"]["documents"]
    file = tmp_path / entry["name"]
    file.write_text("\n".join(lines) + "\n")
    entry |= {"bytes": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    (tmp_path / "index.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=message):
        PrivateIndex.load(tmp_path)


def test_the_guide_runs():
    page = (Path(__file__).parents[2] / "docs" / "retrieval.md").read_text(encoding="utf-8")
    first, *others = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(first, names)
    exec(next(block for block in others if "texts=" in block), names)
    assert names["answer"].ids.shape == (1, 2) and len(names["notes"].receipts) == 2


def test_changed_texts_are_found(tmp_path):
    documented(store="numpy").save(tmp_path)
    (file,) = tmp_path.glob("documents-*.jsonl")
    file.write_text(file.read_text().replace("text 7", "text 9"))
    with pytest.raises(ValueError, match="is not what was saved"):
        PrivateIndex.load(tmp_path)
