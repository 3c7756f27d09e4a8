"""Additive noise on clipped rows: Gaussian, Laplace, L2-Laplace. `hushvec.mechanisms` describes the setting."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hushvec._native import _core
from hushvec._native.products import inner_products
from hushvec._util import validate
from hushvec._util.rounding import quotient_down, rounded_up
from hushvec.accounting import GaussianDP, LaplaceDP, PrivacyLoss
from hushvec.mechanisms.base import Mechanism, RowKeys, VectorMechanism, as_used, sensitivity_of
from hushvec.mechanisms.int8 import gaussian_saturation
from hushvec.mechanisms.laws import Rows, Table, l1_distances, squared_distances
from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon, gaussian_sigma, laplace_scale

# epsilon that was computed, not asked for, is stated to this many digits, rounded up.
EPSILON_DIGITS = 10


class AdditiveNoise(VectorMechanism):
    """Independent of the row it is added to."""

    @classmethod
    @abstractmethod
    def _element_variance(cls, dimension: int) -> int:
        """Variance of one element's noise, in units of sigma^2 or scale^2."""

    in_jobs = True

    def release_keyed(self, x: Any, out: Any, keys: RowKeys, *, half_words: bool) -> None:
        _core.clip_and_noise_keyed(x, self.clip_norm, self.noise_parameter, out, *keys, self.law, half_words)

    @property
    def noise_norm(self) -> float:
        return self.noise_parameter * math.sqrt(self._element_variance(self.dimension) * self.dimension)


class _GaussianNoise(AdditiveNoise):
    law = "gaussian"
    grade = "exact"
    sensitivity_norm = "l2"
    parameter_name = "sigma"
    takes_delta = True
    has_int8 = True
    density_top = 1 / math.sqrt(2 * math.pi)

    if TYPE_CHECKING:
        delta: float

    @property
    def loss(self) -> GaussianDP:
        """`GaussianDP` of sigma / sensitivity, the quotient rounded down. The whole profile, not one point of it."""
        return GaussianDP(noise_multiplier=quotient_down(self.noise_parameter, self.sensitivity), adjacency=self.adjacency)

    def _log_densities(self, rows: Rows, centers: Rows) -> Table:
        lengths = np.einsum("cd,cd->c", centers, centers, dtype=np.float64)
        densities: Table = (inner_products(rows, centers).astype(np.float64) - lengths / 2) / self.noise_parameter**2
        return densities

    @property
    def int8_grid(self) -> float:
        return _core.int8_grid(self.noise_parameter, self.clip_norm)[1]

    def saturation_on(self, grid: float) -> float:
        return gaussian_saturation(self.noise_parameter, self.clip_norm, grid, self.dimension)

    def claim_faults(self) -> list[str]:
        # Not `sensitivity`, by which the noise was calibrated: a fault there would go unnoticed here.
        sigma, distance = self.noise_parameter, sensitivity_of(type(self), self.clip_norm, self.rows_per_person, self.dimension)
        delta = gaussian_delta(self.epsilon, sigma, distance)
        if self.delta == 0 or delta <= self.delta:
            return []
        epsilon = gaussian_epsilon(self.delta, sigma, distance)
        return [
            f"sigma = {sigma!r} at L2 sensitivity {distance!r} gives delta = {delta:.4g} at epsilon = {self.epsilon!r}, "
            f"more than the {self.delta!r} stated; at that delta it gives epsilon = {epsilon:.6g}"
        ]

    def repeated(self, rows: int) -> Mechanism:
        setting: dict[str, Any] = {name: getattr(self, name) for name in ("delta", "dimension", "clip_norm")}
        return EmpiricalGaussian(chosen_sigma=self.noise_parameter, rows_per_person=rows, **setting)

    def candidate_densities(self, rows: Rows, candidates: Rows, *, rho: float, spread: float) -> Rows:
        """Exact for the spread: the noise and it add up to one normal law."""
        squares = squared_distances(rows, candidates * np.float32(rho))
        return np.asarray(squares / (-2 * (self.noise_parameter**2 + spread)), np.float32)

    @classmethod
    def _element_variance(cls, dimension: int) -> int:
        return 1

    @classmethod
    def _squared_sensitivity(cls, one_row: Fraction, rows: int, dimension: int) -> Fraction:
        """The rows of one person are one Gaussian vector, in which squared distances add up."""
        return one_row**2 * rows


@dataclass(frozen=True, kw_only=True)
class Gaussian(_GaussianNoise):
    """The Gaussian mechanism, analytically calibrated: the smallest sigma that gives (epsilon, delta).

    Args:
        epsilon, delta: > 0, and in (0, 1).
        dimension, clip_norm, rows_per_person: as in `Mechanism`.

    Guarantees:
        (epsilon, delta)-DP, exact in real arithmetic and as released.

    Reference:
        Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018), theorem 8.

    Example:
        >>> from hushvec.mechanisms import Gaussian
        >>> mechanism = Gaussian(epsilon=1.0, delta=1e-5, dimension=384)
        >>> round(mechanism.sigma, 2), mechanism.sensitivity, mechanism.cost
        (7.46, 2.0, (1.0, 1e-05))
    """

    name = "gaussian"
    epsilon: float
    delta: float = 1e-5

    @cached_property
    def sigma(self) -> float:
        return as_used("sigma", float(gaussian_sigma(self.epsilon, self.delta, self.sensitivity)), self.clip_norm)


@dataclass(frozen=True, kw_only=True)
class EmpiricalGaussian(_GaussianNoise):
    """Gaussian noise of a sigma chosen by the caller, and what it buys: epsilon at the given delta.

    Args:
        chosen_sigma: the caller's sigma; rounded up to float32 for use.
        delta: in (0, 1).
        dimension, clip_norm, rows_per_person: as in `Mechanism`.

    Guarantees:
        (epsilon, delta)-DP for the computed epsilon, which is rounded up to ten digits. The guarantee is as formal as that of
        `Gaussian`, but usually weak: sigma = 0.2 on unit vectors is epsilon = 91.8.

    Reference:
        Balle and Wang (2018), theorem 8, solved for epsilon.

    Example:
        >>> from hushvec.mechanisms import EmpiricalGaussian
        >>> round(EmpiricalGaussian(chosen_sigma=0.2, delta=1e-5, dimension=1920).epsilon, 1)
        91.8
    """

    name = "empirical"
    takes_sigma = True
    chosen_sigma: float
    delta: float = 1e-5

    @classmethod
    def for_price(cls, *, epsilon: float, delta: float, corpus_size: int | None = None, **setting: Any) -> Gaussian:
        """Return the Gaussian of this price, whose noise it is."""
        return Gaussian(epsilon=epsilon, delta=delta, **setting)

    @classmethod
    def from_arguments(cls, *, epsilon: float | None, delta: float, sigma: float | None, **setting: Any) -> EmpiricalGaussian:
        """Return the mechanism of this sigma; epsilon is a ceiling if given."""
        made = cls(chosen_sigma=cls._needed("sigma", sigma), delta=validate.delta(delta), **setting)
        if epsilon is not None and made.epsilon > validate.positive("epsilon", epsilon):
            raise ValueError(
                f"epsilon must be >= {made.epsilon!r}, what sigma = {sigma!r} buys at delta = {delta!r}, or be left out; "
                f"got {epsilon!r}"
            )
        return made

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("chosen_sigma", validate.positive("sigma", self.chosen_sigma))

    @cached_property
    def sigma(self) -> float:
        return as_used("sigma", float(self.chosen_sigma), self.clip_norm)

    @cached_property
    def epsilon(self) -> float:
        epsilon = float(gaussian_epsilon(self.delta, self.sigma, self.sensitivity))
        if not math.isfinite(epsilon):
            raise ValueError(f"sigma must be large enough for a finite epsilon, got {self.chosen_sigma!r}")
        return rounded_up(epsilon, EPSILON_DIGITS)


@dataclass(frozen=True, kw_only=True)
class _LaplaceNoise(AdditiveNoise):
    parameter_name = "scale"
    epsilon: float

    @cached_property
    def scale(self) -> float:
        return as_used("scale", float(laplace_scale(self.epsilon, self.sensitivity)), self.clip_norm)


@dataclass(frozen=True, kw_only=True)
class Laplacian(_LaplaceNoise):
    """Independent Laplace noise on every element: pure epsilon-DP.

    Args:
        epsilon: > 0.
        dimension, clip_norm, rows_per_person: as in `Mechanism`.

    Guarantees:
        (epsilon, 0)-DP, exact in real arithmetic and as released. The L2 clip bounds the L1 distance by sqrt(d) times 2C only, so
        scale = 2C sqrt(d) / epsilon; without the sqrt(d) it would be (sqrt(d) epsilon)-DP.

    Reference:
        Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data analysis" (2006), proposition 1.

    Example:
        >>> from hushvec.mechanisms import Laplacian
        >>> Laplacian(epsilon=8.0, dimension=256).scale
        4.0
    """

    name = "laplacian"
    law = "laplacian"
    grade = "exact"
    sensitivity_norm = "l1"
    density_top = 0.5

    @property
    def row_loss(self) -> PrivacyLoss | None:
        if self.dimension > 1:
            return None
        return LaplaceDP(noise_multiplier=quotient_down(self.noise_parameter, 2 * self.clip_norm), adjacency=self.adjacency)

    @property
    def loss(self) -> PrivacyLoss:
        """`LaplaceDP` for one number of a person, and `PureDP` for more."""
        return (self.row_loss if self.rows_per_person == 1 else None) or super().loss

    @classmethod
    def _element_variance(cls, dimension: int) -> int:
        return 2

    def _log_densities(self, rows: Rows, centers: Rows) -> Table:
        return -l1_distances(rows, centers) / self.noise_parameter


@dataclass(frozen=True, kw_only=True)
class L2Laplace(_LaplaceNoise):
    """A uniform direction with a Gamma(d, scale) length on every row: pure epsilon-DP from the L2 sensitivity.

    Args:
        epsilon: > 0.
        dimension, clip_norm, rows_per_person: as in `Mechanism`.

    Guarantees:
        In real arithmetic (epsilon, 0)-DP, with about sqrt(2) less noise than `Laplacian`. It is computed in floating point (grade
        "float"), so what is released carries no DP claim.

    Reference:
        Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization" (2011), section 3.2.

    Example:
        >>> from hushvec.mechanisms import L2Laplace
        >>> L2Laplace(epsilon=8.0, dimension=256).scale
        0.25
    """

    name = "l2_laplace"
    law = "l2_laplace"
    grade = "float"
    sensitivity_norm = "l2"

    @classmethod
    def _element_variance(cls, dimension: int) -> int:
        return dimension + 1

    def _log_densities(self, rows: Rows, centers: Rows) -> Table:
        return np.asarray(-np.sqrt(squared_distances(rows, centers)) / self.noise_parameter)
