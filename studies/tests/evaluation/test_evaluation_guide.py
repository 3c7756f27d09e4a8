"""docs/evaluation.md prints the figures of studies/hushvec_studies/evaluation/results/evaluation.json, and says what they say."""

import json
import re
from pathlib import Path

import pytest

from hushvec_studies.evaluation.attacks.figures import exceeds, outcome
from hushvec_studies.evaluation.attacks.findings import attack_choice, attack_results, attack_sentences, main_figures
from hushvec_studies.evaluation.findings import SUCCEEDS, choice, refutes, sentences, task_results, verdict
from hushvec_studies.evaluation.report.page import page_of
from hushvec_studies.evaluation.sources import SOURCES, titled
from hushvec_studies.evaluation.text_findings import REWRITING_TITLES, TEXT_TITLES, rewriting_sentence, text_sentence

ROOT = Path(__file__).parents[3]
STUDY = json.loads((ROOT / "studies/hushvec_studies/evaluation/results/evaluation.json").read_text())
GUIDE = (ROOT / "docs/evaluation.md").read_text()
RESULTS = task_results(STUDY["rows"])
NAMES = [result.name for result in RESULTS]
BY_NAME = {result.name: result for result in RESULTS}
ATTACKS = attack_results(STUDY["attacks"])
SUCCESS = STUDY["settings"]["success"]


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


@pytest.mark.parametrize("attacked", ATTACKS, ids=[one.task for one in ATTACKS])
def test_the_tables_of_the_other_attacks(attacked):
    """Each with the bound of the mechanisms whose delta is 0."""
    here = section(BY_NAME[attacked.task])
    shown = [name for name in main_figures(attacked.names) if name in attacked.clean and not name.startswith("alignment tfidf")]
    assert len(shown) >= 5
    for name in shown:
        rows = attacked.having(name)
        for mechanism in dict.fromkeys(row["mechanism"] for row in rows):
            own = [row["figures"][name] for row in rows if row["mechanism"] == mechanism]
            assert f"| {mechanism} | {' | '.join(share(figure['value']) for figure in own)} |" in here
        pure = [row for row in rows if row["mechanism"] == "privunit"]
        bounds = [f"{row['figures'][name]['bound']:.4f}" for row in pure]
        assert f"| bound where delta is 0 | {' | '.join(bounds)} |" in here
        assert share(attacked.clean[name]["value"]) in here
    assert attack_choice(attacked, BY_NAME[attacked.task], SUCCESS) in here.replace("\n", " ")


@pytest.mark.parametrize("row", STUDY["texts"], ids=[row["data"] for row in STUDY["texts"]])
def test_redaction(row):
    assert text_sentence(row) in GUIDE.replace("\n", " ")
    for name, figure in row["figures"].items():
        assert f"| {TEXT_TITLES[name]} | {percent(figure)} |" in GUIDE


def test_rewriting():
    assert rewriting_sentence(STUDY["rewriting"]) in GUIDE.replace("\n", " ")
    for row in STUDY["rewriting"]:
        assert f" | {' | '.join(share(row['figures'][name]) for name in REWRITING_TITLES)} |" in GUIDE


def test_the_findings_of_the_other_attacks_are_those_of_the_rows():
    for told, one in zip(STUDY["attack_findings"], ATTACKS, strict=True):
        use = BY_NAME[one.task]
        assert told["choice"] == attack_choice(one, use, SUCCESS)
        assert told["sentences"] == attack_sentences(one, use, SUCCESS)


def test_no_other_attack_exceeds_its_bound():
    for attacked in ATTACKS:
        for row in attacked.rows:
            for name, figure in row["figures"].items():
                assert not exceeds(figure), (attacked.task, row["mechanism"], row["epsilon"], name)


def test_the_other_attacks_work_without_noise():
    """Those that need no luck: whoever fails without noise says nothing about noise."""
    for attacked in ATTACKS:
        for name in main_figures(attacked.names):
            assert outcome(attacked.clean[name], SUCCESS) == SUCCEEDS, (attacked.task, name)


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
    measured = [*STUDY["rows"], *STUDY["attacks"]]
    minutes = sum(row["seconds"] for row in measured) / 60
    assert f"{len(measured)} measurements of vectors took" in GUIDE
    assert f"{minutes:.0f} minutes of processor time" in GUIDE
    assert f"{STUDY['surroundings']['cores']} cores" in GUIDE
    for source in STUDY["sources"]:
        assert source["license"] == SOURCES[source["name"]].license
        assert source["left_out"] in GUIDE


def test_the_page_of_the_results():
    """Every task has its paragraph, two tables and a command, the other attacks two or three; every figure is there."""
    page = page_of(STUDY)
    assert page.count("<svg") == 5
    inverted = [one for one in ATTACKS if "inversion_f1" in one.clean]
    assert page.count("<caption>") == 2 * len(RESULTS) + 2 * len(ATTACKS) + len(inverted) + len(STUDY["texts"]) + 1
    assert page.count("Reproduce:") == 5 + len(RESULTS) + len(ATTACKS) + len(STUDY["texts"]) + 1
