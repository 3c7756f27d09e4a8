"""Rows that attacks take: checked, and at unit length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def require_vectors(name: str, value: Any, dimensions: int) -> Vectors:
    """Finite floats of this many dimensions, as float32."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        raise TypeError(f"{name} must be a float array, got {array.dtype}")
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got {array.ndim}")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(f"{name} must be finite, got NaN or Inf in row {row}")
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise ValueError(f"{name} must be in the range of float32, got {float(np.abs(array).max())!r}")
    return narrow


def unit(vectors: Vectors) -> Vectors:
    """Rows at unit length; zero rows stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    rows: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return rows
