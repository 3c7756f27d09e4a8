"""What looks at every row, on any device: the search for NaN and Inf, and rows of unit length. Both give one answer everywhere.

A kernel does it for arrays on a device. Where none can (no backend here, or rows that do not lie one after the other), the array's own
library searches, and unit rows are made in CPU memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from hushvec._native import _core, cuda
from hushvec._native.arrays import (
    CheckedRows,
    as_matrix,
    device_scope,
    dtype_name,
    empty_like,
    is_torch,
    library_of,
    nonfinite_error,
    on_cuda,
    require_array,
    rows_and_dimension,
)
from hushvec._util.recording import require_no_recorder

ArrayT = TypeVar("ArrayT")

# Elements that are looked at together: 256 KB of float32 in CPU memory, within a second-level cache; on a device, enough to fill it.
_HOST_RUN = 1 << 16
_DEVICE_RUN = 1 << 24


def checked_rows(name: str, x: Any, *, finite: bool) -> CheckedRows:
    """Rows after all checks of an array; NaN and Inf are checked only if `finite`."""
    require_array(name, x)
    if finite:
        require_no_recorder()  # values that are traced cannot be looked at
        require_finite(name, x)
    return CheckedRows(x, *rows_and_dimension(x), dtype_name(x), on_cuda(x), finite)


def require_finite(name: str, x: Any, *, first_row: int = 0) -> None:
    """`first_row` is the number of x's first row in the whole input that an error counts by."""
    row = first_nonfinite_row(x)
    if row is not None:
        raise nonfinite_error(name, x, row, first_row=first_row)


def first_nonfinite_row(x: Any) -> int | None:
    """Index of the first row that holds NaN or Inf."""
    if on_cuda(x) and cuda.takes(x):
        return cuda.find_bad_row(x)
    matrix = as_matrix(x)
    with device_scope(x):
        for rows in _row_runs(matrix):
            if _surely_finite(matrix[rows]):
                continue
            finite = library_of(x).isfinite(matrix[rows]).all(1)
            if not finite.all():
                return int(rows.start + int((~finite).nonzero()[0][0]))
    return None


def unit_rows(x: ArrayT, out: ArrayT) -> ArrayT:
    """x with every row divided by its L2 norm, in `out`; a zero row stays zero. x is finite; x and out may be the same.

    The norm is right to a few units in the last place for every finite row, the smallest and largest numbers included:
    squares of the narrow dtypes neither overflow nor vanish in float64, and a float64 row is scaled first.
    The bits of a row depend on nothing but the row (docs/format.md, section 10), on every device.
    """
    if not on_cuda(x):
        _core.unit_rows(x, out)
    elif cuda.takes(x, out):
        cuda.unit_rows(x, out, check=False)
    else:
        _unit_rows_by_the_core(x, out)
    return out


def checked_unit_rows(name: str, x: ArrayT, out: ArrayT, *, first_row: int = 0) -> ArrayT:
    """`unit_rows` of an x that may hold NaN or Inf, after `require_finite`; on a device both in one reading."""
    if on_cuda(x) and cuda.takes(x, out):
        row = cuda.unit_rows(x, out, check=True)
        if row is not None:
            raise nonfinite_error(name, x, row, first_row=first_row)
        return out
    require_finite(name, x, first_row=first_row)
    return unit_rows(x, out)


def _surely_finite(run: Any) -> bool:
    """A quick test of numpy arrays. False may also mean that squares overflow, or that there is no such test."""
    if not isinstance(run, np.ndarray):
        return False
    if run.dtype == np.float16:
        return bool(((run.view(np.uint16) & 0x7C00) != 0x7C00).all())  # exponents
    elements = run.ravel()
    with np.errstate(all="ignore"):
        return bool(np.isfinite(elements.dot(elements)))


def _unit_rows_by_the_core(x: Any, out: Any) -> None:
    """Rows on a device, a run at a time through CPU memory."""
    source, target = as_matrix(x), as_matrix(out)
    with device_scope(x):
        for rows in _row_runs(source):
            run = source[rows].cpu() if is_torch(x) else source[rows].get()
            unit = empty_like(run)
            _core.unit_rows(run, unit)
            target[rows] = unit if is_torch(x) else library_of(x).asarray(unit)


def _row_runs(matrix: Any) -> Iterator[slice]:
    rows, dimension = matrix.shape
    step = max(1, (_DEVICE_RUN if on_cuda(matrix) else _HOST_RUN) // max(1, dimension))
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))
