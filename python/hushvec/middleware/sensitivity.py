"""How far a model's embedding can move when its text changes: from a table, or estimated from some texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hushvec._native import arrays
from hushvec._util import validate
from hushvec.embedders.protocol import on_host, read_answer
from hushvec.embedders.sources import as_embedding_model, is_unit_norm_model

UNIT_SENSITIVITY = 2.0
MARGIN = 1.1

# How far from 1 a norm may be: rounding of 384 to 4096 squares in the dtype, with a wide margin.
_UNIT_TOLERANCE = {"float64": 1e-3, "float32": 1e-3, "float16": 1e-2, "bfloat16": 3e-2}


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
        model_id: the model's name, with or without the part before the slash; None for a model without one.

    Returns:
        2.0, for a model that is known to make unit vectors, and as the default for one that is not known.

    Raises:
        TypeError: model_id is neither a string nor None.

    Guarantees:
        It bounds embeddings of unit norm. `dp_embedding_middleware` enforces it for every model that it accepts: it clips rows, and
        checks the norms of models that are not in the table.

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
    """The L2 sensitivity of a model that is known to make unit vectors; refused for any other.

    Args:
        model_id: the model's name, with or without the part before the slash.

    Returns:
        2.0, when one text is replaced by another.

    Raises:
        ValueError: the model is not in the table. `get_sensitivity` answers 2.0 for it too, which holds once its rows are clipped or
            normalized.

    Guarantees:
        It bounds embeddings of unit norm, which models of the table make. Nothing is measured here: `dp_embedding_middleware` clips.

    Edge cases:
        Names are compared without regard to case and to the part before the last slash. `nomic-embed-text` is not in the table, as
        no package says that it normalizes.

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
    if not isinstance(model_id, str):
        raise TypeError(f"model_id must be a str, got {validate.kind(model_id)}")
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
        samples: at least 2 texts, as different as the ones to come; None for ten built-in ones. They must not be private: nothing
            protects what the estimate reveals about them.

    Returns:
        2.0 if all embeddings have unit norm; else an `EmpiricalSensitivity`: the largest distance between two of them, plus 10 %.

    Raises:
        TypeError, ValueError: fewer than 2 texts, a model that cannot embed, NaN or Inf in its rows, rows that are all the same.

    Guarantees:
        None for an `EmpiricalSensitivity`: two texts that were not sampled may be farther apart. `dp_embedding_middleware` labels
        releases based on one as empirical, and the receipt states the actual epsilon of the noise.

    Edge cases:
        A clip norm needs no estimate: prefer `clip_norm=` for a model that does not make unit vectors.

    Reference:
        docs/middleware.md.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> hv.calibrate_sensitivity(lambda texts: np.eye(2, dtype=np.float32)[[len(text) % 2 for text in texts]])
        2.0
    """
    if isinstance(samples, (str, bytes)) or not isinstance(samples, (Sequence, type(None))):
        raise TypeError(f"samples must be a sequence of strings or None, got {validate.kind(samples)}")
    texts = list(_SAMPLES if samples is None else samples)
    if len(texts) < 2:
        raise ValueError(f"samples must hold at least 2 texts, got {len(texts)}")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"samples must be strings, got {validate.kind(text)}")
    values = read_answer(as_embedding_model(model).embed(texts), len(texts)).values
    if first_row_off_unit(values) is None:
        return UNIT_SENSITIVITY
    rows = np.asarray(on_host(values), np.float64)
    distance = max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)
    if distance == 0:
        raise ValueError("samples must have different embeddings, got the same one for all of them")
    return EmpiricalSensitivity(distance, float(np.linalg.norm(rows, axis=1).max()), len(texts))


def first_row_off_unit(values: Any) -> tuple[int, float] | None:
    """The first row whose norm is not 1 within its dtype's rounding, and that norm."""
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
