"""The chain and its export: every change of a row is found, and the first wrong row is named."""

import copy
import hashlib
import json
import re
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path

import pytest

from hushvec.budget import PrivacyBudget, export_head, verify_export
from hushvec.budget.rows import FIELDS, FORMAT
from hushvec.errors import PrivacyBudgetWarning


def some_budget():
    budget = PrivacyBudget(10.0, 1e-3, persist_key="notes", store="memory")
    budget.consume(1.0, 1e-5, charge_id="a", purpose="first")
    budget.consume(0.1)
    budget.consume(2.5, 1e-6, rho=0.5, charge_id="b")
    budget.reset(purpose="new month")
    budget.consume(0.25, charge_id="a")
    return budget


@pytest.fixture
def export():
    return json.loads(json.dumps(some_budget().export()))


def resealed(export, first):
    """The export with hashes recomputed from a row on, by a forger who can hash."""
    previous = export["rows"][first - 2]["entry_hash"] if first > 1 else "0" * 64
    for row in export["rows"][first - 1 :]:
        row["previous_hash"] = previous
        row["entry_hash"] = previous = hash_by_the_book(export["budget_key"], row)
    export["head"]["entry_hash"] = previous
    export["ledger"] = export["rows"][0]["entry_hash"]
    return export


def hash_by_the_book(key, row):
    """docs/budget.md, written again."""
    lines = ["hushvec-budget/1", key, str(row["sequence"]), str(row["period"]), row["kind"], str(row["time_us"])]
    lines += [row[name] for name in ("charge_id", "purpose", "policy", "epsilon", "delta", "rho")]
    lines += [row[name] for name in ("total_epsilon", "total_delta", "total_rho", "previous_hash")]
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def test_a_sound_export_holds(export):
    report = verify_export(export)
    assert (report.holds, report.rows, report.first_wrong, report.reason) == (True, 6, None, "")
    assert report.head == export_head(export)


def test_what_a_ledger_says_cannot_be_changed():
    budget = some_budget()
    for said, field in ((budget.verify(), "holds"), (budget.state(), "exhausted")):
        with pytest.raises(FrozenInstanceError):
            setattr(said, field, True)


def test_hashes_are_the_documented_ones(export):
    previous = "0" * 64
    for row in export["rows"]:
        assert row["previous_hash"] == previous
        previous = row["entry_hash"]
        assert previous == hash_by_the_book(export["budget_key"], row)


def test_the_documentation_names_every_line_and_field(export):
    page = (Path(__file__).parents[2] / "docs" / "budget.md").read_text()
    block = "".join(f"    {line}\n" for line in (FORMAT, *FIELDS[:-1]))
    assert block in page
    table = page[page.index("## Rows") : page.index("## Export")]
    first_cells = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    assert re.findall(r"`(\w+)`", first_cells) == list(FIELDS)
    table = page[page.index("## Export") :]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(export)


def test_totals_are_sums_of_fractions(export):
    epsilon = delta = Fraction(0)
    for row in export["rows"]:
        if row["kind"] == "reset":
            epsilon = delta = Fraction(0)
        elif row["kind"] == "charge":
            epsilon, delta = epsilon + Fraction(row["epsilon"]), delta + Fraction(row["delta"])
        assert (Fraction(row["total_epsilon"]), Fraction(row["total_delta"])) == (epsilon, delta)


@pytest.mark.parametrize("field", FIELDS[1:])
@pytest.mark.parametrize("number", range(1, 7))
def test_every_change_of_every_field_is_found(export, number, field):
    value = export["rows"][number - 1][field]
    export["rows"][number - 1][field] = value + 1 if isinstance(value, int) else value + "1"
    report = verify_export(export)
    assert (report.holds, report.first_wrong) == (False, number)
    assert report.reason


@pytest.mark.parametrize("number", range(1, 7))
def test_a_missing_row_is_found(export, number):
    del export["rows"][number - 1]
    report = verify_export(export)
    assert (report.holds, report.first_wrong) == (False, number)


@pytest.mark.parametrize("number", range(1, 6))
def test_two_rows_in_the_wrong_order_are_found(export, number):
    rows = export["rows"]
    rows[number - 1], rows[number] = rows[number], rows[number - 1]
    report = verify_export(export)
    assert (report.holds, report.first_wrong) == (False, number)


# What a forger who recomputes every hash cannot write into a chain.
@pytest.mark.parametrize(
    ("number", "changes", "reason"),
    [
        (2, {"epsilon": "0.5"}, "total_epsilon and total_delta are not what the rows add up to"),
        (2, {"epsilon": "1.0"}, "shortest form"),
        (2, {"epsilon": "-1"}, "shortest form"),
        (2, {"epsilon": "0", "total_epsilon": "0"}, "a charge must not be 0"),
        (2, {"rho": "x"}, "shortest form"),
        (2, {"epsilon": "11", "total_epsilon": "11"}, "the budget is overspent"),
        (2, {"delta": "0.002", "total_delta": "0.002"}, "the budget is overspent"),
        (3, {"charge_id": "a"}, "charge_id 'a' is in an earlier row of the same period"),
        (3, {"period": 1}, "period must be 0, got 1"),
        (3, {"policy": "warn"}, "policy must be empty"),
        (3, {"kind": "open"}, "kind must be 'charge' or 'reset', got 'open'"),
        (3, {"kind": "refund"}, "kind must be 'charge' or 'reset', got 'refund'"),
        (5, {"total_epsilon": "3.6"}, "not what the rows add up to"),
        (5, {"epsilon": "1"}, "a reset must have no amounts"),
        (1, {"policy": "allow"}, "policy must be 'block', 'warn' or 'block per person'"),
        (1, {"kind": "charge"}, "kind must be 'open'"),
        (1, {"rho": "1"}, "limits must be in epsilon and delta, or in rho"),
        (1, {"epsilon": ""}, "shortest form"),
    ],
)
def test_forged_rows_with_new_hashes(export, number, changes, reason):
    export["rows"][number - 1].update(changes)
    report = verify_export(resealed(export, number))
    assert not report.holds
    assert report.first_wrong == number
    assert reason in report.reason


def test_a_forged_total_or_limit_shows_in_the_row_behind(export):
    smaller = copy.deepcopy(export)
    smaller["rows"][1].update(epsilon="0.5", total_epsilon="0.5")
    assert verify_export(resealed(smaller, 2)).first_wrong == 3
    export["rows"][0]["epsilon"] = "1.05"
    report = verify_export(resealed(export, 1))
    assert (report.first_wrong, report.reason) == (3, "the budget is overspent")


def test_a_cut_end_is_found_by_an_earlier_head_only(export):
    head = export_head(export)
    del export["rows"][-1]
    export["head"] = {"rows": 5, "entry_hash": export["rows"][-1]["entry_hash"]}
    assert verify_export(export).holds  # a chain cannot know what it has lost
    report = verify_export(export, heads=[head])
    assert (report.holds, report.first_wrong) == (False, 6)
    assert "rows are missing at the end: a head that was given has 6, the chain 5" in report.reason


def test_a_rewritten_history_is_found_by_an_earlier_head(export):
    kept = (3, export["rows"][2]["entry_hash"])  # as a receipt has it: sequence and entry_hash of a charge
    export["rows"][1]["purpose"] = "something else"
    forged = resealed(export, 2)
    assert verify_export(forged).holds
    report = verify_export(forged, heads=[kept])
    assert (report.holds, report.first_wrong) == (False, 3)


def test_a_chain_that_goes_on_still_holds_earlier_heads():
    budget = some_budget()
    early, charge = budget.head(), budget.consume(0.5)
    assert budget.verify([early, (charge.sequence, charge.entry_hash)]).holds
    assert not budget.verify([early, (early.rows, "0" * 64)]).holds
    assert not budget.verify([(99, early.entry_hash)]).holds


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda export: export["head"].update(rows=5), "entry_hash is not the one of the head"),
        (lambda export: export["head"].update(rows=5, entry_hash=export["rows"][4]["entry_hash"]), "head has 5 rows"),
        (lambda export: export.update(ledger="0" * 64), "ledger is not the hash of the first row"),
        (lambda export: export.update(budget_key="other"), "entry_hash does not follow from the row"),
        (lambda export: export.update(rows=[]), "there are no rows"),
        (lambda export: export["rows"][1].update(sequence="2"), "sequence must be a whole number, got str"),
        (lambda export: export["rows"][1].update(sequence=True), "sequence must be a whole number, got bool"),
        (lambda export: export["rows"][1].update(epsilon=1.0), "epsilon must be text, got float"),
        (lambda export: export["rows"][1].update(epsilon=None), "epsilon must be text, got NoneType"),
        (lambda export: export["rows"][1].update(purpose="a\nb"), "purpose must have no line break"),
        (lambda export: export["rows"][1].update(purpose="\ud800"), "text must be UTF-8"),
    ],
)
def test_what_does_not_fit_together(export, change, reason):
    change(export)
    report = verify_export(export)
    assert not report.holds
    assert reason in report.reason


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda export: export.pop("rows"), ValueError, "export must have the field 'rows'"),
        (lambda export: export.update(extra=1), ValueError, "export must not have the field 'extra'"),
        (lambda export: export.update(budget_export_version=2), ValueError, "budget_export_version must be 1, got 2"),
        (lambda export: export.update(rows={}), TypeError, "rows must be a list"),
        (lambda export: export["rows"].append(7), TypeError, "a row must be an object with fields, got int"),
        (lambda export: export["rows"][2].pop("rho"), ValueError, "a row must have the field 'rho'"),
        (lambda export: export["rows"][2].update(extra=1), ValueError, "a row must not have the field 'extra'"),
        (lambda export: export.update(head=None), TypeError, "head must be an object"),
        (lambda export: export["head"].update(rows=0), ValueError, "rows must be >= 1, got 0"),
        (lambda export: export["head"].update(entry_hash=7), TypeError, "entry_hash must be text"),
    ],
)
def test_what_is_no_export(export, change, kind, text):
    broken = copy.deepcopy(export)
    change(broken)
    with pytest.raises(kind, match=text):
        verify_export(broken)


def test_a_warn_ledger_may_be_over():
    budget = PrivacyBudget(1.0, on_exhausted="warn")
    with pytest.warns(PrivacyBudgetWarning):
        budget.consume(2.0)
    assert verify_export(budget.export()).holds


def test_a_rho_ledger(make):
    budget = make(max_rho=1.0)
    budget.consume(rho=0.5)
    budget.consume(2.0, 1e-5, rho=0.25)
    export = json.loads(json.dumps(budget.export()))
    assert verify_export(export).holds
    assert export["rows"][-1]["total_rho"] == "0.75"
    export["rows"][-1].update(rho="0.75", total_rho="1.25")
    assert "overspent" in verify_export(resealed(export, 3)).reason


def test_memory_and_files_write_the_same_rows(make):
    budget = make(10.0)
    budget.consume(0.1, 1e-6, rho=0.5, charge_id="a", purpose="p")
    row = budget.export()["rows"][-1]
    assert row["entry_hash"] == hash_by_the_book(make.key, row)
    del row["time_us"], row["previous_hash"], row["entry_hash"]
    assert row == {
        "sequence": 2,
        "period": 0,
        "kind": "charge",
        "charge_id": "a",
        "purpose": "p",
        "policy": "",
        "epsilon": "0.1",
        "delta": "0.000001",
        "rho": "0.5",
        "total_epsilon": "0.1",
        "total_delta": "0.000001",
        "total_rho": "",
    }
