"""README.md prints the figures of the study `overview`, and its program measures what it says."""

import json
from pathlib import Path

import numpy as np
import pytest

from hushvec_studies.overview import measure

ROOT = Path(__file__).parents[3]
STUDY = json.loads((ROOT / "studies/hushvec_studies/overview/results/utility_and_attack.json").read_text())
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLE = README.split("## Which mechanism\n")[1].split("\n## ")[0]
NAMES = {"codebook": "`PublicCodebook`", "privunit": "`privunit`", "gaussian": "`gaussian`"}


def percent(mechanism, epsilon, name):
    (row,) = (row for row in STUDY["rows"] if row["mechanism"] == mechanism and row["epsilon"] == epsilon)
    return f"{100 * row[name][0]:.1f} %" if row[name][0] < 0.095 else f"{100 * row[name][0]:.0f} %"


@pytest.mark.parametrize("mechanism", NAMES)
def test_the_table_of_the_readme(mechanism):
    (line,) = (line for line in TABLE.splitlines() if line.startswith("|") and NAMES[mechanism] in line)
    assert line.endswith(f"| {percent(mechanism, 8.0, 'utility')} | {percent(mechanism, 8.0, 'attack')} |")


def test_the_sentences_of_the_readme():
    chance = f"{100 * STUDY['utility_by_chance']:.0f} %"
    assert f"Without noise {percent('none', None, 'utility')} are on topic; chance is {chance}" in TABLE
    assert f"{STUDY['private']:,} posts" in README
    words = README.replace("\n", " ")
    on_topic, clean = percent("codebook", 8.0, "utility"), percent("none", None, "utility")
    assert f"At epsilon 8, {on_topic} of the first ten answers are on topic" in words
    assert f"and {clean} when you search clean vectors" in words
    assert f"posts recognizes {percent('codebook', 8.0, 'attack')} of the released ones" in words


def test_no_attack_exceeds_what_epsilon_allows():
    """The share of people recognized; an interval that lies above e^eps / (e^eps + n - 1) would refute delta = 0."""
    for row in STUDY["rows"]:
        if row["mechanism"] in ("privunit", "codebook"):
            assert row["attack"][1] <= 1 / (1 + (STUDY["private"] - 1) * np.exp(-row["epsilon"]))


def test_what_is_found_and_recognized_in_clean_rows_and_in_noise():
    """Two groups far apart, 40 people: clean rows show groups and people, rows of noise alone neither."""
    rng = np.random.default_rng(0)
    groups = np.arange(40) % 2
    rows = measure.unit(rng.standard_normal((40, 8)) + 4 * (2 * groups - 1)[:, None])
    assert measure.precision(rows, rows, groups).mean() > 0.95
    assert measure.recognized(rows, rows).mean() == 1.0
    noise = measure.unit(rng.standard_normal((40, 8)))
    assert measure.precision(noise, rows, groups).mean() < 0.8
    assert measure.recognized(noise, rows).mean() < 0.3


def test_all_is_measured(monkeypatch):
    monkeypatch.setattr(measure, "EPSILONS", (4.0,))
    monkeypatch.setattr(measure, "COMPONENTS", (2, 4))
    rng = np.random.default_rng(1)
    splits, groups = np.array(["train"] * 60 + ["test"] * 40), np.arange(100) % 2
    rows = measure.unit(rng.standard_normal((100, 8)) + 4 * (2 * groups - 1)[:, None])
    found = measure.measured(rows, splits, groups)
    assert (found["public"], found["private"], found["utility_by_chance"]) == (60, 40, 0.5)
    assert [row["mechanism"] for row in found["rows"]] == ["none", "gaussian", "privunit", "codebook"]
    for row in found["rows"][1:]:
        for name in ("utility", "attack"):
            value, low, high = row[name]
            assert 0 <= low <= value <= high <= 1


