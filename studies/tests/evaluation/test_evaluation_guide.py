"""docs/evaluation.md prints the figures of studies/hushvec_studies/evaluation/results/evaluation.json, and says what they say."""

import json
import re
from pathlib import Path

import pytest

from hushvec_studies.evaluation.attacks.measure import SUCCEEDS, exceeds, outcome
from hushvec_studies.evaluation.collection import SOURCES, titled
from hushvec_studies.evaluation.findings import (
    attack_choice,
    attack_results,
    choice,
    main_figures,
    refutes,
    task_results,
    title,
    verdict,
)
from hushvec_studies.evaluation.report import page_of
from hushvec_studies.evaluation.texts import LEAK, MEANING, UNRELATED

ROOT = Path(__file__).parents[3]
STUDY = json.loads((ROOT / "studies/hushvec_studies/evaluation/results/evaluation.json").read_text())
GUIDE = (ROOT / "docs/evaluation.md").read_text()
RESULTS = task_results(STUDY["rows"])
NAMES = [result.name for result in RESULTS]
BY_NAME = {result.name: result for result in RESULTS}
ATTACKS = attack_results(STUDY["attacks"])
SUCCESS = STUDY["settings"]["success"]


SHOWN = ("whitened privunit", "public codebook", "gaussian", "private query")
# The mechanism of the table of other attacks on a task; inversion is measured behind codebooks.
ATTACKED = {
    "newsgroups, private documents": "public codebook",
    "banking77, private training rows": "whitened privunit",
}


def section(result):
    return re.search(rf"^## {re.escape(titled(result.name))}\n(.*?)(?=^## |\Z)", GUIDE, re.DOTALL | re.MULTILINE)[1]


def table(text, first):
    """The rows of the table whose first column has this title."""
    return re.search(rf"^\| {first} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)[1].splitlines()


@pytest.mark.parametrize("result", RESULTS, ids=NAMES)
def test_the_tables(result):
    """Use and recognition of the mechanisms that the page shows, and nothing else."""
    here = section(result)
    expected = []
    for mechanism in dict.fromkeys(row["mechanism"] for row in result.rows if row["mechanism"] in SHOWN):
        own = [row for row in result.rows if row["mechanism"] == mechanism and row["epsilon"] <= 16]
        cells = [f"{row[result.main][0]:.3f}, {100 * row['attack'][0]:.1f} %" for row in own]
        expected.append(f"| {mechanism} | {' | '.join(cells)} |")
    assert table(here, "mechanism") == expected
    assert f"rows recognized of {result.rows[0]['candidates']:,}; without noise {result.clean[result.main][0]:.3f}:" in here


@pytest.mark.parametrize("result", RESULTS, ids=NAMES)
def test_what_it_means(result):
    """The sentences are of the paragraph that the command prints, its first ones and whether both can be had."""
    printed = choice(result, STUDY["settings"]["success"])
    told = re.split(r"(?<=\.) (?=[A-Z])", section(result).strip().partition("\n\n")[0].replace("\n", " "))
    assert printed.startswith(told[0]) and (printed.endswith(told[-1]) or "There the attack fails" in told[1])
    assert [sentence for sentence in told if sentence not in printed] == []


@pytest.mark.parametrize("task", ATTACKED)
def test_the_tables_of_the_other_attacks(task):
    """One mechanism over epsilon, with the bound of its claim at epsilon 4."""
    (attacked,) = (one for one in ATTACKS if one.task == task)
    expected = []
    for name in main_figures(attacked.names):
        if name.startswith("alignment tfidf"):
            continue
        mechanism = "public codebook" if name.startswith("inversion") else ATTACKED[attacked.task]
        at = {row["epsilon"]: row["figures"][name] for row in attacked.having(name) if row["mechanism"] == mechanism}
        four, eight, sixteen, clean = (figure["value"][0] for figure in (at[4.0], at[8.0], at[16.0], attacked.clean[name]))
        chance, bound = attacked.clean[name]["chance"], at[4.0]["bound"]
        expected.append(
            f"| {title(name)} | {chance:.2g} | {four:.3f} | {bound:.3f} | {eight:.3f} | {sixteen:.3f} | {clean:.3f} |"
        )
    assert len(expected) >= 5
    here = section(BY_NAME[attacked.task])
    assert table(here, "attack") == expected
    assert f"With {ATTACKED[attacked.task]}" in here


def test_rewriting():
    """Some of the rows, in their order."""
    lines = []
    for row in STUDY["rewriting"]:
        figures = row["figures"]
        cells = f"{figures[MEANING][0]:.3f} | {figures[UNRELATED][0]:.3f} | {figures[LEAK][0]:.3f}"
        price = "∞ | –" if row["epsilon"] is None else f"{row['epsilon']:g} | {row['epsilon_of_text']:,.0f}"
        lines.append(f"| {row['method']} | {price} | {cells} |")
    told = table(GUIDE, "method")
    assert len(told) == 7
    assert [line for line in lines if line in told] == told
    assert max(high - low for _, low, high in (row["figures"][MEANING] for row in STUDY["rewriting"])) < 2 * 0.0245


def test_the_findings_of_the_other_attacks_are_those_of_the_rows():
    for told, one in zip(STUDY["attack_findings"], ATTACKS, strict=True):
        use = BY_NAME[one.task]
        assert told["choice"] == attack_choice(one, use, SUCCESS)


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
    """Every task has its paragraph and two tables, the other attacks two or three; the figure and the command are there."""
    page = page_of(STUDY)
    assert page.count("<svg") == 1
    inverted = [one for one in ATTACKS if "inversion_f1" in one.clean]
    assert page.count("<caption>") == 2 * len(RESULTS) + 2 * len(ATTACKS) + len(inverted) + 1
    assert STUDY["command"] in page
