"""From Renyi divergences to (epsilon, delta): Canonne, Kamath, Steinke (2020), proposition 12 and corollary 13.

If the Renyi divergence of order a > 1 is at most D, then for every epsilon

    delta = e^((a - 1)(D - epsilon)) (1 - 1/a)^a / (a - 1)

is valid, and solved for epsilon: epsilon = D + ln(1 - 1/a) - ln(a delta)/(a - 1). Any order gives a valid bound: the order
affects how tight the bound is, not whether it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hushvec._util.rounding import UNIT, exp_up, raised

# Orders at which Renyi curves are evaluated: dense around the best orders of small and of large budgets.
ORDERS: NDArray[np.float64] = np.unique(
    np.concatenate([1 + np.geomspace(1e-3, 31, 240), np.arange(2.0, 65.0), np.geomspace(64, 1024, 80), 2.0 ** np.arange(11, 31)])
)


@np.errstate(over="ignore", invalid="ignore")
def rdp_epsilon(orders: NDArray[np.float64], divergences: NDArray[np.float64], delta: float) -> float:
    """The smallest epsilon that any of the orders gives at this delta > 0, rounded up and at least 0; inf if none does."""
    terms = (divergences, np.log1p(-1 / orders), -np.log(orders) / (orders - 1), -math.log(delta) / (orders - 1))
    return max(0.0, _least_up(terms))


@np.errstate(over="ignore", invalid="ignore")
def rdp_delta(orders: NDArray[np.float64], divergences: NDArray[np.float64], epsilon: float) -> float:
    """The smallest delta that any of the orders gives at this epsilon, rounded up and at most 1."""
    terms = ((orders - 1) * divergences, -(orders - 1) * epsilon, orders * np.log1p(-1 / orders), -np.log(orders - 1))
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
    """Corollary 13 for delta, rounded up."""
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
