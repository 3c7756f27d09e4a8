"""Cosines of rows with their noisy versions: measured, and expected for a mechanism or a receipt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec.mechanisms import Mechanism, PrivUnit
from hushvec.mechanisms.by_name import element_variance

if TYPE_CHECKING:
    from hushvec.receipts.vectors import Receipt

# The name of the metric.
MEAN_COSINE = "mean_cosine"

# Elements that are widened at once: three float64 blocks of them stay in a core's cache.
_ELEMENTS_AT_ONCE = 1 << 14


def cosines(clean: Any, noisy: Any) -> NDArray[np.float64]:
    """The cosine of each row of `clean` with the same row of `noisy`; 0 where one of them is zero.

    Args:
        clean, noisy: float arrays [n, d]. Sums are in float64.

    Raises:
        ValueError: other shapes, NaN or Inf.
    """
    first, second = _rows("clean", clean), _rows("noisy", noisy)
    if first.shape != second.shape:
        raise ValueError(f"clean and noisy must have the same shape, got {first.shape} and {second.shape}")
    at_once = max(1, _ELEMENTS_AT_ONCE // max(1, first.shape[1]))
    blocks = [slice(start, start + at_once) for start in range(0, len(first), at_once)]
    return np.concatenate([_cosines(first[block], second[block]) for block in blocks] or [np.empty(0)])


def theoretical_cosine(release: Mechanism | Receipt, norm: float | None = None) -> float:
    """About the mean cosine of a row and its release, from a mechanism or the receipt of a release.

    norm / sqrt(norm^2 + mean square of the noise's norm) for additive noise, which is 1 / sqrt(1 + d sigma^2) for Gaussian noise on
    unit rows; E / sqrt(d + threshold E) for PrivUnit, where E is the mean inner product. The error is of order 1/d: at most 0.4 % in
    384 dimensions and 0.1 % in 1920 (docs/clinical.md has the figures).

    Args:
        release: a mechanism, or a receipt of one release.
        norm: L2 norm of the rows; clip_norm if None. Longer rows are clipped. It does not matter for PrivUnit.

    Example:
        >>> from hushvec.mechanisms import EmpiricalGaussian
        >>> from hushvec.retrieval.measures.cosines import theoretical_cosine
        >>> round(theoretical_cosine(EmpiricalGaussian(chosen_sigma=0.2, dimension=1920)), 4)
        0.1134
    """
    length = release.clip_norm if norm is None else min(validate.positive("norm", norm), release.clip_norm)
    if isinstance(release, Mechanism):
        return release.expected_cosine(length)
    if release.mechanism == PrivUnit.name:
        assert release.cap_probability is not None and release.threshold is not None
        mean = _core.privunit_mean(release.cap_probability, release.threshold)
        return mean / math.sqrt(release.dimension + release.threshold * mean)
    return length / math.hypot(length, _noise_norm(release))


def _noise_norm(receipt: Receipt) -> float:
    """Root mean square of the norm of one row's additive noise."""
    size = receipt.sigma if receipt.sigma is not None else receipt.scale
    assert size is not None
    return size * math.sqrt(element_variance(receipt.mechanism, receipt.dimension) * receipt.dimension)


def _cosines(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    wide = first.astype(np.float64), second.astype(np.float64)
    products, squares, others = (np.einsum("ij,ij->i", *pair) for pair in (wide, (wide[0], wide[0]), (wide[1], wide[1])))
    norms = np.sqrt(squares) * np.sqrt(others)
    return np.asarray(np.divide(products, norms, out=np.zeros_like(products), where=norms > 0))


def _rows(name: str, value: Any) -> NDArray[Any]:
    rows = np.asarray(value)
    if rows.dtype.kind != "f":
        raise TypeError(f"{name} must be a float array, got {rows.dtype}")
    if rows.ndim != 2:
        raise ValueError(f"{name} must have shape (rows, dimension), got {rows.shape}")
    if not np.isfinite(rows).all():
        bad = int((~np.isfinite(rows)).any(axis=1).argmax())
        raise ValueError(f"{name} must be finite, row {bad} is not")
    return rows
