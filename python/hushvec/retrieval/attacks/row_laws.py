"""The laws of released rows, by their receipts: log densities less a term of the row, which cancels in every ratio.

For rows brought to unit length after the noise the law of the direction is used (PrivUnitG), or the expected length, which is
accurate in many dimensions. Answers of a codebook have the law of its mechanism: a receipt has only the codebook's digest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products
from hushvec._util import validate
from hushvec.mechanisms import MECHANISMS, CodebookResponse, PublicCodebook, element_variance
from hushvec.receipts.base import WORDS, rows_per_person
from hushvec.receipts.labels import LabelReceipt
from hushvec.receipts.vectors import Receipt
from hushvec.retrieval.attacks.features import unit

Rows = NDArray[np.float32]
Table = NDArray[np.float64]
Law = Receipt | CodebookResponse | None

# Without a receipt rows are taken to be plain vectors: noise of this deviation stands for rounding.
_PLAIN_SIGMA = 1e-3
# Numbers of one block of differences: 32 MB as float32.
_BLOCK = 1 << 23
_SHARPEST_EDGE = 1e-6
# A direction at right angles to a center, or away from it, is outside its cap.
_SMALLEST_COSINE = 1e-3
_NEAR_THE_MODE = 1e-3
# In deviations of a cell; beyond them e^-40 of it is on the other side.
_FAR_FROM_THE_EDGE = 8.0
# Rows of one square table of which only the diagonal is used.
_PAIRS = 64


def law_of(receipt: Any, codebook: Any = None) -> Law:
    """The law of rows with this receipt, and for answers of a codebook that codebook; None: rows without noise."""
    if isinstance(receipt, LabelReceipt) and receipt.codebook is not None:
        if not isinstance(codebook, PublicCodebook):
            got = validate.kind(codebook)
            raise TypeError(f"codebook must be the PublicCodebook with digest {receipt.codebook!r}, as the receipt says, got {got}")
        if codebook.digest != receipt.codebook:
            raise ValueError(f"codebook must have digest {receipt.codebook!r}, as the receipt says, got {codebook.digest!r}")
        return codebook.mechanism(receipt.epsilon, rows_per_person=rows_per_person(receipt.per, receipt.answers))
    if codebook is not None:
        raise TypeError("codebook must be left out without a receipt of its answers")
    if receipt is not None and not isinstance(receipt, Receipt):
        raise TypeError(f"receipt must be one of released rows or None, got {validate.kind(receipt)}")
    if receipt is not None and receipt.mechanism not in MECHANISMS:
        raise ValueError(f"receipt must be of rows of floats, got mechanism {receipt.mechanism!r}: its rows are whole numbers")
    return receipt


def log_densities(rows: Rows, centers: Rows, receipt: Law) -> Table:
    """[m, c]: ln of the density of each row [m, d] behind each clean center [c, d]; receipt None: rows without noise."""
    if isinstance(receipt, CodebookResponse):
        return _codebook(rows, centers, receipt)
    if receipt is not None and receipt.renormalize:
        deviation = receipt.sigma
        if deviation is None:
            assert receipt.scale is not None
            deviation = receipt.scale * math.sqrt(element_variance(receipt.mechanism, receipt.dimension))
        rows = rows * np.float32(math.hypot(receipt.clip_norm, math.sqrt(receipt.dimension) * deviation))
    return _LAWS["none" if receipt is None else receipt.mechanism](rows, centers, receipt)


def log_ratios(rows: Rows, first: Rows, second: Rows, receipt: Law) -> Table:
    """For each row, ln of how much likelier it is with the first vector behind it than with the second. All are [m, d]."""
    ratios = np.empty(len(rows))
    for row in range(0, len(rows), _PAIRS):
        part = slice(row, row + _PAIRS)
        count = np.arange(len(rows[part]))
        ratios[part] = log_densities(rows[part], first[part], receipt)[count, count]
        ratios[part] -= log_densities(rows[part], second[part], receipt)[count, count]
    return ratios


def _gaussian(rows: Rows, centers: Rows, receipt: Receipt | None) -> Table:
    sigma = _PLAIN_SIGMA if receipt is None else receipt.sigma
    assert sigma is not None
    lengths = np.einsum("cd,cd->c", centers, centers, dtype=np.float64)
    densities: Table = (inner_products(rows, centers).astype(np.float64) - lengths / 2) / sigma**2
    return densities


def _laplacian(rows: Rows, centers: Rows, receipt: Receipt | None) -> Table:
    assert receipt is not None and receipt.scale is not None
    found = np.empty((len(rows), len(centers)))
    size = max(1, _BLOCK // max(1, centers.size))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        found[first : first + size] = -np.abs(part[:, None, :] - centers).sum(axis=2, dtype=np.float64)
    return found / receipt.scale


def _l2_laplace(rows: Rows, centers: Rows, receipt: Receipt | None) -> Table:
    assert receipt is not None and receipt.scale is not None
    squares = np.einsum("md,md->m", rows, rows, dtype=np.float64)[:, None] - 2 * inner_products(rows, centers).astype(np.float64)
    squares += np.einsum("cd,cd->c", centers, centers, dtype=np.float64)
    densities: Table = -np.sqrt(np.maximum(squares, 0.0)) / receipt.scale
    return densities


def _privunit(rows: Rows, centers: Rows, receipt: Receipt | None) -> Table:
    """A row is e^epsilon times likelier inside the cap; a grid cell that the cap cuts has a nearly normal share inside."""
    assert receipt is not None and receipt.sigma is not None and receipt.threshold is not None
    if receipt.renormalize:
        # Only the direction of a row is left: ln (1 + (e^epsilon - 1) P[inside the cap]). A normal row's length, in units of sigma, is
        # chi with d degrees of freedom, whatever its direction. So its component along a center is at least the threshold t with
        # probability P[chi >= t / cosine].
        forward = np.maximum(inner_products(unit(rows), unit(centers)).astype(np.float64), _SMALLEST_COSINE)
        inside = _log_chi_tail(np.maximum(receipt.threshold, _SMALLEST_COSINE) / forward, receipt.dimension)
        return np.asarray(np.logaddexp(0.0, receipt.epsilon + math.log(-math.expm1(-receipt.epsilon)) + inside))
    along = inner_products(rows, unit(centers)).astype(np.float64) / receipt.sigma
    spread = max((receipt.grid or 0.0) / (receipt.sigma * math.sqrt(12)), _SHARPEST_EDGE)
    place = (along - receipt.threshold) / spread
    densities: Table = np.where(place > 0, receipt.epsilon, 0.0)
    cut = np.abs(place) < _FAR_FROM_THE_EDGE
    # ln (Phi(x) / Phi(-x)), equation 10 of Bowling et al. (2009): Phi is within 1.5e-4 of what these odds say.
    odds = place[cut] * (1.5976 + 0.07056 * place[cut] ** 2)
    densities[cut] = np.logaddexp(receipt.epsilon - np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds))
    return densities


def _codebook(rows: Rows, centers: Rows, response: CodebookResponse) -> Table:
    """ln of the chance of a row that stands for n codes: (n M + T - M) / 2^64 if the center's is one of them, else n M / 2^64."""
    released, place, count = np.unique(response.table, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    known = {row.tobytes(): number for number, row in enumerate(released)}
    # a store or a narrower dtype may have rounded a row: the nearest one then
    answers = np.array([known.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows, np.float32)], np.intp)
    for row in np.flatnonzero(answers < 0):
        answers[row] = np.square(released.astype(np.float64) - rows[row]).sum(axis=1).argmin()
    truth, other = response.response.law
    hit = answers[:, None] == place[response.codebook.encode(centers)]
    return np.asarray(np.log(count[answers][:, None] * (other / WORDS) + hit * ((truth - other) / WORDS)))


def _log_chi_tail(length: Table, dimension: int) -> Table:
    """ln P[chi >= length], chi with `dimension` degrees of freedom: within 0.2 from 8 degrees on, far out too.

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


_LAWS: dict[str, Callable[[Rows, Rows, Receipt | None], Table]] = {
    "none": _gaussian,
    "gaussian": _gaussian,
    "empirical": _gaussian,
    "laplacian": _laplacian,
    "l2_laplace": _l2_laplace,
    "privunit": _privunit,
}
