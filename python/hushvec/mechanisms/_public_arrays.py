"""Public float32 arrays that mechanisms rest on: checked, and named by a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays
from hushvec._util import validate


def digest_of(kind: str, version: int, arrays: Mapping[str, NDArray[np.float32]]) -> str:
    """SHA-256, in hexadecimal: kind and version, then name, shape and every float32 of each array, little-endian."""
    content = hashlib.sha256(f"hushvec public {kind} {version}\n".encode())
    for name, array in arrays.items():
        content.update(f"{name} {array.shape}\n".encode())
        content.update(np.ascontiguousarray(array, "<f4").tobytes())
    return content.hexdigest()


def frozen(name: str, array: Any, dimensions: int) -> NDArray[np.float32]:
    """A read-only float32 copy: the digest is of what is used."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        raise TypeError(f"{name} must be a float32 numpy array, got {getattr(array, 'dtype', validate.kind(array))}")
    if array.ndim != dimensions or array.shape[-1] == 0:
        raise ValueError(f"{name} must have {dimensions} dimension{'s' * (dimensions > 1)}, none empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    # + 0.0 makes -0.0 the zero that it equals, so that equal arrays have equal digests
    copy: NDArray[np.float32] = np.array(array, np.float32, order="C") + np.float32(0.0)
    copy.flags.writeable = False
    return copy


def require_public_rows(name: str, rows: Any) -> None:
    """At least two finite rows that something public can be fitted on."""
    arrays.require_array(name, rows)
    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 1:
        raise ValueError(f"{name} must have at least two rows and one column, got shape {tuple(rows.shape)}")
    arrays.require_finite(name, rows)


def unit_rows(rows: Any) -> NDArray[np.float32]:
    """Rows [n, d] at unit length, computed in float64; rows of zeros stay zero."""
    wide = np.asarray(rows, np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0).astype(np.float32)
    return unit
