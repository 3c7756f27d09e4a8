"""docs/topics.md prints the figures of the study of topics, and its program measures what it says."""

import json
from pathlib import Path

import numpy as np

from hushvec_studies.aggregates import topics
from hushvec_studies.aggregates.measure import Labelled

ROOT = Path(__file__).parents[3]
STUDY = json.loads((ROOT / "studies/hushvec_studies/aggregates/results/topics.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/topics.md").read_text(encoding="utf-8")


def test_the_tables_and_what_is_said_of_them():
    assert all(table in PAGE for table in topics.tables(STUDY["rows"]).split("\n\n"))
    assert [one["collection"] for one in STUDY["rows"]] == list(topics.COLLECTIONS)
    for one in STUDY["rows"]:
        assert one["total_variation"] <= 0.02 and one["nmi"]["nearest"] >= 0.95
        assert (one["topics"], one["pool"]) == (round(1.5 * one["pool"] ** 0.5), STUDY["settings"]["pool"])
    assert STUDY["settings"]["epsilon"] == 1.0 and f"delta 1e-5, {STUDY['settings']['draws']} draws" in PAGE


def test_the_program_measures_what_it_says():
    """Four kinds far apart, of which the pool has all, or lacks one: then its people, and no others, are uncovered."""
    rng = np.random.default_rng(1)
    rows = lambda classes: (np.eye(12)[classes] + 0.05 * rng.standard_normal((len(classes), 12))).astype(np.float32)
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    people, public = rng.integers(0, 4, 3000), rng.integers(0, 4, 400)
    data = Labelled("made", unit(rows(people)), people, unit(rows(public)), public)
    found = topics.measure(data, topics.Settings(pool=200, draws=4, quantiles=(0.05,)))
    exact = found["uncovered"][0.05]
    assert exact["label missing"] == 1 and exact["others"] < 0.15 and exact["all labels"] < 0.15
    assert 0 < found["total_variation"] < 0.02 and found["nmi"]["nearest"] > 0.9 and found["topics"] == 21
