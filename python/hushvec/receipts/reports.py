"""Receipts of reports to a collector: the guarantee of a person's reports, and whether it follows from their distribution.

docs/receipts.md describes every field. The field receipt_kind names the kind; receipts of vectors do not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from hushvec._util.display import plural
from hushvec._util.rounding import DECIMAL_UP, log_ratio_up
from hushvec.mechanisms import ADJACENCY
from hushvec.receipts.base import (
    PER,
    SHARED_RULES,
    LedgerEntry,
    ReceiptFields,
    Verification,
    delta_faults,
    verification,
)
from hushvec.receipts.fields import Number, OneOf, WholeNumber, boolean, digest
from hushvec.receipts.labels import shuffling_note

if TYPE_CHECKING:
    from hushvec.accounting import PrivacyLoss

REPORTS_KIND = "reports"
REPORT_RECEIPT_VERSION = 1

_WORDS = 1 << 64
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
class ReportReceipt(ReceiptFields):
    """The record of reports to a collector, and the guarantee that they give each person.

    Args:
        receipt_kind: "reports".
        receipt_version: version of these fields, 1.
        format_version: version of the release format, docs/format.md (section 12 for reports): 2 for "aes256", else 1.
        library_version: hushvec that made the reports.
        mechanism: "k_rr", "unary", "hadamard" or "bloom".
        adjacency: "replace-one": one person's words are replaced by as many others.
        per: "record": every report is another person's; "release": all are one person's.
        epsilon: guaranteed epsilon, of one person's reports: of one report for per="record"; of all of them for per="release". Where
            they are memoized, of the words that were new to the memo, in these reports and all later ones.
        delta: 0.
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
        grade: "exact".
        key_source: "os" or "seed".
        cipher: of the key stream: "aes256", "chacha20", "chacha12" or "chacha8".
        rounds: of the cipher: 14, 20, 12 or 8.
        is_dp_claim: whether the numbers are claimed at all. False for a seeded key.
        notes: what else a reader should know, in plain words.
        charge: the row of a budget's ledger that paid for the reports, or None.

    Raises:
        ReceiptError: a field of the wrong kind or out of its set of values.

    Example:
        >>> from hushvec.collect import Vocabulary
        >>> from hushvec.receipts.reports import ReportReceipt, verify_report_receipt
        >>> receipt = Vocabulary(["a", "b", "c"], epsilon=1.0).release(["a", "b"]).receipt
        >>> verify_report_receipt(receipt).status, ReportReceipt.from_json(receipt.to_json()) == receipt
        ('holds', True)
    """

    mechanism: str
    per: str
    epsilon: float
    dictionary_digest: str
    reports: int
    words_of_one: int
    memoised: bool
    cells: int
    truth_values: int
    other_values: int
    hashes: int
    one_values: int
    zero_values: int
    key_source: str
    cipher: str
    rounds: int
    format_version: int
    is_dp_claim: bool
    library_version: str
    delta: float = 0.0
    adjacency: str = ADJACENCY
    grade: str = "exact"
    notes: tuple[str, ...] = ()
    charge: LedgerEntry | None = None
    receipt_version: int = REPORT_RECEIPT_VERSION
    receipt_kind: str = REPORTS_KIND

    _text_numbers = ("truth_values", "other_values", "one_values", "zero_values")

    @classmethod
    def _field_rules(cls) -> Mapping[str, Callable[[str, Any], None]]:
        return _FIELD_RULES

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of one person's reports, for `hushvec.accounting.compose`."""
        from hushvec.accounting import PureDP

        return PureDP(epsilon=self.epsilon, adjacency=self.adjacency)

    def with_shuffling(self, n: int, delta: float) -> ReportReceipt:
        """The same receipt, with a note on the guarantee after shuffling and its assumptions.

        Args:
            n: >= 1, how many people's reports to this collection are shuffled in one batch, equally many of each.
            delta: in (0, 1), for which the note states the epsilon.

        Returns:
            A copy with one note more. No other field changes: `epsilon` is still the guarantee against everyone, and the only one
            verified.

        Raises:
            ValueError: n or delta breaks its rule; the receipt does not hold or makes no claim; the reports are memoized, so other
                batches may contain them too.
            TypeError: n is not a whole number, delta is not a number.

        Guarantees:
            As `hushvec.accounting.Shuffled`, for the epsilon of this receipt; the number in the note is rounded up.

        Example:
            >>> from hushvec.collect import Vocabulary
            >>> receipt = Vocabulary(["a", "b"], epsilon=8.0).release("a", per="release").receipt
            >>> print(receipt.with_shuffling(1_000_000, 1e-6).notes[-1][:53])
            (0.303695, 1e-06)-DP if shuffled in one batch of 1000
        """
        if self.memoised:
            raise ValueError("memoised must be False for a note on shuffling, as other batches may hold the same reports; got True")
        note = shuffling_note(verify_report_receipt(self).status, self.loss, n, delta, "reports to this collection")
        return replace(self, notes=(*self.notes, note))


def permanent_epsilon(hashes: int, truth: int, other: int) -> Decimal:
    """2 h ln(T / M), rounded up: two words differ in at most 2 h bits, and each of them costs ln(T / M)."""
    return log_ratio_up(truth, other, times=2 * hashes)


def instantaneous_epsilon(hashes: int, truth: int, other: int, one: int, zero: int) -> Decimal:
    """epsilon of one report that was drawn in both steps, rounded up: h ln(q* (1 - p*) / (p* (1 - q*))).

    q* and p* are the chances of a reported 1 for a bit of the word and for any other, here as whole numbers over 2^128.

    Reference:
        Erlingsson, Pihur, Korolova, "RAPPOR" (2014), section 3.2, theorem 2.
    """
    whole = _WORDS * _WORDS
    q = truth * one + other * zero
    p = other * one + truth * zero
    return log_ratio_up(q * (whole - p), p * (whole - q), times=hashes)


def epsilon_of_one(receipt: ReportReceipt) -> Decimal:
    """epsilon of all words of one person under the law, rounded up."""
    if receipt.mechanism != "bloom":
        one_word = log_ratio_up(receipt.truth_values, receipt.other_values)
    elif receipt.memoised or receipt.one_values == _WORDS:
        one_word = permanent_epsilon(receipt.hashes, receipt.truth_values, receipt.other_values)
    else:
        one_word = instantaneous_epsilon(
            receipt.hashes, receipt.truth_values, receipt.other_values, receipt.one_values, receipt.zero_values
        )
    return DECIMAL_UP.multiply(one_word, Decimal(receipt.words_of_one))


def verify_report_receipt(receipt: ReportReceipt) -> Verification:
    """Recompute the guarantee from the law. Logarithms of ratios of whole numbers, rounded up in 80 digits."""
    guarantee = partial(_guarantee, receipt)
    return verification(receipt, _law_faults(receipt), guarantee, basis="law")


def _law_faults(receipt: ReportReceipt) -> list[str]:
    faults = delta_faults(receipt)
    truth, other, cells = receipt.truth_values, receipt.other_values, receipt.cells
    cells_rule, is_allowed = _CELLS[receipt.mechanism]
    if not is_allowed(cells):
        return [*faults, f"cells must be {cells_rule} for {receipt.mechanism}, got {cells}"]
    if truth + (cells - 1) * other != _WORDS:
        return [*faults, f"truth_values + {cells - 1} other_values must be 2^64, got {truth + (cells - 1) * other}"]
    if truth < other:
        return [*faults, f"truth_values must be >= other_values, got {truth} and {other}"]
    step = _step_fault(receipt)
    if step is not None:
        return [*faults, step]
    if receipt.per == "record" and receipt.words_of_one != 1:
        faults.append(f"words_of_one must be 1 where every report is another person's, got {receipt.words_of_one}")
    if receipt.per == "record" and receipt.memoised:
        faults.append("per must be 'release' where reports are memoised: a memo is one person's")
    if receipt.per == "release" and not receipt.memoised and receipt.words_of_one < receipt.reports:
        faults.append(f"words_of_one must be at least the {receipt.reports} reports of the person, got {receipt.words_of_one}")
    needed = epsilon_of_one(receipt)
    if needed > Decimal(receipt.epsilon):
        faults.append(
            f"the law gives epsilon = {needed:.6g} for {plural(receipt.words_of_one, 'word')} of one person, more than the "
            f"{receipt.epsilon!r} stated"
        )
    return faults


def _step_fault(receipt: ReportReceipt) -> str | None:
    """What is wrong with the fields that only a Bloom filter uses; None if nothing is."""
    if receipt.mechanism != "bloom":
        if (receipt.hashes, receipt.one_values, receipt.zero_values) != (0, 0, 0):
            return f"hashes, one_values and zero_values must be 0 for {receipt.mechanism}"
        if receipt.other_values == 0:
            return f"other_values must be >= 1 for {receipt.mechanism}, got 0"
        return None
    if receipt.hashes < 1:
        return f"hashes must be >= 1 for bloom, got {receipt.hashes}"
    if receipt.one_values <= receipt.zero_values or (receipt.zero_values == 0) != (receipt.one_values == _WORDS):
        return f"one_values must be > zero_values > 0, or 2^64 and 0; got {receipt.one_values} and {receipt.zero_values}"
    if receipt.other_values == 0 and (receipt.memoised or receipt.zero_values == 0):
        return "other_values must be >= 1 for bloom with a memo or without an instantaneous response, got 0"
    return None


def _guarantee(receipt: ReportReceipt, verb: str) -> str:
    return f"({receipt.epsilon!r}, 0.0)-DP under replacement of {plural(receipt.words_of_one, 'word')} of one person {verb}"


_FIELD_RULES: dict[str, Callable[[str, Any], None]] = {
    **SHARED_RULES,
    "mechanism": OneOf(*MECHANISMS),
    "per": OneOf(*PER),
    "epsilon": Number("> 0 and finite", lambda value: value > 0),
    "dictionary_digest": digest,
    "reports": WholeNumber(0),
    "words_of_one": WholeNumber(1),
    "memoised": boolean,
    "cells": WholeNumber(2, below=_MOST_CELLS + 1),
    "truth_values": WholeNumber(1, below=_WORDS + 1),
    "other_values": WholeNumber(0, below=_WORDS),
    "hashes": WholeNumber(0),
    "one_values": WholeNumber(0, below=_WORDS + 1),
    "zero_values": WholeNumber(0, below=_WORDS),
    "receipt_version": OneOf(REPORT_RECEIPT_VERSION),
    "receipt_kind": OneOf(REPORTS_KIND),
}
