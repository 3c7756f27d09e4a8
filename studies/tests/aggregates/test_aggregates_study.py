"""docs/evaluation.md prints the figures of the study `aggregates`, and its program measures what it says."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from hushvec_studies.aggregates import measure

ROOT = Path(__file__).parents[3]
STUDY = json.loads((ROOT / "studies/hushvec_studies/aggregates/results/aggregates.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
SECTION = re.search(r"^## Many people's vectors together\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)[1]


def accuracy(collection, method, epsilon):
    (row,) = (row for row in STUDY["rows"] if (row["collection"], row["method"], row["epsilon"]) == (collection, method, epsilon))
    return measure.best(row)


@pytest.mark.parametrize("collection", [one["name"] for one in STUDY["collections"]])
def test_the_tables(collection):
    assert measure.table(STUDY, collection) + "\n" in SECTION
    assert measure.caption(STUDY, collection) in SECTION.replace("\n", " ")


def test_the_sentences():
    words = SECTION.replace("\n", " ")
    ours = {name: accuracy(name, "private_classifier", 1.0) for name in measure.COLLECTIONS}
    rows = {name: {kind: accuracy(name, kind, 8.0) for kind in measure.RELEASED} for name in measure.COLLECTIONS}
    banking, news, digits = rows.values()
    assert ours["banking77"][1] > banking["privunit"][2] and abs(ours["banking77"][0] - banking["public codebook"][0]) < 0.012
    at_two = accuracy("banking77", "private_classifier", 2.0)
    assert at_two[1] > max(high for _, _, high in banking.values())
    assert ours["newsgroups"][0] > max(value for value, _, _ in news.values())
    assert max(low for _, low, _ in (*digits.values(), ours["digits"])) < min(
        high for _, _, high in (*digits.values(), ours["digits"])
    )
    for said in (
        f"one release at epsilon 1 ({ours['banking77'][0]:.3f}) is better than rows released by PrivUnit at epsilon 8 "
        f"({banking['privunit'][0]:.3f})",
        f"behind a codebook at epsilon 8 ({banking['public codebook'][0]:.3f})",
        f"at epsilon 2 ({at_two[0]:.3f}) it is better than all of them",
        f"epsilon 1 ({ours['newsgroups'][0]:.3f}) is no worse than any rows at epsilon 8 "
        f"({max(value for value, _, _ in news.values()):.3f} at most)",
        f"epsilon 1 gives {ours['digits'][0]:.3f} and PrivUnit at epsilon 8 {digits['privunit'][0]:.3f}; a codebook at epsilon 8 "
        f"reaches {digits['public codebook'][0]:.3f}",
    ):
        assert said in words


def test_the_run_is_described():
    settings = STUDY["settings"]
    assert settings["collections"] == list(measure.COLLECTIONS) and settings["delta"] == 1e-5
    assert {row["draws"] for row in STUDY["rows"] if row["epsilon"]} == {settings["draws"]}
    assert f"{settings['draws']} draws" in SECTION


def made(seed=0, people=300):
    """Three classes far apart."""
    rng = np.random.default_rng(seed)
    classes = np.arange(people) % 3
    rows = rng.standard_normal((people, 8)) + 6 * np.eye(8)[classes]
    return measure.labelled("made", rows, classes, np.where(np.arange(people) % 4 == 0, "test", "train"))


def test_every_method_is_measured_at_every_epsilon(tmp_path):
    settings = measure.Settings(epsilons=(0.25, 64.0), draws=2, resamples=100)
    found = measure.study(settings, [made()], tmp_path)
    assert found["collections"] == [{"name": "made", "people": 225, "tested": 75, "classes": 3, "columns": 8}]
    shown = {(row["method"], row["epsilon"]): measure.best(row)[0] for row in found["rows"]}
    noisy = (*measure.AGGREGATES, measure.RIDGE, measure.VOTES, *measure.RELEASED)
    assert set(shown) == {(name, None) for name in measure.CLEAN} | {(name, one) for name in noisy for one in settings.epsilons}
    assert all(value > 0.9 for (name, epsilon), value in shown.items() if epsilon != 0.25 and name != measure.VOTES)
    assert shown[measure.VOTES, 64.0] > 0.3 > shown[measure.VOTES, 0.25]  # 75 questions use up the votes of 225 documents
    assert shown["privunit", 0.25] < 0.9
    people = {row["method"]: row["people"] for row in found["rows"]}
    assert (people["privunit"], people["private_classifier"], people["public codebook"]) == (225, 225, 113)
    again = measure.study(settings, [made()], tmp_path)
    assert again["rows"] == found["rows"]
    assert "| `class_centroids` | " in measure.table(found, "made")


def test_public_rows_are_not_released():
    public, private = made().halves()
    assert sorted([*public, *private]) == list(range(225))


def test_intervals_cover_draws_and_test_rows():
    """n = 300 samples of 20 draws and 100 rows, whose chances differ by draw and by row and are 0.7 on average: how many 95 %
    intervals hold 0.7. Alpha = 1e-6 that 93 % do, as the bootstrap of 20 draws is somewhat narrow; those of rows alone do not."""
    rng, cell = np.random.default_rng(3), SimpleNamespace(seed=1, resamples=300, confidence=0.95)
    covered = {"both": 0, "rows alone": 0}
    for _ in range(300):
        chances = 0.7 + rng.uniform(-0.15, 0.15, (20, 1)) + rng.uniform(-0.15, 0.15, 100)
        hits = rng.random((20, 100)) < chances
        for name, given in (("both", hits), ("rows alone", hits.mean(axis=0, keepdims=True))):
            _, low, high = measure.interval(given, cell)
            covered[name] += low <= 0.7 <= high
    least = stats.binom.ppf(1e-6, 300, 0.93)
    assert covered["both"] >= least > covered["rows alone"], covered
