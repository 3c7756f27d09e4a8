"""Receipts of private labels: what randomized response did, what it guarantees, and whether the guarantee follows.

docs/receipts.md describes every field. The field receipt_kind names the kind; receipts of vectors do not have it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from hushvec._util import validate
from hushvec._util.rounding import decimal_up, log_ratio_up
from hushvec.receipts.base import (
    PER,
    SHARED_RULES,
    LedgerEntry,
    ReceiptFields,
    Verification,
    delta_faults,
    rows_per_person,
    verification,
)
from hushvec.receipts.fields import (
    Number,
    OneOf,
    WholeNumber,
    digest,
    optional_digest,
)
from hushvec.receipts.vectors import Receipt

if TYPE_CHECKING:
    from hushvec.accounting import PrivacyLoss

LABELS_KIND = "labels"
LABEL_RECEIPT_VERSION = 1
MECHANISM = "randomized_response"
SCORES = ("none", "uniform", "source")

NOTE_SOURCE = "scores are the model's own where its label was kept: they tell which answers are true, so epsilon bounds nothing"

NOTE_SHUFFLER = (
    "this relies on those people following the protocol and on an honest shuffler that randomly reorders all reports and drops names, "
    "times and other marks; against the shuffler and whoever sees reports before it, only the receipt's epsilon holds"
)

_WORDS = 2**64  # answers are drawn from this many equally likely values
_MOST_LABELS = 2**24
_LABELS_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class LabelReceipt(ReceiptFields):
    """The record of one release of labels: the law as used, and the guarantee that it gives.

    Args:
        receipt_kind: "labels".
        receipt_version: version of these fields, 1.
        format_version: version of the release format, docs/format.md (section 9 for labels): 2 for "aes256", else 1.
        library_version: hushvec that made the release.
        mechanism: "randomized_response".
        adjacency: "replace-one".
        per: unit of privacy: "record", every answer is about another person; "release", all answers are about one person.
        epsilon: guaranteed epsilon, of one answer or of all of them, as `per` says.
        delta: 0.
        label_count: k, the number of possible labels.
        labels_digest: SHA-256 of the list of labels, see `labels_digest`.
        truth_values: how many of 2^64 equally likely values answer with the truth.
        other_values: how many answer with a given other label. In JSON both are text, so that no reader rounds them.
        answers: number of labels released.
        scores: the score beside an answer: "none"; "uniform", the public 1/k; "source", the model's own score where its label was
            kept, and 1/k elsewhere.
        grade: "exact".
        key_source: "os" or "seed".
        cipher: of the key stream: "aes256", "chacha20", "chacha12" or "chacha8".
        rounds: of the cipher: 14, 20, 12 or 8.
        codebook: SHA-256 of the public codebook whose codes the labels are (`PublicCodebook.digest`), or None:
            docs/proofs/codebook.md. The labels are then 0, ..., k - 1.
        is_dp_claim: whether the numbers are claimed at all. False for a seeded key and for scores = "source".
        notes: what else a reader should know, in plain words.
        charge: the row of a budget's ledger that paid for the release, or None.

    Raises:
        ReceiptError: a field of the wrong kind or out of its set of values.

    Example:
        >>> from hushvec.receipts.labels import LabelReceipt
        >>> from hushvec.release.labels import privatize_labels
        >>> receipt = privatize_labels(["yes", "no"], ["no", "yes"], epsilon=1.0).receipt
        >>> LabelReceipt.from_json(receipt.to_json()) == receipt
        True
    """

    mechanism: str
    adjacency: str
    per: str
    epsilon: float
    delta: float
    label_count: int
    labels_digest: str
    truth_values: int
    other_values: int
    answers: int
    scores: str
    grade: str
    key_source: str
    cipher: str
    rounds: int
    format_version: int
    is_dp_claim: bool
    library_version: str
    notes: tuple[str, ...] = ()
    charge: LedgerEntry | None = None
    codebook: str | None = None
    receipt_version: int = LABEL_RECEIPT_VERSION
    receipt_kind: str = LABELS_KIND

    _text_numbers = ("truth_values", "other_values")

    @classmethod
    def _field_rules(cls) -> Mapping[str, Callable[[str, Any], None]]:
        return _FIELD_RULES

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of the release, for `hushvec.accounting.compose`.

        Meaningful for a receipt that `verify_receipt` found to hold; with scores = "source" it is that of the labels alone.
        """
        from hushvec.accounting import PureDP

        return PureDP(epsilon=self.epsilon, adjacency=self.adjacency)

    def _why_no_claim(self) -> list[str]:
        return [*([NOTE_SOURCE] if self.scores == "source" else []), *super()._why_no_claim()]

    def with_shuffling(self, n: int, delta: float) -> LabelReceipt:
        """The same receipt, with a note on the guarantee after shuffling and its assumptions.

        Args:
            n: >= 1, how many people's answers are shuffled in one batch: equally many of each, all by this law over these labels.
            delta: in (0, 1), for which the note states the epsilon.

        Returns:
            A copy with one note more. No other field changes: `epsilon` is still the guarantee against everyone, and the only one
            verified.

        Raises:
            ValueError: n or delta breaks its rule; the receipt does not hold or makes no claim.
            TypeError: n is not a whole number, delta is not a number.

        Guarantees:
            As `hushvec.accounting.Shuffled`, for the epsilon of this receipt; the number in the note is rounded up. Rows that were
            decoded from codes of a public codebook have it too: decoding is post-processing.

        Example:
            >>> from hushvec.release.labels import privatize_labels
            >>> receipt = privatize_labels(["yes"], ["no", "yes"], epsilon=8.0).receipt
            >>> print(receipt.with_shuffling(1_000_000, 1e-6).notes[-1][:53])
            (0.303695, 1e-06)-DP if shuffled in one batch of 1000
        """
        note = shuffling_note(verify_label_receipt(self).status, self.loss, n, delta, "answers by this law over these labels")
        return replace(self, notes=(*self.notes, note))


def shuffling_note(status: str, loss: PrivacyLoss, n: int, delta: float, what: str) -> str:
    """The note on the guarantee after shuffling, for a receipt with this loss and this status.

    Raises:
        ValueError: the receipt does not hold, or n or delta breaks its rule.
        TypeError: n or delta is of another kind.
    """
    from hushvec.accounting import Shuffled

    if status != "holds":
        raise ValueError(f"receipt must hold for a note on shuffling, got one that is found {status!r}")
    checked = validate.delta(delta)
    shuffled = Shuffled(loss, n)
    batch = f"one batch of {shuffled.n} people's {what}, equally many of each"
    return f"({decimal_up(shuffled.epsilon(checked), 6)}, {checked!r})-DP if shuffled in {batch}: {NOTE_SHUFFLER}"


RowReceipt = Receipt | LabelReceipt
"""Receipts of a release of rows: noisy vectors, or codes of a public codebook."""


def row_receipt(fields: Mapping[str, Any]) -> RowReceipt:
    """The receipt of a release of rows, from its fields.

    Raises:
        ReceiptError: not a receipt of that kind.
    """
    return LabelReceipt.from_dict(fields) if fields.get("receipt_kind") == LABELS_KIND else Receipt.from_dict(fields)


def released_rows(receipt: RowReceipt) -> int:
    """How many rows the release has."""
    return receipt.rows if isinstance(receipt, Receipt) else receipt.answers


def labels_digest(labels: Sequence[Hashable]) -> str:
    """SHA-256 of a list of labels as JSON: ASCII, without spaces, in the order given.

    Args:
        labels: str, int, float and bool.

    Raises:
        TypeError: a label of another kind, which has no text form that others could hash.
        ValueError: a float that is not finite.

    Example:
        >>> import hashlib
        >>> from hushvec.receipts.labels import labels_digest
        >>> labels_digest(["no", "yes"]) == hashlib.sha256(b'["no","yes"]').hexdigest()
        True
    """
    rest, separator, hashed = iter(labels), "", hashlib.sha256(b"[")
    while part := list(islice(rest, _LABELS_AT_ONCE)):  # a million labels are not joined into one text
        _require_nameable(part)
        hashed.update((separator + json.dumps(part, separators=(",", ":"))[1:-1]).encode())
        separator = ","
    hashed.update(b"]")
    return hashed.hexdigest()


def _require_nameable(labels: list[Any]) -> None:
    kinds = set(map(type, labels))
    for kind in kinds:
        if not issubclass(kind, str | int | float):
            raise TypeError(f"labels must be str, int, float or bool where a receipt names them, got {kind.__name__}")
    if any(issubclass(kind, float) for kind in kinds):
        for label in labels:
            if isinstance(label, float):
                validate.number("labels", label)


def verify_label_receipt(receipt: LabelReceipt) -> Verification:
    """Recompute the guarantee from the law, as `hushvec.verify_receipt` does for receipts of either kind.

    The law's ratio is one of whole numbers. Its logarithm, times the answers of one person, is rounded up in 80 digits before it is
    compared with the stated epsilon.
    """
    return verification(
        receipt,
        _law_faults(receipt),
        partial(_guarantee, receipt),
        basis="law",
        otherwise=_WITHOUT_CLAIM[receipt.scores == "source"],
    )


_WITHOUT_CLAIM = {
    False: "would hold with a secret key",
    True: "would hold with a secret key if the labels alone were released",
}


def _law_faults(receipt: LabelReceipt) -> list[str]:
    faults = delta_faults(receipt)
    truth, other, k = receipt.truth_values, receipt.other_values, receipt.label_count
    if truth + (k - 1) * other != _WORDS:
        return [*faults, f"truth_values + {k - 1} other_values must be 2^64 for {k} labels, got {truth + (k - 1) * other}"]
    if truth < other:
        return [*faults, f"truth_values must be >= other_values, got {truth} and {other}"]
    needed = log_ratio_up(truth, other, times=rows_per_person(receipt.per, receipt.answers))
    if needed > Decimal(receipt.epsilon):
        faults.append(
            f"truth_values / other_values gives epsilon = {needed:.6g} for {_unit(receipt)}, more than the {receipt.epsilon!r} stated"
        )
    return faults


def _unit(receipt: LabelReceipt) -> str:
    return "one answer" if receipt.per == "record" or receipt.answers == 1 else f"all {receipt.answers} answers of one person"


def _guarantee(receipt: LabelReceipt, verb: str) -> str:
    return f"({receipt.epsilon!r}, 0.0)-DP under replacement of what is behind {_unit(receipt)} {verb}"


_FIELD_RULES: dict[str, Callable[[str, Any], None]] = {
    **SHARED_RULES,
    "mechanism": OneOf(MECHANISM),
    "per": OneOf(*PER),
    "epsilon": Number("> 0 and finite", lambda value: value > 0),
    "label_count": WholeNumber(2, below=_MOST_LABELS + 1),
    "labels_digest": digest,
    "truth_values": WholeNumber(1, below=_WORDS),
    "other_values": WholeNumber(1, below=_WORDS),
    "answers": WholeNumber(0),
    "scores": OneOf(*SCORES),
    "codebook": optional_digest,
    "receipt_version": OneOf(LABEL_RECEIPT_VERSION),
    "receipt_kind": OneOf(LABELS_KIND),
}
