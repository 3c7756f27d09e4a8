"""Re-identification from a list: who is recognized in released rows, and how many the claim allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from hushvec._util.statistics import Estimate, clopper_pearson
from hushvec.audit.indexes.bounds import identification_bound
from hushvec.mechanisms import Laplacian, top_1_bound
from hushvec.mechanisms.codebook import CodebookResponse
from hushvec.mechanisms.public_arrays import nearest_codes
from hushvec_studies.evaluation.contenders import Contender
from hushvec_studies.overview.measure import recognized

Rows = NDArray[np.float32]

_ROWS_AT_ONCE = 1000


def recognized_rows(contender: Contender, released: Rows, rows: Rows) -> NDArray[np.bool_]:
    """For each released row, whether the adversary names the row behind it.

    The adversary has all clean rows, knows the mechanism and its public parts, and names a row of the largest likelihood. Under
    Gaussian and L2-Laplace noise that is the row with the largest inner product, as clean rows have one length; under Laplacian noise
    the row at the smallest sum of absolute differences; under PrivUnit, whose density has two levels, the row with the largest inner
    product is among the likeliest; under a codebook the likeliest rows are those whose nearest code was released.

    Args:
        released: [n, e], the release of each row.
        rows: [n, d], clean.
    """
    clean = contender.beside(rows)
    if isinstance(contender.mechanism, CodebookResponse):
        return np.equal(_named_by_code(contender.mechanism, released, clean), np.arange(len(rows)))
    if isinstance(contender.mechanism, Laplacian):
        return np.equal(_nearest_by_l1(released, clean), np.arange(len(rows)))
    found: NDArray[np.bool_] = recognized(released, clean) > 0
    return found


def attack_interval(hits: NDArray[np.bool_], confidence: float) -> Estimate:
    """The share of hits with the exact interval of Clopper and Pearson: noise of one row is independent of another's, so that for a
    given list the interval covers the expected share with at least this probability."""
    return clopper_pearson(int(hits.sum()), len(hits), confidence)


def bounds(epsilon: float | None, delta: float, candidates: int) -> dict[str, float | None]:
    """What the claim allows for the expected share: for any list, and for a list of rows that are independent draws (delta 0 only)."""
    if epsilon is None:
        return {"bound": None, "top_1_bound": None}
    independent = top_1_bound(epsilon, candidates) if delta == 0 else None
    return {"bound": identification_bound(epsilon, delta, candidates), "top_1_bound": independent}


def released_codes(mechanism: CodebookResponse, released: Rows) -> NDArray[np.int64]:
    """The number of the code behind each released row."""
    numbers = {row.tobytes(): number for number, row in enumerate(mechanism.table)}
    return np.array([numbers[row.tobytes()] for row in np.ascontiguousarray(released, np.float32)])


def _nearest_by_l1(released: Rows, clean: Rows) -> NDArray[np.intp]:
    blocks = [
        cdist(released[first : first + _ROWS_AT_ONCE], clean, "cityblock").argmin(axis=1)
        for first in range(0, len(released), _ROWS_AT_ONCE)
    ]
    return np.concatenate(blocks)


def _named_by_code(mechanism: CodebookResponse, released: Rows, clean: Rows) -> NDArray[np.int64]:
    """For each release a row of the list whose nearest code it is, the one most alike to the code; row 0 where there is none."""
    codes: Any = mechanism.codebook.codes
    cells = nearest_codes(clean, codes)
    alike = np.einsum("nd,nd->n", clean, codes[cells], dtype=np.float64)
    order = np.argsort(alike, kind="stable")
    named = np.zeros(len(codes), np.int64)
    named[cells[order]] = order  # of several, the last one stays
    return named[released_codes(mechanism, released)]
