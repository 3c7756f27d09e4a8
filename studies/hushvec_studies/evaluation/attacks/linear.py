"""A linear map from releases to anything else, trained by ridge regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]

# Of the mean squared length of a row's element, times the number of rows.
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
_HELD_OUT = 5  # every fifth row


@dataclass(frozen=True)
class LinearMap:
    """x -> center of y + (x - center of x) W."""

    center: Table
    target_center: Table
    weights: Table

    def __call__(self, rows: NDArray[np.float32]) -> Table:
        return self.target_center + (rows - self.center) @ self.weights


def trained(rows: NDArray[np.float32], targets: NDArray[np.float32] | NDArray[np.bool_]) -> LinearMap:
    """The ridge regression whose penalty does best on every fifth row, then fitted on all of them.

    Args:
        rows: [n, d], n >= 2.
        targets: [n, t].
    """
    x, y = np.asarray(rows, np.float64), np.asarray(targets, np.float64)
    held_out = np.arange(len(x)) % _HELD_OUT == 0
    tried = _fitted(x[~held_out], y[~held_out], _PENALTIES)
    errors = [float(np.square(one(x[held_out]) - y[held_out]).mean()) for one in tried]
    (best,) = _fitted(x, y, (_PENALTIES[int(np.argmin(errors))],))
    return best


def _fitted(x: Table, y: Table, penalties: Sequence[float]) -> list[LinearMap]:
    """A map for each penalty, from one eigendecomposition."""
    center, target_center = x.mean(axis=0), y.mean(axis=0)
    about = x - center
    values, axes = np.linalg.eigh(about.T @ about)
    seen = axes.T @ (about.T @ (y - target_center))
    scale = max(float(np.trace(about.T @ about)) / about.shape[1], np.finfo(float).tiny)
    return [
        LinearMap(center, target_center, axes @ (seen / (np.maximum(values, 0) + penalty * scale)[:, None]))
        for penalty in penalties
    ]
