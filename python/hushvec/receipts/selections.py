"""Receipts of private selections: what Gumbel top-k selected, what it guarantees, and whether the guarantee follows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from hushvec._util.display import at_least, number, plural
from hushvec._util.rounding import next_up, product_up
from hushvec.accounting import PrivacyLoss, ZeroConcentratedDP
from hushvec.mechanisms import ADJACENCY
from hushvec.receipts import base
from hushvec.receipts.base import Facts, Number, OneOf, ReceiptFields

SELECTION_KIND = "selection"
MECHANISM = "gumbel_top_k"
_Finite = Annotated[float, Number("finite", lambda value: True)]


@dataclass(frozen=True, kw_only=True)
class SelectionReceipt(ReceiptFields):
    """The record of one or more selections among the same candidates, and the guarantee that they give together.

    Every candidate has one private score per selection, and a person moves the scores of one candidate.

    Fields that are not listed mean what they do in every receipt: `hushvec.receipts.base.ReceiptFields`.

    Args:
        mechanism: "gumbel_top_k".
        adjacency: "replace-one": one candidate's scores change, the candidates and their number do not.
        epsilon: guaranteed epsilon, of all selections together.
        selections: how many there are; each may depend on those before.
        picks: k, how many candidates each names, in order.
        candidates: how many there are to name.
        score_low, score_high: what scores were clamped to.
        sensitivity: half of what one score can move, as the mechanism was given it.
        epsilon_per_pick: of one of the k picks.
    """

    epsilon: base.Positive
    delta: base.Delta
    selections: base.CountFromOne
    picks: base.CountFromOne
    candidates: base.CountFromOne
    score_low: _Finite
    score_high: _Finite
    sensitivity: base.Positive
    epsilon_per_pick: base.Positive
    key_source: base.KeySource
    cipher: base.Cipher
    rounds: base.Rounds
    format_version: base.FormatVersion
    is_dp_claim: base.Flag
    library_version: base.Text
    mechanism: Annotated[str, OneOf(MECHANISM)] = MECHANISM
    adjacency: base.Adjacency = ADJACENCY
    grade: base.Exact = "exact"
    notes: base.Notes = ()
    charge: base.OptionalCharge = None
    receipt_version: base.Version = 1
    receipt_kind: Annotated[str, OneOf(SELECTION_KIND)] = SELECTION_KIND

    _basis = "parameters"

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of all selections, for `hushvec.accounting.compose`: in zero-concentrated DP, where every pick has
        epsilon_per_pick^2 / 8, one float up: a ledger counts the printed decimal, which may lie below its float."""
        picks = Fraction(self.picks) * self.selections
        rho = next_up(product_up(picks / 8, Fraction(self.epsilon_per_pick) ** 2))
        return ZeroConcentratedDP(rho=rho, adjacency=self.adjacency)

    def _faults(self) -> list[str]:
        faults = self._delta_faults()
        if self.picks > self.candidates:
            faults.append(f"picks must be at most the {self.candidates} candidates, got {self.picks}")
        if self.score_low >= self.score_high:
            faults.append(f"score_low must be < score_high, got {self.score_low!r} and {self.score_high!r}")
        needed = (Fraction(self.score_high) - Fraction(self.score_low)) / 2
        if Fraction(self.sensitivity) < needed:
            faults.append(f"sensitivity must be >= {float(needed)!r}, half of the range of scores, got {self.sensitivity!r}")
        total = Fraction(self.epsilon_per_pick) * self.picks * self.selections
        if total > Fraction(self.epsilon):
            shown = float(total) if total < 10**308 else Decimal(total.numerator) / total.denominator
            faults.append(
                f"{self.selections} selections of {self.picks} picks at {self.epsilon_per_pick!r} give epsilon = {shown:.6g}, "
                f"more than the {self.epsilon!r} stated"
            )
        return faults

    def _guarantee(self, verb: str) -> str:
        return f"({self.epsilon!r}, 0.0)-DP under replacement of one candidate's scores in all {self.selections} selections {verb}"

    def _described(self) -> tuple[str, str, Facts]:
        asked = plural(self.selections, "selection")
        facts = [
            ("mechanism", f"{self.mechanism}, epsilon {at_least(self.epsilon_per_pick)} for each pick"),
            ("selections", f"{asked} of the best {self.picks:,} among {self.candidates:,}, in order, without scores"),
            ("scores", f"clamped to {number(self.score_low)} to {number(self.score_high)}"),
        ]
        return "Receipt of private selections", f"the scores of one candidate in {asked}", facts
