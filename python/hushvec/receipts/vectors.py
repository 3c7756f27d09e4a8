"""Receipts of vectors: what a release of rows did, and the guarantee that follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from hushvec._native import _core
from hushvec._util.rounding import quotient_down
from hushvec.errors import ReceiptError
from hushvec.mechanisms import MECHANISMS, PrivUnit, sensitivity
from hushvec.mechanisms.int8 import SATURATION, gaussian_saturation, privunit_saturation
from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon
from hushvec.receipts.base import (
    CLIP_NORM_RULE,
    NOTE_FLOAT,
    PER,
    SHARED_RULES,
    LedgerEntry,
    ReceiptFields,
    Verification,
    delta_faults,
    rows_per_person,
    verification,
    with_cipher,
)
from hushvec.receipts.fields import Number, OneOf, WholeNumber, boolean, optional_digest, require_fields

if TYPE_CHECKING:
    from typing_extensions import Self

    from hushvec.accounting import PrivacyLoss

# Two computers' bounds may differ by this, relative: they are stated with more room.
_SATURATION_MARGIN = 1e-9

RECEIPT_VERSION = 1
INT8 = "int8"
# Fields of int8 releases: receipts of other values do not have them.
_OF_INT8 = ("saturation", "saturation_probability")


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
        grid: the power of two that exact values are multiples of; None for the float grade. int8 values are to be multiplied by it.
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
        saturation: (-127, 127) for int8 values, which end there; None for all others.
        saturation_probability: for int8 an upper bound on the expected share of a clipped row's values that saturate, whatever
            the row is; None for all others.

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
    saturation: tuple[int, int] | None = None
    saturation_probability: float | None = None
    receipt_version: int = RECEIPT_VERSION

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _OF_INT8:
            if (getattr(self, name) is None) == (self.dtype == INT8):
                rule = "given" if self.dtype == INT8 else "left out"
                raise ReceiptError(f"{name} must be {rule} with dtype {self.dtype!r}")

    @classmethod
    def _field_rules(cls) -> Mapping[str, Callable[[str, Any], None]]:
        return _FIELD_RULES

    def _why_no_claim(self) -> list[str]:
        return [*([NOTE_FLOAT] if self.grade == "float" else []), *super()._why_no_claim()]

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        if self.dtype != INT8:
            return {name: value for name, value in fields.items() if name not in _OF_INT8}
        return {**fields, "saturation": list(fields["saturation"])}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        fields = with_cipher(fields)
        if isinstance(fields, Mapping) and fields.get("dtype") != INT8:
            require_fields(fields, [field.name for field in dataclasses.fields(cls) if field.name not in _OF_INT8])
            fields = {**fields, **dict.fromkeys(_OF_INT8)}
        return super().from_dict(fields)

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        limits = fields["saturation"]
        return {**super()._read(fields), "saturation": tuple(limits) if isinstance(limits, list) else limits}

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of the release, for `hushvec.accounting.compose`: computed from its noise, not from the stated epsilon.

        Meaningful if `verify_receipt` found that the receipt holds. Without a claim it is the loss of the mechanism over the
        reals.
        """
        from hushvec.accounting import GaussianDP, PureDP

        if _is_gaussian(self) and self.sigma is not None:
            return GaussianDP(noise_multiplier=quotient_down(self.sigma, _sensitivity(self)), adjacency=self.adjacency)
        return PureDP(epsilon=self.epsilon, adjacency=self.adjacency)


def verify_vector_receipt(receipt: Receipt) -> Verification:
    """The answer of `verify_receipt` for a receipt of vectors."""
    return verification(
        receipt,
        [*_setting_faults(receipt), *_noise_faults(receipt), *_grade_faults(receipt), *_int8_faults(receipt)],
        partial(_guarantee, receipt),
        basis="parameters",
        otherwise="would hold in real arithmetic with a secret key",
    )


def _is_gaussian(receipt: Receipt) -> bool:
    return MECHANISMS[receipt.mechanism].law == "gaussian"


def _setting_faults(receipt: Receipt) -> list[str]:
    """Contradictions in the setting: sensitivity, norm, delta, normalization."""
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
    if not _is_gaussian(receipt):
        faults += delta_faults(receipt)
    elif receipt.delta == 0:
        faults.append(f"delta must be > 0 for {receipt.mechanism}, got 0.0")
    if kind.directions_only and not receipt.normalize:
        faults.append(f"normalize must be true for {receipt.mechanism}, which releases directions")
    elif not kind.directions_only and receipt.normalize and receipt.clip_norm != 1:
        faults.append(f"clip_norm must be 1.0 with normalize, got {receipt.clip_norm!r}")
    return faults


def _noise_faults(receipt: Receipt) -> list[str]:
    """Contradictions in the noise: its parameter, its grid, its guarantee."""
    name = MECHANISMS[receipt.mechanism].parameter_name
    other = {"sigma": "scale", "scale": "sigma"}[name]
    parameter = getattr(receipt, name)
    if parameter is None:
        return [f"{name} must be given for {receipt.mechanism}"]
    faults = []
    if getattr(receipt, other) is not None:
        faults.append(f"{other} must be null for {receipt.mechanism}, got {getattr(receipt, other)!r}")
    faults += _grid_faults(receipt, name, parameter)
    if receipt.mechanism == PrivUnit.name:
        return faults + _privunit_faults(receipt)
    for field in ("cap_probability", "threshold"):
        if getattr(receipt, field) is not None:
            faults.append(f"{field} must be null for {receipt.mechanism}, got {getattr(receipt, field)!r}")
    return faults + (_gaussian_faults(receipt, parameter) if name == "sigma" else _laplace_faults(receipt, parameter))


def _grid_faults(receipt: Receipt, name: str, parameter: float) -> list[str]:
    try:
        used, grid = _grid(receipt, parameter)
    except ValueError as error:
        return [str(error)]
    if used != parameter:
        return [f"{name} must be a float32, got {parameter!r}"]
    expected = grid if receipt.grade == "exact" else None
    if receipt.grid != expected:
        law = "threshold" if receipt.mechanism == PrivUnit.name and receipt.dtype == INT8 else "clip_norm"
        return [f"grid must be {expected!r} for this {name}, {law} and {_form(receipt)}, got {receipt.grid!r}"]
    return []


def _form(receipt: Receipt) -> str:
    return "int8 values" if receipt.dtype == INT8 else "grade"


def _grid(receipt: Receipt, parameter: float) -> tuple[float, float]:
    """The sigma or scale as used, and the grid of exact values."""
    directions = receipt.mechanism == PrivUnit.name
    if receipt.dtype != INT8:
        return _core.privunit_grid(parameter) if directions else _core.exact_grid(parameter, receipt.clip_norm)
    if directions:
        return _core.privunit_int8_grid(parameter, receipt.threshold or 0.0)
    return _core.int8_grid(parameter, receipt.clip_norm)


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
    square = one_person**2 * (receipt.dimension if MECHANISMS[receipt.mechanism].sensitivity_norm == "l1" else 1)
    if (Fraction(scale) * Fraction(receipt.epsilon)) ** 2 >= square:
        return []
    distance = _sensitivity(receipt)
    return [
        f"scale = {scale!r} at {receipt.sensitivity_norm.upper()} sensitivity {distance!r} gives "
        f"epsilon = {distance / scale:.6g}, more than the {receipt.epsilon!r} stated"
    ]


def _grade_faults(receipt: Receipt) -> list[str]:
    if receipt.grade == "exact" and MECHANISMS[receipt.mechanism].grade != "exact":
        return [f"grade must be 'float' for {receipt.mechanism}: it has no exact form"]
    return []


def _int8_faults(receipt: Receipt) -> list[str]:
    """Contradictions of int8 values, on the grid that was checked before."""
    if receipt.dtype != INT8:
        return []
    if receipt.mechanism != PrivUnit.name and not _is_gaussian(receipt):
        return [f"dtype must not be 'int8' for {receipt.mechanism}"]
    if receipt.grade != "exact":
        return [f"grade must be 'exact' with dtype 'int8', got {receipt.grade!r}"]
    faults = ["renormalize must be false with dtype 'int8'"] if receipt.renormalize else []
    needed = _saturation(receipt)
    stated = receipt.saturation_probability
    if needed is not None and stated is not None and stated < needed * (1 - _SATURATION_MARGIN):
        faults.append(f"saturation_probability must be >= {needed!r} for this noise, clip_norm and dimension, got {stated!r}")
    return faults


def _saturation(receipt: Receipt) -> float | None:
    """What `saturation_probability` has to be at least; None where a number that it depends on is missing."""
    if receipt.sigma is None or receipt.grid is None:
        return None
    if receipt.mechanism != PrivUnit.name:
        return gaussian_saturation(receipt.sigma, receipt.clip_norm, receipt.grid, receipt.dimension)
    if receipt.cap_probability is None or receipt.threshold is None:
        return None
    return privunit_saturation(receipt.sigma, receipt.cap_probability, receipt.threshold, receipt.grid, receipt.dimension)


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


def _optional_saturation(name: str, value: Any) -> None:
    if value is not None and not (type(value) is tuple and value == SATURATION and all(type(end) is int for end in value)):
        raise ReceiptError(f"{name} must be [-127, 127] or null, got {value!r:.60}")


_POSITIVE = Number("> 0 and finite", lambda value: value > 0)
_OPTIONAL_POSITIVE = Number("> 0 and finite, or null", lambda value: value > 0, optional=True)

_FIELD_RULES: dict[str, Callable[[str, Any], None]] = {
    **SHARED_RULES,
    "mechanism": OneOf(*MECHANISMS),
    "per": OneOf(*PER),
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
    "dtype": OneOf("float32", "float64", "float16", "bfloat16", INT8),
    "normalize": boolean,
    "renormalize": boolean,
    "nonfinite": OneOf("raise"),
    "projection": optional_digest,
    "saturation": _optional_saturation,
    "saturation_probability": Number("> 0 and <= 1, or null", lambda value: 0 < value <= 1, optional=True),
    "receipt_version": OneOf(RECEIPT_VERSION),
}
