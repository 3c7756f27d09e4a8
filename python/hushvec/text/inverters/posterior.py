"""The posterior over the public rows that a noisy row may come from: Bayes' rule under the mechanism's law.

A private row is not itself in the corpus, only near some row of it, so the prior is the corpus smoothed: with c_i one of the n
public rows, each with the same probability, the private row is

    x = rho c_i + tau z,   z ~ N(0, I),   tau^2 = (1 - rho^2) (mean of |c|^2) / m

with m the dimension and rho the mean cosine of a public row and the nearest other one, so that |x|^2 is that of c_i on average. Under
this prior the likelihood of a released row y is

    PrivUnit    (1 - p) / q + (p / (1 - q) - (1 - p) / q) Phi((rho <w, c_i> - t) / (tau |w|)),   w = y / sigma, relative to N(0, I)
    Gaussian    exp(-|y - rho c_i|^2 / (2 (sigma^2 + tau^2)))
    Laplacian   exp(-|y - rho c_i|_1 / scale)
    L2Laplace   exp(-|y - rho c_i| / scale)

PrivUnit's candidates have unit length, and q = Phi(t); its third factor is the probability that x is a direction with w in its
cap. The first two are exact for the prior. The last two leave out tau, which is far below the noise at any epsilon of interest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products
from hushvec._util import validate
from hushvec.mechanisms import VectorMechanism
from hushvec.text.corpus import Rows, spread_evenly, unit_rows

# rho below the first makes every candidate alike, above the second leaves no room between the rows of a dense corpus.
SMALLEST_RHO, LARGEST_RHO = 0.05, 0.999
_RHO_ROWS, _RHO_BLOCK = 1024, 128  # rows whose nearest other row is looked for, and how many at a time


@dataclass(frozen=True, eq=False)
class CandidateLaw:
    """The law of released rows given each of n candidates.

    Args:
        mechanism: that released the rows, with its law's numbers.
        candidates: float32 [n, m], m the mechanism's dimension: public rows as the mechanism takes them in, clipped or normalized.
        rho: cosine between a private row and the candidate that it is near; 1 for private rows that are candidates themselves.
    """

    mechanism: VectorMechanism
    candidates: Rows
    rho: float

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, VectorMechanism) or self.mechanism.integers:
            raise TypeError(
                f"mechanism must be Gaussian, EmpiricalGaussian, Laplacian, L2Laplace or PrivUnit, got {validate.kind(self.mechanism)}"
            )
        if self.candidates.ndim != 2 or self.candidates.shape[1] != self.mechanism.dimension:
            raise ValueError(f"candidates must have shape (n, {self.mechanism.dimension}), got {self.candidates.shape}")
        if not 0 < validate.number("rho", self.rho) <= 1:
            raise ValueError(f"rho must be in (0, 1], got {self.rho!r}")

    def log_likelihood(self, released: Rows, among: NDArray[np.int64] | None = None) -> Rows:
        """ln L(y_b | candidate i) [b, n] of finite released rows [b, m], up to a term of the row; `among` some candidates."""
        means = self._means if among is None else self._means[among]
        return self.mechanism.candidate_densities(released, means, rho=self.rho, spread=self.spread_variance)

    def weights(self, released: Rows) -> Rows:
        """Posterior probability of each candidate [b, n]; each row sums to 1."""
        return softmax(self.log_likelihood(released))

    @cached_property
    def spread_variance(self) -> float:
        """tau^2: variance of one element of a private row about rho times its candidate."""
        squares = np.einsum("ij,ij->i", self._means, self._means, dtype=np.float64)
        return (1 - self.rho**2) * float(squares.mean()) / self.mechanism.dimension

    @property
    def gain(self) -> float:
        """E[x | y, i] = rho c_i + gain (y - rho c_i): tau^2 / (tau^2 + noise variance), exact for Gaussian noise, else linear."""
        return self.spread_variance / (self.spread_variance + self.mechanism.element_variance)

    def beyond(self, released: Rows, centre: Rows) -> Rows:
        """E[x | y] - centre in the released space [b, m]: what y says beyond the posterior mean of rho c_i, which is `centre`."""
        return np.asarray(np.float32(self.gain) * (released - centre), np.float32)

    @cached_property
    def _means(self) -> Rows:
        to_length = self.mechanism.directions_only
        return unit_rows(self.candidates) * np.float32(self.mechanism.clip_norm) if to_length else self.candidates

    @cached_property
    def centres(self) -> Rows:
        return self._means * np.float32(self.rho)


def softmax(log_likelihood: Rows) -> Rows:
    weights: Rows = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def nearest_cosine(rows: Rows) -> float:
    """rho: mean cosine between a row and the nearest other one, over at most 1,024 rows spread evenly."""
    if len(rows) < 2:
        return LARGEST_RHO
    directions = unit_rows(rows)
    chosen = spread_evenly(len(rows), _RHO_ROWS)
    best: list[Rows] = []
    for start in range(0, len(chosen), _RHO_BLOCK):
        numbers = chosen[start : start + _RHO_BLOCK]
        cosines = inner_products(directions[numbers], directions)
        cosines[np.arange(len(numbers)), numbers] = -1
        best.append(cosines.max(axis=1))
    return float(np.clip(np.concatenate(best).mean(dtype=np.float64), SMALLEST_RHO, LARGEST_RHO))
