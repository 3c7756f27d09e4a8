"""The program of the study of stand-ins measures what it says, and its results are of all its parts."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from hushvec_studies.aggregates import stand_ins as study

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "studies/hushvec_studies/aggregates/results/stand_ins.json"
WORDS = ("zloty", "forint", "kwacha", "lempira")
SETTINGS = study.Settings(pool=200, draws=2, epsilons=(1.0, 8.0), rounds=2, variants=200, pairs=8)


def embed(texts):
    """Texts with one of four words lie around one of four directions, others around a fifth."""
    rows = []
    for text in texts:
        kind = next((place for place, word in enumerate(WORDS) if word in text), len(WORDS))
        noise = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(40)
        rows.append(np.eye(40)[kind] + 0.03 * noise)
    return np.array(rows, np.float32)


@pytest.fixture(scope="module")
def made():
    """Four kinds far apart, of which the first has half of the people."""
    kinds = np.random.default_rng(1).choice(4, 2600, p=[0.5, 0.2, 0.2, 0.1])
    texts = [f"about the {WORDS[kind]} {row}" for row, kind in enumerate(kinds)]
    return study.collection("made", texts, kinds, np.where(np.arange(2600) < 600, "test", "train"), embed, SETTINGS)


def test_a_collection_keeps_the_pool_apart_from_the_test_rows(made):
    assert (len(made.data.rows), len(made.data.test), len(made.pool), len(made.texts)) == (2000, 400, 200, 200)
    assert all(WORDS[kind] in text for text, kind in zip(made.texts, made.classes))
    assert not (made.pool @ made.data.test.T > 1 - 1e-6).any()


def test_stand_ins_and_snapshots(made):
    people, pool, small, large = study.stand_ins(made, SETTINGS)
    assert people["search"] == pool["logistic regression"] == 1
    assert large["classifier"][0] == large["search"][0] == 1 and 0.5 < small["logistic regression"][0] <= 1
    exact, public, first, second = study.snapshots(made, SETTINGS)
    assert exact["total variation"] == 0 < public["total variation"] and public["kept"] == 1
    assert exact["probe"] == exact["classifier"] == second["kept"][0] == second["probe"][0] == 1
    assert 0 < second["total variation"][0] < first["total variation"][0] < 0.2
    assert "±" in study.table([exact, first, second])


def test_rounds_come_nearer_from_sentences_about_anything(made):
    cosines = {(row["pool"], row["rounds"], row["epsilon"]): row["cosine"][0] for row in study.rounds(made, SETTINGS, embed)}
    assert cosines["general", 1, 8.0] + 0.3 < cosines["general", 2, 8.0] <= cosines["of the field", 1, 8.0] + 0.1


def test_spliced_texts_go_on_as_a_public_one():
    found = study.spliced(["my card is late"], 50, np.random.default_rng(0))(["a Card for you", "nothing else"])
    assert set(found) == {"a card is late"}


def test_periods_have_the_errors_that_the_law_says(made):
    rows = {row["periods"]: row for row in study.periods(made, SETTINGS)}
    assert list(rows) == [1, 4, 13, 52]
    for row in rows.values():
        assert row["in one run"] == pytest.approx(row["by the law"], rel=0.5)
    assert 1.5 < rows[1]["by the law"] < 1.75 and 0.25 < rows[52]["by the law"] < 0.4


def test_topics_and_growth(made):
    (found,) = study.general_topics(made, SETTINGS, embed)
    assert found["uncovered"] > 0.9 and found["pool"] == len(study.public_sentences())
    noisy, exact = study.growth(made, SETTINGS)
    assert 0 <= noisy["first"] <= 1 and exact["counts"] == "without"


def test_the_results_are_of_every_part():
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert {row["collection"] for row in found["stand_ins"]} == {"banking77", "newsgroups", study.WORDNET}
    assert {row["collection"] for row in found["rounds"]} == {"banking77", study.WORDNET}
    assert found["settings"]["pairs"] == 100 and all(study.table(found[part]) for part in ("rounds", "topics", "growth"))
    for row in found["periods"]:
        assert row["in one run"] == pytest.approx(row["by the law"], rel=0.2)
