"""The codes of a public codebook: encoding rows, decoding answers, and the file that holds them."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from hushvec._native import arrays, conversion, kernels, rowwise
from hushvec._util import validate
from hushvec._util.npz import load_npz, save_npz
from hushvec.mechanisms.fitted_rows import FITTED_ROWS, FittedRows, require_other_rows, words_of
from hushvec.mechanisms.public_arrays import (
    Rows,
    as_float32,
    as_narrow_rows,
    copy_on_device,
    digest_of,
    frozen,
    nearest_codes,
    unit_rows,
)
from hushvec.mechanisms.randomized_response import RandomizedResponse

FORMAT = 1
_ARRAYS = ("codes", "sums")
_MOST_CODES = 2**24

Codes = TypeVar("Codes", bound="PublicCodes")


@dataclass(frozen=True, eq=False)
class PublicCodes:
    """What `PublicCodebook` is made of, which documents it."""

    codes: Rows
    sums: Rows
    rows: int
    fitted_rows: FittedRows | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, frozen(name, getattr(self, name), 2))
        validate.whole_number("rows", self.rows, at_least=1)
        if not 2 <= len(self.codes) <= _MOST_CODES:
            raise ValueError(f"codes must be at least 2 and at most 2^24, got {len(self.codes)}")
        if self.sums.shape != self.codes.shape:
            raise ValueError(f"sums must have shape {self.codes.shape}, that of codes, got {self.sums.shape}")
        lengths = np.linalg.norm(self.codes.astype(np.float64), axis=1)
        if (np.abs(lengths - 1) > 1e-5).any():
            raise ValueError(f"codes must have unit length, got {float(lengths[np.abs(lengths - 1).argmax()])!r}")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def dimension(self) -> int:
        """d of the rows."""
        return int(self.codes.shape[1])

    def encode(self, x: Any) -> Any:
        """The number of the nearest code of each row, int32 [n]: private, not to be released.

        Args:
            x: float array [d] or [n, d], numpy, torch (CPU, CUDA) or CuPy, or a list, as in `hushvec.privatize`. Not changed.

        Returns:
            A numpy array, or for an x on a device an array of its kind there.

        Guarantees:
            A row's code depends on the row and the codes alone, and is the same under every instruction set but the portable one,
            and on CUDA. Of codes with equal scores the first. float64 rows are brought to unit length first, which a device rounds by
            docs/format.md section 10: where two codes are almost equally near, its code may be the other one.

        Raises:
            TypeError: wrong kinds.
            ValueError: another dimension, NaN or Inf.
            RuntimeError: an x on CUDA without the backend or a driver, or in a graph capture, which cannot wait for the check of x.
        """
        x = conversion.as_array("x", x)
        arrays.require_array("x", x)
        count, dimension = arrays.rows_and_dimension(x)
        if dimension != self.dimension:
            raise ValueError(f"x must have {self.dimension} columns, got {dimension}")
        if arrays.on_cuda(x):
            return self._encode_on_device(x)
        rowwise.require_finite("x", x)
        return nearest_codes(as_float32(x).reshape(count, dimension), self.codes)

    def _encode_on_device(self, x: Any) -> Any:
        kernels.require_device(x)
        x = arrays.in_order(x)
        rowwise.require_finite("x", x)
        return kernels.nearest_codes(as_narrow_rows(x), copy_on_device(self, "codes", self.codes, x))

    def decode(self, codes: Any, epsilon: float) -> Rows:
        """A unit row for each released code: the direction of the posterior mean of a public row, given the code.

        Args:
            codes: whole numbers in [0, k), released by randomized response with this epsilon for each.
            epsilon: > 0, of one row.

        Returns:
            float32 [n, d]. Post-processing: it costs nothing.
        """
        numbers = np.asarray(codes)
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"codes must be whole numbers, got {numbers.dtype}")
        outside = numbers[(numbers < 0) | (numbers >= len(self))]
        if outside.size:
            raise ValueError(f"codes must be >= 0 and < {len(self)}, got {int(outside.flat[0])}")
        decoded: Rows = self.decoded_codes(RandomizedResponse(epsilon=epsilon, k=len(self)))[numbers]
        return decoded

    def decoded_codes(self, response: RandomizedResponse) -> Rows:
        """[k, d]: sum over public rows u of P(code | u) u, to unit length."""
        truth, other = response.probability_of_truth, response.probability_of_each_other
        sums = self.sums.astype(np.float64)
        return unit_rows((truth - other) * sums + other * sums.sum(axis=0))

    def require_other_rows(self, x: Any, *, first_row: int = 0) -> None:
        """Refuse rows that the codebook was made from, as far as `PublicProjection.require_other_rows` can see. Every release asks.

        Args:
            x: float array [d] or [n, d]: rows to be released.
            first_row: number of x's first row in the whole input; an error counts by it.

        Raises:
            ValueError: a row is one of them; it is named. Whoever sees the refusal learns that.
        """
        require_other_rows("codebook", self.fitted_rows, x, first_row=first_row)

    def for_any_row(self: Codes) -> Codes:
        """The same codebook without digests of its rows, for what may well be one of them: a question to a public index, a
        benchmark that has texts twice."""
        found = copy(self)
        object.__setattr__(found, "fitted_rows", None)
        return found

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the codebook: format, shapes, and every float32 of codes and sums, little-endian."""
        return digest_of("codebook", FORMAT, self._stored())

    def _stored(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _ARRAYS}

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, PublicCodes) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} codes, dimension {self.dimension}, digest {self.digest[:12]})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the codebook as an .npz file: beside `path` first, then in one step onto it. With the digests of its public rows."""
        save_npz(path, FORMAT, self.digest, {FITTED_ROWS: words_of(self.fitted_rows), "rows": self.rows, **self._stored()})

    @classmethod
    def load(cls: type[Codes], path: str | os.PathLike[str]) -> Codes:
        """The codebook that `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is no such file, or not what was saved: its digest is another.
        """

        def made(stored: dict[str, Any]) -> Codes:
            return cls(stored["codes"], stored["sums"], int(stored["rows"]), FittedRows.stored(stored[FITTED_ROWS]))

        return load_npz(path, "codebook", FORMAT, (FITTED_ROWS, "rows", *_ARRAYS), made)
