"""How an attacker reads protected rows: linear maps to the clean space, learned from known pairs or from two sets without pairs.

Rotations, keyed transforms, distance-preserving encryption, quantization and noise are linear up to an error, so that a linear map
undoes them as far as it can be undone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products, product
from hushvec.retrieval.attacks.features import unit

Rows = NDArray[np.float32]
Matrix = NDArray[np.float64]

# Weights of the ridge, in shares of the protected rows' mean square: for protections without noise, and for noisy ones.
_RIDGES = (1e-3, 0.1, 1.0)
# Directions with less than this share of the strongest were not seen in the pairs.
_UNSEEN = 1e-6
# One pair in so many is kept back to choose the reader.
_KEPT_BACK = 5
_FEWEST_TO_CHOOSE = 10
# Principal components that are matched without pairs, in turn more of them, and how often for each.
_COMPONENTS = (20, 40, 100)
_ROUNDS = 10
# Starts differ in the signs of so many axes, and look at so many rows.
_FLIPPED, _START_ROWS = 5, 500


@dataclass(frozen=True, eq=False)
class Reader:
    """A map from protected rows [n, m] to the clean space [n, d]: (row - center) @ matrix + origin; matrix None: the row itself."""

    name: str
    matrix: Matrix | None = None
    center: Matrix | float = 0.0
    origin: Matrix | float = 0.0

    def read(self, protected: Rows) -> Rows:
        """What the attacker takes the clean rows to be."""
        if self.matrix is None:
            return protected
        return np.asarray(product(np.asarray(protected - self.center, np.float64), self.matrix) + self.origin, np.float32)


AS_IT_IS = Reader("the row as it is")


def known_pairs(protected: Rows, clean: Rows, others: Rows, *, as_it_is: bool = False) -> Reader:
    """The reader, fitted on the pairs, that names most of those kept back, among themselves and other clean rows [c, d].

    Tried are ridge regressions and the orthogonal map (Procrustes); with `as_it_is` also the row itself.
    """
    kept = len(clean) // _KEPT_BACK
    if kept < _FEWEST_TO_CHOOSE // _KEPT_BACK:
        return next(_readers(protected, clean))
    tried = [*_readers(protected[kept:], clean[kept:]), *([AS_IT_IS] if as_it_is else [])]
    listed = np.concatenate([clean[:kept], others])
    right = [named(reader.read(protected[:kept]), listed) for reader in tried]
    best = int(np.argmax(right))
    return AS_IT_IS if tried[best] is AS_IT_IS else [*_readers(protected, clean)][best]


def named(read: Rows, listed: Rows) -> float:
    """The share of rows whose nearest one of a list is the one at their place."""
    return float(np.mean(inner_products(unit(read), listed).argmax(axis=1) == np.arange(len(read))))


def ridge(rows: NDArray[np.floating], truth: NDArray[np.floating], weight: float, name: str = "ridge") -> Reader:
    """Least squares from rows to truth, both centered, with a penalty on the map."""
    center, origin = rows.mean(axis=0, dtype=np.float64), truth.mean(axis=0, dtype=np.float64)
    away, wanted = rows - center, truth - origin
    squares = product(away.T, away)
    penalty = weight * np.trace(squares) / len(squares) + 1e-12
    return Reader(name, np.linalg.solve(squares + penalty * np.eye(len(squares)), product(away.T, wanted)), center, origin)


def without_pairs(protected: Rows, own: Rows) -> Reader:
    """The map that lays the distribution of protected rows on that of clean rows of one's own, of the same kind but of other texts.

    Both are laid on their principal axes, in the directions that third moments tell and, for the strongest few, in all directions.
    From each such start rows that are each other's nearest are taken for pairs and give an orthogonal map, again and again, on more
    and more axes; the start with the nearest rows in the end goes on with all rows.
    """
    seen, hoped = _Axes.of(protected), _Axes.of(own)
    width = min(len(seen.axes.T), len(hoped.axes.T))
    first, second = seen.along(protected)[:, :width], hoped.along(own)[:, :width]
    few = first[:_START_ROWS], second[:_START_ROWS]
    ends = [_matched(*few, np.diag(signs)) for signs in _directions(width)]
    turned, _ = _matched(first, second, max(ends, key=lambda end: end[1])[0])
    return Reader("aligned", product(product(seen.axes[:, :width], turned), hoped.axes[:, :width].T), seen.center, hoped.center)


def _directions(width: int) -> Iterator[Matrix]:
    """All signs of the first few axes."""
    flipped = min(_FLIPPED, width)
    for signs in itertools.product((1.0, -1.0), repeat=flipped):
        yield np.array([*signs, *[1.0] * (width - flipped)])


def _matched(first: Matrix, second: Matrix, turned: Matrix) -> tuple[Matrix, float]:
    """(orthogonal map from first to second, mean cosine of each row's nearest), from a start."""
    found = -1.0
    for components in _COMPONENTS:
        there = unit(second[:, :components].astype(np.float32))
        for _ in range(_ROUNDS):
            scores = inner_products(unit(product(first, turned)[:, :components].astype(np.float32)), there)
            nearest, back = scores.argmax(axis=1), scores.argmax(axis=0)
            found = float(scores.max(axis=1).mean())
            mutual = np.flatnonzero(back[nearest] == np.arange(len(nearest)))
            further = _orthogonal(first[mutual], second[nearest[mutual]])
            if np.allclose(further, turned, atol=1e-3):
                break
            turned = further
        if components >= len(turned):
            break
    return turned, found


@dataclass(frozen=True, eq=False)
class _Axes:
    """Principal axes [d, r], the strongest first, each in the direction in which the rows are skewed."""

    center: Matrix
    axes: Matrix

    @classmethod
    def of(cls, rows: Rows) -> _Axes:
        center = rows.mean(axis=0, dtype=np.float64)
        away = rows - center
        axes = np.linalg.eigh(product(away.T, away))[1][:, ::-1][:, : _COMPONENTS[-1]]
        skew = (product(away, axes) ** 3).sum(axis=0)
        return cls(center, axes * np.where(skew < 0, -1.0, 1.0))

    def along(self, rows: Rows) -> Matrix:
        return product(rows - self.center, self.axes)


def _readers(protected: Rows, clean: Rows) -> Iterator[Reader]:
    for weight in _RIDGES:
        yield ridge(protected, clean, weight, f"ridge {weight:g}")
    center, origin = protected.mean(axis=0, dtype=np.float64), clean.mean(axis=0, dtype=np.float64)
    yield Reader("orthogonal", _orthogonal(protected - center, clean - origin), center, origin)


def _orthogonal(rows: Matrix, truth: Matrix) -> Matrix:
    """The partial isometry [m, d] that brings rows nearest to truth, up to one factor (Schonemann, 1966)."""
    left, strength, right = np.linalg.svd(product(rows.T, truth), full_matrices=False)
    seen = strength > _UNSEEN * strength[0]
    return product(left[:, seen], right[seen])
