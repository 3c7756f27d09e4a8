"""docs/retrieval.md prints the figures of studies/hushvec_studies/search_by_mechanism/results/search_by_mechanism.json, and
says of them what they say."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = json.loads((ROOT / "studies/hushvec_studies/search_by_mechanism/results/search_by_mechanism.json").read_text())
GUIDE = (ROOT / "docs/retrieval.md").read_text()
SECTION = re.search(r"## What search keeps\n(.*?)\n## ", GUIDE, re.DOTALL)[1]
MAIN = {"questions": "ndcg_at_10", "documents": "ndcg_at_10", "topics": "precision_at_10"}


def interval(estimate):
    value, low, high = (f"{number:.3f}".removeprefix("0") for number in estimate)
    return f"{value} [{low}, {high}]"


def part(task, noise, epsilon):
    """In percent of what there is without privacy."""
    value = {(row["noise"], row["epsilon"]): row[MAIN[task]][0] for row in ROWS if row["task"] == task}
    return round(100 * value[noise, epsilon] / value["none", None])


@pytest.mark.parametrize("task", MAIN)
def test_the_table(task):
    rows = [row for row in ROWS if row["task"] == task]
    for noise in dict.fromkeys(row["noise"] for row in rows):
        cells = [interval(row[MAIN[task]]) for row in rows if row["noise"] == noise]
        assert f"| {noise} | {' | '.join(cells)} |" in SECTION


def test_the_table_at_epsilon_8():
    for row in ROWS:
        if row["task"] != "topics" and row["epsilon"] in (None, 8.0):
            assert f"| {row['noise']} | {interval(row['recall_at_10'])} | {interval(row['mrr'])} |" in SECTION


def test_the_sentences():
    askers = ("codebook", "codebook, fetch 50", "codebook, fetch 200")
    at_8, at_10 = ([part("questions", noise, epsilon) for noise in askers] for epsilon in (8.0, 10.0))
    assert "{} % of the clean nDCG without local ranking, {} % with 50 candidates and {} % with 200".format(*at_8) in SECTION
    assert "at epsilon 10 it is {}, {} and {} %".format(*at_10) in SECTION
    assert f"PrivUnit keeps {part('questions', 'privunit', 8.0)} % at epsilon 8" in SECTION
    topics, documents = part("topics", "codebook", 8.0), part("documents", "codebook", 8.0)
    assert f"keep {topics} % of what topics need at epsilon 8, but only {documents} %" in SECTION
    assert f"{part('documents', 'codebook', 16.0)} % remains" in SECTION
