"""Which rows a public map or codebook was fitted on, as digests, so that a release of one of them is refused."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays

Words = NDArray[np.uint64]

# The field of files.
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
        """Of rows [n, d], which are public: whoever has a row can tell whether it is among them."""
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
        """Of `words_of`."""
        return cls(words) if words.size else None

    def first_in(self, x: Any) -> int | None:
        """The number of the first row of x [n, d] that is known, or None."""
        for start in range(0, len(x), _AT_ONCE):
            keys = _keys(x[start : start + _AT_ONCE])
            for place in np.flatnonzero(_has(self.words[0], keys)) + start:
                if _has(self.words[1], np.array([_digest(_as_float32(x[place : place + 1])[0])], np.uint64))[0]:
                    return int(place)
        return None


def words_of(fitted: FittedRows | None) -> Words:
    """As files have them: none where no row is known."""
    return np.empty((2, 0), np.uint64) if fitted is None else fitted.words


def require_other_rows(what: str, fitted: FittedRows | None, x: Any, name: str = "x", first_row: int = 0) -> None:
    """Refuse rows that `what` was fitted on.

    Args:
        what: "projection" or "codebook".
        x: [d] or [n, d], numpy, torch or CuPy: rows to be released.
        name: of the argument, for errors.
        first_row: number of x's first row in the whole input.

    Raises:
        ValueError: one of them is among the fitted rows; it is named.
    """
    place = None if fitted is None else fitted.first_in(arrays.as_matrix(x))
    if place is not None:
        raise ValueError(
            f"{what} must be fitted on public rows, not on those to be released: row {first_row + place} of {name} is one that it was "
            "fitted on (leave it out of one of the two)"
        )


def _has(known: Words, wanted: Words) -> NDArray[np.bool_]:
    """Which of `wanted` are among `known`, which are in order."""
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
