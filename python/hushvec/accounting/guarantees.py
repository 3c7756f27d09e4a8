"""Losses known by a guarantee alone: those of the worst mechanism with that guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec._util import rounding, validate
from hushvec.accounting import conversions
from hushvec.accounting.closed_forms import (
    randomized_response_delta,
    randomized_response_rdp,
    randomized_response_rho,
    with_failure,
)
from hushvec.accounting.privacy_loss import OneEpsilonLoss, PrivacyLoss


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class PureDP(OneEpsilonLoss):
    """epsilon-DP.

    Args:
        epsilon: > 0.
        adjacency: as in `PrivacyLoss`.

    Guarantees:
        The worst epsilon-DP mechanism is randomized response on one bit (Kairouz, Oh, Viswanath 2015), so with t = epsilon:
        delta(x) = (e^t - e^x)/(1 + e^t), rdp(a) = ln(cosh((a - 1/2) t)/cosh(t/2))/(a - 1), and rho = t tanh(t/2), which is below
        the usual t^2/2 (docs/proofs/zcdp.md).

    Example:
        >>> from hushvec.accounting import PureDP
        >>> loss = PureDP(epsilon=1.0)
        >>> loss.epsilon(0.0), round(loss.epsilon(0.1), 4), round(loss.rho, 4)
        (1.0, 0.8529, 0.4621)
    """

    name = "pure"

    def _delta(self, epsilon: float) -> float:
        return randomized_response_delta(self.epsilon_bound, epsilon)


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class ApproximateDP(PrivacyLoss):
    """(epsilon, delta)-DP.

    Args:
        epsilon: > 0.
        delta: in [0, 1).
        adjacency: as in `PrivacyLoss`.

    Guarantees:
        The worst such mechanism gives everything away with probability delta and is randomized response otherwise
        (Kairouz, Oh, Viswanath 2015).

    Example:
        >>> from hushvec.accounting import ApproximateDP
        >>> loss = ApproximateDP(epsilon=1.0, delta=1e-6)
        >>> loss.epsilon(1e-6), loss.delta(1.0), loss.rho
        (1.0, 1e-06, inf)
    """

    name = "approximate"
    epsilon_bound: float
    delta_bound: float

    def __init__(self, *, epsilon: float, delta: float, adjacency: str = "replace-one") -> None:
        self._store(epsilon_bound=epsilon, delta_bound=delta, adjacency=adjacency)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("epsilon_bound")
        self._store_checked(delta_bound=validate.delta(self.delta_bound, zero_allowed=True))

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon_bound:
            return self.delta_bound
        return with_failure(randomized_response_delta(self.epsilon_bound, epsilon), self.delta_bound)

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon_bound

    @property
    def failure_delta(self) -> float:
        return self.delta_bound


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class BoundedRangeDP(OneEpsilonLoss):
    """The privacy loss over all outcomes lies in an interval of length epsilon: the exponential mechanism, one Gumbel pick.

    Args:
        epsilon: > 0, the length of the interval.
        adjacency: as in `PrivacyLoss`.

    Guarantees:
        It is epsilon-DP, and better: delta(x) = (1 - e^((x - epsilon)/2))^2/(1 - e^-epsilon), rho = epsilon^2/8
        (docs/proofs/zcdp.md).

    Reference:
        Durfee and Rogers (2019), bounded range; Dong, Durfee, Rogers (2020), its profile; Cesar and Rogers (2021), its rho.

    Example:
        >>> from hushvec.accounting import BoundedRangeDP
        >>> loss = BoundedRangeDP(epsilon=1.0)
        >>> loss.epsilon(0.0), round(loss.epsilon(0.1), 4), round(loss.rho, 4)
        (1.0, 0.4208, 0.125)
    """

    name = "bounded-range"

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon_bound:
            return 0.0
        return rounding.up(math.expm1((epsilon - self.epsilon_bound) / 2) ** 2 / -math.expm1(-self.epsilon_bound), units=16)

    @property
    def rho(self) -> float:
        return min(rounding.up(self.epsilon_bound**2 / 8, units=2), randomized_response_rho(self.epsilon_bound))

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.minimum(conversions.linear(self.rho, orders), randomized_response_rdp(self.epsilon_bound, orders))


@dataclass(frozen=True, kw_only=True, repr=False)
class ZeroConcentratedDP(PrivacyLoss):
    """rho-zCDP: every Renyi divergence of order a is at most rho a.

    Args:
        rho: > 0.
        adjacency: as in `PrivacyLoss`.

    Guarantees:
        delta(x) is the infimum over a > 1 of e^((a - 1)(rho a - x)) (1 - 1/a)^a/(a - 1): smaller than what
        epsilon = rho + 2 sqrt(rho ln(1/delta)) says.

    Reference:
        Bun and Steinke (2016), definition 1.1; Canonne, Kamath, Steinke (2020), corollary 13.

    Example:
        >>> from hushvec.accounting import ZeroConcentratedDP
        >>> round(ZeroConcentratedDP(rho=0.1).epsilon(1e-6), 3)         # rho + 2 sqrt(rho ln(1/delta)) is 2.451
        2.142
    """

    name = "zcdp"
    rho_bound: float

    def __init__(self, *, rho: float, adjacency: str = "replace-one") -> None:
        self._store(rho_bound=rho, adjacency=adjacency)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("rho_bound")

    def _delta(self, epsilon: float) -> float:
        return conversions.zcdp_delta(self.rho_bound, epsilon)

    def _epsilon(self, delta: float) -> float:
        return conversions.zcdp_epsilon(self.rho_bound, delta)

    @property
    def rho(self) -> float:
        return self.rho_bound

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return conversions.linear(self.rho_bound, orders)
