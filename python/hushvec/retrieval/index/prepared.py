"""Rows for an index or a search: checked first, then charged and released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays, rowwise
from hushvec._native.rowwise import as_array
from hushvec.receipts.labels import RowReceipt
from hushvec.release.charging import Budget
from hushvec.release.vectors import ReleasePlan, release_planned
from hushvec.retrieval.index.settings import IndexSettings
from hushvec.retrieval.noise import VectorNoise

if TYPE_CHECKING:
    from hushvec.mechanisms import PublicProjection


class Prepared(NamedTuple):
    """Projected rows and the plan of their release, checked except for NaN and Inf. Without a plan the rows are final."""

    rows: Any
    plan: ReleasePlan | None = None
    budget: Budget | None = None
    projection: PublicProjection | None = None
    notes: tuple[str, ...] = ()

    def release(self) -> tuple[NDArray[np.float32], RowReceipt | None]:
        """The rows that may be stored or searched, and their receipt. NaN and Inf are refused first, then the budget is charged."""
        if self.plan is None:
            return self.rows, None
        release = release_planned(self.rows, self.plan, budget=self.budget, notes=self.notes, projection=self.projection)
        return as_rows(release.values), release.receipt


def require_rows(name: str, x: Any, dimension: int) -> Any:
    """Rows [n, dimension] with n >= 1."""
    x = as_array(name, x)
    arrays.require_array(name, x)
    rows, columns = arrays.rows_and_dimension(x)
    if columns != dimension:
        raise ValueError(f"{name} must have {dimension} columns, got {columns}")
    if rows == 0:
        raise ValueError(f"{name} must have at least 1 row, got 0")
    return x.reshape(rows, dimension)


def prepare(
    name: str,
    x: Any,
    noise: VectorNoise | None,
    settings: IndexSettings,
    generator: _core.Generator,
    notes: tuple[str, ...] = (),
) -> Prepared:
    """Projected rows, with everything about their release checked."""
    projection, normalize = settings.projection, settings.normalize
    if projection is not None:
        rowwise.require_finite(name, x)
        if noise is not None:
            projection.require_other_rows(x, name)
        x = projection.transform(x)
    if noise is not None:
        plan = noise.plan(
            rows=len(x),
            dimension=settings.columns,
            dtype=arrays.dtype_name(x),
            normalize=normalize and not noise.is_of_directions,
            generator=generator,
        )
        return Prepared(x, plan, noise.budget, projection, (*noise.notes(plan), *notes))
    if normalize:
        return Prepared(as_rows(rowwise.checked_unit_rows(name, x, arrays.empty_like(x))))
    rowwise.require_finite(name, x)
    rows = as_rows(x)
    rowwise.require_finite(f"{name} in the range of float32", rows)
    return Prepared(rows)


def as_rows(x: Any) -> NDArray[np.float32]:
    """float32 in C order, in CPU memory; x itself if it is that already."""
    values = x
    if arrays.is_torch(x):
        values = x.float().cpu().numpy()
    elif arrays.is_cupy(x):
        values = x.get()
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)
