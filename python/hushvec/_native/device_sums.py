"""`DeviceSums`: exact sums of clipped rows in CUDA memory, for `ClippedSum`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hushvec._native import _core, cuda
from hushvec._native.arrays import device_of, in_order, new_array
from hushvec._native.rowwise import require_finite


class DeviceSums:
    """One float64 array of whole units for each part of a row, as in the CPU's sum: the same bits for the same rows.

    Args:
        like: a torch or CuPy array on the device.
        lengths: the number of elements of each part.
        clip_norm, sigma, most_rows: as in `ClippedSum`.
    """

    def __init__(self, like: Any, lengths: Sequence[int], clip_norm: float, sigma: float, most_rows: int) -> None:
        self.device = device_of(like)
        self.rows = 0
        self._clip_norm, self._sigma, self._most_rows = clip_norm, sigma, most_rows
        self._sums = [new_array(like, (length,), dtype="float64") for length in lengths]
        for sums in self._sums:
            sums[...] = 0

    def add(self, matrices: Sequence[Any], names: Sequence[str]) -> None:
        """Add rows: [B, length] for each part. If it raises, nothing has changed."""
        rows = int(matrices[0].shape[0])
        most = min(self._most_rows, cuda.most_rows_of_sum(matrices[0], self._clip_norm, self._sigma))
        if self.rows + rows > most:
            reason = "most_rows" if most == self._most_rows else "the most on a CUDA device with this clip_norm and sigma"
            raise ValueError(f"rows of the sum must be <= {reason} = {most}, got {self.rows} + {rows}")
        for name, matrix in zip(names, matrices, strict=True):
            if device_of(matrix) != self.device:
                raise ValueError(f"{name} must be on {self.device} like the rows added before, got {device_of(matrix)}")
        given = [(in_order(matrix), sums) for matrix, sums in zip(matrices, self._sums, strict=True) if matrix.shape[1]]
        if given:
            scales, bad_row = cuda.sum_scales([matrix for matrix, _ in given], self._clip_norm)
            if bad_row is not None:
                for name, matrix in zip(names, matrices, strict=True):
                    require_finite(name, matrix)
                raise ValueError(f"parts must be finite, got NaN or Inf in row {bad_row}")
            for matrix, sums in given:
                cuda.add_to_sum(matrix, scales, sums)
        self.rows += rows

    def units(self) -> list[Any]:
        """Copies of the sums."""
        return [1.0 * sums for sums in self._sums]

    def replace(self, units: Sequence[Any], rows: int) -> None:
        """Hold these as the sums of so many rows. If it raises, nothing has changed."""
        most = min(self._most_rows, cuda.most_rows_of_sum(units[0], self._clip_norm, self._sigma))
        if rows > most:
            raise ValueError(f"rows of the sum must be <= {most}, got {rows}")
        for sums, part in zip(self._sums, units, strict=True):
            sums[...] = part
        self.rows = rows

    def release(self, results: Sequence[Any], source: _core.Generator) -> None:
        """Write the sums plus noise: float32[length] for each part, in order in memory."""
        if self._sigma > 0:
            cuda.release_sums(self._sums, self._clip_norm, self._sigma, results, source)
        else:
            for sums, result in zip(self._sums, results, strict=True):
                result[...] = sums * _unit(self._clip_norm)


def _unit(clip_norm: float) -> float:
    """2^-25 of the power of two at or above clip_norm."""
    significand, exponent = math.frexp(clip_norm)
    return math.ldexp(1.0, exponent - (significand == 0.5) - 25)
