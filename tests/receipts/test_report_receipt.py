"""Receipts of reports are read and verified like those of every other kind."""

import dataclasses
import json
import math

import pytest

import hushvec as hv
from collect.surveys import vocabulary
from hushvec.accounting import PureDP
from hushvec.cli import main
from hushvec.collect import BloomFilter, Memo
from hushvec.receipts import receipt_from_json, reports
from hushvec.receipts.reports import ReportReceipt

RECEIPTS = {
    "vocabulary": lambda: vocabulary(30, 2.0, "unary").release("word1").receipt,
    "bloom": lambda: BloomFilter(64, 2, epsilon=2.0).release("word1").receipt,
    "memo": lambda: BloomFilter(64, 2, epsilon=2.0).release("word1", per="release", memo=Memo()).receipt,
}


@pytest.mark.parametrize("which", RECEIPTS)
def test_receipts_are_read_by_their_kind(which):
    receipt = RECEIPTS[which]()
    assert isinstance(receipt_from_json(receipt.to_json()), ReportReceipt)
    assert receipt_from_json(receipt.to_json()) == receipt
    assert hv.verify_receipt(receipt).status == hv.verify_receipt(json.loads(receipt.to_json())).status == "holds"


def test_a_memo_costs_what_all_reports_made_of_it_tell():
    forged = dataclasses.replace(RECEIPTS["memo"](), epsilon=1.99)  # one fresh report tells less
    assert hv.verify_receipt(forged).status == "does not hold"


@pytest.mark.parametrize("which", RECEIPTS)
def test_the_command_verifies_them(which, tmp_path, capsys):
    path = tmp_path / "receipt.json"
    path.write_text(RECEIPTS[which]().to_json())
    assert main(["verify", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "holds" in printed and "collection" in printed


def test_the_loss_of_a_report_is_that_of_its_law():
    """For unary half of the words are told apart, so half of the total variation; for a filter it is the epsilon alone."""
    unary = RECEIPTS["vocabulary"]()
    assert unary.loss.pure_epsilon == 2.0 and unary.loss.total_variation == pytest.approx(math.tanh(2.0 / 2) / 2)
    for which in ("bloom", "memo"):
        receipt = RECEIPTS[which]()
        assert receipt.loss == PureDP(epsilon=receipt.epsilon)


CELLS = {"k_rr": (set(), {2, 3, 6}), "unary": ({3}, {2}), "hadamard": ({3, 6, 12}, {2, 4, 64}), "bloom": ({4}, {2})}


@pytest.mark.parametrize("mechanism", CELLS)
def test_a_mechanism_chooses_among_so_many_outcomes(mechanism):
    refused, taken = CELLS[mechanism]
    rule = reports._CELLS[mechanism][0]
    for cells in refused | taken:
        forged = dataclasses.replace(RECEIPTS["vocabulary"](), mechanism=mechanism, cells=cells)
        said = f"cells must be {rule} for {mechanism}, got {cells}" in hv.verify_receipt(forged).reasons
        assert said == (cells in refused)


def test_a_digest_is_printed_by_its_first_sixteen_digits():
    receipt = RECEIPTS["vocabulary"]()
    line = next(line for line in str(receipt).split("\n") if line.split()[:1] == ["collection"])
    assert line.split("SHA-256 ")[1] == receipt.dictionary_digest[:16]
