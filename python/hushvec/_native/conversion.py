"""What users give in place of a float array: lists, tuples, sequences of arrays, arrays of integers.

Numbers become float32. A float array in a sequence keeps its dtype, as numpy stacks it. Whole numbers above 2^24 are refused:
float32 would round them, and a dtype that depended on the values would tell something about them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.arrays import NUMPY_DTYPES, CheckedRows, dtype_name, is_cupy, is_torch
from hushvec._native.rowwise import checked_rows
from hushvec._util.recording import require_no_recorder
from hushvec._util.validate import kind

# Every whole number up to this power of two is a number of the dtype.
_WHOLE_BITS = {"float16": 11, "float32": 24, "float64": 53}
_LARGEST_WHOLE = 1 << _WHOLE_BITS["float32"]
_SMALL_INTEGERS = 2  # bytes of integers that cannot exceed it


def as_array(name: str, x: Any) -> Any:
    """An array as it is. Lists, tuples and integers in CPU memory as a new float array."""
    if type(x) is np.ndarray and x.dtype.kind == "f":  # as nearly always
        return x
    return _converted(name, x) if isinstance(x, (list, tuple)) or _is_whole(x) else x  # torch 2.8 cannot follow list | tuple


def dtype_after(dtype: np.dtype[Any]) -> str:
    """What `as_array` makes of a numpy array's dtype, by name."""
    return "float32" if dtype.kind in "iu" else dtype.name


def given_rows(name: str, x: Any, *, finite: bool) -> CheckedRows:
    """`checked_rows` of what a user gave: `as_array` comes first."""
    return checked_rows(name, as_array(name, x), finite=finite)


def _converted(name: str, x: Any) -> Any:
    require_no_recorder()  # values that are traced cannot be looked at
    return _of_sequence(name, x) if isinstance(x, list | tuple) else _of_integers(name, x)


def _of_sequence(name: str, x: Sequence[Any]) -> Any:
    for is_its_own, module in ((is_torch, "torch"), (is_cupy, "cupy")):
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
    if array.dtype.kind != "f":
        raise _not_numbers(name, x, array)
    if array.dtype.name in NUMPY_DTYPES and any(isinstance(row, np.ndarray) for row in x):
        _refuse_rounded_integers(name, x, array, array.dtype.name)
        return array
    return _narrowed(name, x, array)


def _stacked(name: str, x: Sequence[Any], library: Any) -> Any:
    shapes = [tuple(row.shape) for row in x]
    for place, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(f"{name} must have rows of one length, got shape {shape} in row {place} and {shapes[0]} in row 0")
    array = library.stack(list(x))
    return _of_integers(name, array) if _is_whole(array) else array


def _is_whole(x: Any) -> bool:
    """Whether an array of numpy or torch holds integers and lies in CPU memory."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "iu" and not isinstance(x, np.ma.MaskedArray)
    if not is_torch(x) or x.device.type != "cpu":
        return False
    return dtype_name(x) in ("uint8", "int8", "int16", "int32", "int64")


def _of_integers(name: str, x: Any) -> Any:
    if x.dtype.itemsize > _SMALL_INTEGERS and len(x.reshape(-1)) and (x.max() > _LARGEST_WHOLE or x.min() < -_LARGEST_WHOLE):
        values = np.asarray(x).reshape(-1)
        raise _too_large(name, int(values[(values > _LARGEST_WHOLE) | (values < -_LARGEST_WHOLE)][0]))
    return x.float() if is_torch(x) else x.astype(np.float32)


def _narrowed(name: str, x: Sequence[Any], array: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers of a sequence in float32; NaN and Inf are the caller's to refuse."""
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    lost = np.isinf(narrow) & np.isfinite(array)
    if lost.any():
        raise ValueError(f"{name} must be in the range of float32, got {float(array[lost][0])!r} (a float64 array keeps its range)")
    _refuse_rounded_integers(name, x, array, "float32")
    return narrow


def _not_numbers(name: str, x: Sequence[Any], array: NDArray[Any]) -> Exception:
    """Why numpy found no numbers in a sequence."""
    large = _first_large(x, "float32")
    if large is not None:
        return _too_large(name, large)
    return TypeError(f"{name} must hold numbers, got {_odd_kind(x) or array.dtype.name} in it")


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
    """Why numpy made no array of a sequence: rows of several lengths, or something among them that is no row."""
    odd = _odd_kind(x)
    if odd is not None:
        return TypeError(f"{name} must hold numbers, got {odd} in it")
    lengths = [_length(row) for row in x]
    place = next((place for place, length in enumerate(lengths) if length != lengths[0]), None)
    if place is None:
        return ValueError(f"{name} must have rows of one length, got lengths that differ within row 0")
    return ValueError(f"{name} must have rows of one length, got {lengths[place]} in row {place} and {lengths[0]} in row 0")


def _odd_kind(x: Sequence[Any]) -> str | None:
    """The kind of the first thing in a sequence that is not a number here."""
    numbers = (int, float, np.integer, np.floating)
    return next((kind(leaf) for leaf in _leaves(x) if isinstance(leaf, bool) or not isinstance(leaf, numbers)), None)


def _length(row: Any) -> str:
    return "a number" if isinstance(row, float | np.number | int) else str(len(row))


def _leaves(x: Any) -> Iterator[Any]:
    """What a nested sequence holds in the end."""
    for part in x:
        if isinstance(part, list | tuple):
            yield from _leaves(part)
        elif isinstance(part, np.ndarray):
            yield from part.ravel()
        elif is_torch(part):
            yield from part.detach().reshape(-1).tolist()
        else:
            yield part
