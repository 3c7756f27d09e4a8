"""Matrix products whose every element depends on nothing but its own row and column.

With a BLAS the bits of an inner product may depend on the rows' places, on what else is multiplied, and on the number of threads.
Use these for everything that is ranked, compared for equality or reported. In float32 they take about the time of a BLAS, in
float64 up to three times as long. The portable backend rounds each step twice; the others (cpp/src/products) give the same bits.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core

__all__ = ["inner_products", "product"]

Float = TypeVar("Float", np.float32, np.float64)


def inner_products(a: NDArray[Float], b: NDArray[Float]) -> NDArray[Float]:
    """<a_i, b_j> of all rows: float32 or float64 [m, d] and [n, d] of one dtype give [m, n]. d = 0 gives zeros.

    Guarantees:
        Element (i, j) depends on a[i] and b[j] alone: not on i and j, m and n, the layout of the arrays or the number of threads.
        Infinite sums and NaN are returned without a warning.
    """
    out = np.empty((len(a), len(b)), a.dtype)
    if out.size:
        _core.inner_products(np.require(a, requirements=["C", "A"]), np.require(b, requirements=["C", "A"]), out)
    return out


def product(a: NDArray[Float], b: NDArray[Float]) -> NDArray[Float]:
    """a @ b, as `inner_products` of a's rows [..., d] and b's columns [d, n] or [d]."""
    rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    return inner_products(rows, b.T if b.ndim == 2 else b[None, :]).reshape(*a.shape[:-1], *b.shape[1:])
