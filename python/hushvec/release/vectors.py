"""`privatize`: check, charge the budget, run the mechanism, write the receipt."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hushvec._native import _core, arrays, rowwise
from hushvec._native.kernels import require_generator
from hushvec._native.rowwise import given_rows
from hushvec._util import validate
from hushvec._util.display import Sheet, array_shown, shown
from hushvec.mechanisms import DiscreteGaussian, Gaussian, Mechanism, VectorMechanism, known_mechanisms, takes_integers
from hushvec.mechanisms.int8 import SATURATION
from hushvec.noise.discrete import DTYPES, whole_rows
from hushvec.receipts.base import HALF_WORDS, NOTE_FLOAT, NOTE_SEED, key_fields, release_sheet, rows_per_person
from hushvec.receipts.labels import RowReceipt, labels_digest, receipt_of_answers, released_rows
from hushvec.receipts.vectors import INT8, LAW_NUMBERS, Receipt
from hushvec.release.charging import Budget, entry_of_charge, require_budget, require_people, require_secret_key

if TYPE_CHECKING:
    from hushvec.mechanisms import CodebookResponse, PublicProjection

NOTE_EMPIRICAL = "sigma was chosen by the caller; epsilon is what it buys at this delta"
NOTE_PROJECTION = (
    "rows went through the public map named by projection; it is taken to be independent of them, or private by another receipt, "
    "which adds to this one"
)
NOTE_CODEBOOK = "rows were answered by a code of the public codebook named by codebook; it is taken to be independent of them"
NOTE_RELEASE = "all rows are about one person; their number is treated as public"


@dataclass(frozen=True)
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
    half_words: bool = True  # False: of the version of the release format before the third, as older jobs are

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
        """The rows before the noise: directions of length clip_norm, or clipped rows. As private as x."""
        if self.normalize or self.mechanism.directions_only:
            values = rowwise.checked_unit_rows("x", x, arrays.empty_like(x))
            values *= self.mechanism.clip_norm
        else:
            values = self.mechanism.clipped(x)
        if self.renormalize:
            rowwise.unit_rows(values, values)
        return values

    def with_values(self, dtype: str) -> ReleasePlan:
        """The same release with values of this dtype, "int8", in place of x's. ValueError where there are none."""
        if dtype != INT8:
            raise ValueError(f"dtype must be None or 'int8', got {dtype!r}")
        if self.renormalize:
            raise ValueError("renormalize must be False with dtype='int8': unit rows are no multiples of a grid")
        _ = self.mechanism.int8_grid  # raises where there is none
        return replace(self, dtype=dtype)

    @property
    def is_dp_claim(self) -> bool:
        return self.mechanism.grade == "exact" and not self.generator.seeded

    def receipt(
        self, rows: int, *, on_device: bool = False, notes: tuple[str, ...] = (), projection: PublicProjection | None = None
    ) -> RowReceipt:
        """The receipt of a release of `rows` rows in total. `on_device`: ValueError if the generator was asked for AES-256."""
        if isinstance(self.mechanism, VectorMechanism):
            return self.vector_receipt(rows, on_device=on_device, notes=notes, projection=projection)
        if projection is not None:
            raise ValueError("projection must be None with a codebook: fit the codebook on rows behind it, and release such rows")
        mechanism: CodebookResponse = self.mechanism  # type: ignore[assignment]
        return receipt_of_answers(
            mechanism.response, self.generator, on_device=on_device, epsilon=mechanism.epsilon,
            labels_digest=_digest_of_codes(len(mechanism.codebook)), per=self.per, answers=rows, scores="none",
            is_dp_claim=self.is_dp_claim, notes=(*self._notes(), NOTE_CODEBOOK, *notes), codebook=mechanism.codebook.digest,
        )

    def vector_receipt(
        self, rows: int, *, on_device: bool = False, notes: tuple[str, ...] = (), projection: PublicProjection | None = None,
        chosen_sigma: bool = True,
    ) -> Receipt:
        """`receipt` of a mechanism on vectors. `chosen_sigma`: False where an epsilon of several releases chose an empirical sigma."""
        mechanism = self.mechanism
        assert isinstance(mechanism, VectorMechanism)
        epsilon, delta = mechanism.cost
        halves = self.half_words and mechanism.half_words and mechanism.grade == "exact"
        law: dict[str, Any] = {**dict.fromkeys(LAW_NUMBERS), **mechanism.law_numbers}
        keys = key_fields(self.generator, on_device=on_device, half_words=halves)
        return Receipt(
            mechanism=mechanism.name, adjacency=mechanism.adjacency, per=self.per, epsilon=epsilon, delta=delta,
            clip_norm=mechanism.clip_norm, sensitivity=mechanism.sensitivity, sensitivity_norm=mechanism.sensitivity_norm, **law,
            grid=mechanism.int8_grid if self.dtype == INT8 else mechanism.grid_of(half_words=keys["format_version"] == HALF_WORDS),
            grade=mechanism.grade, **keys, rows=rows, dimension=mechanism.dimension, dtype=self.dtype,
            normalize=self.normalize or mechanism.directions_only, renormalize=self.renormalize, nonfinite="raise",
            is_dp_claim=self.is_dp_claim, library_version=_core.__version__,
            notes=(*self._notes(chosen_sigma=chosen_sigma), *((NOTE_PROJECTION,) if projection is not None else ()), *notes),
            projection=None if projection is None else projection.digest,
            saturation=SATURATION if self.dtype == INT8 else None,
            saturation_probability=mechanism.int8_saturation if self.dtype == INT8 else None,
        )

    def _notes(self, *, chosen_sigma: bool = True) -> tuple[str, ...]:
        empirical = self.mechanism.takes_sigma and chosen_sigma
        conditions = (self.mechanism.grade == "float", self.generator.seeded, empirical, self.per == "release")
        return tuple(itertools.compress((NOTE_FLOAT, NOTE_SEED, NOTE_EMPIRICAL, NOTE_RELEASE), conditions))


_digest_of_codes = lru_cache(maxsize=64)(lambda count: labels_digest(range(count)))


def plan_release(
    *, rows: int, dimension: int, dtype: str, epsilon: float | None, delta: float, clip_norm: float, mechanism: str | Mechanism,
    sigma: float | None = None, normalize: bool = False, renormalize: bool = False, per: str = "record",
    generator: _core.Generator | None = None,
) -> ReleasePlan:
    """Check every argument of `privatize` but the rows themselves. `rows` counts all of them; only per="release" uses it."""
    source = require_generator(generator)
    validate.rounding_to_nearest()
    if dimension < 1:
        raise ValueError("x must have at least 1 column, got 0")
    rows_of_one = rows_per_person(per, rows)
    if isinstance(mechanism, Mechanism):
        chosen = mechanism
        if epsilon is not None or sigma is not None:
            raise ValueError("epsilon and sigma must be left out with a mechanism object, which has its own")
        for name, wanted, why in (("dimension", dimension, ", the columns of x"), ("rows_per_person", rows_of_one, " for this input")):
            if getattr(chosen, name) != wanted:
                raise ValueError(f"mechanism.{name} must be {wanted}{why}, got {getattr(chosen, name)}")
    else:
        kinds = known_mechanisms()
        kind = kinds[validate.choice("mechanism", mechanism, kinds)]
        setting = {"dimension": dimension, "clip_norm": validate.clip_norm(clip_norm), "rows_per_person": rows_of_one}
        chosen = kind.from_arguments(epsilon=epsilon, delta=delta, sigma=sigma, **setting)
    if chosen.integers != (dtype in DTYPES):
        takes, other = ("int64 or int32", Gaussian) if chosen.integers else ("floats", DiscreteGaussian)
        raise TypeError(f"x must be {takes} for mechanism {chosen.name!r}, got {dtype}, which {other.name!r} takes")
    for name, unit in ("normalize", normalize), ("renormalize", renormalize):
        if validate.flag(name, unit) and chosen.integers:
            raise ValueError(f"{name} must be False for mechanism {chosen.name!r}: unit rows are no whole numbers")
    if normalize and chosen.clip_norm != 1:
        raise ValueError(f"clip_norm must be 1.0 with normalize=True, got {chosen.clip_norm!r}")
    return ReleasePlan(chosen, per, dtype, normalize, renormalize, source)


AnyReceipt = TypeVar("AnyReceipt", bound=RowReceipt)


@shown
class Release(NamedTuple):
    """The result of `privatize`. `print` shows its receipt in words.

    Args:
        values: the noisy rows, of the input's kind and shape, and of its dtype or int8.
        receipt: what was done and what it guarantees; of labels if the mechanism answers with codes of a public codebook.
    """

    values: Any
    receipt: RowReceipt

    @property
    def scale(self) -> float:
        """The factor that brings values into the unit of x: the grid for int8, 1.0 for all others."""
        receipt = self.receipt
        return receipt.grid if isinstance(receipt, Receipt) and receipt.dtype == INT8 and receipt.grid is not None else 1.0

    def __repr__(self) -> str:
        return f"Release({array_shown(self.values)}, {self.receipt.mechanism}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(array_shown(self.values), self.receipt)

    def to_float32(self) -> Any:
        """The values in the unit of x as a new float32 array of their kind; exact for int8."""
        values = arrays.shared("values", self.values)
        values = values.float() if arrays.is_torch(values) else values.astype("float32")
        return arrays.returned(self.values, values * self.scale)


def privatize(
    x: Any,
    *,
    epsilon: float | None = None,
    delta: float = 1e-5,
    clip_norm: float = 1.0,
    mechanism: str | Mechanism = "gaussian",
    sigma: float | None = None,
    normalize: bool = False,
    renormalize: bool = False,
    budget: Budget | None = None,
    per: str = "record",
    generator: _core.Generator | None = None,
    projection: PublicProjection | None = None,
    notes: Sequence[str] = (),
    dtype: str | None = None,
    people: Iterable[Any] | None = None,
) -> Release:
    """Release embeddings with differential privacy, and a receipt that states the guarantee.

    Args:
        x: float array [d] (one row) or [n, d], numpy, torch, CuPy or with DLPack; float32, float64, float16 or (torch) bfloat16.
            CUDA arrays must be contiguous. Not changed. A list or tuple of numbers or rows, or an array of integers in CPU memory,
            becomes float32; float arrays in a list keep their dtype. Whole numbers above 2^24 in size, which float32 would round,
            are refused: pass float64. "discrete_gaussian" and "discrete_laplacian" take int64 or int32, not of torch or CuPy.
        epsilon: > 0; needed by every mechanism but "empirical", where it may be left out and is a ceiling if given.
        delta: in (0, 1). "gaussian", "empirical" and "discrete_gaussian" use it; for the others 0 is accepted: their receipts say 0.
        clip_norm: C, the L2 norm that rows are clipped to, in the unit of x; in [2^-100, 2^100]. "privunit" brings every row
            to this norm, longer and shorter ones. The discrete kinds need C >= 1, and "discrete_laplacian" clips in the L1 norm.
        mechanism: "gaussian": the smallest Gaussian noise that gives (epsilon, delta).
            "laplacian": independent Laplace noise, pure epsilon. "l2_laplace": less noise for pure epsilon, float grade.
            "privunit": only the direction of a row, pure epsilon, several times the signal of "gaussian" at equal epsilon.
            "empirical": Gaussian noise of a given sigma; the receipt states its epsilon.
            "discrete_gaussian", "discrete_laplacian": noise of whole numbers on whole numbers, such as counts: an array [n, 1], and
            the largest count as clip_norm. Sums beyond the dtype become its ends. Without projection, normalize and renormalize.
            Or a ready object of hushvec.mechanisms for rows of x's length; epsilon and sigma must then be left out, and delta,
            clip_norm and the rows of a person are taken from it. `PublicCodebook.mechanism` makes one that answers with public rows.
        sigma: standard deviation for "empirical", in the unit of the clipped x; None for the others.
        normalize: bring rows to unit length before the noise; clip_norm must be 1. A zero row stays zero.
        renormalize: bring rows to unit length after the noise. Post-processing: costs no privacy.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged before anything is computed; what it raises
            passes through. The float grade is charged in full. A PrivacyBudget also gets rho, and the receipt names its entry.
        per: "record": every row is another person, the charge is that of one row. "release": all rows are about one person and
            replaced together; the noise grows by sqrt(n) (Gaussian) or n (Laplace kinds), or each row gets epsilon / n ("privunit").
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy:
            the receipt says so, and together with a budget it is refused.
        projection: a public map that rows go through before the mechanism; clip_norm then applies after it, and the values have
            its `output_dimension` columns (`projection.lift` takes them back). It must not have been fitted on the rows' own people;
            a row that it was fitted on is refused.
        notes: sentences for a reader of the receipt, which keeps them beside its own.
        dtype: None for values of x's dtype. "int8" for integers in [-127, 127] and one scale, a power of two: `release.scale`, the
            receipt's grid. For "gaussian", "empirical" and "privunit", and without renormalize. The release is exact on this coarser
            grid, and the guarantee is the same. Values beyond the range saturate; the receipt bounds how often.
        people: whom each row is about, for a budget with per_person=True: n ids for per="record", one for per="release". A person
            with k rows is charged k times. None: everyone is charged, once.

    Returns:
        Release(values, receipt).

    Raises:
        TypeError: wrong kinds; epsilon or sigma missing.
        PrivacyBudgetExhaustedError: not enough of the budget is left, to anyone or to those in its `people`; nothing was charged or
            released.
        BudgetError: the budget's store cannot be used; nothing was released.
        ValueError: a value out of its range; NaN or Inf in x (the row is named); arguments that contradict each other;
            int8 values of noise too small for them.
            All arguments are checked before the budget is charged, and the budget before anything is released.
        RuntimeError: no CUDA backend or driver for an x on CUDA; a CUDA graph being captured; a caller that is being exported, traced,
            transformed by torch.func or run on fake tensors; floating-point numbers are not rounded to nearest in this thread.

    Guarantees:
        Adjacency: replace one row (`per="record"`) or all of them (`per="release"`). Sensitivity: 2 clip_norm in L2, with the
        factors of hushvec.mechanisms. The values are the ideal mechanism's, rounded to a public grid, so (epsilon, delta)
        holds as stated and not only up to floating-point error ("exact" grade; "l2_laplace" is "float" and claims
        nothing). Where x has NaN or Inf the refusal is visible, hence part of what an observer sees. On the CPU each row is read
        once, so that this holds for what was read even while another thread writes to x (a mapped file, a reused buffer); on CUDA
        x must not change during the call.

    Edge cases:
        No rows: empty values and a receipt for 0 rows. A row of zeros is a valid row. No columns: ValueError. A CUDA graph
        cannot capture a release: its replays would have no receipts.

    Reference:
        Balle and Wang (2018), theorem 8; Dwork, McSherry, Nissim, Smith (2006), proposition 1; docs/format.md.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> release = hv.privatize(np.ones((2, 384), np.float32), epsilon=8.0, delta=1e-5)
        >>> release.values.shape, release.receipt.grade, round(release.receipt.sigma, 2)
        ((2, 384), 'exact', 1.2)
    """
    if takes_integers(mechanism):
        checked = whole_rows("x", x)
        if projection is not None:
            raise ValueError(f"projection must be None for mechanism {getattr(mechanism, 'name', mechanism)!r}: it maps floats")
    else:
        checked = given_rows("x", x, finite=projection is None and budget is not None)
    if projection is not None:  # which checks the rows for NaN and Inf
        require_projection(projection).require_other_rows(checked.values)
        checked = rowwise.checked_rows("x", projection.transform(checked.values), finite=False)._replace(finite=True)
    plan = plan_release(
        rows=checked.rows, dimension=checked.dimension, dtype=checked.dtype, epsilon=epsilon, delta=delta, clip_norm=clip_norm,
        mechanism=mechanism, sigma=sigma, normalize=normalize, renormalize=renormalize, per=per, generator=generator,
    )
    if dtype is not None:
        plan = plan.with_values(dtype)
    if isinstance(notes, str) or not all(isinstance(note, str) for note in notes):
        raise TypeError("notes must be a sequence of strings")
    release = _released(checked, plan, budget, tuple(notes), projection, people)
    return release if checked.values is x else release._replace(values=arrays.returned(x, release.values))


def release_planned(
    x: Any, plan: ReleasePlan, *, budget: Budget | None, notes: tuple[str, ...] = (), projection: PublicProjection | None = None,
    people: Iterable[Any] | None = None,
) -> Release:
    """`privatize` after its arguments are checked. `projection` is the map that x has already been through."""
    return _released(rowwise.checked_rows("x", x, finite=budget is not None), plan, budget, notes, projection, people)


def _released(
    checked: arrays.CheckedRows, plan: ReleasePlan, budget: Budget | None, notes: tuple[str, ...],
    projection: PublicProjection | None, people: Iterable[Any] | None,
) -> Release:
    receipt = plan.receipt(checked.rows, on_device=checked.on_cuda, notes=notes, projection=projection)
    plan.mechanism.require_release(checked)
    ids = require_people(people, budget, checked.rows, plan.per)
    if budget is not None:
        require_chargeable(budget, plan)
        receipt = charge(receipt, budget, plan, ids)
    return Release(plan.run(checked.values, finite=checked.finite), receipt)


def require_projection(value: Any) -> PublicProjection:
    from hushvec.mechanisms import PublicProjection

    if not isinstance(value, PublicProjection):
        raise TypeError(f"projection must be a hushvec.mechanisms.PublicProjection or None, got {validate.kind(value)}")
    return value


def require_chargeable(budget: Any, plan: ReleasePlan) -> None:
    """Refuse releases that have no epsilon to charge, before anything is charged."""
    require_budget(budget)
    require_secret_key(plan.generator)


def charge(receipt: AnyReceipt, budget: Budget, plan: ReleasePlan, people: Sequence[Any] | None = None) -> AnyReceipt:
    """Charge the budget for a planned release and name the entry in its receipt. Nothing after it may refuse the release."""
    epsilon, delta = plan.mechanism.cost
    purpose = f"{plan.mechanism.name}, {released_rows(receipt)} x {plan.mechanism.dimension}, per {plan.per}"
    rho = plan.mechanism.loss.rho if plan.mechanism.rows_per_person == 1 else receipt.rho
    return replace(receipt, charge=entry_of_charge(budget, epsilon, delta, rho, purpose, people=people))
