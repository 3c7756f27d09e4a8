"""Receipts of reports are read and verified like those of every other kind."""

import dataclasses
import json

import pytest

import hushvec as hv
from collect.surveys import vocabulary
from hushvec.cli import main
from hushvec.collect import BloomFilter, Memo
from hushvec.receipts import receipt_from_json
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
