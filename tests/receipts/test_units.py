"""Losses add up for one unit of privacy: rows and persons with several rows have no common sum, whoever adds them."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hushvec as hv
from cli.command import hushvec_here
from evidence.reference.sizes import scaled
from hushvec.accounting import Accountant, Repeated, compose
from hushvec.aggregates import private_sums
from hushvec.collect import Vocabulary
from hushvec.federated import PrivateAverage
from hushvec.noise.calibration import gaussian_delta
from hushvec.receipts.verify import units_differ
from receipts.forgeries import SCRIPT, module_of

X = np.random.default_rng(0).standard_normal((20, 6))
PEOPLE = [place // 5 for place in range(20)]
DELTA = {"epsilon": 1.0, "delta": 1e-5}


def sums(budget, adjacency="replace-one", **terms):
    return private_sums(X, adjacency=adjacency, budget=budget, **DELTA, **terms).receipt


def average(budget, adjacency):
    run = PrivateAverage(clip_norm=1.0, clients=2, adjacency=adjacency, budget=budget, **DELTA)
    return run.aggregate([[np.ones(3, np.float32)]]).receipt


# Of how many rows of a person each receipt speaks (None: it has one row alone, per record), and under which adjacency.
MAKERS = {
    "rows": (1, "replace-one", lambda budget: hv.privatize(X, mechanism="gaussian", budget=budget, **DELTA).receipt),
    "a person's rows": (math.inf, "replace-one", lambda budget: hv.privatize(X, per="release", budget=budget, **DELTA).receipt),
    "one row": (None, "replace-one", lambda budget: hv.privatize(X[0], budget=budget, **DELTA).receipt),
    "all of one row": (math.inf, "replace-one", lambda budget: hv.privatize(X[0], per="release", budget=budget, **DELTA).receipt),
    "labels": (1, "replace-one", lambda b: hv.privatize_labels([0, 1, 2], labels=range(3), epsilon=1.0, budget=b).receipt),
    "a person's labels": (
        math.inf, "replace-one", lambda b: hv.privatize_labels([0, 1], labels=range(3), epsilon=1.0, per="release", budget=b).receipt
    ),
    "reports": (1, "replace-one", lambda b: Vocabulary(["a", "b"], epsilon=1.0).release(["a", "b"], budget=b).receipt),
    "a row each": (1, "replace-one", sums),
    "persons with 5 rows": (math.inf, "replace-one", lambda b: sums(b, people=PEOPLE, rows_per_person=5)),
    "persons, one row each": (math.inf, "replace-one", lambda b: sums(b, people=PEOPLE)),
    "5 promised": (5, "replace-one", lambda b: sums(b, rows_per_person=5)),
    "3 promised": (3, "replace-one", lambda b: sums(b, rows_per_person=3)),
    "sums of those who are there or not": (1, "add-remove", lambda b: sums(b, "add-remove")),
    "clients": (math.inf, "replace-one", lambda b: average(b, "replace-one")),
    "clients who are there or not": (math.inf, "add-remove", lambda b: average(b, "add-remove")),
}  # fmt: skip


@pytest.fixture(scope="module")
def paid():
    """Each receipt, of one ledger, and its export."""
    budget = hv.PrivacyBudget(100.0, 0.1)
    return {name: make(budget) for name, (_, _, make) in MAKERS.items()}, budget.export()


@pytest.fixture(scope="module")
def checker():
    return module_of(SCRIPT.read_text())


@pytest.mark.parametrize("name", MAKERS)
def test_each_receipt_says_of_how_many_rows_it_speaks(paid, checker, name):
    rows, adjacency, _ = MAKERS[name]
    receipt = paid[0][name]
    assert (receipt.unit, receipt.adjacency) == (rows, adjacency)
    assert checker.rows_of_a_person(receipt.to_dict()) == rows


def test_the_sum_of_a_person_and_a_row_was_too_small_for_the_person(paid):
    """20 rows of 4 people: Gaussian releases compose exactly, and a person's five noisy rows cost five times mu^2 of one."""
    persons, rows = paid[0]["persons with 5 rows"], paid[0]["rows"]
    together = compose([persons.loss, rows.loss], delta=2e-5)
    mu = [1 / loss.noise_multiplier for loss in (persons.loss, rows.loss)]
    assert gaussian_delta(together.epsilon, 1 / math.hypot(*mu)) <= 2e-5  # for one row
    assert gaussian_delta(together.epsilon, 1 / math.hypot(mu[0], math.sqrt(5) * mu[1])) > 20 * 2e-5  # for the person
    words = (
        r"^releases must all be about one unit of privacy, got 'one person' and 'one row' \(releases\[1\]\): a sum is about the"
    )
    with pytest.raises(ValueError, match=words):
        compose([persons, rows], delta=2e-5)
    with pytest.raises(ValueError, match="got 'a person with at most 5 rows' and 'one row'"):
        compose([paid[0]["5 promised"], (rows, 3)], delta=2e-5)
    accountant = Accountant()
    accountant.add(persons)
    with pytest.raises(ValueError, match="must all be about one unit of privacy"):
        accountant.add(rows)
    assert len(accountant) == 1


@settings(max_examples=scaled(25, 2000), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(names=st.lists(st.sampled_from([*MAKERS]), min_size=2, max_size=5, unique=True), wrapped=st.booleans())
def test_whoever_adds_them_asks_for_one_unit(paid, checker, names, wrapped):
    """`compose`, the ledger's two verifiers: all agree with the table above about which receipts have a common sum."""
    receipts, export = paid
    chosen = [receipts[name] for name in names]
    units = {MAKERS[name][0] for name in names} - {None}
    adjacencies = {MAKERS[name][1] for name in names}
    alike = len(units) <= 1 and len(adjacencies) == 1
    items = [Repeated(one, 2) for one in chosen] if wrapped else chosen
    try:
        compose(items, delta=1e-2)
        composed = True
    except ValueError as error:
        composed = "one unit of privacy" not in str(error) and "one adjacency" not in str(error)
    assert composed == alike
    found = hv.verify_charges(chosen, export)
    assert found.status == "holds" and (len(found.reasons) == 1) == alike
    seen = set()
    said = [checker.check_units(receipt.to_dict(), seen) for receipt in chosen]
    assert (not any(said)) == alike
    if len(units) > 1 and len(adjacencies) == 1:
        assert ("one row" in found.reasons[1].rpartition("add up for")[2]) == ("one row" in said[-1]) == (min(units) == 1)


def test_the_command_and_the_script_say_it(paid, tmp_path, monkeypatch, capsys, checker):
    receipts, export = paid
    files = {
        "person.json": receipts["persons with 5 rows"].to_dict(),
        "rows.json": receipts["rows"].to_dict(),
        "ledger.json": export,
    }
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value))
    monkeypatch.chdir(tmp_path)
    finished = hushvec_here("verify", "person.json", "rows.json", "--ledger", "ledger.json")
    differ = "receipt 1 is about one person, receipt 2 is about one row, so their losses add up for one row of each release alone"
    assert f"no claim about all releases: {differ}" in finished.out and finished.code == 0
    assert finished.out.count(differ) == 2 and "about the same people" not in finished.out
    refused = hushvec_here("verify", "person.json", "rows.json", "--epsilon", "5")
    assert refused.code == 2 and "releases must all be about one unit of privacy" in refused.err
    monkeypatch.setattr("sys.argv", ["check_receipt", "person.json", "rows.json", "--ledger", "ledger.json"])
    assert checker.main() == 0
    assert "with the receipts before it is about different units, so charges add up for one row alone" in capsys.readouterr().out
    joined, rows = receipts["clients who are there or not"], receipts["rows"]
    # of several alike, the first is named
    assert units_differ([rows, joined, joined]) == (
        "receipt 1 about replace-one, receipt 2 about add-remove, so their losses have no sum"
    )
