"""Receipts of private selections: what Gumbel top-k selected, what it guarantees, and whether the guarantee follows.

docs/receipts.md describes every field. The field receipt_kind names the kind; receipts of vectors do not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from hushvec._util.rounding import next_up, product_up
from hushvec.mechanisms import ADJACENCY
from hushvec.receipts.base import SHARED_RULES, LedgerEntry, ReceiptFields, Verification, delta_faults, verification
from hushvec.receipts.fields import (
    Number,
    OneOf,
    WholeNumber,
)

if TYPE_CHECKING:
    from hushvec.accounting import PrivacyLoss

SELECTION_KIND = "selection"
SELECTION_RECEIPT_VERSION = 1
MECHANISM = "gumbel_top_k"


@dataclass(frozen=True, kw_only=True)
class SelectionReceipt(ReceiptFields):
    """The record of one or more selections among the same candidates, and the guarantee that they give together.

    Every candidate has one private score per selection, and a person moves the scores of one candidate.

    Args:
        receipt_kind: "selection".
        receipt_version: version of these fields, 1.
        format_version: version of the release format, docs/format.md (section 9 for selections): 2 for "aes256", else 1.
        library_version: hushvec that made the release.
        mechanism: "gumbel_top_k".
        adjacency: "replace-one": one candidate's scores change, the candidates and their number do not.
        epsilon: guaranteed epsilon, of all selections together.
        delta: 0.
        selections: how many there are; each may depend on those before.
        picks: k, how many candidates each names, in order.
        candidates: how many there are to name.
        score_low, score_high: what scores were clamped to.
        sensitivity: half of what one score can move, as the mechanism was given it.
        epsilon_per_pick: of one of the k picks.
        grade: "exact".
        key_source: "os" or "seed".
        cipher: of the key stream: "aes256", "chacha20", "chacha12" or "chacha8".
        rounds: of the cipher: 14, 20, 12 or 8.
        is_dp_claim: whether the numbers are claimed at all. False for a seeded key.
        notes: what else a reader should know, in plain words.
        charge: the row of a budget's ledger that paid for the release, or None.

    Raises:
        ReceiptError: a field of the wrong kind or out of its set of values.

    Example:
        >>> import numpy as np
        >>> from hushvec.retrieval import PrivateIndex, ScoreNoise
        >>> from hushvec.receipts.selections import SelectionReceipt, verify_selection_receipt
        >>> index = PrivateIndex(8, scores=ScoreNoise(epsilon=1.0, mechanism="gumbel"), store="numpy")
        >>> index.add(np.eye(8, dtype=np.float32))
        >>> receipt = index.search(np.ones((3, 8), np.float32), k=2).score_receipt
        >>> receipt.epsilon, verify_selection_receipt(receipt).status, SelectionReceipt.from_json(receipt.to_json()) == receipt
        (3.0, 'holds', True)
    """

    epsilon: float
    delta: float
    selections: int
    picks: int
    candidates: int
    score_low: float
    score_high: float
    sensitivity: float
    epsilon_per_pick: float
    key_source: str
    cipher: str
    rounds: int
    format_version: int
    is_dp_claim: bool
    library_version: str
    mechanism: str = MECHANISM
    adjacency: str = ADJACENCY
    grade: str = "exact"
    notes: tuple[str, ...] = ()
    charge: LedgerEntry | None = None
    receipt_version: int = SELECTION_RECEIPT_VERSION
    receipt_kind: str = SELECTION_KIND

    @classmethod
    def _field_rules(cls) -> Mapping[str, Callable[[str, Any], None]]:
        return _FIELD_RULES

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of all selections, for `hushvec.accounting.compose`: in zero-concentrated DP, where every pick has
        epsilon_per_pick^2 / 8, one float up: a ledger counts the printed decimal, which may lie below its float.
        """
        from hushvec.accounting import ZeroConcentratedDP

        picks = Fraction(self.picks) * self.selections
        rho = next_up(product_up(picks / 8, Fraction(self.epsilon_per_pick) ** 2))
        return ZeroConcentratedDP(rho=rho, adjacency=self.adjacency)


def verify_selection_receipt(receipt: SelectionReceipt) -> Verification:
    """Recompute the guarantee from the law, as `hushvec.verify_receipt` does for receipts of every kind. In exact arithmetic."""
    guarantee = partial(_guarantee, receipt)
    return verification(receipt, _law_faults(receipt), guarantee, basis="parameters")


def _law_faults(receipt: SelectionReceipt) -> list[str]:
    faults = delta_faults(receipt)
    if receipt.picks > receipt.candidates:
        faults.append(f"picks must be at most the {receipt.candidates} candidates, got {receipt.picks}")
    if receipt.score_low >= receipt.score_high:
        faults.append(f"score_low must be < score_high, got {receipt.score_low!r} and {receipt.score_high!r}")
    needed = (Fraction(receipt.score_high) - Fraction(receipt.score_low)) / 2
    if Fraction(receipt.sensitivity) < needed:
        faults.append(f"sensitivity must be >= {float(needed)!r}, half of the range of scores, got {receipt.sensitivity!r}")
    total = Fraction(receipt.epsilon_per_pick) * receipt.picks * receipt.selections
    if total > Fraction(receipt.epsilon):
        shown = float(total) if total < 10**308 else Decimal(total.numerator) / total.denominator
        faults.append(
            f"{receipt.selections} selections of {receipt.picks} picks at {receipt.epsilon_per_pick!r} give epsilon = {shown:.6g}, "
            f"more than the {receipt.epsilon!r} stated"
        )
    return faults


def _guarantee(receipt: SelectionReceipt, verb: str) -> str:
    return f"({receipt.epsilon!r}, 0.0)-DP under replacement of one candidate's scores in all {receipt.selections} selections {verb}"


_POSITIVE = Number("> 0 and finite", lambda value: value > 0)
_FINITE = Number("finite", lambda value: True)

_FIELD_RULES: dict[str, Callable[[str, Any], None]] = {
    **SHARED_RULES,
    "epsilon": _POSITIVE,
    "selections": WholeNumber(1),
    "picks": WholeNumber(1),
    "candidates": WholeNumber(1),
    "score_low": _FINITE,
    "score_high": _FINITE,
    "sensitivity": _POSITIVE,
    "epsilon_per_pick": _POSITIVE,
    "mechanism": OneOf(MECHANISM),
    "receipt_version": OneOf(SELECTION_RECEIPT_VERSION),
    "receipt_kind": OneOf(SELECTION_KIND),
}
