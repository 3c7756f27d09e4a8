"""Matrix products whose every element depends on nothing but its own row and column.

A BLAS guarantees less: on many processors the bits of an inner product depend on the rows' places in a block, on what else is
multiplied in the same call, and on the number of threads. Rows that are equal then score differently, ties are broken by place, and
figures depend on how the work was divided. Use these for everything that is ranked, compared for equality or reported.

The kernel and the order of its sums: cpp/src/products/product_kernels.hpp. In float32 it takes about the time of a BLAS, in float64
up to three times as long. AVX2, AVX-512 and NEON give the same bits; the portable backend rounds each step twice.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core

Float = TypeVar("Float", np.float32, np.float64)


def inner_products(a: NDArray[Float], b: NDArray[Float]) -> NDArray[Float]:
    """<a_i, b_j> of all rows: float32 or float64 [m, d] and [n, d] of one dtype give [m, n]. d = 0 gives zeros.

    Guarantees:
        Element (i, j) depends on a[i] and b[j] alone: not on i and j, m and n, the layout of the arrays or the number of threads.
        Infinite sums and NaN are returned without a warning.

    Example:
        >>> import numpy as np
        >>> from hushvec._native.products import inner_products
        >>> rows = np.repeat(np.random.default_rng(0).standard_normal((1, 384)), 100, axis=0)
        >>> len(np.unique(inner_products(rows, rows[:7])))
        1
    """
    out = np.empty((len(a), len(b)), a.dtype)
    if out.size:
        _core.inner_products(np.require(a, requirements=["C", "A"]), np.require(b, requirements=["C", "A"]), out)
    return out


def product(a: NDArray[Float], b: NDArray[Float]) -> NDArray[Float]:
    """a @ b, as `inner_products` of a's rows [..., d] and b's columns [d, n] or [d]."""
    rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    return inner_products(rows, b.T if b.ndim == 2 else b[None, :]).reshape(*a.shape[:-1], *b.shape[1:])
