"""Receipts of reports to a collector: the guarantee of a person's reports, and whether it follows from their distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from hushvec._util.display import plural, share
from hushvec._util.rounding import DECIMAL_UP, log_ratio_up
from hushvec.accounting import PrivacyLoss, Repeated
from hushvec.mechanisms import ADJACENCY
from hushvec.receipts import base
from hushvec.receipts.base import WORDS, Facts, OneOf, WholeNumber, short
from hushvec.receipts.labels import Shufflable

REPORTS_KIND = "reports"

_MOST_CELLS = 1 << 24

# Among how many outcomes the law of a mechanism chooses. Reports in bits have two: with more, the law would not be that of a bit.
_CELLS: dict[str, tuple[str, Callable[[int], bool]]] = {
    "k_rr": ("at least 2", lambda cells: cells >= 2),
    "unary": ("2", lambda cells: cells == 2),
    "hadamard": ("2 B, B a power of two", lambda cells: cells >= 2 and cells.bit_count() == 1),
    "bloom": ("2", lambda cells: cells == 2),
}
MECHANISMS = tuple(_CELLS)


@dataclass(frozen=True, kw_only=True)
class ReportReceipt(Shufflable):
    """The record of reports to a collector, and the guarantee that they give each person.

    Fields that are not listed mean what they do in every receipt: `hushvec.receipts.base.ReceiptFields`.

    Args:
        mechanism: "k_rr", "unary", "hadamard" or "bloom".
        adjacency: "replace-one": one person's words are replaced by as many others.
        per: "record": every report is another person's; "release": all are one person's.
        epsilon: guaranteed epsilon, of one person's reports: of one report for per="record"; of all of them for per="release". Where
            they are memoized, of the words that were new to the memo, in these reports and all later ones.
        dictionary_digest: SHA-256 of what the collector published: words or filter, and every parameter.
        reports: how many there are.
        words_of_one: how many words of one person the epsilon covers. Words that a memo had before are in earlier receipts; where
            no word is new, all words of the reports.
        memoised: whether the same word of the person always gives the same permanent report.
        cells: how many outcomes the law below chooses among: k, 2 for bits, 2 B for Hadamard response, B a power of two.
        truth_values, other_values: of the 2^64 values of a uniform, those of the truth and those of each other cell; for "bloom" of
            the permanent response, 2^64 and 0 where there is none: the epsilon is then of these reports alone.
        hashes: for "bloom" the bits that a word sets, at most; else 0.
        one_values, zero_values: for "bloom" the values of a uniform that report a 1 for a permanent bit that is 1 and that is 0;
            2^64 and 0 without an instantaneous response. 0 and 0 for the others.
    """

    mechanism: Annotated[str, OneOf(*MECHANISMS)]
    per: base.Per
    epsilon: base.Positive
    dictionary_digest: base.Digest
    reports: base.Count
    words_of_one: base.CountFromOne
    memoised: base.Flag
    cells: Annotated[int, WholeNumber(2, below=_MOST_CELLS + 1)]
    truth_values: Annotated[int, WholeNumber(1, below=WORDS + 1)]
    other_values: Annotated[int, WholeNumber(0, below=WORDS)]
    hashes: base.Count
    one_values: Annotated[int, WholeNumber(0, below=WORDS + 1)]
    zero_values: Annotated[int, WholeNumber(0, below=WORDS)]
    key_source: base.KeySource
    cipher: base.Cipher
    rounds: base.Rounds
    format_version: base.FormatVersion
    is_dp_claim: base.Flag
    library_version: base.Text
    delta: base.Delta = 0.0
    adjacency: base.Adjacency = ADJACENCY
    grade: base.Exact = "exact"
    notes: base.Notes = ()
    charge: base.OptionalCharge = None
    receipt_version: base.Version = 1
    receipt_kind: Annotated[str, OneOf(REPORTS_KIND)] = REPORTS_KIND

    _text_numbers = ("truth_values", "other_values", "one_values", "zero_values")
    _shuffled = "reports to this collection"

    @property
    def unit(self) -> float | None:
        return base.unit_of(self.per, self.reports)

    @property
    def loss(self) -> PrivacyLoss | Repeated:
        """That of one word, as often as one person sent a new one; for bloom the epsilon alone (frequency_oracles.md, claim 8)."""
        if self.mechanism == "bloom" or not self.words_of_one:
            return super().loss
        return self._loss_of(self.words_of_one, share=0.5 if self.mechanism == "unary" else 1.0)

    def _faults(self) -> list[str]:
        faults = self._delta_faults()
        truth, other, cells = self.truth_values, self.other_values, self.cells
        cells_rule, is_allowed = _CELLS[self.mechanism]
        if not is_allowed(cells):
            return [*faults, f"cells must be {cells_rule} for {self.mechanism}, got {cells}"]
        if truth + (cells - 1) * other != WORDS:
            return [*faults, f"truth_values + {cells - 1} other_values must be 2^64, got {truth + (cells - 1) * other}"]
        if truth < other:
            return [*faults, f"truth_values must be >= other_values, got {truth} and {other}"]
        step = self._step_fault()
        if step is not None:
            return [*faults, step]
        if self.per == "record" and self.words_of_one != 1:
            faults.append(f"words_of_one must be 1 where every report is another person's, got {self.words_of_one}")
        if self.per == "record" and self.memoised:
            faults.append("per must be 'release' where reports are memoised: a memo is one person's")
        if self.per == "release" and not self.memoised and self.words_of_one < self.reports:
            faults.append(f"words_of_one must be at least the {self.reports} reports of the person, got {self.words_of_one}")
        needed = epsilon_of_one(self)
        if needed > Decimal(self.epsilon):
            faults.append(
                f"the law gives epsilon = {needed:.6g} for {plural(self.words_of_one, 'word')} of one person, more than the "
                f"{self.epsilon!r} stated"
            )
        return faults

    def _step_fault(self) -> str | None:
        """A contradiction in the fields that only a Bloom filter uses, or None."""
        if self.mechanism != "bloom":
            if (self.hashes, self.one_values, self.zero_values) != (0, 0, 0):
                return f"hashes, one_values and zero_values must be 0 for {self.mechanism}"
            if self.other_values == 0:
                return f"other_values must be >= 1 for {self.mechanism}, got 0"
            return None
        if self.hashes < 1:
            return f"hashes must be >= 1 for bloom, got {self.hashes}"
        if self.one_values <= self.zero_values or (self.zero_values == 0) != (self.one_values == WORDS):
            return f"one_values must be > zero_values > 0, or 2^64 and 0; got {self.one_values} and {self.zero_values}"
        if self.other_values == 0 and (self.memoised or self.zero_values == 0):
            return "other_values must be >= 1 for bloom with a memo or without an instantaneous response, got 0"
        return None

    def _guarantee(self, verb: str) -> str:
        return f"({self.epsilon!r}, 0.0)-DP under replacement of {plural(self.words_of_one, 'word')} of one person {verb}"

    def _described(self) -> tuple[str, str, Facts]:
        unit = "one report (every report is another person's)"
        if self.per == "release":
            unit = f"{plural(self.words_of_one, 'word')} of one person"
        memo = ", memoized: the same word gives the same permanent report" if self.memoised else ""
        truth = f"the truth with chance {share(self.truth_values / WORDS)} among {self.cells:,} outcomes"
        facts = [
            ("mechanism", f"{self.mechanism}: {truth}"),
            ("reports", f"{self.reports:,}{memo}"),
            ("collection", f"SHA-256 {short(self.dictionary_digest)}"),
        ]
        return "Receipt of reports to a collector", unit, facts

    def with_shuffling(self, n: int, delta: float) -> ReportReceipt:
        """As `LabelReceipt.with_shuffling`, for reports to this collection."""
        if self.memoised:
            raise ValueError("memoised must be False for a note on shuffling, as other batches may hold the same reports; got True")
        return super().with_shuffling(n, delta)


def permanent_epsilon(hashes: int, truth: int, other: int) -> Decimal:
    """2 h ln(T / M), rounded up: two words differ in at most 2 h bits, and each of them costs ln(T / M)."""
    return log_ratio_up(truth, other, times=2 * hashes)


def instantaneous_epsilon(hashes: int, truth: int, other: int, one: int, zero: int) -> Decimal:
    """epsilon of one report that was drawn in both steps, rounded up: h ln(q* (1 - p*) / (p* (1 - q*))).

    q* and p* are the chances of a reported 1 for a bit of the word and for any other, here as whole numbers over 2^128.

    Reference:
        Erlingsson, Pihur, Korolova, "RAPPOR" (2014), section 3.2, theorem 2.
    """
    whole = WORDS * WORDS
    q = truth * one + other * zero
    p = other * one + truth * zero
    return log_ratio_up(q * (whole - p), p * (whole - q), times=hashes)


def epsilon_of_one(receipt: ReportReceipt) -> Decimal:
    """epsilon of all words of one person under the law, rounded up."""
    if receipt.mechanism != "bloom":
        one_word = log_ratio_up(receipt.truth_values, receipt.other_values)
    elif receipt.memoised or receipt.one_values == WORDS:
        one_word = permanent_epsilon(receipt.hashes, receipt.truth_values, receipt.other_values)
    else:
        one_word = instantaneous_epsilon(
            receipt.hashes, receipt.truth_values, receipt.other_values, receipt.one_values, receipt.zero_values
        )
    return DECIMAL_UP.multiply(one_word, Decimal(receipt.words_of_one))
