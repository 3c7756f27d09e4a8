"""Rows for an index or a search: checked first, then charged and released; kept for a repeated call if the store fails."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays, rowwise
from hushvec._native.rowwise import as_array
from hushvec.extend import Budget, ReleasePlan, RowReceipt, release_planned, require_people
from hushvec.mechanisms import PublicProjection
from hushvec.retrieval.index.settings import IndexSettings
from hushvec.retrieval.noise import VectorNoise

Kept = TypeVar("Kept")


class Prepared(NamedTuple):
    """Projected rows and the plan of their release, checked except for NaN and Inf. Without a plan the rows are final."""

    rows: Any
    plan: ReleasePlan | None = None
    budget: Budget | None = None
    projection: PublicProjection | None = None
    notes: tuple[str, ...] = ()

    def release(self, people: Any = None) -> tuple[NDArray[np.float32], RowReceipt | None]:
        """The rows that may be stored or searched, and their receipt. NaN and Inf are refused first, then the budget is charged."""
        if self.plan is None:
            require_people(people, None, len(self.rows), "record")
            return self.rows, None
        settings: dict[str, Any] = {"budget": self.budget, "notes": self.notes, "projection": self.projection, "people": people}
        release = release_planned(self.rows, self.plan, **settings)
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
    name: str, x: Any, noise: VectorNoise | None, settings: IndexSettings, generator: _core.Generator, notes: tuple[str, ...] = ()
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
            rows=len(x), dimension=settings.columns, dtype=arrays.dtype_name(x),
            normalize=normalize and not noise.is_of_directions, generator=generator,
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


class KeptReleases(Generic[Kept]):
    """Keyed by the rows and other arguments of the call; at most so many. In memory only: a digest on disk would let readers verify
    guesses."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, x: Any, *named: Any) -> Kept | None:
        return self._kept.get(_digest(x, named)) if self._kept else None

    def keep(self, release: Kept, x: Any, *named: Any) -> None:
        self._kept[_digest(x, named)] = release
        if self._most is not None and len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def drop(self, x: Any, *named: Any) -> None:
        if self._kept:
            self._kept.pop(_digest(x, named), None)


def _digest(x: Any, named: tuple[Any, ...]) -> bytes:
    words = [one.tolist() if isinstance(one, np.ndarray) else one for one in named]
    asked = hashlib.sha256(repr((str(x.dtype), tuple(x.shape), words)).encode("utf-8", "backslashreplace"))
    host = as_rows(x)
    if arrays.dtype_name(x) == "float64":  # all bits of it: rows that only float32 rounding makes equal are different requests
        host = x.detach().cpu().numpy() if arrays.is_torch(x) else x.get() if arrays.is_cupy(x) else x
    asked.update(np.ascontiguousarray(host).data)
    return asked.digest()
