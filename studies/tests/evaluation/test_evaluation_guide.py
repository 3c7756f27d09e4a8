"""docs/evaluation.md prints the figures of studies/hushvec_studies/evaluation/results/evaluation.json, and says what they say."""

import json
import re
from pathlib import Path

import pytest

from hushvec_studies.evaluation.findings import SUCCEEDS, choice, refutes, sentences, task_results, verdict
from hushvec_studies.evaluation.report.page import page_of
from hushvec_studies.evaluation.sources import SOURCES, titled

ROOT = Path(__file__).parents[3]
STUDY = json.loads((ROOT / "studies/hushvec_studies/evaluation/results/evaluation.json").read_text())
GUIDE = (ROOT / "docs/evaluation.md").read_text()
RESULTS = task_results(STUDY["rows"])
NAMES = [result.name for result in RESULTS]


def share(estimate):
    value, low, high = (f"{number:.3f}" for number in estimate)
    return f"{value} [{low}, {high}]"


def percent(estimate):
    value, low, high = (f"{100 * number:.2f}" for number in estimate)
    return f"{value} [{low}, {high}]"


def section(result):
    return re.search(rf"^## {re.escape(titled(result.name))}\n(.*?)(?=^## |\Z)", GUIDE, re.DOTALL | re.MULTILINE)[1]


@pytest.mark.parametrize("result", RESULTS, ids=NAMES)
def test_the_tables(result):
    here = section(result)
    for name, shown in ((result.main, share), ("attack", percent)):
        for mechanism in dict.fromkeys(row["mechanism"] for row in result.rows):
            cells = [shown(row[name]) for row in result.rows if row["mechanism"] == mechanism]
            assert f"| {mechanism} | {' | '.join(cells)} |" in here
    assert share(result.clean[result.main]) in here


@pytest.mark.parametrize("result", RESULTS, ids=NAMES)
def test_what_it_means(result):
    """The paragraph is the one that the page prints."""
    assert choice(result, STUDY["settings"]["success"]) in section(result).replace("\n", " ")


def test_the_findings_are_those_of_the_rows():
    success = STUDY["settings"]["success"]
    for told, result in zip(STUDY["findings"], RESULTS, strict=True):
        assert (told["task"], told["choice"]) == (result.name, choice(result, success))
        assert told["sentences"] == sentences(result, success)


def test_no_attack_refutes_a_claim():
    for result in RESULTS:
        for row in result.rows:
            assert not refutes(row), (result.name, row["mechanism"], row["epsilon"])


def test_clean_rows_are_recognized():
    """The attack works where there is no noise: a failure in noise is then one of the noise."""
    for result in RESULTS:
        assert verdict(result.clean, STUDY["settings"]["success"]) == SUCCEEDS and result.clean["attack"][0] > 0.95


def test_the_run_is_described():
    assert STUDY["command"] in GUIDE
    minutes = sum(row["seconds"] for row in STUDY["rows"]) / 60
    assert f"{minutes:.0f} minutes of processor time" in GUIDE
    assert f"{STUDY['surroundings']['cores']} cores" in GUIDE
    for source in STUDY["sources"]:
        assert source["license"] == SOURCES[source["name"]].license
        assert source["left_out"] in GUIDE


def test_the_page_of_the_results():
    """Every task has its paragraph, two tables and a command; every figure is there."""
    page = page_of(STUDY)
    assert page.count("<svg") == 3 and page.count("<caption>") == 2 * len(RESULTS)
    assert page.count("Reproduce:") == 3 + len(RESULTS)
