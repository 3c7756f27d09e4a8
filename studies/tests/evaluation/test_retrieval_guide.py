"""docs/retrieval.md prints figures of the evaluation, and says of them what they say."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = json.loads((ROOT / "studies/hushvec_studies/evaluation/results/evaluation.json").read_text())["rows"]
GUIDE = (ROOT / "docs/retrieval.md").read_text()
SECTION = re.search(r"## What search keeps\n(.*?)\n## ", GUIDE, re.DOTALL)[1]
TASKS = {
    "questions": "scifact, private questions",
    "documents": "scifact, private documents",
    "topics": "newsgroups, private documents",
}


def part(task, mechanism, epsilon):
    """In percent of what there is without privacy."""
    value = {(row["mechanism"], row["epsilon"]): row["ndcg_at_10"][0] for row in ROWS if row["task"] == TASKS[task]}
    return round(100 * value[mechanism, epsilon] / value["none", None])


def table():
    """(task, mechanism) -> values at epsilon 8 and 16; without noise there is one, in the cell of the mechanism."""
    found, task = {}, ""
    for line in re.findall(r"^\| ((?:questions|documents|topics|) ?\| .*) \|$", SECTION, re.MULTILINE):
        name, noise, *values = (cell.strip() for cell in line.split("|"))
        task = name or task
        found[(task, *noise.split(": ")[:1])] = noise.split(": ")[1:] + [value for value in values if value]
    return found


@pytest.mark.parametrize("task", TASKS)
def test_the_table(task):
    shown = {noise: values for (of_task, noise), values in table().items() if of_task == task}
    assert {"none", "privunit", "public codebook"} <= set(shown)
    rows = [row for row in ROWS if row["task"] == TASKS[task]]
    for noise, values in shown.items():
        expected = [row["ndcg_at_10"] for row in rows if row["mechanism"] == noise and row["epsilon"] in (None, 8.0, 16.0)]
        assert values == [f"{value:.3f}".removeprefix("0") for value, _, _ in expected]
        assert all(value - 0.06 < low and high < value + 0.06 for value, low, high in expected)


def test_the_sentences():
    at_8 = [part("questions", mechanism, 8.0) for mechanism in ("public codebook", "private query")]
    assert "{} % of the clean nDCG without local ranking and {} % with 50 candidates".format(*at_8) in SECTION
    assert f"PrivUnit keeps {part('questions', 'privunit', 8.0)} % at epsilon 8" in SECTION
    topics, documents = part("topics", "public codebook", 8.0), part("documents", "public codebook", 8.0)
    assert f"keep {topics} % of what topics need at epsilon 8, but only {documents} %" in SECTION
    assert f"{part('documents', 'public codebook', 16.0)} % remains" in SECTION
