"""Receipts of private training: the guarantee of the steps taken so far, and whether it follows from their parameters.

docs/receipts.md describes every field. The field receipt_kind names the kind; receipts of vectors do not have it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from hushvec._util import validate
from hushvec._util.rounding import up
from hushvec.accounting import ADJACENCIES, GaussianDP, PoissonSampledGaussianDP, PrivacyLoss, Repeated, compose
from hushvec.accounting.releases import SampleRange
from hushvec.errors import ReceiptError
from hushvec.receipts.base import (
    CLIP_NORM_RULE,
    NOTE_FLOAT,
    NOTE_SEED,
    SHARED_RULES,
    LedgerEntry,
    ReceiptFields,
    Verification,
    verification,
)
from hushvec.receipts.fields import Number, OneOf, WholeNumber, digest, string

if TYPE_CHECKING:
    from typing_extensions import Self

TRAINING_KIND = "training"
TRAINING_RECEIPT_VERSION = 1
MECHANISM = "dp_sgd"
CLIPPED = ("example", "batch")
CLIPPINGS = ("auto", "exact", "estimated", "batch")

NOTE_NOISE_FREE = "at least one step had no noise: there is no privacy"


@dataclass(frozen=True, kw_only=True)
class TrainingReceipt(ReceiptFields):
    """The record of the steps of one training run, and the guarantee that they give one example.

    Args:
        receipt_kind: "training".
        receipt_version: version of these fields, 1.
        format_version: version of the release format, docs/format.md (section 7 for sums of clipped rows): 2 for "aes256", else 1.
        library_version: hushvec that made the steps.
        mechanism: "dp_sgd": a Poisson sample, clipped, summed, Gaussian noise.
        adjacency: "add-remove": an example is there or not; "replace-one": it is another one.
        epsilon: guaranteed epsilon of all steps taken, of this run alone; None without noise.
        delta: in (0, 1).
        steps: taken so far, those of a journal included; below 2^40.
        planned_steps: the most there can be, or None.
        sampling_probability: of each example in each step, in [2^-64, 1].
        noise_multiplier: sigma / clip_norm, as accounted for.
        clip_norm: C, in the unit of the gradients.
        clipping: "auto", "exact", "estimated": each example. "batch": the gradient of a whole batch.
        sensitivity: of one step's sum in L2, in the unit of the gradients.
        sigma: standard deviation of the noise on the sum, at least noise_multiplier * clip_norm.
        expected_batch_size: what noisy sums were divided by.
        samples: which Poisson samples the steps rest on, by the numbers that their process gave them. Empty where nothing was
            sampled; None where it is not known, as in receipts from before this field.
        theorem: short name of the composition theorem that gave epsilon; empty before the first step and without noise.
        resumed: how often the run resumed from a checkpoint.
        grade: "exact": sums and noise are those of the ideal mechanism, rounded. "float": a sum was made in floating point.
        key_source: "os" or "seed".
        cipher: of the key stream: "aes256", "chacha20", "chacha12" or "chacha8".
        rounds: of the cipher: 14, 20, 12 or 8.
        is_dp_claim: whether the numbers are claimed at all: noise in every step, exact grade, a key of the operating system, a
            model that was watched in every step and has changed in private steps only.
        notes: what else a reader should know, in plain words.
        charge: the row of a budget's ledger that paid for the run, or None.

    Raises:
        ReceiptError: a field of the wrong kind or out of its set of values.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.receipts.training import TrainingReceipt
        >>> receipt = TrainingReceipt(adjacency="add-remove", epsilon=4.4, delta=1e-5, steps=1, sampling_probability=1.0,
        ...     noise_multiplier=1.0, clip_norm=1.0, clipping="auto", sensitivity=1.0, sigma=1.0, expected_batch_size=8.0,
        ...     theorem="single", grade="exact", key_source="os", cipher="chacha20", rounds=20, format_version=1, is_dp_claim=True,
        ...     library_version="0.1.0")
        >>> hv.verify_receipt(receipt).status, TrainingReceipt.from_json(receipt.to_json()) == receipt
        ('holds', True)
    """

    adjacency: str
    epsilon: float | None
    delta: float
    steps: int
    sampling_probability: float
    noise_multiplier: float
    clip_norm: float
    clipping: str
    sensitivity: float
    sigma: float
    expected_batch_size: float
    theorem: str
    grade: str
    key_source: str
    cipher: str
    rounds: int
    format_version: int
    is_dp_claim: bool
    library_version: str
    samples: tuple[SampleRange, ...] | None = None
    planned_steps: int | None = None
    resumed: int = 0
    mechanism: str = MECHANISM
    notes: tuple[str, ...] = ()
    charge: LedgerEntry | None = None
    receipt_version: int = TRAINING_RECEIPT_VERSION
    receipt_kind: str = TRAINING_KIND

    @classmethod
    def _field_rules(cls) -> Mapping[str, Callable[[str, Any], None]]:
        return _FIELD_RULES

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """As of every kind; `samples` may be missing too."""
        return super().from_dict({"samples": None, **fields} if isinstance(fields, Mapping) else fields)

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {**super()._read(fields), "samples": _ranges_of(fields["samples"])}

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        return {**fields, "samples": None if self.samples is None else list(fields["samples"])}

    def __getitem__(self, name: str) -> Any:
        """The JSON form of a field."""
        return self.to_dict()[name]

    @property
    def loss(self) -> Repeated:
        """The privacy loss of a step, and how often it was taken, for `hushvec.accounting.compose`.

        Raises:
            ValueError: there was no step, or no noise.
        """
        if self.steps == 0:
            raise ValueError("steps must be >= 1 for a privacy loss, got 0")
        return Repeated(step_loss(self.noise_multiplier, self.sampling_probability, self.adjacency, self._clipped), self.steps)

    @property
    def has_loss(self) -> bool:
        """Not before the first step, and not without noise."""
        return self.steps > 0 and self.epsilon is not None

    @property
    def rho(self) -> float:
        """What the steps cost in zero-concentrated DP, rounded up. Sampling does not lower it."""
        return up(self.steps * self.loss.item.rho) if self.steps else 0.0

    def _why_no_claim(self) -> list[str]:
        applies = {
            NOTE_NOISE_FREE: self.noise_multiplier == 0,
            NOTE_FLOAT: self.grade == "float",
            NOTE_SEED: self.key_source == "seed",
        }
        return [note for note, holds in applies.items() if holds]

    @property
    def _clipped(self) -> str:
        return "batch" if self.clipping == "batch" else "example"


def sensitivity_factor(adjacency: str, clipped: str, sampling_probability: float) -> int:
    """Sensitivity of a step in clip norms.

    A batch's clipped gradient can be anywhere in the ball, before and after one example changed: 2 clip norms apart. Under
    sampling and replace-one both inputs lie that far from the gradient without the example, which the proved law takes as vectors
    of norm 2 clip_norm (docs/proofs/dp_sgd.md).
    """
    validate.choice("adjacency", adjacency, ADJACENCIES)
    if validate.choice("clipped", clipped, CLIPPED) == "example":
        return 1 if adjacency == "add-remove" else 2
    return 4 if adjacency == "replace-one" and sampling_probability < 1 else 2


def step_loss(noise_multiplier: float, sampling_probability: float, adjacency: str, clipped: str) -> PrivacyLoss:
    """The privacy loss of one step. `hushvec.training.StepSchedule` says what the arguments are."""
    if noise_multiplier == 0:
        raise ValueError("noise_multiplier must be > 0 for a privacy loss, got 0.0")
    multiplier = noise_multiplier / sensitivity_factor(adjacency, clipped, sampling_probability)
    if sampling_probability == 1:
        return GaussianDP(noise_multiplier=multiplier, adjacency=adjacency)
    return PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=sampling_probability, adjacency=adjacency)


def verify_training_receipt(receipt: TrainingReceipt) -> Verification:
    """Compose the steps again, as `hushvec.verify_receipt` does for receipts of every kind.

    Raises:
        MissingExtraError: examples were sampled, and hushvec[accounting] is not installed.
    """
    return verification(
        receipt,
        _faults(receipt),
        partial(_guarantee, receipt),
        basis="steps",
        otherwise="would hold with exact sums and a secret key",
    )


def _faults(receipt: TrainingReceipt) -> list[str]:
    faults = []
    clip_norm = Fraction(receipt.clip_norm)
    factor = sensitivity_factor(receipt.adjacency, receipt._clipped, receipt.sampling_probability)
    if Fraction(receipt.sensitivity) < factor * clip_norm:
        faults.append(f"sensitivity must be >= {factor} clip_norm, got {receipt.sensitivity!r} at {receipt.clip_norm!r}")
    if Fraction(receipt.sigma) < Fraction(receipt.noise_multiplier) * clip_norm:
        faults.append(f"sigma must be >= noise_multiplier * clip_norm, got {receipt.sigma!r}")
    if receipt.planned_steps is not None and receipt.steps > receipt.planned_steps:
        faults.append(f"steps must be at most the {receipt.planned_steps} planned, got {receipt.steps}")
    drawn = None if receipt.samples is None else sum(one.last - one.first + 1 for one in receipt.samples)
    if drawn is not None and drawn < receipt.steps and receipt.sampling_probability < 1:
        faults.append(f"samples must be at least {receipt.steps}, one for each step, got {drawn}")
    if receipt.noise_multiplier == 0 and receipt.steps > 0:
        return faults if receipt.epsilon is None else [*faults, f"epsilon must be null without noise, got {receipt.epsilon!r}"]
    if receipt.epsilon is None:
        return faults if receipt.noise_multiplier == 0 else [*faults, "epsilon must be given where there is noise, got null"]
    needed = _epsilon_of_steps(receipt)
    if needed > receipt.epsilon:
        faults.append(
            f"{receipt.steps} steps of noise_multiplier {receipt.noise_multiplier!r} at sampling_probability "
            f"{receipt.sampling_probability!r} give epsilon = {needed:.6g} at delta = {receipt.delta!r}, more than the "
            f"{receipt.epsilon!r} stated"
        )
    return faults


def _epsilon_of_steps(receipt: TrainingReceipt) -> float:
    if receipt.steps == 0:
        return 0.0
    try:
        return compose([receipt], delta=receipt.delta).epsilon
    except (ValueError, ArithmeticError):  # no theorem has a bound for so little noise
        return math.inf


def _guarantee(receipt: TrainingReceipt, verb: str) -> str:
    if receipt.epsilon is None:
        return "no epsilon is finite without noise"
    kind = {"add-remove": "addition or removal", "replace-one": "replacement"}[receipt.adjacency]
    return f"({receipt.epsilon!r}, {receipt.delta!r})-DP under {kind} of one example in all {receipt.steps} steps {verb}"


def _ranges_of(value: Any) -> Any:
    """The ranges of a list of mappings; anything else is returned as it is, for the field's rule to refuse."""
    known = {field.name for field in dataclasses.fields(SampleRange)}
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, Mapping) and set(one) == known for one in value):
        return value
    return tuple(SampleRange(**one) for one in value)


def _ranges(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, tuple) or not all(isinstance(one, SampleRange) for one in value):
        raise ReceiptError(f"{name} must be null or a list of objects with process, first and last")
    for one in value:
        digest(f"{name}.process", one.process, 32)
        WholeNumber(1)(f"{name}.first", one.first)
        WholeNumber(one.first)(f"{name}.last", one.last)


_POSITIVE = Number("> 0 and finite", lambda value: value > 0)
_NOT_NEGATIVE = Number(">= 0 and finite", lambda value: value >= 0)

_FIELD_RULES: dict[str, Callable[[str, Any], None]] = {
    **SHARED_RULES,
    "mechanism": OneOf(MECHANISM),
    "adjacency": OneOf(*ADJACENCIES),
    "epsilon": Number(">= 0 and finite, or null", lambda value: value >= 0, optional=True),
    "delta": Number("> 0 and < 1", lambda value: 0 < value < 1),
    "steps": WholeNumber(0, 2**40),
    "planned_steps": WholeNumber(1, optional=True),
    "sampling_probability": Number("in [2^-64, 1]", lambda value: validate.SMALLEST_SAMPLING_PROBABILITY <= value <= 1),
    "noise_multiplier": _NOT_NEGATIVE,
    "clip_norm": CLIP_NORM_RULE,
    "clipping": OneOf(*CLIPPINGS),
    "sensitivity": _POSITIVE,
    "sigma": _NOT_NEGATIVE,
    "expected_batch_size": _POSITIVE,
    "samples": _ranges,
    "theorem": string,
    "resumed": WholeNumber(0),
    "grade": OneOf("exact", "float"),
    "receipt_version": OneOf(TRAINING_RECEIPT_VERSION),
    "receipt_kind": OneOf(TRAINING_KIND),
}
