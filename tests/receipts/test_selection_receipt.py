"""Receipts of selections: what holds, what does not, what cannot be read."""

import dataclasses
import json
import re
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from hushvec._util.rounding import product_up
from hushvec.accounting import compose
from hushvec.errors import ReceiptError
from hushvec.receipts import receipt_from_json
from hushvec.receipts.selections import SelectionReceipt
from hushvec.retrieval import PrivateIndex, ScoreNoise

ROWS = np.random.default_rng(0).standard_normal((30, 12)).astype(np.float32)


def receipt_of(queries=5, k=3, **settings):
    index = PrivateIndex(12, scores=ScoreNoise(mechanism="gumbel", **{"epsilon": 0.7, **settings}), store="numpy")
    index.add(ROWS)
    return index.search(ROWS[:queries], k).score_receipt


@pytest.mark.parametrize("epsilon", (0.1, 0.7, 1 / 3, 50.0))
@pytest.mark.parametrize("score_range", ((-1.0, 1.0), (-0.1, 0.1), (1 / 3, 0.7)))
@pytest.mark.parametrize(("queries", "k"), ((1, 1), (3, 7), (10, 30)))
def test_receipts_as_written_hold(epsilon, score_range, queries, k):
    receipt = receipt_of(queries, k, epsilon=epsilon, score_range=score_range)
    assert hv.verify_receipt(receipt).status == "holds"
    assert receipt.epsilon == pytest.approx(queries * epsilon) and Fraction(receipt.epsilon) >= queries * Fraction(epsilon)
    assert SelectionReceipt.from_json(receipt.to_json()) == receipt
    assert receipt.loss.rho == pytest.approx(queries * epsilon**2 / (8 * k))
    assert compose([receipt.loss], delta=1e-6).epsilon > 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epsilon_per_pick": 1e308, "selections": 1}, r"give epsilon = 3\.00000e\+308"),
        ({"epsilon_per_pick": 1e307, "selections": 1}, r"give epsilon = 3e\+307, more"),
        ({"epsilon": 3.4}, "5 selections of 3 picks at .* give epsilon = 3.5, more than the 3.4 stated"),
        ({"selections": 6}, "give epsilon = 4.2"),
        ({"picks": 4}, "give epsilon = 4.66667"),
        ({"epsilon_per_pick": 0.3}, "give epsilon = 4.5"),
        ({"sensitivity": 0.999}, "sensitivity must be >= 1.0, half of the range of scores, got 0.999"),
        ({"score_high": 1.5}, "sensitivity must be >= 1.25"),
        ({"score_low": 1.0}, "score_low must be < score_high"),
        ({"delta": 1e-9}, "delta must be 0"),
        ({"picks": 31, "epsilon": 100.0}, "picks must be at most the 30 candidates"),
        ({"key_source": "seed"}, "is_dp_claim must be false"),
    ],
)
def test_what_does_not_follow_does_not_hold(change, reason):
    found = hv.verify_receipt(dataclasses.replace(receipt_of(), **change))
    assert found.status == "does not hold"
    assert re.search(reason, found.reasons[0])


def test_weaker_promises_hold_and_no_claim_is_none():
    receipt = receipt_of()
    assert hv.verify_receipt(dataclasses.replace(receipt, epsilon=9.0, sensitivity=2.0)).status == "holds"
    silent = hv.verify_receipt(dataclasses.replace(receipt, is_dp_claim=False))
    assert silent.status == "not a DP claim" and "the receipt itself makes no claim" in silent.reasons
    seeded = hv.verify_receipt(dataclasses.replace(receipt, is_dp_claim=False, key_source="seed"))
    assert seeded.status == "not a DP claim" and "seed" in seeded.reasons[0]


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0},
        {"epsilon": "1"},
        {"selections": 0},
        {"picks": 1.5},
        {"candidates": True},
        {"score_low": None},
        {"mechanism": "gaussian"},
        {"receipt_kind": "labels"},
        {"receipt_version": 2},
        {"grade": "float"},
        {"rounds": 10},
        {"notes": "none"},
        {"charge": {}},
        {"extra": 1},
    ],
)
def test_what_cannot_be_read_is_refused(change):
    with pytest.raises(ReceiptError):
        SelectionReceipt.from_json(json.dumps({**receipt_of().to_dict(), **change}))


def test_a_missing_field_is_named():
    fields = receipt_of().to_dict()
    del fields["sensitivity"]
    with pytest.raises(ReceiptError, match="must have the field 'sensitivity'"):
        SelectionReceipt.from_dict(fields)


def test_products_are_never_below():
    for factors in ((3, 0.1), (10, 0.7), (7, 1 / 3), (1e300, 1e-310), (0.1, 0.1, 0.1)):
        exact = Fraction(1)
        for factor in factors:
            exact *= Fraction(factor)
        assert exact <= Fraction(product_up(*factors)) <= exact * (1 + Fraction(1, 2**51))


def test_they_are_verified_like_every_receipt():
    for budget in (hv.PrivacyBudget(50.0), hv.PrivacyBudget(max_rho=5.0)):
        receipt = receipt_of(budget=budget)
        assert hv.verify_receipt(receipt).status == hv.verify_receipt(receipt.to_dict()).status == "holds"
        assert hv.verify_charges([receipt], budget.export()).status == "holds"
        assert receipt_from_json(receipt.to_json()) == receipt
        dearer = dataclasses.replace(receipt, epsilon_per_pick=receipt.epsilon_per_pick * 1.01, epsilon=receipt.epsilon * 1.01)
        assert hv.verify_charges([dearer], budget.export()).status == "does not hold"
