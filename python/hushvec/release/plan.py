"""A release without its rows: every argument of `privatize` checked, the mechanism chosen, the receipt prepared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hushvec._native import _core, arrays, rowwise
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec.mechanisms import (
    MECHANISMS,
    EmpiricalGaussian,
    Gaussian,
    L2Laplace,
    Laplacian,
    Mechanism,
    PrivUnit,
    VectorMechanism,
)
from hushvec.mechanisms.int8 import SATURATION
from hushvec.noise.fills import clip
from hushvec.receipts.base import NOTE_FLOAT, NOTE_SEED, key_fields, rows_per_person
from hushvec.receipts.labels import MECHANISM as RANDOMIZED_RESPONSE
from hushvec.receipts.labels import LabelReceipt, RowReceipt, labels_digest
from hushvec.receipts.vectors import INT8, Receipt

if TYPE_CHECKING:
    from hushvec.mechanisms import CodebookResponse, PublicProjection

NOTE_EMPIRICAL = "sigma was chosen by the caller; epsilon is what it buys at this delta"
NOTE_PROJECTION = "rows went through the public map named by projection; it is taken to be independent of them"
NOTE_CODEBOOK = "rows were answered by a code of the public codebook named by codebook; it is taken to be independent of them"
NOTE_RELEASE = "all rows are about one person; their number is treated as public"


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """A release with every argument checked and every parameter fixed, for rows that may come in parts.

    Made by `plan_release`. For `per="record"` the parts are those of one release: rows are different people. For
    `per="release"` the noise was computed for the total number of rows, which the parts must not exceed.
    """

    mechanism: Mechanism
    per: str
    dtype: str
    normalize: bool
    renormalize: bool
    generator: _core.Generator

    def run(self, x: Any, *, first_row: int = 0, finite: bool = False) -> Any:
        """The noisy version of x, a new array.

        Args:
            x: rows as planned: same dimension and dtype.
            first_row: number of x's first row in the whole input; an error about a row counts by it.
            finite: x is known to be. Otherwise unit rows are checked as they are made, and other rows by the kernels of the noise.
        """
        if self.normalize:
            target = arrays.empty_like(x)
            source = rowwise.unit_rows(x, target) if finite else rowwise.checked_unit_rows("x", x, target, first_row=first_row)
        else:
            source, target = x, None
        if self.dtype == INT8:
            target = arrays.new_array(x, tuple(x.shape), dtype=INT8)
        try:
            values = self.mechanism.apply(source, target, self.generator, out_is_fresh=True)
        except ValueError:
            if first_row > 0:  # kernels count from the first row of x
                rowwise.require_finite("x", source, first_row=first_row)
            raise
        return rowwise.unit_rows(values, values) if self.renormalize else values

    def without_noise(self, x: Any) -> Any:
        """The rows before the noise: directions of length clip_norm, or clipped rows. As private as x.

        Args:
            x: as for `run`.
        """
        values = arrays.empty_like(x)
        if self.normalize or self.mechanism.directions_only:
            rowwise.checked_unit_rows("x", x, values)
            values *= self.mechanism.clip_norm
        else:
            clip(x, self.mechanism.clip_norm, out=values)
        if self.renormalize:
            rowwise.unit_rows(values, values)
        return values

    @property
    def is_dp_claim(self) -> bool:
        return self.mechanism.grade == "exact" and not self.generator.seeded

    def receipt(
        self, rows: int, *, on_device: bool = False, notes: tuple[str, ...] = (), projection: PublicProjection | None = None
    ) -> RowReceipt:
        """The receipt of a release of `rows` rows in total, with further notes of the caller and the map before the mechanism.

        Raises:
            ValueError: a projection with a codebook; `on_device`, for rows in CUDA memory, and the generator was asked for AES-256.
        """
        if isinstance(self.mechanism, VectorMechanism):
            return self.vector_receipt(rows, on_device=on_device, notes=notes, projection=projection)
        if projection is not None:
            raise ValueError("projection must be None with a codebook: fit the codebook on rows behind it, and release such rows")
        return self._label_receipt(rows, on_device, notes)

    def _label_receipt(self, rows: int, on_device: bool, notes: tuple[str, ...]) -> LabelReceipt:
        mechanism: CodebookResponse = self.mechanism  # type: ignore[assignment]
        truth, other = mechanism.response.law
        return LabelReceipt(
            mechanism=RANDOMIZED_RESPONSE,
            adjacency=mechanism.adjacency,
            per=self.per,
            epsilon=mechanism.epsilon,
            delta=0.0,
            label_count=len(mechanism.codebook),
            labels_digest=_digest_of_codes(len(mechanism.codebook)),
            truth_values=truth,
            other_values=other,
            answers=rows,
            scores="none",
            grade=mechanism.grade,
            **key_fields(self.generator, on_device=on_device),
            is_dp_claim=self.is_dp_claim,
            library_version=_core.__version__,
            notes=(*self._notes(), NOTE_CODEBOOK, *notes),
            codebook=mechanism.codebook.digest,
        )

    def vector_receipt(
        self, rows: int, *, on_device: bool = False, notes: tuple[str, ...] = (), projection: PublicProjection | None = None
    ) -> Receipt:
        """`receipt` for mechanisms that release noisy vectors."""
        mechanism = self.mechanism
        assert isinstance(mechanism, VectorMechanism)
        epsilon, delta = mechanism.cost
        return Receipt(
            mechanism=mechanism.name,
            adjacency=mechanism.adjacency,
            per=self.per,
            epsilon=epsilon,
            delta=delta,
            clip_norm=mechanism.clip_norm,
            sensitivity=mechanism.sensitivity,
            sensitivity_norm=mechanism.sensitivity_norm,
            sigma=mechanism.noise_parameter if mechanism.parameter_name == "sigma" else None,
            scale=mechanism.noise_parameter if mechanism.parameter_name == "scale" else None,
            cap_probability=mechanism.cap_probability if isinstance(mechanism, PrivUnit) else None,
            threshold=mechanism.threshold if isinstance(mechanism, PrivUnit) else None,
            grid=mechanism.int8_grid if self.dtype == INT8 else mechanism.grid,
            grade=mechanism.grade,
            **key_fields(self.generator, on_device=on_device),
            rows=rows,
            dimension=mechanism.dimension,
            dtype=self.dtype,
            normalize=self.normalize or mechanism.directions_only,
            renormalize=self.renormalize,
            nonfinite="raise",
            is_dp_claim=self.is_dp_claim,
            library_version=_core.__version__,
            notes=(*self._notes(), *((NOTE_PROJECTION,) if projection is not None else ()), *notes),
            projection=None if projection is None else projection.digest,
            saturation=SATURATION if self.dtype == INT8 else None,
            saturation_probability=mechanism.int8_saturation if self.dtype == INT8 else None,
        )

    def _notes(self) -> tuple[str, ...]:
        applies = {
            NOTE_FLOAT: self.mechanism.grade == "float",
            NOTE_SEED: self.generator.seeded,
            NOTE_EMPIRICAL: isinstance(self.mechanism, EmpiricalGaussian),
            NOTE_RELEASE: self.per == "release",
        }
        return tuple(note for note, holds in applies.items() if holds)


_digest_of_codes = lru_cache(maxsize=64)(lambda count: labels_digest(range(count)))


def plan_release(
    *,
    rows: int,
    dimension: int,
    dtype: str,
    epsilon: float | None,
    delta: float,
    clip_norm: float,
    mechanism: str | Mechanism,
    sigma: float | None,
    normalize: bool,
    renormalize: bool,
    per: str,
    generator: _core.Generator | None,
    values_dtype: str | None = None,
) -> ReleasePlan:
    """Check every argument of `privatize` but the rows themselves. `rows` counts all of them; only per="release" uses it.

    Args:
        dtype: of the rows.
        values_dtype: of the released values: that of the rows if None, or "int8".
    """
    source = require_generator(generator)
    validate.rounding_to_nearest()
    if dimension < 1:
        raise ValueError("x must have at least 1 column, got 0")
    rows_of_one = rows_per_person(per, rows)
    if isinstance(mechanism, Mechanism):
        chosen = _require_fit(mechanism, epsilon, sigma, dimension, rows_of_one)
    else:
        validate.choice("mechanism", mechanism, MECHANISMS)
        setting = {"dimension": dimension, "clip_norm": validate.clip_norm(clip_norm), "rows_per_person": rows_of_one}
        chosen = _BUILDERS[mechanism](epsilon, delta, sigma, setting)
    if validate.flag("normalize", normalize) and chosen.clip_norm != 1:
        raise ValueError(f"clip_norm must be 1.0 with normalize=True, got {chosen.clip_norm!r}")
    released_dtype = dtype if values_dtype is None else _int8(values_dtype, chosen, renormalize)
    return ReleasePlan(
        mechanism=chosen,
        per=per,
        dtype=released_dtype,
        normalize=normalize,
        renormalize=validate.flag("renormalize", renormalize),
        generator=source,
    )


def _require_fit(
    mechanism: Mechanism, epsilon: float | None, sigma: float | None, dimension: int, rows_of_one: int
) -> Mechanism:
    """A mechanism made by the caller, for this input."""
    if epsilon is not None or sigma is not None:
        raise ValueError("epsilon and sigma must be left out with a mechanism object, which has its own")
    if mechanism.dimension != dimension:
        raise ValueError(f"mechanism.dimension must be {dimension}, the columns of x, got {mechanism.dimension}")
    if mechanism.rows_per_person != rows_of_one:
        raise ValueError(f"mechanism.rows_per_person must be {rows_of_one} for this input, got {mechanism.rows_per_person}")
    return mechanism


def _int8(dtype: str, mechanism: Mechanism, renormalize: bool) -> str:
    """The dtype of released integers, after a check that the mechanism makes them."""
    if dtype != INT8:
        raise ValueError(f"dtype must be None or 'int8', got {dtype!r}")
    if renormalize:
        raise ValueError("renormalize must be False with dtype='int8': unit rows are no multiples of a grid")
    _ = mechanism.int8_grid  # raises where there is none
    return INT8


def _needed(name: str, value: float | None, mechanism: str) -> float:
    if value is None:
        raise TypeError(f"{name} must be given for mechanism {mechanism!r}")
    return validate.positive(name, value)


def _no_sigma(sigma: float | None, mechanism: str) -> None:
    if sigma is not None:
        raise ValueError(f"sigma must be None for mechanism {mechanism!r}, which needs none ('empirical' does), got {sigma!r}")


def _gaussian(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    _no_sigma(sigma, "gaussian")
    return Gaussian(epsilon=_needed("epsilon", epsilon, "gaussian"), delta=validate.delta(delta), **setting)


def _laplacian(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    _no_sigma(sigma, "laplacian")
    validate.delta(delta, zero_allowed=True)
    return Laplacian(epsilon=_needed("epsilon", epsilon, "laplacian"), **setting)


def _l2_laplace(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    _no_sigma(sigma, "l2_laplace")
    validate.delta(delta, zero_allowed=True)
    return L2Laplace(epsilon=_needed("epsilon", epsilon, "l2_laplace"), **setting)


def _privunit(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    _no_sigma(sigma, "privunit")
    validate.delta(delta, zero_allowed=True)
    return PrivUnit(epsilon=_needed("epsilon", epsilon, "privunit"), **setting)


def _empirical(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    mechanism = EmpiricalGaussian(chosen_sigma=_needed("sigma", sigma, "empirical"), delta=validate.delta(delta), **setting)
    if epsilon is not None and mechanism.epsilon > validate.positive("epsilon", epsilon):
        raise ValueError(
            f"epsilon must be >= {mechanism.epsilon!r}, what sigma = {sigma!r} buys at delta = {delta!r}, or be left out; "
            f"got {epsilon!r}"
        )
    return mechanism


_Builder = Callable[[float | None, float, float | None, dict[str, Any]], Mechanism]
_BUILDERS: dict[str, _Builder] = {
    "gaussian": _gaussian,
    "laplacian": _laplacian,
    "l2_laplace": _l2_laplace,
    "privunit": _privunit,
    "empirical": _empirical,
}
