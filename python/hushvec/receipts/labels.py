"""Receipts of private labels: what randomized response did, what it guarantees, and whether the guarantee follows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.display import share
from hushvec._util.rounding import decimal_up, fraction_up, log_ratio_up
from hushvec.accounting import PrivacyLoss, PureDP, Repeated, Shuffled
from hushvec.mechanisms import ADJACENCY
from hushvec.mechanisms.randomized_response import RandomizedResponse, response_variation
from hushvec.receipts import base
from hushvec.receipts.vectors import Receipt

if TYPE_CHECKING:
    from typing_extensions import Self

LABELS_KIND = "labels"
MECHANISM = "randomized_response"
SCORES = ("none", "uniform", "source")

NOTE_SOURCE = "scores are the model's own where its label was kept: they tell which answers are true, so epsilon bounds nothing"

NOTE_SHUFFLER = (
    "this relies on those people following the protocol and on an honest shuffler that randomly reorders all reports and drops names, "
    "times and other marks; against the shuffler and whoever sees reports before it, only the receipt's epsilon holds"
)

_MOST_LABELS = 2**24
_LABELS_AT_ONCE = 1 << 16


class Shufflable(base.ReceiptFields):
    """A receipt of answers that people may send through a shuffler."""

    _shuffled: ClassVar[str]

    if TYPE_CHECKING:
        truth_values: int
        other_values: int

    def _loss_of(self, answers: int, *, share: float = 1.0) -> PrivacyLoss | Repeated:
        """Of so many answers about one person, whose total variation is a share of (T - M) / 2^64."""
        epsilon, variation = self.epsilon, share * response_variation(self.truth_values, self.other_values)
        if answers > 1:
            epsilon = max(fraction_up(log_ratio_up(self.truth_values, self.other_values)), 1 / base.WORDS)
        assert epsilon is not None
        one = PureDP(epsilon=epsilon, total_variation=variation, adjacency=self.adjacency)
        return one if answers == 1 else Repeated(one, answers)

    def with_shuffling(self, n: int, delta: float) -> Self:
        """The same receipt, with a note on the guarantee after shuffling and its assumptions.

        Args:
            n: >= 1, how many people's answers or reports are shuffled in one batch: equally many of each, all by this law over these
                labels or to this collection.
            delta: in (0, 1), for which the note states the epsilon.

        Returns:
            A copy with one note more. No other field changes: `epsilon` is still the guarantee against everyone, and the only one
            verified.

        Raises:
            ValueError: the receipt does not hold or makes no claim; reports that are memoized, so other batches may contain them too.

        Guarantees:
            As `hushvec.accounting.Shuffled`, for the epsilon of this receipt; the number in the note is rounded up. Rows that were
            decoded from codes of a public codebook have it too: decoding is post-processing.

        Example:
            >>> from hushvec.release.labels import privatize_labels
            >>> receipt = privatize_labels(["yes"], ["no", "yes"], epsilon=8.0).receipt
            >>> print(receipt.with_shuffling(1_000_000, 1e-6).notes[-1][:53])
            (0.303695, 1e-06)-DP if shuffled in one batch of 1000
        """
        if (status := self._verified().status) != base.HOLDS:
            raise ValueError(f"receipt must hold for a note on shuffling, got one that is found {status!r}")
        checked = validate.delta(delta)
        shuffled = Shuffled(self, n)
        batch = f"one batch of {shuffled.n} people's {self._shuffled}, equally many of each"
        note = f"({decimal_up(shuffled.epsilon(checked), 6)}, {checked!r})-DP if shuffled in {batch}: {NOTE_SHUFFLER}"
        return replace(self, notes=(*self.notes, note))


@dataclass(frozen=True, kw_only=True)
class LabelReceipt(Shufflable):
    """The record of one release of labels: the law as used, and the guarantee that it gives.

    Fields that are not listed mean what they do in every receipt: `hushvec.receipts.base.ReceiptFields`.

    Args:
        mechanism: "randomized_response".
        per: unit of privacy: "record", every answer is about another person; "release", all answers are about one person.
        epsilon: guaranteed epsilon, of one answer or of all of them, as `per` says.
        label_count: k, the number of possible labels.
        labels_digest: SHA-256 of the list of labels, see `labels_digest`.
        truth_values: how many of 2^64 equally likely values answer with the truth.
        other_values: how many answer with a given other label. In JSON both are text, so that no reader rounds them.
        answers: number of labels released.
        scores: the score beside an answer: "none"; "uniform", the public 1/k; "source", the model's own score where its label was
            kept, and 1/k elsewhere.
        codebook: SHA-256 of the public codebook whose codes the labels are (`PublicCodebook.digest`), or None:
            docs/proofs/codebook.md. The labels are then 0, ..., k - 1.
        is_dp_claim: whether the numbers are claimed at all. False for a seeded key and for scores = "source".
    """

    mechanism: Annotated[str, base.OneOf(MECHANISM)]
    adjacency: base.Adjacency
    per: base.Per
    epsilon: base.Positive
    delta: base.Delta
    label_count: Annotated[int, base.WholeNumber(2, below=_MOST_LABELS + 1)]
    labels_digest: base.Digest
    truth_values: Annotated[int, base.WholeNumber(1, below=base.WORDS)]
    other_values: Annotated[int, base.WholeNumber(1, below=base.WORDS)]
    answers: base.Count
    scores: Annotated[str, base.OneOf(*SCORES)]
    grade: base.Exact
    key_source: base.KeySource
    cipher: base.Cipher
    rounds: base.Rounds
    format_version: base.FormatVersion
    is_dp_claim: base.Flag
    library_version: base.Text
    notes: base.Notes = ()
    charge: base.OptionalCharge = None
    codebook: base.OptionalDigest = None
    receipt_version: base.Version = 1
    receipt_kind: Annotated[str, base.OneOf(LABELS_KIND)] = LABELS_KIND

    _text_numbers = ("truth_values", "other_values")
    _shuffled = "answers by this law over these labels"

    @property
    def loss(self) -> PrivacyLoss | Repeated:
        """That of one answer, as often as one person gave one: computed from the law, not from the stated epsilon, for several.

        Meaningful if `verify_receipt` found that the receipt holds.
        """
        return self._loss_of(base.rows_per_person(self.per, self.answers))

    def _otherwise(self) -> str:
        return "with a secret key if the labels alone were released" if self.scores == "source" else "with a secret key"

    def _why_no_claim(self) -> list[str]:
        return [*([NOTE_SOURCE] if self.scores == "source" else []), *super()._why_no_claim()]

    @property
    def unit(self) -> float | None:
        return base.unit_of(self.per, self.answers)

    def _faults(self) -> list[str]:
        """The law's ratio is one of whole numbers; its logarithm, times the answers of one person, is rounded up in 80 digits."""
        faults = self._delta_faults()
        truth, other, k = self.truth_values, self.other_values, self.label_count
        if truth + (k - 1) * other != base.WORDS:
            return [*faults, f"truth_values + {k - 1} other_values must be 2^64 for {k} labels, got {truth + (k - 1) * other}"]
        if truth < other:
            return [*faults, f"truth_values must be >= other_values, got {truth} and {other}"]
        needed = log_ratio_up(truth, other, times=base.rows_per_person(self.per, self.answers))
        if needed > Decimal(self.epsilon):
            stated = f"more than the {self.epsilon!r} stated"
            faults.append(f"truth_values / other_values gives epsilon = {needed:.6g} for {self._unit}, {stated}")
        return faults

    @property
    def _unit(self) -> str:
        return "one answer" if self.per == "record" or self.answers == 1 else f"all {self.answers} answers of one person"

    def _guarantee(self, verb: str) -> str:
        return f"({self.epsilon!r}, 0.0)-DP under replacement of what is behind {self._unit} {verb}"

    def _described(self) -> tuple[str, str, base.Facts]:
        unit = "one answer (every answer is about another person)"
        if self.per == "release":
            unit = f"{base.all_of(self.answers, 'answer')} (one person)"
        truth = f"true with chance {share(self.truth_values / base.WORDS)}, each other label {share(self.other_values / base.WORDS)}"
        facts = [
            ("mechanism", f"randomized response: {truth}"),
            ("answers", f"{self.answers:,}, each one of {self.label_count:,} labels; scores: {self.scores}"),
            ("labels", f"SHA-256 {base.short(self.labels_digest)}"),
        ]
        if self.codebook is not None:
            facts.append(("public codebook", f"SHA-256 {base.short(self.codebook)}"))
        return "Receipt of private labels", unit, facts


def receipt_of_answers(
    answering: RandomizedResponse, generator: _core.Generator, *, on_device: bool = False, **stated: Any
) -> LabelReceipt:
    """Return the receipt of answers by this law; `stated` are the fields that do not follow from law and generator."""
    truth, other = answering.law
    return LabelReceipt(
        mechanism=MECHANISM, adjacency=ADJACENCY, delta=0.0, label_count=answering.k, truth_values=truth, other_values=other,
        grade="exact", **base.key_fields(generator, on_device=on_device), library_version=_core.__version__, **stated,
    )


RowReceipt = Receipt | LabelReceipt
"""Receipts of a release of rows: noisy vectors, or codes of a public codebook."""


def row_receipt(fields: Mapping[str, Any]) -> RowReceipt:
    """The receipt of a release of rows, from its fields; `ReceiptError` for one of another kind."""
    return LabelReceipt.from_dict(fields) if fields.get("receipt_kind") == LABELS_KIND else Receipt.from_dict(fields)


def released_rows(receipt: RowReceipt) -> int:
    """How many rows the release has."""
    return receipt.rows if isinstance(receipt, Receipt) else receipt.answers


def labels_digest(labels: Sequence[Hashable]) -> str:
    """SHA-256 of a list of labels as JSON: ASCII, without spaces, in the order given.

    Args:
        labels: str, int, float and bool.

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
