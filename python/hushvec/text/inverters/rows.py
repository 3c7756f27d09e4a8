"""Checks of the rows that inverters take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate

Rows = NDArray[np.float32]


def checked_rows(embeddings: Any, dimension: int) -> Rows:
    """Finite float rows [n, dimension] as float32; anything else raises TypeError or ValueError."""
    if not isinstance(embeddings, np.ndarray) or embeddings.dtype.kind != "f":
        raise TypeError(f"embeddings must be a numpy array of floats, got {getattr(embeddings, 'dtype', validate.kind(embeddings))}")
    if embeddings.ndim != 2 or embeddings.shape[1] != dimension:
        raise ValueError(f"embeddings must have shape (n, {dimension}), got {embeddings.shape}")
    with np.errstate(over="ignore"):  # becomes Inf, and is refused with the rest
        rows = np.ascontiguousarray(embeddings, np.float32)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise ValueError(f"embeddings must be finite in float32, got NaN or Inf in row {wrong[0]}")
    return rows
