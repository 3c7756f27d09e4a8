"""Public arrays that mechanisms use, and `FittedRows`: digests of the rows they were fitted on, whose release is refused."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays, rowwise
from hushvec._native.products import inner_products
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec._util.publish import SHARED, published_bytes


class Digested(Protocol):
    @property
    def digest(self) -> str: ...


Made = TypeVar("Made", bound=Digested)


def save_npz(path: str | os.PathLike[str], version: int, digest: str, fields: Mapping[str, Any]) -> None:
    """Write fields with their format's version and the digest, atomically."""
    with published_bytes(Path(path), mode=SHARED) as file:
        np.savez(file, format=version, digest=digest, **fields)


def load_npz(
    path: str | os.PathLike[str], what: str, version: int, fields: Collection[str], make: Callable[[dict[str, Any]], Made]
) -> Made:
    """What `make` makes of the fields of a file of `save_npz`, which must have these and no others. Nothing is unpickled."""
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                expected = ("format", "digest", *fields)
                if sorted(archive.files) != sorted(expected):
                    raise ValueError(f"fields must be {', '.join(expected)}, got {', '.join(archive.files)}")
                stored = {name: archive[name] for name in archive.files}
            if stored["format"].shape != () or int(stored["format"]) != version:
                raise ValueError(f"format must be {version}, got {stored['format']}")
            made = make(stored)
        # whatever the reader raises for a damaged archive: zip, zlib and numpy each have their own errors
        except Exception as mistake:
            raise ValueError(f"{os.fspath(path)} is not a saved {what}: {mistake}") from None
    if made.digest != str(stored["digest"]):
        raise ValueError(f"{os.fspath(path)} has digest {made.digest}, but says {stored['digest']}")
    return made


Words = NDArray[np.uint64]

# The format of files, and a field of them.
FORMAT = 1
FITTED_ROWS = "fitted_rows"

# Of more rows those with the smallest digests are kept: 16 MiB.
MOST_KEPT = 2**20

_AT_ONCE = 4096

# A row's key is made of this many of its elements. Only rows with a known key are read as a whole.
_SAMPLED = 8
_ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Keys and digests of public rows: a row is known if both its key and its digest are.

    Args:
        words: uint64 [2, n], n <= 2^20: keys, digests, each in increasing order.

    Guarantees:
        A row that was given to `of` is found as float32, float64 (rounded to it), float16 or bfloat16 if they hold the same numbers,
        numpy, torch or CuPy, in any layout. Of more than 2^20 rows, as many are known. Another row of n is found with probability
        n 2^-64. Rows of zeros are never found. Not found: a row that was scaled, normalized, rounded or changed in any element.
    """

    words: Words

    def __post_init__(self) -> None:
        if self.words.dtype != np.uint64 or self.words.ndim != 2 or len(self.words) != 2:
            raise ValueError(f"fitted_rows must be uint64 [2, n], got {self.words.dtype} {list(self.words.shape)}")

    @classmethod
    def of(cls, rows: Any) -> FittedRows:
        """Keys and digests of public rows [n, d]: whoever has a row can tell whether it is among them."""
        keys, digests = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for start in range(0, len(rows), _AT_ONCE):
            part = _as_float32(rows[start : start + _AT_ONCE])
            part = part[part.any(axis=1)]
            keys.append(_keys(part))
            digests.append(np.fromiter(map(_digest, part), np.uint64, len(part)))
        found = np.stack([np.concatenate(keys), np.concatenate(digests)])
        kept = np.sort(found[:, np.argsort(found[1])[:MOST_KEPT]], axis=1)
        kept.flags.writeable = False
        return cls(kept)

    @classmethod
    def stored(cls, words: Words) -> FittedRows | None:
        """As files have them: none where no row is known."""
        return cls(words) if words.size else None

    def first_in(self, x: Any) -> int | None:
        """The number of the first row of x [n, d] that is known, or None."""
        for start in range(0, len(x), _AT_ONCE):
            keys = _keys(x[start : start + _AT_ONCE])
            for place in np.flatnonzero(_has(self.words[0], keys)) + start:
                if _has(self.words[1], np.array([_digest(_as_float32(x[place : place + 1])[0])], np.uint64))[0]:
                    return int(place)
        return None


def require_other_rows(what: str, fitted: FittedRows | None, x: Any, name: str = "x", first_row: int = 0) -> None:
    """Refuse rows [d] or [n, d] that a projection or codebook was fitted on. `first_row` is x's first in the whole input."""
    place = None if fitted is None else fitted.first_in(arrays.as_matrix(x))
    if place is not None:
        raise ValueError(
            f"{what} must be fitted on public rows, not on those to be released: row {first_row + place} of {name} is one that it was "
            "fitted on (leave it out of one of the two)"
        )


def _has(known: Words, wanted: Words) -> NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(wanted), np.bool_)
    found: NDArray[np.bool_] = known[np.searchsorted(known, wanted).clip(max=len(known) - 1)] == wanted
    return found


def _as_float32(rows: Any) -> NDArray[np.float32]:
    """A copy in C order in CPU memory, without -0.0."""
    values = rows.detach().cpu().float().numpy() if arrays.is_torch(rows) else rows.get() if arrays.is_cupy(rows) else rows
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, "<f4") + np.float32(0.0)


@lru_cache(maxsize=64)
def _sampled(columns: int) -> list[int]:
    places: list[int] = np.linspace(0, columns - 1, _SAMPLED).astype(np.intp).tolist()
    return places


def _keys(rows: Any) -> Words:
    sampled = _as_float32(rows[:, _sampled(rows.shape[1])])
    keys: Words = (sampled.view(np.uint64) * _ODD).sum(axis=1, dtype=np.uint64)
    return keys


def _digest(row: NDArray[np.float32]) -> int:
    return int.from_bytes(hashlib.blake2b(row.data, digest_size=8).digest(), "little")


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


class PublicArrays:
    """Base of what is fitted on public rows: named by a digest, equal if its arrays are, kept in .npz files."""

    kind: ClassVar[str]  # "codebook", in files and errors
    fitted_rows: FittedRows | None

    def _stored(self) -> dict[str, Any]:
        raise NotImplementedError

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal: format, shapes, and every float32 of the arrays, little-endian."""
        return digest_of(self.kind, FORMAT, self._stored())

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz file, atomically, from which whoever has a row can tell whether this was fitted on it."""
        words = np.empty((2, 0), np.uint64) if self.fitted_rows is None else self.fitted_rows.words
        save_npz(path, FORMAT, self.digest, {FITTED_ROWS: words, **self._counts(), **self._stored()})

    def _counts(self) -> dict[str, int]:
        return {}


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


def checked_public_rows(name: str, given: Any, at_least: int = 2) -> Any:
    """Finite rows that something public can be fitted on, at least two, or as many as asked for; as an array."""
    rows = as_array(name, given)
    arrays.require_array(name, rows)
    if rows.ndim != 2 or rows.shape[0] < at_least or rows.shape[1] < 1:
        least = "two rows" if at_least == 2 else "one row"
        raise ValueError(f"{name} must have at least {least} and one column, got shape {tuple(rows.shape)}")
    rowwise.require_finite(name, rows)
    return rows


def unit_rows(rows: Any) -> Rows:
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


def unit_public_rows(public_rows: Any, name: str = "public_rows", at_least: int = 2) -> Rows:
    rows = unit_rows(as_float32(checked_public_rows(name, public_rows, at_least)))
    empty = np.flatnonzero(~rows.any(axis=1))
    if len(empty):
        raise ValueError(f"{name} must have no row of zeros, which has no direction, got one at row {int(empty[0])}")
    return rows
