"""Rows on their way into an index or a search: checked first, then charged and released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays
from hushvec.receipts.labels import RowReceipt
from hushvec.release.charging import Budget
from hushvec.release.plan import ReleasePlan
from hushvec.release.vectors import release_planned

if TYPE_CHECKING:
    from hushvec.mechanisms import PublicProjection


class Prepared(NamedTuple):
    """Rows with nothing left to refuse but what is in them.

    Args:
        rows: behind the projection; final where there is no plan.
        plan: of their release; None without noise.
        budget: that is charged for it.
        projection: that they have been through, for the receipt.
        notes: for the receipt.
    """

    rows: Any
    plan: ReleasePlan | None = None
    budget: Budget | None = None
    projection: PublicProjection | None = None
    notes: tuple[str, ...] = ()

    def release(self) -> tuple[NDArray[np.float32], RowReceipt | None]:
        """The rows as they may be stored or searched, and what was done. Charges first; NaN and Inf are refused before that."""
        if self.plan is None:
            return self.rows, None
        release = release_planned(self.rows, self.plan, budget=self.budget, notes=self.notes, projection=self.projection)
        return as_rows(release.values), release.receipt


def as_rows(x: Any) -> NDArray[np.float32]:
    """float32 in C order, in memory of the CPU; x itself where it is that already."""
    values = x
    if arrays.is_torch(x):
        values = x.float().cpu().numpy()
    elif arrays.is_cupy(x):
        values = x.get()
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)
