"""Losses of Gaussian and Laplace noise, whose whole profiles are known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec._util import rounding
from hushvec.accounting import conversions, poisson
from hushvec.accounting.closed_forms import (
    gaussian_rho,
    laplace_rdp,
    randomized_response_rdp,
    randomized_response_rho,
)
from hushvec.accounting.privacy_loss import PrivacyLoss
from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon


@dataclass(frozen=True, kw_only=True, repr=False)
class GaussianDP(PrivacyLoss):
    """Gaussian noise on something of bounded L2 sensitivity, in any dimension.

    Args:
        noise_multiplier: sigma divided by the L2 sensitivity under this adjacency; > 0.
        adjacency: as in `PrivacyLoss`.

    Guarantees:
        delta and epsilon are the exact profile, never below it (`hushvec.noise.calibration`). rho = 1/(2 noise_multiplier^2).

    Reference:
        Balle and Wang (2018), theorem 8; Bun and Steinke (2016), proposition 1.6.

    Example:
        >>> from hushvec.accounting import GaussianDP
        >>> loss = GaussianDP(noise_multiplier=3.7307)
        >>> round(loss.epsilon(1e-5), 3), round(loss.rho, 5)
        (1.0, 0.03592)
    """

    name = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("noise_multiplier")

    def _delta(self, epsilon: float) -> float:
        return float(gaussian_delta(epsilon, self.noise_multiplier))

    def _epsilon(self, delta: float) -> float:
        return float(gaussian_epsilon(delta, self.noise_multiplier))

    @property
    def rho(self) -> float:
        return gaussian_rho(self.noise_multiplier)

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return conversions.linear(self.rho, orders)


@dataclass(frozen=True, kw_only=True, repr=False)
class LaplaceDP(PrivacyLoss):
    """Laplace noise on **one** number of bounded sensitivity.

    Args:
        noise_multiplier: scale divided by the sensitivity under this adjacency; > 0. The pure epsilon is its inverse.
        adjacency: as in `PrivacyLoss`.

    Guarantees:
        With t = 1/noise_multiplier: delta(x) = 1 - e^((x - t)/2) for x < t. For noise on several coordinates of
        bounded L1 sensitivity the profile of one coordinate is not claimed; take ``PureDP(epsilon=t)``.

    Reference:
        Balle, Barthe, Gaboardi (2018), theorem 3; Mironov (2017), proposition 6.

    Example:
        >>> from hushvec.accounting import LaplaceDP
        >>> loss = LaplaceDP(noise_multiplier=1.0)
        >>> loss.epsilon(0.0), round(loss.epsilon(0.1), 4), round(loss.rdp(2.0), 4)
        (1.0, 0.7893, 0.6191)
    """

    name = "laplace"
    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("noise_multiplier")
        if not math.isfinite(self.pure_epsilon):
            raise ValueError(f"noise_multiplier must be large enough for a finite epsilon, got {self.noise_multiplier!r}")

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        return rounding.up(-math.expm1((epsilon - self.pure_epsilon) / 2))

    @property
    def pure_epsilon(self) -> float:
        nearest = 1 / self.noise_multiplier
        return nearest if math.frexp(self.noise_multiplier)[0] == 0.5 else rounding.next_up(nearest)

    @property
    def rho(self) -> float:
        return randomized_response_rho(self.pure_epsilon)

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.minimum(laplace_rdp(self.pure_epsilon, orders), randomized_response_rdp(self.pure_epsilon, orders))


@dataclass(frozen=True, kw_only=True, repr=False)
class PoissonSampledGaussianDP(PrivacyLoss):
    """Gaussian noise on a sum over a random subset that includes each person with the same probability, independently (DP-SGD).

    Args:
        noise_multiplier: sigma divided by the L2 sensitivity **under this adjacency**, > 0. For vectors of norm at most C that is
            sigma/C under add-remove and sigma/(2 C) under replace-one. With sampling_probability = 1 it is `GaussianDP`.
        sampling_probability: in (0, 1].
        adjacency: "add-remove" unless said otherwise, which is what noise multipliers of DP-SGD refer to.

    Guarantees:
        delta and epsilon of one release are exact, never below. Shuffling and fixed-size batches are not Poisson sampling: this
        loss is not theirs.

    Reference:
        Add-remove: Balle, Barthe, Gaboardi (2018), theorem 8; Mironov, Talwar, Zhang (2019). Replace-one:
        docs/proofs/subsampling.md.

    Example:
        >>> from hushvec.accounting import PoissonSampledGaussianDP
        >>> loss = PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.01)
        >>> round(loss.epsilon(1e-5), 4)
        0.1995
    """

    name = "poisson-gaussian"
    noise_multiplier: float
    sampling_probability: float
    adjacency: str = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("noise_multiplier", "sampling_probability")
        if self.sampling_probability > 1:
            raise ValueError(f"sampling_probability must be > 0 and <= 1, got {self.sampling_probability!r}")

    def _delta(self, epsilon: float) -> float:
        profile = poisson.add_remove_delta if self.adjacency == "add-remove" else poisson.replace_one_delta
        unsampled = float(gaussian_delta(epsilon, self.noise_multiplier))
        return min(unsampled, profile(self.noise_multiplier, self.sampling_probability, epsilon))

    @property
    def unamplified(self) -> PrivacyLoss:
        return self if self.sampling_probability == 1 else GaussianDP(noise_multiplier=self.noise_multiplier, adjacency=self.adjacency)

    @property
    def rho(self) -> float:
        """The rho of the Gaussian without sampling: it holds, and no smaller one does for all orders."""
        return gaussian_rho(self.noise_multiplier)

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        unsampled = conversions.linear(self.rho, orders)
        curve = poisson.add_remove_rdp if self.adjacency == "add-remove" else poisson.replace_one_rdp
        return np.minimum(unsampled, curve(self.noise_multiplier, self.sampling_probability, orders))
