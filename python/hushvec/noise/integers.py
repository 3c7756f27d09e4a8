"""Rows of whole numbers: the exact clip, and discrete noise on top of it; no privacy claim. docs/proofs/discrete_gaussian.md."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.arrays import CheckedRows, as_matrix, rows_and_dimension, shared
from hushvec._util.validate import kind
from hushvec.noise.discrete import DTYPES, discrete_gaussian, discrete_laplacian

_LAWS = {"discrete_gaussian": discrete_gaussian, "discrete_laplacian": discrete_laplacian}
_BLOCK = 1 << 16  # elements that are clipped together
_ROOM = 2.0**-50  # more than the relative error of five roundings


def whole_rows(name: str, x: Any) -> CheckedRows:
    """Rows of whole numbers as an array that `clip_and_add` takes."""
    x = shared(name, x)
    if type(x) is not np.ndarray or x.dtype.name not in DTYPES or not x.dtype.isnative:
        got = f"{kind(x)} of {x.dtype}" if hasattr(x, "dtype") else kind(x)
        raise TypeError(f"{name} must be a numpy array of int64 or int32 for discrete noise ('gaussian' takes floats), got {got}")
    if x.ndim not in (1, 2):
        raise ValueError(f"{name} must have 1 or 2 dimensions, got {x.ndim}")
    return CheckedRows(x, *rows_and_dimension(x), x.dtype.name, on_cuda=False, finite=True)


def clip_whole(rows: NDArray[np.int64], clip_norm: float, norm: str) -> None:
    """Bring rows of a norm N, "l1" or "l2", above clip_norm to it, in place: x becomes the integer part of x clip_norm / N, exactly.

    The other rows stay as they are.
    """
    power, dimension = {"l1": 1, "l2": 2}[norm], rows.shape[1]
    bound = Fraction(clip_norm) ** power
    if dimension == 1:
        rows.clip(-min(int(clip_norm), 2**63), min(int(clip_norm), 2**63 - 1), out=rows)
        return
    sizes = np.abs(rows).view(np.uint64)  # of -2^63 too
    if int(sizes.max(initial=0)) ** power * dimension < 2**63:
        small = sizes.view(np.int64)
        sums: Any = small.sum(axis=1) if power == 1 else np.einsum("ij,ij->i", small, small)
        long = np.flatnonzero(sums > min(math.floor(bound), 2**63 - 1))
    else:
        sums = [sum(size**power for size in row) for row in sizes.tolist()]
        long = np.array([row for row, total in enumerate(sums) if total > bound], np.intp)
    if not len(long):
        return
    longer, totals = rows[long], [int(sums[row]) for row in long]
    norms = np.array([float(total) for total in totals])
    least = longer * (clip_norm / (norms if norm == "l1" else np.sqrt(norms)))[:, None]
    most = least * (1 + _ROOM)
    least *= 1 - _ROOM
    np.trunc(least, out=least)
    rows[long] = least
    for row, column in np.argwhere(least != np.trunc(most, out=most)).tolist():
        element = int(longer[row, column])
        size = abs(element) ** power * bound.numerator // (totals[row] * bound.denominator)
        size = size if norm == "l1" else math.isqrt(size)
        rows[long[row], column] = -size if element < 0 else size


def clip_and_add(x: NDArray[Any], clip_norm: float, norm: str, law: str, scale: float, source: _core.Generator) -> NDArray[Any]:
    """A new array of x's shape and dtype: rows after `clip_whole`, with discrete noise; sums beyond the dtype are its ends."""
    noisy: NDArray[Any] = _LAWS[law](x.shape, scale, generator=source)
    rows, target = as_matrix(x), as_matrix(noisy)
    step = max(1, _BLOCK // max(1, x.shape[-1]))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        clipped = np.array(rows[part], np.int64, order="C")  # a copy, since others may write to x
        clip_whole(clipped, clip_norm, norm)
        noise = target[part]
        total = clipped + noise  # modulo 2^64
        signs = (clipped ^ total) & (noise ^ total)
        if signs.min() < 0:
            over = signs < 0
            total[over] = np.where(noise[over] < 0, -(2**63), 2**63 - 1)
        target[part] = total
    if x.dtype == np.int64:
        return noisy
    return noisy.clip(-(2**31), 2**31 - 1).astype(np.int32)
