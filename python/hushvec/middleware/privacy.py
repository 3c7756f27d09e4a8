"""Noise on the way out: each batch that leaves the model is one release, charged and with a receipt."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hushvec._native import _core, arrays
from hushvec._util import validate
from hushvec.embedders.protocol import EmbeddingResult
from hushvec.embedders.sources import SourceModel, is_unit_norm_model
from hushvec.mechanisms import Mechanism, PrivUnit
from hushvec.middleware.sensitivity import EmpiricalSensitivity, first_row_off_unit, sensitivity_argument
from hushvec.middleware.wrap import EmbeddingMiddleware
from hushvec.noise.calibration import gaussian_sigma
from hushvec.release.charging import Budget
from hushvec.release.vectors import ReleasePlan, plan_release, release_planned, require_chargeable, require_projection

if TYPE_CHECKING:
    from hushvec.mechanisms import PublicProjection

_TRIAL_DIMENSION = 8


# Kept by one middleware: one for each model that it is wrapped around, unless per="release" makes one for each batch size.
MOST_PLANS = 64

NOTE_OWN_TEXT = "each row is taken to depend on its own text only"


@dataclass(eq=False, repr=False)
class DPEmbeddingMiddleware(EmbeddingMiddleware):
    """The result of `dp_embedding_middleware`."""

    _settings: dict[str, Any]
    _budget: Budget | None
    _sensitivity: float | None
    _clip_norm: float | None
    _model_id: str | None
    _projection: PublicProjection | None
    _adds_noise: bool = True
    _plans: dict[tuple[Any, ...], ReleasePlan] = field(default_factory=dict)

    def wrap(self, result: EmbeddingResult, model: SourceModel) -> EmbeddingResult:
        changed, notes = self._changes(result.values, model)
        x = result.values
        if self._projection is not None:
            if self._adds_noise:
                self._projection.require_other_rows(x, "vectors")
            x = self._projection.transform(x)
        plan = self._plan(x, changed)
        if not self._adds_noise:  # no release: nothing is charged
            return replace(result, values=plan.without_noise(x))
        own = (NOTE_OWN_TEXT,) if self._settings["per"] == "record" else ()
        release = release_planned(x, plan, budget=self._budget, notes=(*own, *notes), projection=self._projection)
        return replace(result, values=release.values, receipts=(*result.receipts, release.receipt))

    def output_dimension(self, dimension: int) -> int:
        return dimension if self._projection is None else self._projection.output_dimension

    @property
    def adds_noise(self) -> bool:
        return self._adds_noise

    def without_noise(self) -> EmbeddingMiddleware:
        return replace(self, _adds_noise=False)

    def _changes(self, values: Any, model: SourceModel) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Settings that depend on rows or model, and the note that says why."""
        if isinstance(self._sensitivity, EmpiricalSensitivity):
            return self._empirical(self._sensitivity)
        if isinstance(self._settings["mechanism"], Mechanism):
            return {}, ()
        clip_norm, note = self._bound(values, model)
        return {"clip_norm": clip_norm}, (note,)

    def _plan(self, x: Any, changed: dict[str, Any]) -> ReleasePlan:
        """The plan for rows like these: kept, since it would be most of what a small batch costs."""
        rows, dimension = arrays.rows_and_dimension(x)
        if not self._adds_noise:  # any number of rows stays clean
            rows = getattr(self._settings["mechanism"], "rows_per_person", 1)
        rows = rows if self._settings["per"] == "release" else 1
        key = (rows, dimension, arrays.dtype_name(x), *changed.values())
        plan = self._plans.get(key)
        if plan is None:
            settings = {"clip_norm": 1.0, **self._settings, **changed}
            plan = plan_release(rows=rows, dimension=dimension, dtype=arrays.dtype_name(x), **settings)
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _bound(self, values: Any, model: SourceModel) -> tuple[float, str]:
        """The norm that rows are clipped to, by the first rule that applies, and the reason, for the receipt."""
        if self._clip_norm is not None:
            return self._clip_norm, "clip_norm was given"
        if self._sensitivity is not None:
            return self._sensitivity / 2, "clip_norm is half of the sensitivity that was given"
        if self._settings["normalize"]:
            return 1.0, "rows are brought to unit length"
        for model_id in (self._model_id, model.model_id):
            if is_unit_norm_model(model_id):
                return 1.0, f"clip_norm is that of {model_id}, whose vectors have unit norm"
        if self._settings["mechanism"] == PrivUnit.name:
            return 1.0, "only the direction of a row is released"
        off = first_row_off_unit(values)
        if off is not None:
            row, norm = off
            raise ValueError(
                f"model must make vectors of unit norm where neither clip_norm nor sensitivity is given, got norm {norm:.6g} in row "
                f"{row}; give clip_norm=, which bounds how much one text can change, or normalize=True"
            )
        return 1.0, "clip_norm is that of unit vectors, as which these rows were found"

    def _empirical(self, sensitivity: EmpiricalSensitivity) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Noise for an estimated sensitivity; the receipt states its actual epsilon for rows clipped to an enforced norm."""
        epsilon, delta = self._settings["epsilon"], self._settings["delta"]
        note = (
            f"sensitivity {float(sensitivity):.6g} is empirical: the largest distance among {sensitivity.samples} samples plus 10 %, "
            f"no bound; epsilon = {epsilon:g} was asked for at it"
        )
        changed = {
            "mechanism": "empirical",
            "epsilon": None,
            "sigma": float(gaussian_sigma(epsilon, delta, float(sensitivity))),
            "clip_norm": self._clip_norm or sensitivity.largest_norm,
        }
        return changed, (note,)


def dp_embedding_middleware(
    *,
    epsilon: float | None = None,
    delta: float = 1e-5,
    mechanism: str | Mechanism = "gaussian",
    sensitivity: str | float = "auto",
    clip_norm: float | None = None,
    model_id: str | None = None,
    budget: Budget | None = None,
    per: str = "record",
    sigma: float | None = None,
    normalize: bool = False,
    renormalize: bool = False,
    generator: _core.Generator | None = None,
    projection: PublicProjection | None = None,
) -> DPEmbeddingMiddleware:
    """Middleware that releases embeddings with differential privacy: each batch through `privatize`, with a receipt.

    Args:
        epsilon, delta, mechanism, sigma, normalize, renormalize, generator, projection: as for `privatize`.
        sensitivity: "auto", or the L2 sensitivity in the unit of the vectors, which is enforced: rows are clipped to half of it.
            An `EmpiricalSensitivity` (of `calibrate_sensitivity`) is taken as it is, with "gaussian" only, and labeled.
        clip_norm: C, the norm that rows are clipped to, in the unit of the vectors; the sensitivity is then 2 C.
        model_id: name of the model for the table of sensitivities, before the wrapped model's own.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged for each batch after the model has answered
            and before anything is released.
        per: "record": each text of a batch is about another person, and a batch costs as much as one text. "release": all texts of a
            batch are about one person.

    Returns:
        Middleware for `wrap_embedding_model` and `compose_embedding_middleware`.

    Raises:
        TypeError, ValueError: a bad argument, or two that contradict each other: clip_norm with a sensitivity other than 2 clip_norm.
        At `embed`: ValueError for a model that is not in the table, makes no unit vectors, and got no clip_norm, sensitivity or
            normalize; PrivacyBudgetExhaustedError, BudgetError from the budget. Nothing is released then.

    Guarantees:
        Those of `privatize`, for a text replaced by any other. For per="record" the model must embed each text by itself: that is
        the caller's responsibility, and the receipt notes it. The sensitivity is enforced by clipping, whatever the model does:
        clip_norm if given; half of a given sensitivity; 1 for the model named by model_id, then for the wrapped model's own name,
        in the table of unit-norm models; else 1, after a check that the rows of the batch are unit vectors. The receipt's notes
        say which. With an EmpiricalSensitivity the noise is that of (epsilon, delta) at the estimate, while receipt and charge state
        the larger, actual epsilon for rows clipped to the largest norm seen.

    Edge cases:
        "privunit" releases directions, so it needs no norm. The refusal of a batch with a row off unit norm is visible, hence part of
        what an observer sees; clip_norm has no such refusal. A query that is embedded privately costs as much as a document;
        use `WrappedEmbeddingModel.without_noise()` for queries of trusted people.

    Reference:
        docs/middleware.md; Balle and Wang (2018), theorem 8, for "gaussian".

    Example:
        >>> import hushvec as hv, numpy as np
        >>> budget = hv.PrivacyBudget(max_epsilon=10.0)
        >>> step = hv.dp_embedding_middleware(epsilon=1.0, mechanism="laplacian", budget=budget)
        >>> private = hv.wrap_embedding_model(lambda texts: np.eye(4, dtype=np.float32)[[0] * len(texts)], step)
        >>> rows = private.embed(["record 1"])
        >>> budget.remaining()
        9.0
    """
    settings: dict[str, Any] = dict(epsilon=epsilon, delta=delta, mechanism=mechanism, sigma=sigma, normalize=normalize)
    settings |= dict(renormalize=renormalize, per=per, generator=generator)
    known = sensitivity_argument(sensitivity)
    norm = None if clip_norm is None else validate.clip_norm(clip_norm)
    is_unit_norm_model(model_id)
    _require_agreement(known, norm, mechanism, epsilon)
    if projection is not None:
        require_projection(projection)
        if norm is None and known is None and not normalize and mechanism != PrivUnit.name and not isinstance(mechanism, Mechanism):
            raise ValueError("clip_norm must be given with a projection, after which no norm is known, got None")
    # A plan before there are rows: a wrong setting is refused here, not at the first text.
    ready = mechanism if isinstance(mechanism, Mechanism) else None
    plan = plan_release(
        rows=1 if ready is None else ready.rows_per_person,
        dimension=_TRIAL_DIMENSION if ready is None else ready.dimension,
        dtype="float32",
        clip_norm=(norm or (known / 2 if known else 1.0)) if ready is None else ready.clip_norm,
        **settings,
    )
    if budget is not None:
        require_chargeable(budget, plan)
    return DPEmbeddingMiddleware(settings, budget, known, norm, model_id, projection)


def _require_agreement(sensitivity: float | None, clip_norm: float | None, mechanism: Any, epsilon: Any) -> None:
    """Refuse sensitivities that contradict another argument."""
    if isinstance(mechanism, Mechanism) and (sensitivity is not None or clip_norm is not None):
        raise ValueError("sensitivity and clip_norm must be left out with a mechanism object, which has its own")
    if isinstance(sensitivity, EmpiricalSensitivity):
        if mechanism != "gaussian":
            raise ValueError(f"mechanism must be 'gaussian' with an empirical sensitivity, got {mechanism!r:.60}")
        validate.positive("epsilon", epsilon)
    elif sensitivity is not None and clip_norm is not None and sensitivity != 2 * clip_norm:
        raise ValueError(f"sensitivity must be 2 * clip_norm = {2 * clip_norm!r} or left out with clip_norm, got {sensitivity!r}")
