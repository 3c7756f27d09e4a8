"""scripts/check_receipt.py, the checker that shares nothing with the package, against `verify_receipt` and the ledger."""

import ast
import copy
import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import takes_integers
from receipts.forgeries import SCRIPT, module_of

X = np.ones((4, 32), np.float32)
ARGUMENTS = {
    "gaussian": {"epsilon": 8.0},
    "laplacian": {"epsilon": 8.0},
    "l2_laplace": {"epsilon": 8.0},
    "privunit": {"epsilon": 8.0},
    "empirical": {"sigma": 0.3},
    "discrete_gaussian": {"epsilon": 8.0, "clip_norm": 40.0},
    "discrete_laplacian": {"epsilon": 8.0, "clip_norm": 40.0},
}


@pytest.fixture(scope="module")
def checker():
    return module_of(SCRIPT.read_text())


def receipt_of(mechanism, **changes):
    x = X.astype(np.int64) if takes_integers(mechanism) else X
    return hv.privatize(x, mechanism=mechanism, **{**ARGUMENTS[mechanism], **changes}).receipt


def test_it_is_one_readable_file_that_stands_alone():
    source = SCRIPT.read_text()
    assert len(source.splitlines()) <= 1115
    imported = {alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names


@pytest.mark.parametrize("mechanism", ARGUMENTS)
@pytest.mark.parametrize("per", ["record", "release"])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 8.0, 100.0, 1000.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-100])
def test_it_agrees_with_the_package(checker, mechanism, per, epsilon, delta):
    arguments = {} if mechanism == "empirical" else {"epsilon": epsilon}
    receipt = receipt_of(mechanism, per=per, delta=delta, **arguments)
    for stated in (1.0, 1.5, 1 - 1e-6, 0.99, 0.5):
        changed = dataclasses.replace(receipt, epsilon=receipt.epsilon * stated)
        expected = hv.verify_receipt(changed).status
        assert checker.check_receipt(changed.to_dict())[0] == expected
        assert expected != "does not hold" if stated >= 1 else stated > 0.99 or expected == "does not hold"


CHANGES = [
    {"clip_norm": 1.01},
    {"sensitivity": 1.9},
    {"sensitivity_norm": "l1"},
    {"sensitivity_norm": "l2"},
    {"delta": 0.0},
    {"delta": 1e-6},
    {"grid": 1.0},
    {"grid": None},
    {"grade": "float"},
    {"grade": "float", "grid": None},
    {"grade": "float", "grid": None, "is_dp_claim": False},
    {"key_source": "seed"},
    {"key_source": "seed", "is_dp_claim": False},
    {"is_dp_claim": False},
    {"per": "release"},
    {"rows": 100, "per": "release"},
    {"dimension": 10_000},
    {"normalize": True, "clip_norm": 0.5},
    {"normalize": False},
    {"scale": 1.0},
    {"sigma": 1.0},
    {"sigma": 0.1},
    {"sigma": None},
    {"cap_probability": 0.97},
    {"threshold": 1.0},
    {"mechanism": "gaussian"},
    {"mechanism": "l2_laplace"},
    {"mechanism": "privunit"},
    {"mechanism": "discrete_gaussian"},
    {"mechanism": "discrete_laplacian"},
    {"mechanism": "discrete_gaussian", "dtype": "int64", "grid": 1.0},
    {"dtype": "int32"},
    {"renormalize": True},
    {"projection": "0" * 64},
    {"dimension": 1},
]


@pytest.mark.parametrize("mechanism", ARGUMENTS)
@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_it_agrees_on_changed_receipts(checker, mechanism, changes):
    changed = dataclasses.replace(receipt_of(mechanism), **changes)
    assert checker.check_receipt(changed.to_dict())[0] == hv.verify_receipt(changed).status


def test_a_cap_less_likely_than_chance_does_not_hold(checker):
    receipt = dataclasses.replace(receipt_of("privunit"), cap_probability=2.0**-10, threshold=0.0)
    for epsilon, status in [(1e-6, "does not hold"), (6.9, "does not hold"), (6.94, "holds")]:
        forged = dataclasses.replace(receipt, epsilon=epsilon)
        assert hv.verify_receipt(forged).status == checker.check_receipt(forged.to_dict())[0] == status


def run(*arguments):
    return subprocess.run([sys.executable, "-I", str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False)


def written(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("mechanism", "changes", "code"),
    [("gaussian", {}, 0), ("privunit", {}, 0), ("l2_laplace", {}, 2), ("gaussian", {"epsilon": 1.0}, 1)],
)
def test_exit_codes(tmp_path, mechanism, changes, code):
    receipt = dataclasses.replace(receipt_of(mechanism), **changes)
    finished = run(written(tmp_path / "receipt.json", receipt.to_json()))
    assert finished.returncode == code
    assert hv.verify_receipt(receipt).status in finished.stdout


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"receipt_version": 1}', "[" * 100_000])
def test_what_is_no_receipt(tmp_path, text):
    finished = run(written(tmp_path / "receipt.json", text))
    assert finished.returncode == 3
    assert finished.stderr.startswith(f"check_receipt: {tmp_path}/receipt.json: ") and finished.stderr.count("\n") == 1


def test_every_file_is_checked_and_named(tmp_path):
    good = receipt_of("gaussian")
    bad = written(tmp_path / "bad.json", dataclasses.replace(good, epsilon=1.0).to_json())
    broken, missing = written(tmp_path / "broken.json", "{"), tmp_path / "missing.json"
    finished = run(missing, broken, written(tmp_path / "good.json", good.to_json()), tmp_path)
    assert finished.returncode == 3 and "good.json: holds" in finished.stdout
    assert [line.split(":")[1].strip() for line in finished.stderr.splitlines()] == [str(missing), str(broken), str(tmp_path)]
    finished = run(missing, bad, tmp_path / "good.json", "--ledger", broken)
    assert finished.returncode == 1 and "bad.json: does not hold" in finished.stdout and "good.json: holds" in finished.stdout
    assert [line.split(":")[1].strip() for line in finished.stderr.splitlines()] == [str(broken), str(missing)]


@pytest.fixture(scope="module", params=["epsilon", "rho"])
def paid(request):
    """Receipts that one ledger paid for, and its export."""
    budget = hv.PrivacyBudget(50.0, 0.1) if request.param == "epsilon" else hv.PrivacyBudget(max_rho=500.0)
    receipts = [
        hv.privatize(X, mechanism=mechanism, budget=budget, **ARGUMENTS[mechanism]).receipt
        for mechanism in ("gaussian", "laplacian", "privunit", "gaussian")
    ]
    return [receipt.to_dict() for receipt in receipts], json.loads(json.dumps(budget.export()))


def test_a_ledger_that_paid(checker, paid, tmp_path):
    receipts, export = paid
    assert checker.check_ledger(export) is None
    paid_for = set()
    assert [checker.check_charge(receipt, export, paid_for) for receipt in receipts] == [None] * len(receipts)
    assert paid_for == {receipt["charge"]["sequence"] for receipt in receipts}
    files = [written(tmp_path / f"{i}.json", receipt) for i, receipt in enumerate(receipts)]
    assert run(*files, "--ledger", written(tmp_path / "ledger.json", export)).returncode == 0


def test_one_charge_pays_once(paid, tmp_path):
    receipts, export = paid
    files = [written(tmp_path / f"{i}.json", receipts[0]) for i in range(2)]
    finished = run(*files, "--ledger", written(tmp_path / "ledger.json", export))
    assert finished.returncode == 1
    assert "another receipt names the same charge" in finished.stdout


def test_charges_that_did_not_pay(checker, paid):
    receipts, export = paid
    for change, reason in [
        ({"charge": None}, "the receipt names no charge"),
        ({"charge": {**receipts[0]["charge"], "ledger": "0" * 64}}, "the receipt names another ledger"),
        ({"charge": {**receipts[0]["charge"], "sequence": 99}}, "the ledger has no such charge"),
        ({"charge": {**receipts[0]["charge"], "entry_hash": "0" * 64}}, "the ledger has no such charge"),
        ({"charge": {**receipts[0]["charge"], "charge_id": "another"}}, "the ledger has no such charge"),
        ({"epsilon": 100.0, "sigma": 0.01}, "the charge is smaller than what the receipt promises"),
    ]:
        assert checker.check_charge({**receipts[0], **change}, export, set()) == reason


def test_a_receipt_without_a_charge_is_an_answer_and_no_crash(paid, tmp_path):
    receipts, export = paid
    file = written(tmp_path / "receipt.json", {**receipts[0], "charge": None})
    finished = run(file, "--ledger", written(tmp_path / "ledger.json", export))
    assert finished.returncode == 1
    assert "does not hold: the receipt names no charge" in finished.stdout


def test_what_a_file_holds_cannot_steer_the_terminal(tmp_path):
    hostile = "\x1b[2K\u202eholds"
    for receipt in (receipt_of("gaussian").to_dict() | {"dtype": hostile}, {hostile: 1}):
        finished = run(written(tmp_path / f"{hostile}.json", receipt))
        assert finished.returncode == 3
        assert all(letter.isprintable() or letter == "\n" for letter in finished.stdout + finished.stderr)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("name", ["epsilon", "rho", "total_epsilon", "charge_id", "time_us", "period", "previous_hash", "kind"])
def test_a_changed_row_is_found(checker, paid, place, name):
    export = copy.deepcopy(paid[1])
    row = export["rows"][place]
    row[name] = row[name] + 1 if isinstance(row[name], int) else row[name] + "1"
    assert checker.check_ledger(export).startswith(f"row {place + 1}:")


def test_rows_that_are_gone_or_moved(checker, paid):
    for mend in (lambda rows: rows[:-1], lambda rows: rows[:2] + rows[3:], lambda rows: [rows[0], rows[2], rows[1], *rows[3:]]):
        export = copy.deepcopy(paid[1])
        export["rows"] = mend(export["rows"])
        assert checker.check_ledger(export) is not None


def test_an_overspent_chain_with_right_hashes_is_found(checker):
    """A forger who recomputes every hash still cannot hide the sum."""
    budget = hv.PrivacyBudget(1.0, 0.1, on_exhausted="warn")
    budget.consume(1.0)
    with pytest.warns(UserWarning, match="exhausted"):
        budget.consume(0.5)
    export = json.loads(json.dumps(budget.export()))
    assert checker.check_ledger(export) is None
    rows, previous = export["rows"], "0" * 64
    rows[0]["policy"] = "block"
    for row in rows:
        row["previous_hash"] = previous
        previous = row["entry_hash"] = checker.row_hash(export["budget_key"], row)
    export["ledger"], export["head"] = rows[0]["entry_hash"], {"rows": len(rows), "entry_hash": previous}
    assert checker.check_ledger(export) == "row 3: the budget is overspent"
