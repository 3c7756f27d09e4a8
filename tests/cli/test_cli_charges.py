"""hushvec budget charges: who spent what."""

import json

import pytest

from cli.command import assert_one_line, hushvec_here
from hushvec.budget import PrivacyBudget


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "b.sqlite"
    with PrivacyBudget(10.0, 1e-3, persist_key="notes", store=path) as budget:
        budget.consume(3.0, purpose="before the reset")
        budget.reset()
    for name, epsilon in (("search", 0.1), ("report", 2.0), ("search", 0.2), (None, 0.5)):
        with PrivacyBudget.reopen("notes", store=path, charged_by=name) as budget:
            budget.consume(epsilon, 1e-5, purpose="gaussian, 10 x 64")
    return path


def test_totals_by_name_and_the_last_charges(store):
    finished = hushvec_here("budget", "charges", "--key", "notes", "--last", 2, "--store", store)
    assert (finished.code, finished.err) == (0, "")
    totals, charges = (part.splitlines() for part in finished.out.split("\n\n"))
    assert [line.split() for line in totals] == [
        ["charged", "by", "charges", "epsilon", "delta"],
        ["report", "1", "2", "1e-05"],
        ["(not", "named)", "1", "0.5", "1e-05"],
        ["search", "2", "0.3", "2e-05"],
    ]
    assert [line.split()[:6] for line in charges[1:]] == [
        ["search", "gaussian,", "10", "x", "64", "0.2"],
        ["gaussian,", "10", "x", "64", "0.5", "0.00001"],
    ]
    assert [line.split()[-1] for line in charges] == ["row", "6", "7"]


def test_json_and_its_limits(store):
    found = json.loads(hushvec_here("budget", "charges", "--key", "notes", "--store", store, "--json").out)
    assert (found["period"], len(found["charges"])) == (1, 4)
    assert found["charged_by"][0] == {"charged_by": "report", "charges": 1, "epsilon": 2.0, "delta": 1e-5, "rho": 0.0}
    none = json.loads(hushvec_here("budget", "charges", "--key", "notes", "--store", store, "--last", 0, "--json").out)
    assert (none["charged_by"], none["charges"]) == (found["charged_by"], [])


def test_a_purpose_that_reads_like_a_name_counts_for_nobody(store):
    with PrivacyBudget.reopen("notes", store=store) as budget:
        budget.consume(1.0, purpose="search: gaussian, 10 x 64")  # as older versions wrote a name
    found = json.loads(hushvec_here("budget", "charges", "--key", "notes", "--store", store, "--last", 1, "--json").out)
    assert {one["charged_by"]: one["epsilon"] for one in found["charged_by"]} == {"report": 2.0, "(not named)": 1.5, "search": 0.3}
    assert (found["charges"][0]["charged_by"], found["charges"][0]["purpose"]) == ("", "search: gaussian, 10 x 64")


def test_a_ledger_in_rho_and_an_empty_one(tmp_path):
    path = tmp_path / "b.sqlite"
    with PrivacyBudget(max_rho=0.5, persist_key="study", store=path, charged_by="a") as budget:
        assert hushvec_here("budget", "charges", "--key", "study", "--store", path).out == "nothing is charged in this period\n"
        budget.consume(rho=0.25)
    lines = hushvec_here("budget", "charges", "--key", "study", "--store", path).out.splitlines()
    assert [line.split() for line in lines[:2]] == [["charged", "by", "charges", "rho"], ["a", "1", "0.25"]]


def test_bad_input(store):
    negative = hushvec_here("budget", "charges", "--key", "notes", "--last", "-1", "--store", store)
    assert_one_line(negative, "--last must be >= 0, got -1")
    assert_one_line(hushvec_here("budget", "charges", "--key", "other", "--store", store), "there is no budget with key 'other'")
