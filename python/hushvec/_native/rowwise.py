"""Rows on any device: the search for NaN and Inf, rows of unit length, and what users give in place of a float array.

Lists, tuples, sequences of arrays and arrays of integers become float32. A float array in a sequence keeps its dtype, as numpy stacks
it. Whole numbers above 2^24 are refused: float32 would round them, and a dtype that depended on the values would tell something about
them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays, cuda
from hushvec._native.arrays import on_cuda
from hushvec._util.recording import require_no_recorder
from hushvec._util.validate import kind

__all__ = ["as_array", "require_finite", "unit_rows"]

ArrayT = TypeVar("ArrayT")

# Elements that are looked at together: 256 KB of float32 in CPU memory, within a second-level cache; on a device, enough to fill it.
_HOST_RUN = 1 << 16
_DEVICE_RUN = 1 << 24


def checked_rows(name: str, x: Any, *, finite: bool) -> arrays.CheckedRows:
    """Rows after all checks of an array; NaN and Inf are checked only if `finite`."""
    arrays.require_array(name, x)
    if finite:
        require_no_recorder()  # values that are traced cannot be looked at
        require_finite(name, x)
    return arrays.CheckedRows(x, *arrays.rows_and_dimension(x), arrays.dtype_name(x), on_cuda(x), finite)


def require_finite(name: str, x: Any, *, first_row: int = 0) -> None:
    """`first_row` is the number of x's first row in the whole input that an error counts by."""
    row = first_nonfinite_row(x)
    if row is not None:
        raise arrays.nonfinite_error(name, x, row, first_row=first_row)


def first_nonfinite_row(x: Any) -> int | None:
    if on_cuda(x) and cuda.takes(x):
        return cuda.find_bad_row(x)
    matrix = arrays.as_matrix(x)
    with arrays.device_scope(x):
        for rows in _row_runs(matrix):
            if _surely_finite(matrix[rows]):
                continue
            finite = arrays.library_of(x).isfinite(matrix[rows]).all(1)
            if not finite.all():
                return int(rows.start + int((~finite).nonzero()[0][0]))
    return None


def unit_rows(x: ArrayT, out: ArrayT) -> ArrayT:
    """x with every row divided by its L2 norm, in `out`; a zero row stays zero. x is finite; x and out may be the same.

    The norm is right to a few units in the last place for every finite row: squares of the narrow dtypes fit into float64, and a
    float64 row is scaled first. The bits of a row depend on nothing but the row (docs/format.md, section 10), on every device."""
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
            raise arrays.nonfinite_error(name, x, row, first_row=first_row)
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
    source, target = arrays.as_matrix(x), arrays.as_matrix(out)
    with arrays.device_scope(x):
        for rows in _row_runs(source):
            run = source[rows].cpu() if arrays.is_torch(x) else source[rows].get()
            unit = arrays.empty_like(run)
            _core.unit_rows(run, unit)
            target[rows] = unit if arrays.is_torch(x) else arrays.library_of(x).asarray(unit)


def _row_runs(matrix: Any) -> Iterator[slice]:
    rows, dimension = matrix.shape
    step = max(1, (_DEVICE_RUN if on_cuda(matrix) else _HOST_RUN) // max(1, dimension))
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))


# Every whole number up to this power of two is a number of the dtype.
_WHOLE_BITS = {"float16": 11, "float32": 24, "float64": 53}
_LARGEST_WHOLE = 1 << _WHOLE_BITS["float32"]
_SMALL_INTEGERS = 2  # bytes of integers that cannot exceed it


def given_array(name: str, x: Any) -> Any:
    """What a user gave `as_array`, after `require_array`."""
    if arrays.is_plain(x):
        return x
    x = as_array(name, x)
    arrays.require_array(name, x)
    return x


def as_array(name: str, x: Any) -> Any:
    """An array as it is, an exported one as it is `shared`. Lists, tuples and integers in CPU memory as a new float array."""
    if type(x) is np.ndarray and x.dtype.kind == "f":  # as nearly always
        return x
    x = arrays.shared(name, x)
    if not (isinstance(x, (list, tuple)) or _is_whole(x)):  # torch 2.8 cannot follow list | tuple
        return x
    require_no_recorder()  # values that are traced cannot be looked at
    return _of_sequence(name, x) if isinstance(x, (list, tuple)) else _of_integers(name, x)


def given_rows(name: str, x: Any, *, finite: bool) -> arrays.CheckedRows:
    """`checked_rows` of what a user gave: `as_array` comes first."""
    return checked_rows(name, as_array(name, x), finite=finite)


def dtype_after(dtype: np.dtype[Any]) -> str:
    """The dtype of `as_array` of a numpy array, by name."""
    return "float32" if dtype.kind in "iu" else dtype.name


def _of_sequence(name: str, x: Sequence[Any]) -> Any:
    if x and arrays.is_exported(x[0]):
        x = [arrays.shared(name, row) for row in x]
    for is_its_own, module in ((arrays.is_torch, "torch"), (arrays.is_cupy, "cupy")):
        if x and all(map(is_its_own, x)):
            return _stacked(name, x, sys.modules[module])
    if any(isinstance(row, np.ma.MaskedArray) for row in x):
        raise TypeError(f"{name} must hold plain numpy arrays, got MaskedArray (its mask would be lost)")
    try:
        array = np.asarray(x)
    except ValueError:
        raise _ragged(name, x) from None
    except (TypeError, RuntimeError):  # a tensor that numpy cannot read
        raise TypeError(f"{name} must hold numbers or arrays of one library in CPU memory, got a mixture") from None
    if array.dtype.kind in "iu":
        return _of_integers(name, array)
    if array.dtype.kind != "f":  # numpy found no numbers in it
        large = _first_large(x, "float32")
        if large is not None:
            raise _too_large(name, large)
        raise TypeError(f"{name} must hold numbers, got {_odd_kind(x) or array.dtype.name} in it")
    if array.dtype.name in arrays.NUMPY_DTYPES and any(isinstance(row, np.ndarray) for row in x):
        _refuse_rounded_integers(name, x, array, array.dtype.name)
        return array
    with np.errstate(over="ignore"):  # NaN and Inf are the caller's to refuse
        narrow = array.astype(np.float32)
    lost = np.isinf(narrow) & np.isfinite(array)
    if lost.any():
        raise ValueError(f"{name} must be in the range of float32, got {float(array[lost][0])!r} (a float64 array keeps its range)")
    _refuse_rounded_integers(name, x, array, "float32")
    return narrow


def _stacked(name: str, x: Sequence[Any], library: Any) -> Any:
    shapes = [tuple(row.shape) for row in x]
    for place, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(f"{name} must have rows of one length, got shape {shape} in row {place} and {shapes[0]} in row 0")
    array = library.stack(list(x))
    return _of_integers(name, array) if _is_whole(array) else array


def _is_whole(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "iu" and not isinstance(x, np.ma.MaskedArray)
    if not arrays.is_torch(x) or x.device.type != "cpu":
        return False
    return arrays.dtype_name(x) in ("uint8", "int8", "int16", "int32", "int64")


def _of_integers(name: str, x: Any) -> Any:
    if x.dtype.itemsize > _SMALL_INTEGERS and len(x.reshape(-1)) and (x.max() > _LARGEST_WHOLE or x.min() < -_LARGEST_WHOLE):
        values = np.asarray(x).reshape(-1)
        raise _too_large(name, int(values[(values > _LARGEST_WHOLE) | (values < -_LARGEST_WHOLE)][0]))
    return x.float() if arrays.is_torch(x) else x.astype(np.float32)


def _refuse_rounded_integers(name: str, x: Sequence[Any], array: NDArray[Any], dtype: str) -> None:
    """Refuse whole numbers in a sequence that the dtype does not have. `array` is the sequence as numpy has it."""
    if (np.abs(array) >= 1 << _WHOLE_BITS[dtype]).any():  # numpy may have rounded one to the limit itself
        large = _first_large(x, dtype)
        if large is not None:
            raise _too_large(name, large, dtype)


def _first_large(x: Sequence[Any], dtype: str) -> int | None:
    limit = 1 << _WHOLE_BITS[dtype]
    return next((int(leaf) for leaf in _leaves(x) if isinstance(leaf, int | np.integer) and abs(int(leaf)) > limit), None)


def _too_large(name: str, value: int, dtype: str = "float32") -> ValueError:
    hint = "" if dtype == "float64" else " (pass a float64 array)"
    return ValueError(
        f"{name} must hold whole numbers of at most 2^{_WHOLE_BITS[dtype]} in size, which {dtype} holds exactly, got {value}{hint}"
    )


def _ragged(name: str, x: Sequence[Any]) -> Exception:
    odd = _odd_kind(x)
    if odd is not None:
        return TypeError(f"{name} must hold numbers, got {odd} in it")
    lengths = [("a number" if isinstance(row, float | np.number | int) else str(len(row))) for row in x]
    place = next((place for place, length in enumerate(lengths) if length != lengths[0]), None)
    if place is None:
        return ValueError(f"{name} must have rows of one length, got lengths that differ within row 0")
    return ValueError(f"{name} must have rows of one length, got {lengths[place]} in row {place} and {lengths[0]} in row 0")


def _odd_kind(x: Sequence[Any]) -> str | None:
    numbers = (int, float, np.integer, np.floating)
    return next((kind(leaf) for leaf in _leaves(x) if isinstance(leaf, bool) or not isinstance(leaf, numbers)), None)


def _leaves(x: Any) -> Iterator[Any]:
    for part in x:
        if isinstance(part, list | tuple):
            yield from _leaves(part)
        elif isinstance(part, np.ndarray):
            yield from part.ravel()
        elif arrays.is_torch(part):
            yield from part.detach().reshape(-1).tolist()
        else:
            yield part
