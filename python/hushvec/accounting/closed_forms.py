"""Profiles, rho and Renyi divergences in closed form, and from Renyi divergences to (epsilon, delta). All are rounded up.

Canonne, Kamath, Steinke (2020), proposition 12 and corollary 13: if the Renyi divergence of order a > 1 is at most D,
then for every epsilon

    delta = e^((a - 1)(D - epsilon)) (1 - 1/a)^a / (a - 1)

is valid, and solved for epsilon, at any order: epsilon = D + ln(1 - 1/a) - ln(a delta)/(a - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushvec._util import rounding
from hushvec._util.rounding import UNIT, exp_up, raised

# A Renyi divergence of t-DP is less than ln(2)/(a - 1) below t there: t itself stands for it.
LARGEST_RENYI_EPSILON = 1e5
# Orders times epsilon up to which a rho is looked for: far beyond its best order, and far below what overflows.
LARGEST_EXPONENT = 300.0


def with_failure(delta: float, failure: float) -> float:
    """The delta of a mechanism that may fail with probability `failure`: 1 - (1 - failure)(1 - delta), rounded up."""
    return min(1.0, rounding.up(failure + delta * (1 - failure))) if delta else failure


def variation_of(pure_epsilon: float) -> float:
    """tanh(t/2), rounded up: the largest total variation that t-DP allows, that of randomized response on one bit."""
    return min(1.0, rounding.up(math.tanh(pure_epsilon / 2), units=4))


def pure_delta(pure_epsilon: float, variation: float, epsilon: float) -> float:
    """v (e^t - e^x)/(e^t - 1) for t = pure_epsilon, v = variation, x = epsilon, rounded up; 0 from t on."""
    if epsilon >= pure_epsilon:
        return 0.0
    return min(1.0, rounding.up(variation * (math.expm1(epsilon - pure_epsilon) / math.expm1(-pure_epsilon))))


@lru_cache(maxsize=1024)
def pure_rho(pure_epsilon: float, variation: float) -> float:
    """The largest D_a / a over orders a > 1 of the worst t-DP mechanism of this total variation, rounded up.

    t tanh(t/2) without a bound of the variation. With one, D_a / a rises to a single maximum and falls (docs/proofs/zcdp.md).
    """
    t, most = pure_epsilon, rounding.up(pure_epsilon * math.tanh(pure_epsilon / 2))
    if t > LARGEST_EXPONENT or variation >= math.tanh(t / 2):
        return most
    weight = variation / math.sinh(t / 2)

    def excess(order: float) -> float:  # e^((a - 1) D_a) - 1
        return 2 * weight * math.sinh(order * t / 2) * math.sinh((order - 1) * t / 2)

    def slope(order: float) -> float:  # of (a - 1) D_a over a (a - 1)
        center = order - 0.5
        return weight * t * math.sinh(center * t) / (2 * center) / (1 + excess(order))

    def rises(order: float) -> bool:
        return slope(order) * order * (order - 1) > math.log1p(excess(order))

    low, high = 1.0, 1 + LARGEST_EXPONENT / t
    if rises(high):
        return most
    while high - low > 2.0**-50 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) else (low, middle)
    return min(most, rounding.up(max(slope(low), slope(high)), units=64 + 8 * high * t))


def pure_rdp(pure_epsilon: float, variation: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(1 + 2 v sinh(a t/2) sinh((a - 1) t/2)/sinh(t/2))/(a - 1), rounded up; sinh keeps its digits for small t."""
    t = pure_epsilon
    if t > LARGEST_RENYI_EPSILON:
        return np.full(orders.shape, t)
    wide = (orders - 0.5) * t > 30
    moderate = np.where(wide, 1.5, orders)   # what overflows is not computed
    small = min(t, 60)
    near = np.log1p(2 * variation * np.sinh(moderate * small / 2) * np.sinh((moderate - 1) * small / 2) / math.sinh(small / 2))
    # v/(1 - e^-t) (e^((a - 1) t) - 1)(1 - e^(-a t)) + 1, without its factor e^((a - 1) t)
    share, falls = variation / -math.expm1(-t), np.exp(-(orders - 1) * t)
    far = (orders - 1) * t + np.log(falls + share * np.expm1(-(orders - 1) * t) * np.expm1(-orders * t))
    far = far + 64 * UNIT * (1 + (orders - 1) * t)
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


# Orders at which Renyi curves are evaluated: dense around the best orders of small and of large budgets.
ORDERS: NDArray[np.float64] = np.unique(
    np.concatenate([1 + np.geomspace(1e-3, 31, 240), np.arange(2.0, 65.0), np.geomspace(64, 1024, 80), 2.0 ** np.arange(11, 31)])
)


@np.errstate(over="ignore", invalid="ignore")
def rdp_epsilon(orders: NDArray[np.float64], divergences: NDArray[np.float64], delta: float) -> float:
    """The smallest epsilon that any of the orders gives at this delta > 0, rounded up and at least 0; inf if none does."""
    terms = (divergences, -np.log1p(1 / (orders - 1)), -np.log(orders) / (orders - 1), -math.log(delta) / (orders - 1))
    return max(0.0, _least_up(terms))


@np.errstate(over="ignore", invalid="ignore")
def rdp_delta(orders: NDArray[np.float64], divergences: NDArray[np.float64], epsilon: float) -> float:
    """The smallest delta that any of the orders gives at this epsilon, rounded up and at most 1."""
    terms = ((orders - 1) * divergences, -(orders - 1) * epsilon, -orders * np.log1p(1 / (orders - 1)), -np.log(orders - 1))
    return min(1.0, exp_up(_least_up(terms)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Corollary 13 for epsilon, rounded up: the order is where the bound's derivative vanishes. zcdp_delta of it is at most delta."""
    if rho == math.inf:
        return rho
    # d/da of the bound has the sign of rho (a - 1)^2 + ln(a delta), which grows with a.
    order = _root(lambda excess: rho * excess * excess + math.log1p(excess) + math.log(delta))
    orders = np.array([order])
    bound = rdp_epsilon(orders, linear(rho, orders), delta)
    return raised(lambda epsilon: zcdp_delta(rho, epsilon) <= delta, bound)


def zcdp_delta(rho: float, epsilon: float) -> float:
    if rho == math.inf:
        return 1.0
    # d/da of ln delta is (2a - 1) rho - epsilon + ln(1 - 1/a), which grows with a.
    order = _root(lambda excess: (2 * excess + 1) * rho - epsilon - math.log1p(1 / excess))
    orders = np.array([order])
    return rdp_delta(orders, linear(rho, orders), epsilon)


@np.errstate(over="ignore")
def linear(rho: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """rho times the order, rounded up: the Renyi divergences of rho-zCDP."""
    divergences: NDArray[np.float64] = rho * orders * (1 + 4 * UNIT)
    return divergences


def _least_up(terms: Sequence[NDArray[np.float64]]) -> float:
    """The smallest sum of terms over the orders; each term is off by a few roundings of its size."""
    stacked = np.stack(terms)
    bounds: NDArray[np.float64] = stacked.sum(axis=0) + 16 * UNIT * np.abs(stacked).sum(axis=0)
    known: list[float] = bounds[~np.isnan(bounds)].tolist()
    return min(known, default=math.inf)


def _root(rising: Callable[[float], float]) -> float:
    """1 + x, where a function that grows with x > 0 changes its sign, to about six digits: an order need not be exact."""
    low, high = -30.0, 100.0   # exponents of 2
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if rising(2.0**middle) < 0 else (low, middle)
    return 1 + math.pow(2.0, high)
