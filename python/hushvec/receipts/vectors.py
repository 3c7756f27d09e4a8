"""Receipts of vectors: what a release of rows did, and the guarantee that follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from hushvec._util.display import at_least, number
from hushvec.accounting import PrivacyLoss, PureDP, Repeated
from hushvec.errors import ReceiptError
from hushvec.mechanisms import VectorMechanism, known_mechanisms
from hushvec.mechanisms.base import sensitivity_of
from hushvec.mechanisms.int8 import SATURATION
from hushvec.noise.discrete import DTYPES
from hushvec.receipts import base

_OptionalShare = Annotated[float | None, base.Number("> 0 and <= 1, or null", lambda value: 0 < value <= 1, optional=True)]

# Two computers' bounds may differ by this, relative: they are stated with more room.
_SATURATION_MARGIN = 1e-9

# Fields for the numbers of a law. A mechanism has some of them, and the others are null.
LAW_NUMBERS = ("sigma", "scale", "cap_probability", "threshold")

INT8 = "int8"
# Fields of int8 releases: receipts of other values do not have them.
_OF_INT8 = ("saturation", "saturation_probability")


def _optional_saturation(name: str, value: Any) -> None:
    if value is not None and not (type(value) is tuple and value == SATURATION and all(type(end) is int for end in value)):
        raise ReceiptError(f"{name} must be [-127, 127] or null, got {value!r:.60}")


class _KnownMechanism(base.OneOf):
    """A name of a mechanism of vectors, those that were registered included."""

    def __init__(self) -> None:
        self.accepted = known_mechanisms()  # which `register` adds to


@dataclass(frozen=True, kw_only=True)
class Receipt(base.ReceiptFields):
    """The record of one release: parameters as used, and the guarantee they give.

    Fields that are not listed mean what they do in every receipt: `hushvec.receipts.base.ReceiptFields`.

    Args:
        mechanism: "gaussian", "laplacian", "l2_laplace", "privunit", "empirical", "discrete_gaussian" or "discrete_laplacian".
        per: unit of privacy: "record", every row is another person; "release", all rows are one person.
        delta: guaranteed delta; 0 for laplacian, l2_laplace, privunit and discrete_laplacian.
        clip_norm: C, the L2 norm that rows were clipped to (L1 for discrete_laplacian); that all rows were brought to for privunit.
        sensitivity: how far one person's clipped data can move, in the norm of sensitivity_norm.
        sensitivity_norm: "l2" or "l1".
        sigma: standard deviation of Gaussian noise as used (privunit: across the direction; discrete_gaussian: the parameter), else
            None. A float32, written out exactly; a float64 for discrete noise.
        scale: scale of Laplace noise as used, else None. Written out like sigma.
        cap_probability, threshold: the law of privunit, else None: docs/proofs/privunit.md.
        grid: the power of two that exact values are multiples of; None for the float grade. int8 values are to be multiplied by it.
        rows: number of rows released.
        dimension: elements in a row.
        dtype: of the released values.
        normalize: rows were brought to unit length before the noise.
        renormalize: rows were brought to unit length after the noise (post-processing).
        nonfinite: what happens to rows with NaN or Inf: "raise", nothing is released.
        projection: SHA-256 of the public map that rows went through before the mechanism, or None.
        saturation: (-127, 127) for int8 values, which end there; None for all others.
        saturation_probability: for int8 an upper bound on the expected share of a clipped row's values that saturate, whatever
            the row is; None for all others.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> receipt = hv.privatize(np.ones((2, 384), np.float32), epsilon=8.0).receipt
        >>> hv.Receipt.from_json(receipt.to_json()) == receipt, hv.verify_receipt(receipt).status
        (True, 'holds')
    """

    mechanism: Annotated[str, _KnownMechanism()]
    adjacency: base.Adjacency
    per: base.Per
    epsilon: base.NotNegative
    delta: base.Delta
    clip_norm: base.ClipNorm
    sensitivity: base.Positive
    sensitivity_norm: Annotated[str, base.OneOf("l1", "l2")]
    sigma: base.OptionalPositive
    scale: base.OptionalPositive
    cap_probability: Annotated[float | None, base.Number("> 0 and < 1, or null", lambda value: 0 < value < 1, optional=True)]
    threshold: Annotated[float | None, base.Number("in [0, 128], or null", lambda value: 0 <= value <= 128, optional=True)]
    grid: base.OptionalPositive
    grade: base.ExactOrFloat
    key_source: base.KeySource
    cipher: base.Cipher
    rounds: base.Rounds
    format_version: base.FormatVersion
    rows: base.Count
    dimension: base.CountFromOne
    dtype: Annotated[str, base.OneOf("float32", "float64", "float16", "bfloat16", INT8, *DTYPES)]
    normalize: base.Flag
    renormalize: base.Flag
    nonfinite: Annotated[str, base.OneOf("raise")]
    is_dp_claim: base.Flag
    library_version: base.Text
    notes: base.Notes = ()
    charge: base.OptionalCharge = None
    projection: base.OptionalDigest = None
    saturation: Annotated[tuple[int, int] | None, _optional_saturation] = None
    saturation_probability: _OptionalShare = None
    receipt_version: base.Version = 1

    _basis = "parameters"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _OF_INT8:
            if (getattr(self, name) is None) == (self.dtype == INT8):
                rule = "given" if self.dtype == INT8 else "left out"
                raise ReceiptError(f"{name} must be {rule} with dtype {self.dtype!r}")

    def _otherwise(self) -> str:
        return "in real arithmetic with a secret key"

    def _why_no_claim(self) -> list[str]:
        return [*([base.NOTE_FLOAT] if self.grade == "float" else []), *super()._why_no_claim()]

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        if self.dtype != INT8:
            return {name: value for name, value in fields.items() if name not in _OF_INT8}
        return {**fields, "saturation": list(fields["saturation"])}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Receipt:
        if isinstance(fields, Mapping) and fields.get("dtype") != INT8:
            base.require_fields(fields, [field.name for field in dataclasses.fields(cls) if field.name not in _OF_INT8])
            fields = {**fields, **dict.fromkeys(_OF_INT8)}
        return super().from_dict(fields)

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        limits = fields["saturation"]
        return {**super()._read(fields), "saturation": tuple(limits) if isinstance(limits, list) else limits}

    @property
    def loss(self) -> PrivacyLoss | Repeated:
        """The privacy loss of the release, for `hushvec.accounting.compose`: computed from its noise, not from the stated epsilon.

        Meaningful if `verify_receipt` found that the receipt holds. Without a claim it is the loss of the mechanism over the reals.
        """
        if self._missing:
            return PureDP(epsilon=self.epsilon, adjacency=self.adjacency)
        mechanism = stated_mechanism(self)
        one, rows = mechanism.row_loss, mechanism.rows_per_person
        if one is None:
            return mechanism.loss
        return one if rows == 1 else Repeated(one, rows)

    @property
    def unit(self) -> float | None:
        return base.unit_of(self.per, self.rows)

    @property
    def _kind(self) -> type[VectorMechanism]:
        return known_mechanisms()[self.mechanism]

    @property
    def _missing(self) -> list[str]:
        """The numbers of its mechanism's law that are not stated."""
        return [name for name in self._kind.law_names if getattr(self, name) is None]

    def _faults(self) -> list[str]:
        faults = [*self._setting_faults(), *self._noise_faults()]
        if self.grade == "exact" and self._kind.grade != "exact":
            faults.append(f"grade must be 'float' for {self.mechanism}: it has no exact form")
        return [*faults, *self._int8_faults()]

    def _described(self) -> tuple[str, str, base.Facts]:
        unit = "one row (every row is another person)" if self.per == "record" else f"{base.all_of(self.rows, 'row')} (one person)"
        size = f"sigma {number(self.sigma)}" if self.sigma is not None else f"scale {number(self.scale)}"
        norm = self._kind.clipped_in.upper()
        length = f"{'brought' if self.normalize else 'clipped'} to length {number(self.clip_norm)} ({norm})"
        values = "floating-point, NOT PROTECTED" if self.grid is None else f"exact, on a grid of {number(self.grid)}"
        if self.saturation_probability is not None:
            values += f"; int8, times the grid; a share of at most {at_least(self.saturation_probability)} saturates"
        if self.renormalize:
            values += "; brought to unit length after the noise"
        facts = [
            ("mechanism", f"{self.mechanism}, {size} in the unit of the rows"),
            ("rows", f"{self.rows:,} x {self.dimension:,} {self.dtype}, {length} before the noise"),
            ("sensitivity", f"{number(self.sensitivity)} ({self.sensitivity_norm.upper()}): the most that one person can change"),
            ("values", values),
        ]
        if self.projection is not None:
            facts.append(("public map", f"SHA-256 {base.short(self.projection)}"))
        return "Receipt of noisy vectors", unit, facts

    @property
    def _may_be_of_half_words(self) -> bool:
        return self.grade == "exact" and self._kind.half_words

    def _setting_faults(self) -> list[str]:
        """Contradictions in the setting: sensitivity, norm, delta, normalization."""
        faults = []
        kind = self._kind
        if self.sensitivity_norm != kind.sensitivity_norm:
            expected = kind.sensitivity_norm
            faults.append(f"sensitivity_norm must be {expected!r} for {self.mechanism}, got {self.sensitivity_norm!r}")
        needed = sensitivity_of(kind, self.clip_norm, base.rows_per_person(self.per, self.rows), self.dimension)
        if self.sensitivity < needed:
            faults.append(
                f"sensitivity must be >= {needed!r} for clip_norm = {self.clip_norm!r}, per = {self.per!r}, "
                f"{self.rows} rows of {self.dimension}, got {self.sensitivity!r}"
            )
        if not kind.takes_delta:
            faults += self._delta_faults()
        elif self.delta == 0:
            faults.append(f"delta must be > 0 for {self.mechanism}, got 0.0")
        if kind.directions_only and not self.normalize:
            faults.append(f"normalize must be true for {self.mechanism}, which releases directions")
        elif not kind.directions_only and self.normalize and self.clip_norm != 1:
            faults.append(f"clip_norm must be 1.0 with normalize, got {self.clip_norm!r}")
        if kind.integers != (self.dtype in DTYPES):
            faults.append(f"dtype must {'' if kind.integers else 'not '}be int64 or int32 for {self.mechanism}, got {self.dtype!r}")
        if kind.integers and (self.normalize or self.renormalize or self.projection is not None):
            faults.append(f"normalize and renormalize must be false and projection be null for {self.mechanism}")
        return faults

    def _noise_faults(self) -> list[str]:
        """Contradictions in the noise: its numbers, its grid, its guarantee."""
        law = self._kind.law_names
        faults = [
            f"{name} must be null for {self.mechanism}, got {getattr(self, name)!r}"
            for name in LAW_NUMBERS
            if getattr(self, name) is not None and name not in law
        ]
        if missing := self._missing:
            return [f"{' and '.join(missing)} must be given for {self.mechanism}", *faults]
        mechanism = stated_mechanism(self)
        halves = self.format_version == base.HALF_WORDS
        faults += mechanism.parameter_faults(self.grade, int8=self.dtype == INT8, half_words=halves)
        return faults + mechanism.claim_faults()

    def _int8_faults(self) -> list[str]:
        """Contradictions of int8 values, on the grid that was checked before."""
        if self.dtype != INT8:
            return []
        if not self._kind.has_int8:
            return [f"dtype must not be 'int8' for {self.mechanism}"]
        if self.grade != "exact":
            return [f"grade must be 'exact' with dtype 'int8', got {self.grade!r}"]
        faults = ["renormalize must be false with dtype 'int8'"] if self.renormalize else []
        stated = self.saturation_probability
        if self.grid is None or stated is None or self._missing:
            return faults
        needed = stated_mechanism(self).saturation_on(self.grid)
        if stated < needed * (1 - _SATURATION_MARGIN):
            faults.append(f"saturation_probability must be >= {needed!r} for this noise, clip_norm and dimension, got {stated!r}")
        return faults

    def _guarantee(self, verb: str) -> str:
        unit = "one row" if self.per == "record" else "all rows of the release"
        return f"({self.epsilon!r}, {self.delta!r})-DP under replacement of {unit} {verb}"


def stated_mechanism(receipt: Receipt) -> VectorMechanism:
    """Return the mechanism with the numbers that the receipt states, for what follows from them: its loss, density and noise."""
    kind = known_mechanisms()[receipt.mechanism]
    numbers = {name: getattr(receipt, name) for name in kind.stated_names}
    numbers["rows_per_person"] = base.rows_per_person(receipt.per, receipt.rows)
    numbers["released_grid"] = receipt.grid
    return kind.stated(numbers)
