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


def part(task, noise, epsilon):
    """In percent of what there is without privacy."""
    value = {(row["noise"], row["epsilon"]): row[MAIN[task]][0] for row in ROWS if row["task"] == task}
    return round(100 * value[noise, epsilon] / value["none", None])


def table():
    """(task, noise) -> values at epsilon 8 and 16; without noise there is one, in the cell of the noise."""
    found, task = {}, ""
    for line in re.findall(r"^\| ((?:questions|documents|topics|) ?\| .*) \|$", SECTION, re.MULTILINE):
        name, noise, *values = (cell.strip() for cell in line.split("|"))
        task = name or task
        found[(task, *noise.split(": ")[:1])] = noise.split(": ")[1:] + [value for value in values if value]
    return found


@pytest.mark.parametrize("task", MAIN)
def test_the_table(task):
    shown = {noise: values for (of_task, noise), values in table().items() if of_task == task}
    assert {"none", "privunit", "codebook"} <= set(shown)
    rows = [row for row in ROWS if row["task"] == task]
    for noise, values in shown.items():
        expected = [row[MAIN[task]] for row in rows if row["noise"] == noise and row["epsilon"] in (None, 8.0, 16.0)]
        assert values == [f"{value:.3f}".removeprefix("0") for value, _, _ in expected]
        assert all(value - 0.06 < low and high < value + 0.06 for value, low, high in expected)


def test_the_sentences():
    fetches = ("codebook", "codebook, fetch 50", "codebook, fetch 200")
    at_8 = [part("questions", noise, 8.0) for noise in fetches]
    assert "{} % of the clean nDCG without local ranking, {} % with 50 candidates and {} % with 200".format(*at_8) in SECTION
    assert f"PrivUnit keeps {part('questions', 'privunit', 8.0)} % at epsilon 8" in SECTION
    topics, documents = part("topics", "codebook", 8.0), part("documents", "codebook", 8.0)
    assert f"keep {topics} % of what topics need at epsilon 8, but only {documents} %" in SECTION
    assert f"{part('documents', 'codebook', 16.0)} % remains" in SECTION
