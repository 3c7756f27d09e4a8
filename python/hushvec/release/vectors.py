"""`privatize`: check, charge the budget, run the mechanism, write the receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hushvec._native import _core, arrays, rowwise
from hushvec._native.rowwise import given_rows
from hushvec._util import validate
from hushvec._util.display import Sheet, array_shown, shown
from hushvec.mechanisms import Mechanism
from hushvec.receipts.base import release_sheet
from hushvec.receipts.labels import RowReceipt, released_rows
from hushvec.receipts.vectors import INT8, Receipt
from hushvec.release.charging import Budget, entry_of_charge, require_budget, require_secret_key
from hushvec.release.plan import ReleasePlan, plan_release

if TYPE_CHECKING:
    from hushvec.mechanisms import PublicProjection

AnyReceipt = TypeVar("AnyReceipt", bound=RowReceipt)


@shown
class Release(NamedTuple):
    """What `privatize` returns. `print` shows its receipt in words.

    Args:
        values: the noisy rows, of the input's kind and shape, and of its dtype or int8.
        receipt: what was done and what it guarantees; of labels if the mechanism answers with codes of a public codebook.
    """

    values: Any
    receipt: RowReceipt

    @property
    def scale(self) -> float:
        """What the values are to be multiplied by to be in the unit of x: the grid for int8, 1.0 for all others."""
        receipt = self.receipt
        return receipt.grid if isinstance(receipt, Receipt) and receipt.dtype == INT8 and receipt.grid is not None else 1.0

    def __repr__(self) -> str:
        return f"Release({array_shown(self.values)}, {self.receipt.mechanism}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(array_shown(self.values), self.receipt)

    def to_float32(self) -> Any:
        """The values in the unit of x as a new float32 array of their kind; exact for int8."""
        values = self.values.float() if arrays.is_torch(self.values) else self.values.astype("float32")
        return values * self.scale


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
) -> Release:
    """Release embeddings with differential privacy, and a receipt that states the guarantee.

    Args:
        x: float array [d] (one row) or [n, d], numpy, torch (CPU, CUDA) or CuPy; float32, float64, float16 or (torch) bfloat16.
            CUDA arrays must be contiguous. Not changed. A list or tuple of numbers or rows, or an array of integers in CPU memory,
            becomes float32; float arrays in a list keep their dtype. Whole numbers above 2^24 in size, which float32 would round,
            are refused: pass float64.
        epsilon: > 0; needed by every mechanism but "empirical", where it may be left out and is a ceiling if given.
        delta: in (0, 1). "laplacian", "l2_laplace" and "privunit" do not use it (0 is accepted): their receipts say 0.
        clip_norm: C, the L2 norm that rows are clipped to, in the unit of x; in [2^-100, 2^100]. "privunit" brings every row
            to this norm, longer and shorter ones.
        mechanism: "gaussian": the smallest Gaussian noise that gives (epsilon, delta).
            "laplacian": independent Laplace noise, pure epsilon. "l2_laplace": less noise for pure epsilon, float grade.
            "privunit": only the direction of a row, pure epsilon, several times the signal of "gaussian" at equal epsilon.
            "empirical": Gaussian noise of a given sigma; the receipt states its epsilon.
            Or a ready object of hushvec.mechanisms for rows of x's length; epsilon and sigma must then be left out, and delta,
            clip_norm and the rows of a person are taken from it. `PublicCodebook.mechanism` makes one that answers with public rows.
        sigma: standard deviation for "empirical", in the unit of the clipped x; None for the others.
        normalize: bring rows to unit length before the noise; clip_norm must be 1. A zero row stays zero.
        renormalize: bring rows to unit length after the noise. Post-processing: costs no privacy.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged before anything is computed; what it raises
            passes through. The float grade is charged in full. A PrivacyBudget also gets rho, and the receipt names its entry.
        per: "record": every row is another person, the charge is that of one row. "release": all rows are about one person
            and replaced together; the noise grows by sqrt(n) (Gaussian) or n (Laplace kinds), or each row gets
            epsilon / n ("privunit").
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy:
            the receipt says so, and together with a budget it is refused.
        projection: a public map that rows go through before the mechanism; clip_norm then applies after it, and the values have
            its `output_dimension` columns (`projection.lift` takes them back). It must not have been fitted on the rows' own people;
            a row that it was fitted on is refused.
        notes: sentences for a reader of the receipt, which keeps them beside its own.
        dtype: None for values of x's dtype. "int8" for integers in [-127, 127] and one scale, a power of two: `release.scale`, the
            receipt's grid. For "gaussian", "empirical" and "privunit", and without renormalize. The release is exact on this coarser
            grid, and the guarantee is the same. Values beyond the range saturate; the receipt bounds how often.

    Returns:
        Release(values, receipt).

    Raises:
        TypeError: wrong kinds; epsilon or sigma missing.
        PrivacyBudgetExhaustedError: not enough of the budget is left; nothing was charged or released.
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
    checked = given_rows("x", x, finite=budget is not None) if projection is None else _behind(projection, x)
    plan = plan_release(
        rows=checked.rows,
        dimension=checked.dimension,
        dtype=checked.dtype,
        epsilon=epsilon,
        delta=delta,
        clip_norm=clip_norm,
        mechanism=mechanism,
        sigma=sigma,
        normalize=normalize,
        renormalize=renormalize,
        per=per,
        generator=generator,
        values_dtype=dtype,
    )
    return _released(checked, plan, budget, _sentences(notes), projection)


def release_planned(
    x: Any,
    plan: ReleasePlan,
    *,
    budget: Budget | None,
    notes: tuple[str, ...] = (),
    projection: PublicProjection | None = None,
) -> Release:
    """`privatize` after its arguments are checked. `projection` is the map that x has already been through."""
    return _released(rowwise.checked_rows("x", x, finite=budget is not None), plan, budget, notes, projection)


def _released(
    checked: arrays.CheckedRows, plan: ReleasePlan, budget: Budget | None, notes: tuple[str, ...], projection: PublicProjection | None
) -> Release:
    receipt = plan.receipt(checked.rows, on_device=checked.on_cuda, notes=notes, projection=projection)
    plan.mechanism.require_release(checked)
    if budget is not None:
        require_chargeable(budget, plan)
        receipt = charge(receipt, budget, plan)
    return Release(plan.run(checked.values, finite=checked.finite), receipt)


def _behind(projection: PublicProjection, x: Any) -> arrays.CheckedRows:
    """The rows after a map, which has checked them for NaN and Inf."""
    rows = given_rows("x", x, finite=False).values
    require_projection(projection).require_other_rows(rows)
    return rowwise.checked_rows("x", projection.transform(rows), finite=False)._replace(finite=True)


def _sentences(notes: Sequence[str]) -> tuple[str, ...]:
    if isinstance(notes, str) or not all(isinstance(note, str) for note in notes):
        raise TypeError("notes must be a sequence of strings")
    return tuple(notes)


def require_projection(value: Any) -> PublicProjection:
    from hushvec.mechanisms import PublicProjection

    if not isinstance(value, PublicProjection):
        raise TypeError(f"projection must be a hushvec.mechanisms.PublicProjection or None, got {validate.kind(value)}")
    return value


def require_chargeable(budget: Any, plan: ReleasePlan) -> None:
    """Refuse releases that have no epsilon to charge, before anything is charged."""
    require_budget(budget)
    require_secret_key(plan.generator)


def charge(receipt: AnyReceipt, budget: Budget, plan: ReleasePlan) -> AnyReceipt:
    """Charge the budget for a planned release, and name the entry in its receipt.

    Everything that could still refuse the release comes before this: a charge is always followed by the release.
    """
    epsilon, delta = plan.mechanism.cost
    purpose = f"{plan.mechanism.name}, {released_rows(receipt)} x {plan.mechanism.dimension}, per {plan.per}"
    return replace(receipt, charge=entry_of_charge(budget, epsilon, delta, plan.mechanism.loss.rho, purpose))
