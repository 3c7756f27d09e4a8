"""Discrete noise on clipped rows of whole numbers. `hushvec.mechanisms` describes the setting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from hushvec._native import _core
from hushvec._native.arrays import require_form
from hushvec._util.rounding import smallest
from hushvec.accounting import DiscreteGaussianDP
from hushvec.mechanisms.base import VectorMechanism
from hushvec.mechanisms.laws import Rows, Table, l1_distances, squared_distances
from hushvec.noise.calibration import laplace_scale
from hushvec.noise.discrete import LARGEST_SCALE, SMALLEST_SCALE, clip_and_add, whole_rows


class _DiscreteNoise(VectorMechanism):
    grade = "exact"
    integers = True
    half_words = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip_norm < 1:
            raise ValueError(f"clip_norm must be >= 1 for {self.name!r} (whole numbers below 1 are 0), got {self.clip_norm!r}")

    def grid_of(self, *, half_words: bool) -> float:
        return 1.0

    def require_release(self, x: Any) -> None:
        whole_rows("x", getattr(x, "values", x))

    def _release(self, x: Any, out: Any, source: _core.Generator, out_is_fresh: bool) -> Any:
        self.require_release(x)
        if out is not None:
            require_form(out, x.shape, x.dtype.name)
        values = clip_and_add(x, self.clip_norm, self.law, self.noise_parameter, source)
        if out is None:
            return values
        out[...] = values
        return out

    def parameter_faults(self, grade: str, *, int8: bool, half_words: bool) -> list[str]:
        held = SMALLEST_SCALE <= self.noise_parameter <= LARGEST_SCALE and self.clip_norm >= 1
        if held and self.released_grid == 1 and grade == "exact":
            return []
        rule = "must be in [2^-6, 2^40], clip_norm >= 1, grid 1 and grade 'exact'"
        return [f"{self.parameter_name} {rule} for {self.name}"]

    def _in_range(self, value: float) -> float:
        if not SMALLEST_SCALE <= value <= LARGEST_SCALE:
            raise ValueError(f"{self.parameter_name} must be in [2^-6, 2^40] for {self.name!r}, got {value!r}")
        return value


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(_DiscreteNoise):
    """Discrete Gaussian noise on whole numbers: the smallest sigma found for which (epsilon, delta) is proved.

    Args:
        epsilon, delta: > 0, and in (0, 1).
        dimension, rows_per_person: as in `Mechanism`.
        clip_norm: C >= 1, the L2 norm that every row is clipped to, in whole numbers: an element x of a longer row, of norm N, becomes
            the integer part of x C / N. The decision and the result are exact.

    Guarantees:
        (epsilon, delta)-DP as released. For one number per person and sigma up to 512 delta is the exact one, otherwise the smaller
        of two bounds: `hushvec.accounting.DiscreteGaussianDP`. sigma is in [2^-6, 2^40], a float64. Values beyond the ends of their
        dtype become these ends, which is post-processing.

    Edge cases:
        For counts, one whole number per person, take dimension 1, an array [n, 1] and the largest count as clip_norm.

    Reference:
        Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), theorems 7 and 14.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> from hushvec.mechanisms import DiscreteGaussian
        >>> mechanism = DiscreteGaussian(epsilon=1.0, dimension=1, clip_norm=10)
        >>> round(mechanism.sigma, 2), mechanism.sensitivity, mechanism.cost
        (74.61, 20.0, (1.0, 1e-05))
        >>> hv.privatize(np.array([[3], [0], [12]]), mechanism=mechanism).values.dtype
        dtype('int64')
    """

    name = "discrete_gaussian"
    law = "discrete_gaussian"
    sensitivity_norm = "l2"
    parameter_name = "sigma"
    takes_delta = True
    density_top = 1 / math.sqrt(2 * math.pi)
    epsilon: float
    delta: float = 1e-5

    @cached_property
    def sigma(self) -> float:
        return self._in_range(_smallest_sigma(self.epsilon, self.delta, self.sensitivity, self.dimension * self.rows_per_person))

    def _log_densities(self, rows: Rows, centers: Rows) -> Table:
        return squared_distances(rows, centers) / (-2 * self.noise_parameter**2)

    def claim_faults(self) -> list[str]:
        try:
            delta = self.loss.delta(self.epsilon)
        except ValueError as error:
            return [str(error)]
        if self.delta == 0 or delta <= self.delta:
            return []
        sigma = self.noise_parameter
        return [f"sigma = {sigma!r} gives delta = {delta:.4g} at epsilon = {self.epsilon!r}, more than the {self.delta!r} stated"]

    @property
    def loss(self) -> DiscreteGaussianDP:
        """`DiscreteGaussianDP` of sigma, the sensitivity and the numbers of one person."""
        numbers = self.dimension * self.rows_per_person
        return DiscreteGaussianDP(sigma=self.sigma, sensitivity=self.sensitivity, coordinates=numbers, adjacency=self.adjacency)

    @property
    def noise_norm(self) -> float:
        variance = self.sigma**2
        if self.sigma < 4:  # beyond which it is the same to 1e-100
            weights = [math.exp(-k * k / (2 * variance)) for k in range(50)]
            variance = 2 * math.fsum(k * k * weight for k, weight in enumerate(weights)) / (2 * math.fsum(weights) - 1)
        return math.sqrt(variance * self.dimension)

    @classmethod
    def _squared_sensitivity(cls, one_row: Fraction, rows: int, dimension: int) -> Fraction:
        return one_row**2 * rows


@lru_cache(maxsize=1024)  # milliseconds
def _smallest_sigma(epsilon: float, delta: float, sensitivity: float, coordinates: int) -> float:
    def holds(sigma: float) -> bool:
        if sigma < sensitivity * 2.0**-40:  # rho is far beyond every epsilon of use, or not finite
            return False
        return DiscreteGaussianDP(sigma=sigma, sensitivity=sensitivity, coordinates=coordinates).delta(epsilon) <= delta

    return smallest(holds, math.inf)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplacian(_DiscreteNoise):
    """Discrete Laplace noise on whole numbers: pure epsilon-DP.

    Args:
        epsilon: > 0.
        dimension, rows_per_person: as in `Mechanism`.
        clip_norm: C >= 1, the **L1** norm that every row is clipped to, as in `DiscreteGaussian`.

    Guarantees:
        (epsilon, 0)-DP as released, with scale 2 C r / epsilon for r rows of a person, which does not depend on the dimension. scale
        is in [2^-6, 2^40], a float64. Values beyond the ends of their dtype become these ends.

    Edge cases:
        Counts as in `DiscreteGaussian`. The loss is that of any epsilon-DP mechanism: the profile of Laplace noise, `LaplaceDP`, does
        not hold for discrete noise.

    Reference:
        Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms" (2009), definition 2.1.

    Example:
        >>> from hushvec.mechanisms import DiscreteLaplacian
        >>> DiscreteLaplacian(epsilon=0.5, dimension=384, clip_norm=100).scale
        400.0
    """

    name = "discrete_laplacian"
    law = "discrete_laplacian"
    sensitivity_norm = "l1"
    parameter_name = "scale"
    clipped_in = "l1"
    density_top = 0.5
    epsilon: float

    def _log_densities(self, rows: Rows, centers: Rows) -> Table:
        return -l1_distances(rows, centers) / self.noise_parameter

    @cached_property
    def scale(self) -> float:
        return self._in_range(float(laplace_scale(self.epsilon, self.sensitivity)))

    @property
    def noise_norm(self) -> float:
        return math.sqrt(self.dimension / 2) / math.sinh(1 / (2 * self.scale))
