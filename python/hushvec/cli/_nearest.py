"""Decoding a vector to the nearest sentence of a public corpus. Post-processing: costs no privacy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products

ROWS_AT_ONCE = 4096


def nearest(vectors: NDArray[np.float32], corpus: NDArray[np.float32]) -> NDArray[np.intp]:
    """Index of the corpus row with the largest cosine, for every vector; corpus rows have unit length."""
    runs = [vectors[first : first + ROWS_AT_ONCE] for first in range(0, len(vectors), ROWS_AT_ONCE)]
    return np.concatenate([inner_products(run, corpus).argmax(axis=1) for run in runs])


def cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosine of every row of a with the same row of b; 0 where a row is zero."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(wide_a, axis=1) * np.linalg.norm(wide_b, axis=1)
    return np.asarray((wide_a * wide_b).sum(axis=1) / np.where(norms == 0, 1.0, norms))
