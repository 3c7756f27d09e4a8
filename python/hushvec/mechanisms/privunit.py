"""PrivUnitG: the direction of a row with pure epsilon-DP, unbiased, and with less noise than any additive mechanism.

The released row is clip_norm / E * W, where for a unit vector u of d elements

    W = Z + (alpha - <Z, u>) u,   Z ~ N(0, I),   E = E<W, u>
    alpha ~ N(0, 1) given alpha >= threshold with probability p = cap_probability, given alpha < threshold otherwise

W is a standard Gaussian row that falls into the cap {w: <w, u> >= threshold} with probability p instead of its own 1 - q, where
q = Phi(threshold). Its density is the Gaussian one times p / (1 - q) inside and (1 - p) / q outside, whatever u is, hence
epsilon = |ln(p / (1 - p)) + ln(q / (1 - q))|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hushvec._native import _core, kernels
from hushvec._native.products import inner_products
from hushvec._util import validate
from hushvec._util.rounding import largest, product_up, quotient_down, up
from hushvec._util.statistics import norm_logsf, norm_sf
from hushvec.accounting import PureDP
from hushvec.mechanisms.base import RowKeys, VectorMechanism, as_used
from hushvec.mechanisms.int8 import privunit_saturation
from hushvec.mechanisms.laws import Rows, Table, log_chi_tail, unit

SMALLEST_EPSILON = 2.0**-20
LARGEST_EPSILON = 2.0**12
LARGEST_THRESHOLD = 128.0

_SHARPEST_EDGE = 1e-6  # of a cap, in units of sigma
# A direction at right angles to a center, or away from it, is outside its cap.
_SMALLEST_COSINE = 1e-3
# In deviations of a cell; beyond them e^-40 of it is on the other side.
_FAR_FROM_THE_EDGE = 8.0
_STEPS, _BEYOND = 128, 6.0  # points per unit of the table, wrong by at most 8e-6 between them; standard deviations beyond its ends
_SMALLEST_TAU = 1e-6  # for rho = 1: a cap with an edge this sharp


@dataclass(frozen=True, kw_only=True)
class PrivUnit(VectorMechanism):
    """PrivUnitG, its split of epsilon the best for unbiased directions or for retrieval.

    Args:
        epsilon: in [2^-20, 4096] for each row: with rows_per_person = r, epsilon / r is what one row spends.
        dimension: d; as in `Mechanism`, like rows_per_person.
        clip_norm: C, the length of the released direction: E[released row] = C * row / |row|.
        corpus_size: n, if the release is to be looked up among n other vectors: the split of epsilon then makes it likeliest that
            the right one is nearest, instead of making the inner product largest. Public.

    Guarantees:
        (epsilon, 0)-DP, exact in real arithmetic and as released: values are rounded exactly to a public grid. Lengths of rows do
        not enter. A row of norm below 2^-100 has no direction and is released as pure noise, which the same bound covers. epsilon is
        confirmed with its rounding errors on the safe side before a law is used.

    Edge cases:
        The mean is C * u up to 2^-21 of direction (rows become integers) and 2^-24 of scale (sigma is a float32).

    Reference:
        Asi, Feldman, Talwar, "Optimal algorithms for mean estimation under local differential privacy" (2022), algorithm 2
        (PrivUnitG); docs/proofs/privunit.md.

    Example:
        >>> from hushvec.mechanisms import Gaussian, PrivUnit
        >>> mechanism = PrivUnit(epsilon=10.0, dimension=384)
        >>> round(mechanism.threshold, 3), mechanism.cost, round(mechanism.expected_cosine(), 3)
        (3.26, (10.0, 0.0), 0.164)
        >>> round(Gaussian(epsilon=10.0, delta=1e-5, dimension=384).expected_cosine(), 3)
        0.051
    """

    name = "privunit"
    law = "privunit"
    grade = "exact"
    half_words = False
    directions_only = True
    sensitivity_norm = "l2"
    parameter_name = "sigma"
    further_numbers = ("cap_probability", "threshold")
    has_int8 = True
    in_jobs = True
    density_top = 1 / math.sqrt(2 * math.pi)
    epsilon: float
    corpus_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.corpus_size is not None:
            self._keep("corpus_size", validate.whole_number("corpus_size", self.corpus_size, at_least=1))
        if not SMALLEST_EPSILON <= self.epsilon_per_row <= LARGEST_EPSILON:
            rows = "" if self.rows_per_person == 1 else f" times the {self.rows_per_person} rows of a person"
            raise ValueError(f"epsilon must be in [2^-20, 4096]{rows} for privunit, got {self.epsilon!r}")

    @classmethod
    def for_price(cls, *, epsilon: float, delta: float, corpus_size: int | None = None, **setting: Any) -> PrivUnit:
        return cls(epsilon=epsilon, corpus_size=corpus_size, **setting)

    @cached_property
    def epsilon_per_row(self) -> float:
        """The largest double of which rows_per_person add up to at most epsilon."""
        return quotient_down(self.epsilon, self.rows_per_person)

    @cached_property
    def _split(self) -> tuple[float, float]:
        if self.corpus_size is None:
            return _core.privunit_law(self.epsilon_per_row)
        return retrieval_law(self.epsilon_per_row, self.corpus_size)

    @cached_property
    def cap_probability(self) -> float:
        """p, a multiple of 2^-53."""
        return self._split[0]

    @cached_property
    def threshold(self) -> float:
        """Threshold of <W, u>; gamma sqrt(d) of the paper."""
        return self._split[1]

    @property
    def loss(self) -> PureDP:
        """Of all rows of a person together; a receipt has it for each."""
        return _loss(self.epsilon, self.rows_per_person, self.cap_probability, self.threshold)

    @property
    def row_loss(self) -> PureDP:
        return _loss(self.epsilon_per_row, 1, self.cap_probability, self.threshold)

    @cached_property
    def mean_inner_product(self) -> float:
        """E = E<W, u>, in units of the Gaussian row: m sqrt(d) of the paper."""
        return _core.privunit_mean(self.cap_probability, self.threshold)

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise of an element across the direction: C / E, rounded up to float32."""
        return as_used("sigma", self.clip_norm / self.mean_inner_product, self.clip_norm)

    def _grid_of(self, half_words: bool) -> float:
        return _core.privunit_grid(self.noise_parameter)[1]

    @property
    def int8_grid(self) -> float:
        return _core.privunit_int8_grid(self.sigma, self.threshold)[1]

    def saturation_on(self, grid: float) -> float:
        return privunit_saturation(self.sigma, self.cap_probability, self.threshold, grid, self.dimension)

    def claim_faults(self) -> list[str]:
        """epsilon is the sum over the person's rows; sigma only scales the result and carries no guarantee."""
        try:
            one_row = _core.privunit_epsilon(self.cap_probability, self.threshold)
        except ValueError as error:
            return [str(error)]
        if product_up(self.rows_per_person, one_row) <= self.epsilon:  # rounded up to a float, as epsilon is one: as if exact
            return []
        return [
            f"cap_probability = {self.cap_probability!r} at threshold = {self.threshold!r} gives epsilon = "
            f"{one_row * self.rows_per_person:.6g}, more than the {self.epsilon!r} stated"
        ]

    def log_density_excess(self) -> float:
        """The density is at most e^epsilon times the normal one."""
        return self.epsilon

    @property
    def element_variance(self) -> float:
        """Across the direction of the row."""
        return self.noise_parameter**2

    def top_1_probability(self, others: int) -> float:
        return top_1_probability(self.cap_probability, self.threshold, others)

    @property
    def noise_norm(self) -> float:
        """Root mean square of |released row - C u|: E|W|^2 = d + threshold E, of which E^2 is the signal."""
        mean = self.mean_inner_product
        return self.sigma * math.sqrt(self.dimension + self.threshold * mean - mean * mean)

    def expected_cosine(self, norm: float | None = None) -> float:
        """About the cosine between a row and its release, E / sqrt(E|W|^2), whatever the norm: only the direction is released."""
        if norm is not None:
            validate.positive("norm", norm)
        return self.mean_inner_product / math.sqrt(self.dimension + self.threshold * self.mean_inner_product)

    def log_densities(self, rows: Rows, centers: Rows, *, unit_length: bool = False) -> Table:
        """A row is e^epsilon times likelier inside the cap; a grid cell that the cap cuts has a nearly normal share inside."""
        epsilon = self.epsilon_per_row
        if unit_length:
            # Only the direction of a row is left: ln (1 + (e^epsilon - 1) P[inside the cap]). A normal row's length, in units of
            # sigma, is chi with d degrees of freedom, whatever its direction. So its component along a center is at least the
            # threshold t with probability P[chi >= t / cosine].
            forward = np.maximum(inner_products(unit(rows), unit(centers)).astype(np.float64), _SMALLEST_COSINE)
            inside = log_chi_tail(np.maximum(self.threshold, _SMALLEST_COSINE) / forward, self.dimension)
            return np.asarray(np.logaddexp(0.0, epsilon + math.log(-math.expm1(-epsilon)) + inside))
        sigma = self.noise_parameter
        along = inner_products(rows, unit(centers)).astype(np.float64) / sigma
        spread = max((self.released_grid or 0.0) / (sigma * math.sqrt(12)), _SHARPEST_EDGE)
        place = (along - self.threshold) / spread
        densities: Table = np.where(place > 0, epsilon, 0.0)
        cut = np.abs(place) < _FAR_FROM_THE_EDGE
        # ln (Phi(x) / Phi(-x)), equation 10 of Bowling et al. (2009): Phi is within 1.5e-4 of what these odds say.
        odds = place[cut] * (1.5976 + 0.07056 * place[cut] ** 2)
        densities[cut] = np.logaddexp(epsilon - np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds))
        return densities

    def candidate_densities(self, rows: Rows, candidates: Rows, *, rho: float, spread: float) -> Rows:
        """Exact for a spread of (1 - rho^2) clip_norm^2 / d: that of rows of length clip_norm.

        z = (t - rho <w, c>) / (tau |w|), so that x ~ N(rho c, tau^2 I) has w = row / sigma in its cap with probability 1 - Phi(z).
        """
        w = np.asarray(rows * np.float32(1 / self.sigma), np.float32)
        z = inner_products(w, np.asarray(candidates * np.float32(1 / self.clip_norm), np.float32))
        z *= np.float32(-rho)
        z += np.float32(self.threshold)
        tau = max(math.sqrt((1 - rho * rho) / self.dimension), _SMALLEST_TAU)
        z /= np.maximum(np.float32(tau) * np.linalg.norm(w, axis=1, keepdims=True), np.float32(1e-30))
        densities = _looked_up(_cap_table(self.cap_probability, self.threshold), z)
        densities[:, ~candidates.any(axis=1)] = 0  # no direction: released as N(0, I) itself, and ln 1 = 0
        return densities

    def describe(self) -> tuple[str, ...]:
        lines = super().describe()
        if self.corpus_size is None:
            return lines
        from hushvec.mechanisms.top_1 import top_1_sentence

        found = top_1_probability(self.cap_probability, self.threshold, self.corpus_size)
        bound = top_1_sentence(self.epsilon_per_row, self.corpus_size + 1)
        return (*lines, f"finds {100 * found:.3g} % of rows without near neighbors; {bound}")

    def _parameters(self) -> str:
        return (
            f"directions only, whatever the sensitivity ({self.adjacency}): cap probability {self.cap_probability:.6g}, "
            f"threshold {self.threshold:.6g}, sigma {self.sigma:.6g}"
        )

    def release_keyed(self, x: Any, out: Any, keys: RowKeys, *, half_words: bool) -> None:
        _core.privunit_keyed(x, self.cap_probability, self.threshold, self.noise_parameter, out, *keys)

    def _release(self, x: Any, out: Any, source: _core.Generator, out_is_fresh: bool) -> Any:
        return kernels.privunit(x, self.cap_probability, self.threshold, self.sigma, out, source, out_is_fresh=out_is_fresh)


@lru_cache(maxsize=64)
def _cap_table(cap_probability: float, threshold: float) -> tuple[Rows, Rows]:
    """Values and differences of a table of ln of the mixed density by z, from -_BEYOND in steps of 1 / _STEPS."""
    outside = math.log1p(-cap_probability) - norm_logsf(-threshold)
    inside = math.log(cap_probability) - norm_logsf(threshold)
    jump = inside + math.log1p(-math.exp(outside - inside))
    end = math.sqrt(2 * (inside - outside)) + _BEYOND
    steps = np.arange(-_BEYOND, end, 1 / _STEPS).tolist()
    values = np.array([np.logaddexp(outside, jump + norm_logsf(z)) for z in steps], np.float32)
    return values, np.diff(values)


def _looked_up(table: tuple[Rows, Rows], z: Rows) -> Rows:
    """The table at each z, linear between points, constant beyond its ends. z is used up."""
    values, slopes = table
    z += np.float32(_BEYOND)
    z *= np.float32(_STEPS)
    np.clip(z, 0, len(values) - 2, out=z)
    below = z.astype(np.int32)
    z -= below
    z *= slopes[below]
    z += values[below]
    return z


def privunit_variation(epsilon: float, cap_probability: float, threshold: float) -> float | None:
    """The total variation of releases of two rows at an epsilon that holds for them, p (1 - e^-epsilon), rounded up.

    None where a cap may be less likely than chance, for which that is too small (docs/proofs/privunit.md, claim 5).
    """
    likelier = cap_probability > norm_sf(threshold) * (1 + 2.0**-20)
    return up(cap_probability * -math.expm1(-epsilon)) if likelier else None


@lru_cache(maxsize=64)  # for the mechanisms that a call makes anew
def _loss(epsilon: float, rows: int, cap_probability: float, threshold: float) -> PureDP:
    variation = privunit_variation(quotient_down(epsilon, rows), cap_probability, threshold)
    return PureDP(epsilon=epsilon, total_variation=variation and product_up(rows, variation), adjacency=PrivUnit.adjacency)


def top_1_probability(cap_probability: float, threshold: float, corpus_size: int) -> float:
    """Probability that a release is nearer to its own direction than to each of n others, if those are orthogonal to it.

    The others' inner products with W are then independent N(0, 1), so that alpha is the largest with probability Phi(alpha)^n,
    whose mean over the law of alpha is, with p = cap_probability and q = Phi(threshold),

        p (1 - q^(n+1)) / ((n + 1) (1 - q)) + (1 - p) q^n / (n + 1)

    Real vectors have near neighbors, which rank higher.
    """
    above = norm_sf(threshold)
    log_below = math.log1p(-above)
    share = -math.expm1((corpus_size + 1) * log_below) / above if above > 0 else corpus_size + 1.0
    rest = math.exp(corpus_size * log_below)
    return (cap_probability * share + (1 - cap_probability) * rest) / (corpus_size + 1)


def retrieval_law(epsilon: float, corpus_size: int) -> tuple[float, float]:
    """(p, threshold) with p >= 1/2 that maximizes `top_1_probability` at this epsilon; below 1/2 a release is a lottery."""

    def score(threshold: float) -> float:
        return top_1_probability(*_core.privunit_law(epsilon, threshold), corpus_size)

    highest = largest(lambda threshold: _core.privunit_epsilon(0.5, threshold) <= epsilon, LARGEST_THRESHOLD)
    steps = 64  # of a scan that finds the highest peak; golden sections then climb it
    candidates = [highest * step / steps for step in range(steps + 1)]
    best = max(range(steps + 1), key=lambda step: score(candidates[step]))
    low, high = candidates[max(best - 1, 0)], candidates[min(best + 1, steps)]
    ratio = (math.sqrt(5) - 1) / 2
    while high - low > 1e-6 * highest:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if score(left) < score(right):
            low = left
        else:
            high = right
    return _core.privunit_law(epsilon, (low + high) / 2)
