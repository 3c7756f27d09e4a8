"""Rows of whole numbers: the exact clip, and discrete noise on top of it; no privacy claim. docs/proofs/discrete_gaussian.md."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.arrays import CheckedRows, rows_and_dimension, shared
from hushvec._util.validate import kind
from hushvec.noise.discrete import DTYPES


def whole_rows(name: str, x: Any) -> CheckedRows:
    """Rows of whole numbers as an array that `clip_and_add` takes."""
    x = shared(name, x)
    if type(x) is not np.ndarray or x.dtype.name not in DTYPES or not x.dtype.isnative:
        got = f"{kind(x)} of {x.dtype}" if hasattr(x, "dtype") else kind(x)
        raise TypeError(f"{name} must be a numpy array of int64 or int32 for discrete noise ('gaussian' takes floats), got {got}")
    if x.ndim not in (1, 2):
        raise ValueError(f"{name} must have 1 or 2 dimensions, got {x.ndim}")
    return CheckedRows(x, *rows_and_dimension(x), x.dtype.name, on_cuda=False, finite=True)


def clip_and_add(x: NDArray[Any], clip_norm: float, law: str, scale: float, source: _core.Generator) -> NDArray[Any]:
    """A new array of x's shape and dtype: rows after the exact clip, with discrete noise; sums beyond the dtype are its ends.

    A row of a norm N above clip_norm, L2 for "discrete_gaussian" and L1 for "discrete_laplacian", is brought to it: x becomes the
    integer part of x clip_norm / N, exactly. The other rows stay as they are.
    """
    return _core.clip_and_add_discrete(np.require(x, requirements=("C", "A")), clip_norm, law == "discrete_laplacian", scale, source)
