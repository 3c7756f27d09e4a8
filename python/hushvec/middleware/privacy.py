"""Noise on the way out: each batch that leaves the model is one release, charged and with a receipt; and how far a model's
embedding can move when its text changes, from a table or estimated from some texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hushvec._native import _core, arrays
from hushvec._util import validate
from hushvec._util.keywords import explained
from hushvec.embedders.protocol import NOTE_OWN_TEXT, EmbeddingResult, on_host, read_answer
from hushvec.embedders.sources import SourceModel, as_embedding_model, is_unit_norm_model
from hushvec.extend import Budget, ReleasePlan, plan_release, release_planned, require_chargeable, require_projection
from hushvec.mechanisms import Mechanism, PublicProjection, releases_directions
from hushvec.middleware.wrap import EmbeddingMiddleware
from hushvec.noise import gaussian_sigma

_TRIAL_DIMENSION = 8

# Kept by one middleware: one for each model that it is wrapped around, unless per="release" makes one for each batch size.
MOST_PLANS = 64


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
        settings: dict[str, Any] = {"budget": self._budget, "projection": self._projection, "people": result.people}
        release = release_planned(x, plan, notes=(*own, *notes), **settings)
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
        if releases_directions(self._settings["mechanism"]):
            return 1.0, "only the direction of a row is released"
        off = first_row_off_unit(values)
        if off is not None:
            row, norm = off
            raise ValueError(
                f"model must make vectors of unit norm where neither clip_norm nor sensitivity is given, got norm {norm:.6g} in row "
                f"{row}; give clip_norm=, which bounds how much one text can change, or normalize=True"
            )
        found = "as which these rows were found up to rounding in 16 bits"
        return 1.0, f"clip_norm is that of unit vectors, {found}; longer ones are clipped"

    def _empirical(self, sensitivity: EmpiricalSensitivity) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Noise for an estimated sensitivity; the receipt states its actual epsilon for rows clipped to an enforced norm."""
        epsilon, delta = self._settings["epsilon"], self._settings["delta"]
        note = (
            f"sensitivity {float(sensitivity):.6g} is empirical: the largest distance among {sensitivity.samples} samples plus 10 %, "
            f"no bound; epsilon = {epsilon:g} was asked for at it"
        )
        changed = {
            "mechanism": "empirical", "epsilon": None, "sigma": float(gaussian_sigma(epsilon, delta, float(sensitivity))),
            "clip_norm": self._clip_norm or sensitivity.largest_norm,
        }
        return changed, (note,)


@explained
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
        budget: as for `privatize`; charged for each batch after the model has answered and before anything is released.
        per: "record": each text of a batch is about another person. "release": all texts of a batch are about one.

    Returns:
        Middleware for `wrap_embedding_model` and `compose_embedding_middleware`.

    Raises:
        TypeError, ValueError: arguments that contradict each other. At `embed` also a model that is not in the table, makes no
            unit vectors, and got no clip_norm, sensitivity or normalize. Nothing is charged then.

    Guarantees:
        Those of `privatize`, for a text replaced by any other. For per="record" the model must embed each text by itself: that is
        the caller's responsibility, and the receipt notes it. The sensitivity is enforced by clipping, whatever the model does:
        clip_norm if given; half of a given sensitivity; 1 for the model named by model_id, then for the wrapped model's own name,
        in the table of unit-norm models; else 1, after a check that the rows of the batch are unit vectors, up to the 0.8 % by
        which rounding in 16 bits moves a norm. The receipt's notes
        say which. With an EmpiricalSensitivity the noise is that of (epsilon, delta) at the estimate, while receipt and charge state
        the larger, actual epsilon for rows clipped to the largest norm seen.

    Edge cases:
        "privunit" releases directions, so it needs no norm. The refusal of a batch with a row off unit norm is visible; clip_norm
        has no such refusal. `WrappedEmbeddingModel.without_noise()` embeds queries of trusted people at no cost.

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
        has_a_norm = releases_directions(mechanism) or isinstance(mechanism, Mechanism)
        if norm is None and known is None and not normalize and not has_a_norm:
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


# ---- sensitivities ----


UNIT_SENSITIVITY = 2.0
MARGIN = 1.1

# How far from 1 a norm may be: rounding of 384 to 4096 squares in the dtype, with a wide margin. float32 and float64 are often what an
# encoder computed in bfloat16: one unit in the last place of that, two roundings. What is longer than 1 is clipped.
_UNIT_TOLERANCE = {"float64": 2**-7, "float32": 2**-7, "float16": 1e-2, "bfloat16": 3e-2}

# Ten texts that have little in common.
_SAMPLES = (
    "The patient was admitted with chest pain and discharged two days later.",
    "Quarterly revenue grew by twelve percent, driven by new subscriptions.",
    "def add(a, b): return a + b",
    "She painted the old harbour at dawn, all silver and rust.",
    "Please reset my password; I can no longer log in.",
    "The court finds for the plaintiff and awards damages.",
    "Boil the potatoes for twenty minutes, then fry them with onions.",
    "The telescope measured the redshift of forty distant galaxies.",
    "no",
    "Our striker scored twice in the last five minutes of the match.",
)


class EmpiricalSensitivity(float):
    """A sensitivity that was measured, not proved: the largest distance between two of some samples, plus a margin."""

    largest_distance: float
    largest_norm: float
    samples: int

    def __new__(cls, largest_distance: float, largest_norm: float, samples: int) -> EmpiricalSensitivity:
        self = super().__new__(cls, MARGIN * largest_distance)
        self.largest_distance, self.largest_norm, self.samples = largest_distance, largest_norm, samples
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.largest_distance, self.largest_norm, self.samples)


def get_sensitivity(model_id: str | None = None) -> float:
    """The L2 sensitivity of a model's embeddings when one text is replaced by another: 2.0, the diameter of the unit ball.

    Args:
        model_id: the model's name, or None.

    Returns:
        2.0, for a model that is known to make unit vectors, and as the default for one that is not known.

    Raises:
        TypeError: model_id is neither a string nor None.

    Guarantees:
        It bounds embeddings of unit norm. `dp_embedding_middleware` enforces it for every model that it accepts.

    Edge cases:
        Names are compared without regard to case and to the part before the last slash.

    Reference:
        docs/middleware.md lists the table.

    Example:
        >>> import hushvec as hv
        >>> hv.get_sensitivity("sentence-transformers/all-MiniLM-L6-v2")
        2.0
    """
    is_unit_norm_model(model_id)
    return UNIT_SENSITIVITY


def lookup_sensitivity(model_id: str) -> float:
    """`get_sensitivity` of a model that is known to make unit vectors; refused for any other.

    Args:
        model_id: the model's name.

    Returns:
        2.0, when one text is replaced by another.

    Raises:
        ValueError: the model is not in the table.

    Guarantees:
        It bounds embeddings of unit norm, which models of the table make. Nothing is measured here.

    Edge cases:
        Names are compared as in `get_sensitivity`. `nomic-embed-text` is not in the table, as no package says that it normalizes.

    Reference:
        docs/middleware.md lists the table.

    Example:
        >>> import hushvec as hv
        >>> hv.lookup_sensitivity("Xenova/bge-small-en-v1.5")
        2.0
        >>> try:
        ...     hv.lookup_sensitivity("nomic-embed-text")
        ... except ValueError as error:
        ...     print(str(error).partition(":")[0])
        model_id must be in the table of models that make unit vectors, got 'nomic-embed-text'
    """
    validate.instance("model_id", model_id, str, "a str")
    if not is_unit_norm_model(model_id):
        raise ValueError(
            f"model_id must be in the table of models that make unit vectors, got {model_id!r:.80}: give clip_norm= (the sensitivity "
            "is then twice that), or normalize=True if only directions count (2.0); calibrate_sensitivity(model) only estimates"
        )
    return UNIT_SENSITIVITY


def calibrate_sensitivity(model: Any, samples: Sequence[str] | None = None) -> float:
    """Estimate how far a model's embeddings can be apart, from some texts.

    Args:
        model: as for `wrap_embedding_model`.
        samples: at least 2 public texts, as different as the ones to come; None for ten built-in ones.

    Returns:
        2.0 if all embeddings have unit norm; else an `EmpiricalSensitivity`: the largest distance between two of them, plus 10 %.

    Raises:
        TypeError, ValueError: fewer than 2 texts, a model that cannot embed, rows that are all the same.

    Guarantees:
        None for an `EmpiricalSensitivity`: two texts that were not sampled may be farther apart. Receipts say so.

    Edge cases:
        A clip norm needs no estimate: prefer `clip_norm=` for a model that does not make unit vectors.

    Reference:
        docs/middleware.md.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> hv.calibrate_sensitivity(lambda texts: np.eye(2, dtype=np.float32)[[len(text) % 2 for text in texts]])
        2.0
    """
    validate.instance("samples", samples, (Sequence, type(None)), "a sequence of strings or None", but=(str, bytes))
    texts = list(_SAMPLES if samples is None else samples)
    if len(texts) < 2:
        raise ValueError(f"samples must hold at least 2 texts, got {len(texts)}")
    for text in texts:
        validate.instance("samples", text, str, "strings")
    values = read_answer(as_embedding_model(model).embed(texts), len(texts)).values
    if first_row_off_unit(values) is None:
        return UNIT_SENSITIVITY
    rows = np.asarray(on_host(values), np.float64)
    distance = max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)
    if distance == 0:
        raise ValueError("samples must have different embeddings, got the same one for all of them")
    return EmpiricalSensitivity(distance, float(np.linalg.norm(rows, axis=1).max()), len(texts))


def first_row_off_unit(values: Any) -> tuple[int, float] | None:
    """The first row whose norm is not 1 within rounding in 16 bits, and that norm."""
    tolerance = _UNIT_TOLERANCE[arrays.dtype_name(values)]
    norms = np.linalg.norm(np.asarray(on_host(values), np.float64), axis=1)
    off = np.flatnonzero(~(np.abs(norms - 1) <= tolerance))
    return None if not off.size else (int(off[0]), float(norms[off[0]]))


def sensitivity_argument(value: Any) -> float | None:
    """"auto" as None, or a number > 0."""
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"sensitivity must be 'auto' or a number > 0, got {value!r:.40}")
        return None
    if isinstance(value, EmpiricalSensitivity):
        if not 0 < value < math.inf:
            raise ValueError(f"sensitivity must be > 0, got {float(value)!r}")
        return value
    return validate.positive("sensitivity", value)
