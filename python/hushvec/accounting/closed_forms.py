"""Profiles, rho and Renyi divergences that have a closed form, rounded up."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushvec._util import rounding
from hushvec._util.rounding import UNIT

# A Renyi divergence of t-DP is less than ln(2)/(a - 1) below t there: t itself stands for it.
LARGEST_RENYI_EPSILON = 1e5


def with_failure(delta: float, failure: float) -> float:
    """The delta of a mechanism that may fail with probability `failure`: 1 - (1 - failure)(1 - delta), rounded up."""
    return min(1.0, rounding.up(failure + delta * (1 - failure))) if delta else failure


def randomized_response_delta(pure_epsilon: float, epsilon: float) -> float:
    """(e^t - e^x)/(1 + e^t) for t = pure_epsilon, x = epsilon, rounded up; 0 from t on."""
    if epsilon >= pure_epsilon:
        return 0.0
    return rounding.up(-math.expm1(epsilon - pure_epsilon) / (1 + math.exp(-pure_epsilon)))


def randomized_response_rho(pure_epsilon: float) -> float:
    """t tanh(t/2), rounded up."""
    return rounding.up(pure_epsilon * math.tanh(pure_epsilon / 2))


def randomized_response_rdp(pure_epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(cosh((a - 1/2) t)/cosh(t/2))/(a - 1), rounded up.

    The quotient of the two cosh is 1 + 2 sinh(a t/2) sinh((a - 1) t/2)/cosh(t/2), which keeps its digits for small t. For large
    ones each cosh is e^x (1 + e^-2x)/2.
    """
    t = pure_epsilon
    if t > LARGEST_RENYI_EPSILON:
        return np.full(orders.shape, t)
    wide = (orders - 0.5) * t > 30
    moderate = np.where(wide, 1.5, orders)   # what overflows is not computed
    near = np.log1p(2 * np.sinh(moderate * min(t, 60) / 2) * np.sinh((moderate - 1) * min(t, 60) / 2) / math.cosh(min(t, 60) / 2))
    far = (orders - 1) * t + np.log1p(np.exp(-(2 * orders - 1) * t)) - math.log1p(math.exp(-t))
    divergence: NDArray[np.float64] = np.where(wide, far, near) * (1 + 64 * UNIT) / (orders - 1)
    return np.minimum(divergence, t)


def laplace_rdp(pure_epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(a/(2a - 1) e^((a - 1) t) + (a - 1)/(2a - 1) e^(-a t))/(a - 1), rounded up (Mironov 2017, proposition 6)."""
    if pure_epsilon > LARGEST_RENYI_EPSILON:
        return np.full(orders.shape, pure_epsilon)
    second = np.log1p((orders - 1) * np.expm1((1 - 2 * orders) * pure_epsilon) / (2 * orders - 1)) / (orders - 1)
    divergence: NDArray[np.float64] = pure_epsilon + second + 16 * UNIT * (pure_epsilon + np.abs(second))
    return divergence


def gaussian_rho(noise_multiplier: float) -> float:
    """1/(2 s^2), rounded up; infinite where that exceeds every float."""
    return rounding.up(0.5 / noise_multiplier / noise_multiplier)
