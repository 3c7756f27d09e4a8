"""Exact totals of private rows, before any noise: sums and counts by group, and second moments. Nothing here is private.

Rows are clipped to integers of a public unit and added as integers, so no order, block or device changes a bit.
docs/proofs/aggregates.md says why a row moves a total by no more than its sensitivity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, cuda
from hushvec._native.arrays import device_scope, in_order, is_cupy, is_torch, library_of, new_array, on_cuda
from hushvec._native.rowwise import require_finite
from hushvec.noise import clip

MOST_ROWS = 2**27
MOST_COLUMNS = 2**17  # of rows by group
MOST_ROWS_OF_MOMENTS = 2**26
_ELEMENTS_AT_ONCE = 1 << 22  # of rows that are changed before they are added: 16 MiB of float32
_ELEMENTS_OF_A_PRODUCT = 1 << 18  # made float64 at a time: 2 MiB, in the second-level cache
_SUM_BITS = 25  # of the elements of a clipped row of a sum: docs/format.md section 7
_MOMENT_BITS = 18  # of those of second moments
_ROWS_AT_ONCE = 1 << 17  # of which float64 adds the products of such elements without rounding


class GroupTotals:
    """The sums of clipped rows by group, as integers, and how many there are."""

    def __init__(self, groups: int, dimension: int, clip_norm: float) -> None:
        self.groups, self.dimension, self.clip_norm = groups, dimension, clip_norm
        self.counts = np.zeros(groups, np.int64)
        self.unit = _core.sum_unit(clip_norm)
        self._sum = _core.ClippedSum([dimension] * groups, clip_norm, 0.0, MOST_ROWS, "exact")
        self._on_device: list[Any] | None = None

    def add(self, rows: Any, codes: NDArray[np.uint32] | None, name: str = "rows") -> None:
        """Rows [n, d] of one device, and the group of each; all are of group 0 if None. If it raises, nothing has changed."""
        if len(rows) == 0:
            return
        _more_rows(int(self.counts.sum()), len(rows), MOST_ROWS)
        if on_cuda(rows):
            self._add_on_device(rows, codes, name)
        else:
            try:
                if codes is None:
                    self._sum.add([rows])
                else:
                    self._sum.add_grouped(rows, codes)
            except ValueError:  # the core knows no names: what is not finite is looked for again
                require_finite(name, rows)
                raise
        self.counts += np.bincount(codes, minlength=self.groups) if codes is not None else np.int64(len(rows))

    def sums(self) -> NDArray[np.int64]:
        """int64 [groups, d], in units of `unit`."""
        total = np.stack([units.astype(np.int64) for units in self._sum._units()])
        for group, part in enumerate(self._on_device or ()):
            total[group] += np.asarray(part.cpu() if is_torch(part) else part.get()).astype(np.int64)
        return total

    def restore(self, sums: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Hold these, which `sums` and `counts` of others have been, in place of what is here."""
        _more_rows(0, int(counts.sum()), MOST_ROWS)
        self._sum._replace(int(counts.sum()), list(sums.astype(np.float64)))
        self.counts, self._on_device = counts.copy(), None

    def _add_on_device(self, rows: Any, codes: NDArray[np.uint32] | None, name: str) -> None:
        """Rows are brought into the order of their groups, whose sums are those of runs."""
        require_finite(name, rows)
        rows = in_order(rows)
        if self._on_device is None:
            self._on_device = [new_array(rows, (self.dimension,), dtype="float64") for _ in range(self.groups)]
            for part in self._on_device:
                part[...] = 0
        if codes is not None:
            order = np.argsort(codes, kind="stable")
            codes = codes[order]
            rows = chosen(rows, order)
        ends = np.searchsorted(codes, np.arange(self.groups + 1)) if codes is not None else (0, len(rows))
        for group, part in enumerate(self._on_device):
            run = rows[int(ends[group]) : int(ends[group + 1])]
            if len(run):
                scales, _ = cuda.sum_scales([run], self.clip_norm)
                cuda.add_to_sum(run, scales, part)


class ProductTotals:
    """The sum of y x^T over pairs of rows that are clipped, y to `clip_norm` and x to 1 or `right_norm`, as integers."""

    def __init__(self, lines: int, dimension: int, clip_norm: float, right_norm: float = 1.0) -> None:
        self.dimension, self.rows = dimension, 0
        self._norms = (clip_norm, right_norm)
        self.unit = moment_unit(clip_norm) * moment_unit(right_norm)
        self._total = np.zeros((lines, dimension), np.int64)
        at_once = max(_ELEMENTS_OF_A_PRODUCT // max(1, dimension), 8 * lines, 1)  # so that adding a product costs less than making it
        self._wide = np.empty((min(_ROWS_AT_ONCE, at_once), dimension))

    def add(self, left: Any, right: Any) -> None:
        """Rows [n, lines] and [n, d], which may be one array."""
        rows_of_moments(self.rows, len(left))
        for block, other in zip(blocks(left, right.shape[1]), blocks(right, left.shape[1]), strict=True):
            one = whole_rows(block, self._norms[0])
            self.add_whole(one, one if right is left else whole_rows(other, self._norms[1]))

    def add_whole(self, left: NDArray[Any], right: NDArray[Any]) -> None:
        """A block of both, as `whole_rows` made them for the two norms."""
        self.rows = rows_of_moments(self.rows, len(left))
        for first in range(0, len(right), len(self._wide)):
            some = right[first : first + len(self._wide)]
            wide = self._wide[: len(some)]
            np.copyto(wide, some)
            other = wide if left is right else left[first : first + len(some)].astype(np.float64)
            self._total += (other.T @ wide).astype(np.int64)

    def total(self) -> NDArray[np.int64]:
        """int64 [lines, d], in units of `unit`."""
        return self._total


class MomentTotals(ProductTotals):
    """The sum of x x^T over rows that are clipped to `clip_norm`, as integers."""

    def __init__(self, dimension: int, clip_norm: float) -> None:
        super().__init__(dimension, dimension, clip_norm, clip_norm)

    def add(self, rows: Any) -> None:  # type: ignore[override]
        """Rows [n, d]."""
        super().add(rows, rows)


def whole_rows(rows: Any, clip_norm: float) -> NDArray[Any]:
    """Clipped rows of a block in whole units: cutting towards 0 makes no row longer, and products of whole numbers are whole.

    float32 [n, d] where that holds them, which is all of at most 2^24, or float64."""
    clipped, scale = np.asarray(on_host(clip(rows, clip_norm))), 1 / moment_unit(clip_norm)
    # The scale is a power of 2: float32 multiplies by it without rounding, unless the product has no place in it.
    kind = np.float32 if clipped.dtype.itemsize <= 4 and 2.0**-64 < scale < 2.0**64 else np.float64
    units: NDArray[Any] = np.multiply(clipped, kind(scale), dtype=kind)
    np.trunc(units, out=units)
    return units


def moment_unit(clip_norm: float) -> float:
    return _core.sum_unit(clip_norm) * 2.0 ** (_SUM_BITS - _MOMENT_BITS)


def rows_of_moments(before: int, rows: int) -> int:
    """How many rows of second moments there are with these."""
    return _more_rows(before, rows, MOST_ROWS_OF_MOMENTS)


def _more_rows(before: int, rows: int, most: int) -> int:
    if before + rows > most:
        raise ValueError(f"rows must be at most 2^{most.bit_length() - 1}, got {before} + {rows}")
    return before + rows


def chosen(rows: Any, which: NDArray[Any]) -> Any:
    """Rows by places or by a mask in CPU memory, wherever the rows are."""
    with device_scope(rows):
        return rows[library_of(rows).asarray(which) if is_cupy(rows) else which]


def on_host(rows: Any) -> Any:
    """Rows in CPU memory that numpy reads: bfloat16 as float32."""
    if not is_torch(rows):
        return rows.get() if on_cuda(rows) else rows
    return rows.float().cpu().numpy() if str(rows.dtype) == "torch.bfloat16" else rows.cpu().numpy()


def blocks(rows: Any, beside: int = 1) -> Iterator[Any]:
    """Rows in runs of bounded memory, also that of as many rows of `beside` columns."""
    columns = max(1, rows.shape[1], beside)
    step = max(1, min(_ROWS_AT_ONCE, _ELEMENTS_AT_ONCE // columns))
    return (rows[first : first + step] for first in range(0, len(rows), step))
