"""`privatize`: check, charge the budget, run the mechanism, write the receipt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from hushvec import _arrays, _core, _validate
from hushvec._recording import require_no_recorder
from hushvec.clip import clip
from hushvec.label_receipt import MECHANISM as RANDOMIZED_RESPONSE
from hushvec.label_receipt import LabelReceipt, RowReceipt, labels_digest, released_rows
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
from hushvec.receipts import NOTE_FLOAT, NOTE_SEED, LedgerEntry, Receipt, has_sigma, rows_per_person

if TYPE_CHECKING:
    from hushvec.mechanisms import CodebookResponse, PublicProjection

PER = ("record", "release")

AnyReceipt = TypeVar("AnyReceipt", bound=RowReceipt)

NOTE_EMPIRICAL = "sigma was chosen by the caller; epsilon is what it buys at this delta"
NOTE_PROJECTION = "rows went through the public map named by projection; it is taken to be independent of them"
NOTE_CODEBOOK = "rows were answered by a code of the public codebook named by codebook; it is taken to be independent of them"
NOTE_RELEASE = "all rows are about one person; their number is treated as public"


class Budget(Protocol):
    """Anything that can be charged: a PrivacyBudget, or an own object. `consume` raises to refuse, and nothing is released then."""

    def consume(self, epsilon: float, delta: float) -> Any:
        """Spend (epsilon, delta)."""


class Release(NamedTuple):
    """What `privatize` returns.

    Args:
        values: the noisy rows, of the input's kind, shape and dtype.
        receipt: what was done and what it promises; of labels where the mechanism answers with codes of a public codebook.
    """

    values: Any
    receipt: RowReceipt


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
) -> Release:
    """Release embeddings with differential privacy, and a receipt that says which.

    Args:
        x: float array [d] (one row) or [n, d], numpy, torch (CPU, CUDA) or CuPy; float32, float64, float16 or (torch) bfloat16.
            In CUDA memory contiguous. Not changed.
        epsilon: > 0; needed by every mechanism but "empirical", where it may be left out and is a ceiling if given.
        delta: in (0, 1). "laplacian", "l2_laplace" and "privunit" do not use it (0 is accepted): their receipts say 0.
        clip_norm: C, the L2 norm that rows are clipped to, in the unit of x; in [2^-100, 2^100]. "privunit" brings every row
            to this norm, longer and shorter ones.
        mechanism: "gaussian": the smallest Gaussian noise that gives (epsilon, delta).
            "laplacian": independent Laplace noise, pure epsilon. "l2_laplace": less noise for pure epsilon, float grade.
            "privunit": only the direction of a row, pure epsilon, several times the signal of "gaussian" at equal epsilon.
            "empirical": Gaussian noise of a given sigma; the receipt says which epsilon it buys.
            Or a ready object of hushvec.mechanisms for rows of x's length; epsilon and sigma must then be left out, and delta,
            clip_norm and the rows of a person are the object's. `PublicCodebook.mechanism` makes one that answers with public rows.
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
        projection: a public map that rows go through before the mechanism; clip_norm is then a norm behind it, and the values have
            its `output_dimension` columns (`projection.lift` takes them back). It must not have been fitted on the rows' own people.
        notes: sentences for a reader of the receipt, which keeps them beside its own.

    Returns:
        Release(values, receipt).

    Raises:
        TypeError: wrong kinds; epsilon or sigma missing.
        PrivacyBudgetExhaustedError: the budget has not enough left; nothing was charged or released.
        BudgetError: the budget's store cannot be used; nothing was released.
        ValueError: a value out of its range; NaN or Inf in x (the row is named); arguments that contradict each other;
            "l2_laplace" or "privunit" on CUDA, which has no kernel for it.
            All arguments are checked before the budget is charged, and the budget before anything is released.
        RuntimeError: no CUDA backend or driver for an x on CUDA; a CUDA graph being captured; a caller that is being exported, traced,
            transformed by torch.func or run on fake tensors; floating-point numbers are not rounded to nearest in this thread.

    Guarantees:
        Adjacency: replace one row (`per="record"`) or all of them (`per="release"`). Sensitivity: 2 clip_norm in L2, with the
        factors of hushvec.mechanisms. The values are the ideal mechanism's, rounded to a public grid, so (epsilon, delta)
        holds as stated and not only up to floating-point error ("exact" grade; "l2_laplace" is "float" and promises
        nothing). Where x has NaN or Inf the refusal is visible, hence part of what an observer sees. On the CPU each row is read
        once, so that this holds for what was read even while another thread writes to x (a mapped file, a reused buffer); on CUDA
        x must not change during the call.

    Edge cases:
        No rows: empty values and a receipt for 0 rows. A row of zeros is a valid row. No columns: ValueError. A CUDA graph
        cannot capture a release: its replays would have no receipts. With normalize=True the last bits of unit rows, and with
        them of the values, may differ between CPU and CUDA.

    Reference:
        Balle and Wang (2018), theorem 8; Dwork, McSherry, Nissim, Smith (2006), proposition 1; docs/format.md.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> release = hv.privatize(np.ones((2, 384), np.float32), epsilon=8.0, delta=1e-5)
        >>> release.values.shape, release.receipt.grade, round(release.receipt.sigma, 2)
        ((2, 384), 'exact', 1.2)
    """
    _arrays.require_array("x", x)
    if projection is not None:
        x = require_projection(projection).transform(x)
    rows, dimension = _arrays.rows_and_dimension(x)
    plan = plan_release(
        rows=rows,
        dimension=dimension,
        dtype=_arrays.dtype_name(x),
        epsilon=epsilon,
        delta=delta,
        clip_norm=clip_norm,
        mechanism=mechanism,
        sigma=sigma,
        normalize=normalize,
        renormalize=renormalize,
        per=per,
        generator=generator,
    )
    return release_planned(x, plan, budget=budget, notes=_sentences(notes), projection=projection)


def release_planned(
    x: Any,
    plan: ReleasePlan,
    *,
    budget: Budget | None,
    notes: tuple[str, ...] = (),
    projection: PublicProjection | None = None,
) -> Release:
    """`privatize` from where its arguments are checked. `projection` is the map that x has been through already."""
    receipt = plan.receipt(_arrays.rows_and_dimension(x)[0], notes=notes, projection=projection)
    plan.mechanism.require_release(x)
    if budget is not None:
        require_no_recorder()  # plans may be older than the call
        require_chargeable(budget, plan)
        _arrays.require_finite("x", x)
        receipt = charged(receipt, budget, plan)
    return Release(plan.run(x), receipt)


def _sentences(notes: Sequence[str]) -> tuple[str, ...]:
    if isinstance(notes, str) or not all(isinstance(note, str) for note in notes):
        raise TypeError("notes must be a sequence of strings")
    return tuple(notes)


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

    def run(self, x: Any, *, first_row: int = 0) -> Any:
        """The noisy version of x, a new array.

        Args:
            x: rows as planned: same dimension and dtype.
            first_row: number of x's first row in the whole input; an error about a row counts by it.
        """
        values = _arrays.empty_like(x)
        source = x
        if self.normalize or first_row > 0:
            _arrays.require_finite("x", x, first_row=first_row)
        if self.normalize:
            _arrays.unit_rows(x, values)
            source = values
        self.mechanism.apply(source, values, self.generator, out_is_fresh=True)
        if self.renormalize:
            _arrays.unit_rows(values, values)
        return values

    def without_noise(self, x: Any) -> Any:
        """What the noisy version of x is without its noise: directions of length clip_norm, or clipped rows. Private like x.

        Args:
            x: as for `run`.
        """
        _arrays.require_finite("x", x)
        values = _arrays.empty_like(x)
        if self.normalize or releases_directions(self.mechanism):
            _arrays.unit_rows(x, values)
            values *= self.mechanism.clip_norm
        else:
            clip(x, self.mechanism.clip_norm, out=values)
        if self.renormalize:
            _arrays.unit_rows(values, values)
        return values

    @property
    def is_dp_claim(self) -> bool:
        return self.mechanism.grade == "exact" and not self.generator.seeded

    def receipt(self, rows: int, *, notes: tuple[str, ...] = (), projection: PublicProjection | None = None) -> RowReceipt:
        """The receipt of a release of `rows` rows in total, with further notes of the caller and the map before the mechanism."""
        if isinstance(self.mechanism, VectorMechanism):
            return self.vector_receipt(rows, notes=notes, projection=projection)
        if projection is not None:
            raise ValueError("projection must be None with a codebook: fit the codebook on rows behind it, and release such rows")
        return self._label_receipt(rows, notes)

    def _label_receipt(self, rows: int, notes: tuple[str, ...]) -> LabelReceipt:
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
            key_source=self.generator.key_source,
            rounds=self.generator.rounds,
            is_dp_claim=self.is_dp_claim,
            library_version=_core.__version__,
            notes=(*self._notes(), NOTE_CODEBOOK, *notes),
            codebook=mechanism.codebook.digest,
        )

    def vector_receipt(self, rows: int, *, notes: tuple[str, ...] = (), projection: PublicProjection | None = None) -> Receipt:
        """`receipt` where the mechanism is one of noisy vectors."""
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
            sigma=mechanism.noise_parameter if has_sigma(mechanism.name) else None,
            scale=None if has_sigma(mechanism.name) else mechanism.noise_parameter,
            cap_probability=mechanism.cap_probability if isinstance(mechanism, PrivUnit) else None,
            threshold=mechanism.threshold if isinstance(mechanism, PrivUnit) else None,
            grid=mechanism.grid,
            grade=mechanism.grade,
            key_source=self.generator.key_source,
            rounds=self.generator.rounds,
            rows=rows,
            dimension=mechanism.dimension,
            dtype=self.dtype,
            normalize=self.normalize or isinstance(mechanism, PrivUnit),
            renormalize=self.renormalize,
            nonfinite="raise",
            is_dp_claim=self.is_dp_claim,
            library_version=_core.__version__,
            notes=(*self._notes(), *((NOTE_PROJECTION,) if projection is not None else ()), *notes),
            projection=None if projection is None else projection.digest,
        )

    def _notes(self) -> tuple[str, ...]:
        applies = {
            NOTE_FLOAT: self.mechanism.grade == "float",
            NOTE_SEED: self.generator.seeded,
            NOTE_EMPIRICAL: isinstance(self.mechanism, EmpiricalGaussian),
            NOTE_RELEASE: self.per == "release",
        }
        return tuple(note for note, holds in applies.items() if holds)


def releases_directions(mechanism: Mechanism) -> bool:
    """Whether the length of a row has no influence on its release."""
    return isinstance(mechanism, PrivUnit) or not isinstance(mechanism, VectorMechanism)


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
) -> ReleasePlan:
    """Check every argument of `privatize` but the rows themselves. `rows` counts all of them; only per="release" uses it."""
    source = _validate.generator(generator)
    _validate.rounding_to_nearest()
    if dimension < 1:
        raise ValueError("x must have at least 1 column, got 0")
    rows_of_one = rows_per_person(_validate.choice("per", per, PER), rows)
    if isinstance(mechanism, Mechanism):
        chosen = _require_fit(mechanism, epsilon, sigma, dimension, rows_of_one)
    else:
        _validate.choice("mechanism", mechanism, MECHANISMS)
        setting = {"dimension": dimension, "clip_norm": _validate.clip_norm(clip_norm), "rows_per_person": rows_of_one}
        chosen = _BUILDERS[mechanism](epsilon, delta, sigma, setting)
    if _validate.flag("normalize", normalize) and chosen.clip_norm != 1:
        raise ValueError(f"clip_norm must be 1.0 with normalize=True, got {chosen.clip_norm!r}")
    return ReleasePlan(
        mechanism=chosen,
        per=per,
        dtype=dtype,
        normalize=normalize,
        renormalize=_validate.flag("renormalize", renormalize),
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


def require_projection(value: Any) -> PublicProjection:
    from hushvec.mechanisms import PublicProjection

    if not isinstance(value, PublicProjection):
        raise TypeError(f"projection must be a hushvec.mechanisms.PublicProjection or None, got {_validate.kind(value)}")
    return value


def require_chargeable(budget: Any, plan: ReleasePlan) -> None:
    """Refuse what a charge could not be for, before anything is charged."""
    require_budget(budget)
    require_secret_key(plan.generator)


def require_budget(value: Any) -> None:
    """Something that can be charged."""
    if not callable(getattr(value, "consume", None)):
        raise TypeError(f"budget must have a method consume(epsilon, delta), got {_validate.kind(value)}")


def require_secret_key(generator: _core.Generator) -> None:
    """A key that a release can be charged with."""
    if generator.seeded:
        raise ValueError("budget must be None with a seeded generator: such a release has no privacy to account for")


def charged(receipt: AnyReceipt, budget: Budget, plan: ReleasePlan) -> AnyReceipt:
    """Charge the budget for a planned release, and name the entry in its receipt.

    Everything that could still refuse the release comes before this: a charge is for a release that happens.
    """
    epsilon, delta = plan.mechanism.cost
    purpose = f"{plan.mechanism.name}, {released_rows(receipt)} x {plan.mechanism.dimension}, per {plan.per}"
    return replace(receipt, charge=entry_of_charge(budget, epsilon, delta, plan.mechanism.loss.rho, purpose))


def entry_of_charge(
    budget: Budget, epsilon: float, delta: float, rho: float, purpose: str, charge_id: str | None = None
) -> LedgerEntry | None:
    """Charge a budget; the row of its ledger, None for an object of the caller's own, which is told epsilon and delta alone."""
    from hushvec.budget import PrivacyBudget

    _validate.rounding_to_nearest()
    if not isinstance(budget, PrivacyBudget):
        budget.consume(epsilon, delta)
        return None
    return LedgerEntry.of(budget.consume(epsilon, delta, rho=rho, purpose=purpose, charge_id=charge_id))


def _needed(name: str, value: float | None, mechanism: str) -> float:
    if value is None:
        raise TypeError(f"{name} must be given for mechanism {mechanism!r}")
    return _validate.positive(name, value)


def _no_sigma(sigma: float | None, mechanism: str) -> None:
    if sigma is not None:
        raise ValueError(f"sigma must be None for mechanism {mechanism!r}, which needs none ('empirical' does), got {sigma!r}")


def _gaussian(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    _no_sigma(sigma, "gaussian")
    return Gaussian(epsilon=_needed("epsilon", epsilon, "gaussian"), delta=_validate.delta(delta), **setting)


def _laplacian(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    _no_sigma(sigma, "laplacian")
    _validate.delta(delta, zero_allowed=True)
    return Laplacian(epsilon=_needed("epsilon", epsilon, "laplacian"), **setting)


def _l2_laplace(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    _no_sigma(sigma, "l2_laplace")
    _validate.delta(delta, zero_allowed=True)
    return L2Laplace(epsilon=_needed("epsilon", epsilon, "l2_laplace"), **setting)


def _privunit(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    _no_sigma(sigma, "privunit")
    _validate.delta(delta, zero_allowed=True)
    return PrivUnit(epsilon=_needed("epsilon", epsilon, "privunit"), **setting)


def _empirical(epsilon: float | None, delta: float, sigma: float | None, setting: dict[str, Any]) -> Mechanism:
    mechanism = EmpiricalGaussian(chosen_sigma=_needed("sigma", sigma, "empirical"), delta=_validate.delta(delta), **setting)
    if epsilon is not None and mechanism.epsilon > _validate.positive("epsilon", epsilon):
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
