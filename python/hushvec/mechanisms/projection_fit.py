"""Does a public map fit rows of this kind? Measured on a public sample of them, before any epsilon is spent.

Components that hold what varies in one collection may hold little of what varies in another. Search through such a map fails
without any noise, and no epsilon repairs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays
from hushvec.mechanisms.code_counts import NEIGHBORS, nearest_others
from hushvec.mechanisms.public_arrays import checked_public_rows, unit_rows

_FEWEST_ROWS = 32
_MOST_ROWS = 2000  # of more, as many at random
_ENOUGH = 0.5

_Rows = NDArray[np.float64]


class PublicMap(Protocol):
    """What is asked of a `PublicProjection`."""

    @property
    def dimension(self) -> int: ...
    @property
    def output_dimension(self) -> int: ...
    @property
    def components(self) -> NDArray[np.float32] | None: ...

    def transform(self, x: Any) -> Any: ...


class ProjectionFit(NamedTuple):
    """How much of a public sample survives a map. Shares, in [0, 1].

    Args:
        kept_length: of the sample's squared length around its mean, what the map's components hold.
        possible_length: what as many components would hold if they were fitted on rows like the sample: on one half, for the other.
        kept_neighbors: of the ten nearest rows of each row, by cosine, those that are still among its ten nearest behind the map.
    """

    kept_length: float
    possible_length: float
    kept_neighbors: float

    @property
    def fits(self) -> bool:
        """Whether the components hold half of what is possible, or half of the neighbors stay, as with a wide random map."""
        return self.kept_length >= _ENOUGH * self.possible_length or self.kept_neighbors >= _ENOUGH

    def __str__(self) -> str:
        verdict = "it fits" if self.fits else "fit one on public rows of this kind, or use no map"
        return (
            f"this map keeps {self.kept_length:.2f} of your sample's squared length, of {self.possible_length:.2f} that as many "
            f"components can keep, and {self.kept_neighbors:.2f} of its neighbors: {verdict}"
        )


def projection_fit(projection: PublicMap, public_sample: Any) -> ProjectionFit:
    """`PublicProjection.check`."""
    public_sample = checked_public_rows("public_sample", public_sample)
    count, dimension = public_sample.shape
    if dimension != projection.dimension:
        raise ValueError(f"public_sample must have {projection.dimension} columns, got {dimension}")
    if count < _FEWEST_ROWS:
        raise ValueError(f"public_sample must have at least {_FEWEST_ROWS} rows, got {count}")
    values = public_sample.detach().double().cpu().numpy() if arrays.is_torch(public_sample) else public_sample
    rows = np.asarray(values, np.float64)[np.random.default_rng(0).permutation(count)[:_MOST_ROWS]]
    axes = projection.components
    return ProjectionFit(
        kept_length=1.0 if axes is None else _share(rows - rows.mean(axis=0), axes.astype(np.float64)),
        possible_length=_possible(rows, projection.output_dimension),
        kept_neighbors=_kept_neighbors(rows, np.asarray(projection.transform(rows), np.float64)),
    )


def _share(centered: _Rows, components: _Rows) -> float:
    whole = float(np.square(centered).sum())
    return min(1.0, float(np.square(centered @ components.T).sum()) / whole) if whole > 0 else 1.0


def _possible(rows: _Rows, count: int) -> float:
    seen, held_out = rows[::2] - rows[::2].mean(axis=0), rows[1::2] - rows[1::2].mean(axis=0)
    axes = np.linalg.svd(seen, full_matrices=False)[2][:count]
    return _share(held_out, axes)


def _kept_neighbors(before: _Rows, after: _Rows) -> float:
    near = [_nearest(rows) for rows in (before, after)]
    return float(np.mean([len(set(one) & set(other)) / NEIGHBORS for one, other in zip(*(side.tolist() for side in near))]))


def _nearest(rows: _Rows) -> NDArray[np.int64]:
    unit = unit_rows(rows)
    return nearest_others(unit, unit, np.arange(len(unit)))
