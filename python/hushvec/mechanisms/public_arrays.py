"""Public float32 arrays that mechanisms use: checked, and named by a digest; and rows compared with them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays, conversion, rowwise
from hushvec._native.products import inner_products
from hushvec._util import validate

Rows = NDArray[np.float32]

# Keys: the array's name, whether torch has it, and the device.
_copies: WeakKeyDictionary[Any, dict[tuple[str, bool, str], Any]] = WeakKeyDictionary()

_SCORES_AT_ONCE = 1 << 21  # 8 MiB of float32


def digest_of(kind: str, version: int, arrays: Mapping[str, Rows]) -> str:
    """SHA-256, in hexadecimal: kind and version, then name, shape and every float32 of each array, little-endian."""
    content = hashlib.sha256(f"hushvec public {kind} {version}\n".encode())
    for name, array in arrays.items():
        content.update(f"{name} {array.shape}\n".encode())
        content.update(np.ascontiguousarray(array, "<f4").tobytes())
    return content.hexdigest()


def frozen(name: str, array: Any, dimensions: int) -> Rows:
    """A read-only float32 copy: the digest is of what is used."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        raise TypeError(f"{name} must be a float32 numpy array, got {getattr(array, 'dtype', validate.kind(array))}")
    if array.ndim != dimensions or array.shape[-1] == 0:
        raise ValueError(f"{name} must have {dimensions} dimension{'s' * (dimensions > 1)}, none empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    # + 0.0 makes -0.0 the zero that it equals, so that equal arrays have equal digests
    copy: Rows = np.array(array, np.float32, order="C") + np.float32(0.0)
    copy.flags.writeable = False
    return copy


def checked_public_rows(name: str, given: Any) -> Any:
    """At least two finite rows that something public can be fitted on, as an array."""
    rows = conversion.as_array(name, given)
    arrays.require_array(name, rows)
    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 1:
        raise ValueError(f"{name} must have at least two rows and one column, got shape {tuple(rows.shape)}")
    rowwise.require_finite(name, rows)
    return rows


def unit_rows(rows: Any) -> Rows:
    """Rows [n, d] at unit length, computed in float64; rows of zeros stay zero."""
    wide = np.asarray(rows, np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: Rows = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0).astype(np.float32)
    return unit


def nearest_codes(rows: Rows, codes: Rows) -> NDArray[np.int32]:
    """The number of the code with the largest inner product, for each row; of equal ones the first."""
    at_once = max(1, _SCORES_AT_ONCE // len(codes))
    nearest = np.empty(len(rows), np.int32)
    for first in range(0, len(rows), at_once):
        nearest[first : first + at_once] = np.argmax(inner_products(rows[first : first + at_once], codes), axis=1)
    return nearest


def copy_on_device(owner: Any, name: str, public: Rows, like: Any) -> Any:
    """A copy of an owner's public array on the device of `like`, made once and kept for as long as the owner lives."""
    copies = _copies.setdefault(owner, {})
    key = (name, arrays.is_torch(like), arrays.device_of(like))
    if key not in copies:
        copies[key] = arrays.copy_beside(like, public)
    return copies[key]


def as_narrow_rows(x: Any) -> Any:
    """Rows on a device as the search for their codes takes them: in order, and float64 at unit length in float32."""
    rows = arrays.in_order(arrays.as_matrix(x))
    if arrays.dtype_name(rows) != "float64":
        return rows
    unit = rowwise.unit_rows(rows, arrays.empty_like(rows))
    narrow = arrays.new_array(rows, tuple(rows.shape), dtype="float32")
    with arrays.device_scope(rows):
        narrow[...] = unit
    return narrow


def as_float32(x: Any) -> Rows:
    """In float32; rows of float64, which may be beyond its range, to unit length first."""
    values = x.detach() if arrays.is_torch(x) else x
    if arrays.dtype_name(x) == "float64":
        wide = np.atleast_2d(np.asarray(values))
        largest = np.abs(wide).max(axis=1, keepdims=True, initial=0)
        return unit_rows(np.divide(wide, largest, out=np.zeros_like(wide), where=largest > 0))
    return np.ascontiguousarray(values.float().cpu().numpy() if arrays.is_torch(x) else values, np.float32)


def unit_public_rows(public_rows: Any, name: str = "public_rows") -> Rows:
    """Public rows at unit length in float32, a new array.

    Args:
        public_rows: float array [n, d], n >= 2.
        name: of the argument, for errors.

    Raises:
        TypeError, ValueError: no such array, NaN or Inf, a row of zeros.
    """
    rows = unit_rows(as_float32(checked_public_rows(name, public_rows)))
    empty = np.flatnonzero(~rows.any(axis=1))
    if len(empty):
        raise ValueError(f"{name} must have no row of zeros, which has no direction, got one at row {int(empty[0])}")
    return rows
