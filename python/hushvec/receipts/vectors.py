"""Receipts of vectors: what a release of rows did, and the guarantee that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hushvec._native import _core
from hushvec._util.rounding import quotient_down
from hushvec.mechanisms import MECHANISMS, sensitivity
from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon
from hushvec.receipts.base import (
    CLIP_NORM_RULE,
    DOES_NOT_HOLD,
    HOLDS,
    NOT_A_CLAIM,
    NOTE_FLOAT,
    NOTE_SEED,
    SHARED_RULES,
    LedgerEntry,
    ReceiptFields,
    Verification,
    cipher_faults,
    rows_per_person,
)
from hushvec.receipts.fields import Number, OneOf, WholeNumber, boolean, optional_digest

if TYPE_CHECKING:
    from hushvec.accounting import PrivacyLoss

RECEIPT_VERSION = 1

_GAUSSIANS = ("gaussian", "empirical")
_PRIVUNIT = "privunit"


@dataclass(frozen=True, kw_only=True)
class Receipt(ReceiptFields):
    """The record of one release: parameters as used, and the guarantee they give.

    Args:
        receipt_version: version of these fields, 1.
        format_version: version of the release format, docs/format.md: 2 for "aes256", else 1.
        library_version: hushvec that made the release.
        mechanism: "gaussian", "laplacian", "l2_laplace", "privunit" or "empirical".
        adjacency: "replace-one".
        per: unit of privacy: "record", every row is another person; "release", all rows are one person.
        epsilon: guaranteed epsilon.
        delta: guaranteed delta; 0 for laplacian, l2_laplace and privunit.
        clip_norm: C, the L2 norm that rows were clipped to; that all rows were brought to for privunit.
        sensitivity: how far one person's clipped data can move, in the norm of sensitivity_norm.
        sensitivity_norm: "l2" or "l1".
        sigma: standard deviation of Gaussian noise as used (privunit: across the direction), else None. A float32, written out
            exactly.
        scale: scale of Laplace noise as used, else None. A float32, written out exactly.
        cap_probability, threshold: the law of privunit, else None: docs/proofs/privunit.md.
        grid: the power of two that exact values are multiples of; None for the float grade.
        grade: "exact" or "float".
        key_source: "os" or "seed".
        cipher: of the key stream: "aes256", "chacha20", "chacha12" or "chacha8".
        rounds: of the cipher: 14, 20, 12 or 8.
        rows: number of rows released.
        dimension: elements in a row.
        dtype: of the released values.
        normalize: rows were brought to unit length before the noise.
        renormalize: rows were brought to unit length after the noise (post-processing).
        nonfinite: what happens to rows with NaN or Inf: "raise", nothing is released.
        charge: the row of a budget's ledger that paid for the release, or None.
        projection: SHA-256 of the public map that rows went through before the mechanism, or None.
        is_dp_claim: whether the numbers are claimed at all. False for a seeded key and for the float grade.
        notes: what else a reader should know, in plain words.

    Raises:
        ReceiptError: a field of the wrong kind or out of its set of values.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> receipt = hv.privatize(np.ones((2, 384), np.float32), epsilon=8.0).receipt
        >>> hv.Receipt.from_json(receipt.to_json()) == receipt
        True
    """

    mechanism: str
    adjacency: str
    per: str
    epsilon: float
    delta: float
    clip_norm: float
    sensitivity: float
    sensitivity_norm: str
    sigma: float | None
    scale: float | None
    cap_probability: float | None
    threshold: float | None
    grid: float | None
    grade: str
    key_source: str
    cipher: str
    rounds: int
    format_version: int
    rows: int
    dimension: int
    dtype: str
    normalize: bool
    renormalize: bool
    nonfinite: str
    is_dp_claim: bool
    library_version: str
    notes: tuple[str, ...] = ()
    charge: LedgerEntry | None = None
    projection: str | None = None
    receipt_version: int = RECEIPT_VERSION

    @classmethod
    def _field_rules(cls) -> Mapping[str, Callable[[str, Any], None]]:
        return _FIELD_RULES

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of the release, for `hushvec.accounting.compose`: of its noise, whatever epsilon it states.

        Meaningful for a receipt that `verify_receipt` found to hold; of the mechanism over the reals for one that claims nothing.
        """
        from hushvec.accounting import GaussianDP, PureDP

        if self.mechanism in _GAUSSIANS and self.sigma is not None:
            return GaussianDP(noise_multiplier=quotient_down(self.sigma, _sensitivity(self)), adjacency=self.adjacency)
        return PureDP(epsilon=self.epsilon, adjacency=self.adjacency)


def verify_vector_receipt(receipt: Receipt) -> Verification:
    """The answer of `verify_receipt` for a receipt of vectors."""
    contradictions = [*_setting_faults(receipt), *_noise_faults(receipt), *cipher_faults(receipt), *_claim_faults(receipt)]
    if contradictions:
        return Verification(DOES_NOT_HOLD, tuple(contradictions))
    if not receipt.is_dp_claim:
        ideal = _guarantee(receipt, "would hold in real arithmetic with a secret key")
        return Verification(NOT_A_CLAIM, (*_why_no_claim(receipt), ideal))
    return Verification(HOLDS, (_guarantee(receipt, "follows from the parameters"),))


def has_sigma(mechanism: str) -> bool:
    """Whether a mechanism's noise is stated as sigma, not as scale."""
    return mechanism in (*_GAUSSIANS, _PRIVUNIT)


def _setting_faults(receipt: Receipt) -> list[str]:
    """What contradicts the mechanism's setting: sensitivity, norm, delta, normalization."""
    faults = []
    kind = MECHANISMS[receipt.mechanism]
    if receipt.sensitivity_norm != kind.sensitivity_norm:
        expected = kind.sensitivity_norm
        faults.append(f"sensitivity_norm must be {expected!r} for {receipt.mechanism}, got {receipt.sensitivity_norm!r}")
    needed = _sensitivity(receipt)
    if receipt.sensitivity < needed:
        faults.append(
            f"sensitivity must be >= {needed!r} for clip_norm = {receipt.clip_norm!r}, per = {receipt.per!r}, "
            f"{receipt.rows} rows of {receipt.dimension}, got {receipt.sensitivity!r}"
        )
    if receipt.mechanism not in _GAUSSIANS and receipt.delta != 0:
        faults.append(f"delta must be 0 for {receipt.mechanism}, got {receipt.delta!r}")
    if receipt.mechanism in _GAUSSIANS and receipt.delta == 0:
        faults.append(f"delta must be > 0 for {receipt.mechanism}, got 0.0")
    if receipt.mechanism == _PRIVUNIT and not receipt.normalize:
        faults.append("normalize must be true for privunit, which releases directions")
    elif receipt.mechanism != _PRIVUNIT and receipt.normalize and receipt.clip_norm != 1:
        faults.append(f"clip_norm must be 1.0 with normalize, got {receipt.clip_norm!r}")
    return faults


def _noise_faults(receipt: Receipt) -> list[str]:
    """What contradicts the noise: the parameter, its grid, and the guarantee that it gives."""
    name, other = ("sigma", "scale") if has_sigma(receipt.mechanism) else ("scale", "sigma")
    parameter = getattr(receipt, name)
    if parameter is None:
        return [f"{name} must be given for {receipt.mechanism}"]
    faults = []
    if getattr(receipt, other) is not None:
        faults.append(f"{other} must be null for {receipt.mechanism}, got {getattr(receipt, other)!r}")
    faults += _grid_faults(receipt, name, parameter)
    if receipt.mechanism == _PRIVUNIT:
        return faults + _privunit_faults(receipt)
    for field in ("cap_probability", "threshold"):
        if getattr(receipt, field) is not None:
            faults.append(f"{field} must be null for {receipt.mechanism}, got {getattr(receipt, field)!r}")
    return faults + (_gaussian_faults(receipt, parameter) if name == "sigma" else _laplace_faults(receipt, parameter))


def _grid_faults(receipt: Receipt, name: str, parameter: float) -> list[str]:
    try:
        if receipt.mechanism == _PRIVUNIT:
            used, grid = _core.privunit_grid(parameter)
        else:
            used, grid = _core.exact_grid(parameter, receipt.clip_norm)
    except ValueError as error:
        return [str(error)]
    if used != parameter:
        return [f"{name} must be a float32, got {parameter!r}"]
    expected = grid if receipt.grade == "exact" else None
    if receipt.grid != expected:
        return [f"grid must be {expected!r} for this {name}, clip_norm and grade, got {receipt.grid!r}"]
    return []


def _gaussian_faults(receipt: Receipt, sigma: float) -> list[str]:
    distance = _sensitivity(receipt)
    delta = gaussian_delta(receipt.epsilon, sigma, distance)
    if receipt.delta == 0 or delta <= receipt.delta:
        return []
    epsilon = gaussian_epsilon(receipt.delta, sigma, distance)
    return [
        f"sigma = {sigma!r} at L2 sensitivity {distance!r} gives delta = {delta:.4g} at epsilon = {receipt.epsilon!r}, "
        f"more than the {receipt.delta!r} stated; at that delta it gives epsilon = {epsilon:.6g}"
    ]


def _privunit_faults(receipt: Receipt) -> list[str]:
    """epsilon is the sum over the person's rows; sigma only scales the result and carries no guarantee."""
    if receipt.cap_probability is None or receipt.threshold is None:
        return ["cap_probability and threshold must be given for privunit"]
    try:
        one_row = _core.privunit_epsilon(receipt.cap_probability, receipt.threshold)
    except ValueError as error:
        return [str(error)]
    rows = rows_per_person(receipt.per, receipt.rows)
    if Fraction(one_row) * rows <= Fraction(receipt.epsilon):
        return []
    return [
        f"cap_probability = {receipt.cap_probability!r} at threshold = {receipt.threshold!r} gives epsilon = "
        f"{one_row * rows:.6g}, more than the {receipt.epsilon!r} stated"
    ]


def _laplace_faults(receipt: Receipt, scale: float) -> list[str]:
    one_person = 2 * Fraction(receipt.clip_norm) * rows_per_person(receipt.per, receipt.rows)
    square = one_person**2 * (receipt.dimension if receipt.mechanism == "laplacian" else 1)
    if (Fraction(scale) * Fraction(receipt.epsilon)) ** 2 >= square:
        return []
    distance = _sensitivity(receipt)
    return [
        f"scale = {scale!r} at {receipt.sensitivity_norm.upper()} sensitivity {distance!r} gives "
        f"epsilon = {distance / scale:.6g}, more than the {receipt.epsilon!r} stated"
    ]


def _claim_faults(receipt: Receipt) -> list[str]:
    """A claim where there can be none, and a grade that the mechanism does not have."""
    faults = []
    if receipt.grade == "exact" and MECHANISMS[receipt.mechanism].grade != "exact":
        faults.append(f"grade must be 'float' for {receipt.mechanism}: it has no exact form")
    if receipt.is_dp_claim:
        faults += [f"is_dp_claim must be false: {reason}" for reason in _why_no_claim(receipt)]
    return faults


def _why_no_claim(receipt: Receipt) -> list[str]:
    reasons = []
    if receipt.grade == "float":
        reasons.append(NOTE_FLOAT)
    if receipt.key_source == "seed":
        reasons.append(NOTE_SEED)
    if not reasons and not receipt.is_dp_claim:
        reasons.append("the receipt itself makes no claim")
    return reasons


def _sensitivity(receipt: Receipt) -> float:
    return sensitivity(
        receipt.mechanism,
        clip_norm=receipt.clip_norm,
        rows_per_person=rows_per_person(receipt.per, receipt.rows),
        dimension=receipt.dimension,
    )


def _guarantee(receipt: Receipt, verb: str) -> str:
    unit = "one row" if receipt.per == "record" else "all rows of the release"
    return f"({receipt.epsilon!r}, {receipt.delta!r})-DP under replacement of {unit} {verb}"


_POSITIVE = Number("> 0 and finite", lambda value: value > 0)
_OPTIONAL_POSITIVE = Number("> 0 and finite, or null", lambda value: value > 0, optional=True)

_FIELD_RULES: dict[str, Callable[[str, Any], None]] = {
    **SHARED_RULES,
    "mechanism": OneOf(*MECHANISMS),
    "per": OneOf("record", "release"),
    "epsilon": Number(">= 0 and finite", lambda value: value >= 0),
    "clip_norm": CLIP_NORM_RULE,
    "sensitivity": _POSITIVE,
    "sensitivity_norm": OneOf("l1", "l2"),
    "sigma": _OPTIONAL_POSITIVE,
    "scale": _OPTIONAL_POSITIVE,
    "cap_probability": Number("> 0 and < 1, or null", lambda value: 0 < value < 1, optional=True),
    "threshold": Number("in [0, 128], or null", lambda value: 0 <= value <= 128, optional=True),
    "grid": _OPTIONAL_POSITIVE,
    "grade": OneOf("exact", "float"),
    "rows": WholeNumber(0),
    "dimension": WholeNumber(1),
    "dtype": OneOf("float32", "float64", "float16", "bfloat16"),
    "normalize": boolean,
    "renormalize": boolean,
    "nonfinite": OneOf("raise"),
    "projection": optional_digest,
    "receipt_version": OneOf(RECEIPT_VERSION),
}
