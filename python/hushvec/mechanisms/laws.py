"""Parts of the densities of noisy rows that several mechanisms need; a mechanism's own law is in its class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products

Rows = NDArray[Any]
Table = NDArray[np.float64]

# Numbers of one block of differences: 32 MB as float32.
_BLOCK = 1 << 23
_NEAR_THE_MODE = 1e-3


def unit(rows: Rows) -> Rows:
    """Return the rows at unit length; zero rows stay."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    found: Rows = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return found


def squared_distances(rows: Rows, centers: Rows) -> Table:
    """Return the squared L2 distance of each row [m, d] to each center [c, d] as [m, c], never negative."""
    squares = np.einsum("md,md->m", rows, rows, dtype=np.float64)[:, None] - 2 * inner_products(rows, centers).astype(np.float64)
    squares += np.einsum("cd,cd->c", centers, centers, dtype=np.float64)
    found: Table = np.maximum(squares, 0.0)
    return found


def l1_distances(rows: Rows, centers: Rows) -> Table:
    """Return the L1 distance of each row [m, d] to each center [c, d] as [m, c]."""
    found = np.empty((len(rows), len(centers)))
    size = max(1, _BLOCK // max(1, centers.size))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        found[first : first + size] = np.abs(part[:, None, :] - centers).sum(axis=2, dtype=np.float64)
    return found


def log_chi_tail(length: Table, dimension: int) -> Table:
    """Return ln P[chi >= length], chi with `dimension` degrees of freedom: within 0.2 from 8 degrees on, far out too.

    The density is e^-g with g = length^2/2 - (d - 1) ln length, up to a factor; r with r^2/2 = g - min g is nearly normal.

    Reference:
        Barndorff-Nielsen, "Modified signed log likelihood ratio" (1991), for r* = r + ln(g' / (r sqrt(g''))) / r;
        Sampford, "Some inequalities on Mill's ratio and related functions" (1953), for the bound on the normal tail.
    """
    freedom = max(1, dimension - 1)
    mode = math.sqrt(freedom)
    rise = np.maximum(0.0, (length**2 - freedom) / 2 - freedom * np.log(length / mode))
    root = np.sign(length - mode) * np.sqrt(2 * rise)
    slope = length - freedom / length
    near = np.abs(root) < _NEAR_THE_MODE
    safe = np.where(near, 1.0, root)
    lift = np.log(np.where(near, 1.0, slope / (math.sqrt(2.0) * safe))) / safe
    x = root + lift
    size = np.abs(x)
    # ln P[N(0, 1) >= x] by phi(x) 4 / (3 x + sqrt(x^2 + 8)) for x >= 0: at most 13 % too large (at 0), 1 % from x = 1.5 on.
    far = math.log(4 / math.sqrt(2 * math.pi)) - 0.5 * size**2 - np.log(3 * size + np.sqrt(size**2 + 8))
    tail: Table = np.where(x >= 0, far, np.log1p(-np.exp(far)))
    return tail
