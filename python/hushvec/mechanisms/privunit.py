"""PrivUnitG: the direction of a row with pure epsilon-DP, unbiased, and with less noise than any additive mechanism.

The released row is clip_norm / E * W, where for a unit vector u of d elements

    W = Z + (alpha - <Z, u>) u,   Z ~ N(0, I),   E = E<W, u>
    alpha ~ N(0, 1) given alpha >= threshold with probability p = cap_probability, given alpha < threshold otherwise

W is a standard Gaussian row that falls into the cap {w: <w, u> >= threshold} with probability p instead of its own 1 - q, where
q = Phi(threshold). Its density is the Gaussian one times p / (1 - q) inside and (1 - p) / q outside, whatever u is, hence
epsilon = ln(p / (1 - p)) + ln(q / (1 - q)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from hushvec import _core, _kernels, _validate
from hushvec.mechanisms.additive import Mechanism, as_used

SMALLEST_EPSILON = 2.0**-20
LARGEST_EPSILON = 2.0**12


@dataclass(frozen=True, kw_only=True)
class PrivUnit(Mechanism):
    """PrivUnitG with the split of epsilon that makes the expected inner product largest.

    Args:
        epsilon: in [2^-20, 4096] for each row: with rows_per_person = r, epsilon / r is what one row spends.
        dimension: d, elements in a row.
        clip_norm: C, the length of the released direction: E[released row] = C * row / |row|.
        rows_per_person: r, how many rows one person contributes; public.

    Raises:
        ValueError: epsilon out of its range; C so far from 1 that sigma leaves [2^-100, 2^100].

    Guarantees:
        (epsilon, 0)-DP under replace-one of one person's rows, exact in real arithmetic and as released: the values are the
        exact rounding of the real-number mechanism's to a public grid. Lengths of rows do not enter. A row of norm below 2^-100
        has no direction and is released as pure noise, which the same bound covers. epsilon is confirmed with its rounding
        errors on the safe side before a law is used.

    Edge cases:
        The mean is C * u up to 2^-21 of direction (rows become integers) and 2^-24 of scale (sigma is a float32).
        In one dimension this is randomized response on the sign, with noise.

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
    sensitivity_norm = "l2"
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive("epsilon", self.epsilon)
        if not SMALLEST_EPSILON <= self.epsilon_per_row <= LARGEST_EPSILON:
            rows = "" if self.rows_per_person == 1 else f" times the {self.rows_per_person} rows of a person"
            raise ValueError(f"epsilon must be in [2^-20, 4096]{rows} for privunit, got {self.epsilon!r}")

    @cached_property
    def epsilon_per_row(self) -> float:
        """The largest double of which rows_per_person add up to at most epsilon."""
        share = self.epsilon / self.rows_per_person
        return share if Fraction(share) * self.rows_per_person <= Fraction(self.epsilon) else math.nextafter(share, 0.0)

    @cached_property
    def _split(self) -> tuple[float, float]:
        return _core.privunit_law(self.epsilon_per_row)

    @property
    def cap_probability(self) -> float:
        """p, a multiple of 2^-53."""
        return self._split[0]

    @property
    def threshold(self) -> float:
        """Of <W, u>; gamma sqrt(d) of the paper."""
        return self._split[1]

    @cached_property
    def mean_inner_product(self) -> float:
        """E = E<W, u>, in units of the Gaussian row: m sqrt(d) of the paper."""
        return _core.privunit_mean(*self._split)

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise of an element across the direction: C / E, rounded up to float32."""
        return as_used("sigma", self.clip_norm / self.mean_inner_product, self.clip_norm)

    @property
    def noise_parameter(self) -> float:
        return self.sigma

    @property
    def grid(self) -> float:
        return _core.privunit_grid(self.sigma)[1]

    @property
    def noise_norm(self) -> float:
        """Root mean square of |released row - C u|: E|W|^2 = d + threshold E, of which E^2 is the signal."""
        mean = self.mean_inner_product
        return self.sigma * math.sqrt(self.dimension + self.threshold * mean - mean * mean)

    def expected_cosine(self, norm: float | None = None) -> float:
        """About the cosine between a row and its release: E / sqrt(E|W|^2).

        Args:
            norm: has no influence: only the direction is released.
        """
        if norm is not None:
            _validate.positive("norm", norm)
        return self.mean_inner_product / math.sqrt(self.dimension + self.threshold * self.mean_inner_product)

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, 0.0

    def apply(self, x: Any, out: Any, generator: _core.Generator, *, out_is_fresh: bool = False) -> None:
        """out = the release of x, in the same dtype; x may be out. CPU arrays only.

        Nothing is written where x is refused, unless `out_is_fresh` says that no one else can see `out` yet.
        """
        _kernels.privunit(x, self.cap_probability, self.threshold, self.sigma, out, generator, out_is_fresh=out_is_fresh)
