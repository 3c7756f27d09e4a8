"""The program that measures attacks: a row for each search of `tune_epsilon`, or why there is none; the other tables."""

import sys

import numpy as np
import pytest

from hushvec_studies.retrieval import measure_attacks

SETTINGS = ("--candidates", "64", "--target-tpr", "0.5", "--fpr", "0.1")


@pytest.fixture
def documents(tmp_path):
    """128 rows of 32: at epsilon 1 nobody is found, at epsilon 64 everybody."""
    np.save(tmp_path / "documents.npy", np.random.default_rng(3).standard_normal((128, 32)).astype(np.float32))
    return tmp_path / "documents.npy"


def run(monkeypatch, documents, side):
    monkeypatch.setattr(measure_attacks, "SIDES", side)
    monkeypatch.setattr(sys, "argv", ["measure_attacks", "tuning", str(documents), *SETTINGS])
    measure_attacks.main()


def test_rows_of_a_side(monkeypatch, documents, capsys):
    side = "documents, PrivUnitG"
    run(monkeypatch, documents, {side: measure_attacks.SIDES[side]})
    rows = capsys.readouterr().out.splitlines()[2:]
    attacks = ("logistic", "likelihood", "released")
    assert [row.split(" | ")[:2] for row in rows] == [[f"| {side}", f"`{attack}`"] for attack in attacks]
    assert all(1 <= float(row.split(" | ")[2]) < 64 for row in rows)


def test_a_limit_that_no_epsilon_meets(monkeypatch, documents, capsys):
    """Without noise on documents a document is found at every epsilon."""
    clean = {"queries": lambda epsilon: {}}
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, documents, clean)
    assert ended.value.code == (
        "measure_attacks: target_tpr must be above what the attack reaches at epsilon 1, the lowest tried: "
        "'logistic' on queries has TPR 1.000 [0.835, 1.000] at 0.1 FPR, got 0.5"
    )
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("table", ["strongest", "inversion"])
def test_the_other_tables(monkeypatch, documents, capsys, table):
    np.save(documents.with_name("queries.npy"), np.repeat(np.load(documents), 2, axis=0))
    queries = [str(documents.with_name("queries.npy"))] if table == "strongest" else []
    monkeypatch.setattr(measure_attacks, "INVERTED", 64)
    monkeypatch.setattr(sys, "argv", ["measure_attacks", table, str(documents), *queries, "--candidates", "64"])
    measure_attacks.main()
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert {line.count("|") for line in (head, rule, *rows)} == {rule.count("|")}
    assert len(rows) == (10 if table == "strongest" else 5)
    assert rows[0].startswith("| no noise | ")
