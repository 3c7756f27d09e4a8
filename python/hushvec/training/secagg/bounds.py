"""What is proved of sums of discrete Gaussians and of conditional rounding (docs/proofs/secagg.md), rounded to the safe side.

sigma is that of one share, `shares` their number, `square` the squared L2 sensitivity of the sum of whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hushvec._util.rounding import UNIT, down, exp_up, up
from hushvec.accounting import zcdp_epsilon
from hushvec.noise import gaussian_epsilon

LEAST_SIGMA, MOST_SIGMA = 0.5, 2.0**40  # of one share: claim 1, and what the sampler draws
SLACK = 2.0**-40  # relative, for what float64 does to a vector before it is rounded
_SMOOTHED = 1e-9  # D T kappa of claim 3
_TERMS = 4096


def tau(sigma: float, shares: int) -> float:
    """10 times the sum over k < shares of exp(-2 pi^2 sigma^2 k/(k + 1)), of theorem 1 of Kairouz, Liu, Steinke."""
    if shares == 1:
        return 0.0
    k = np.arange(1.0, min(shares, _TERMS + 1))
    terms = np.maximum(np.exp(-2 * (math.pi * sigma) ** 2 * k / (k + 1) * (1 - 32 * UNIT)), 1e-300)   # they fall with k
    return up(10 * float(terms.sum() + (shares - 1 - len(k)) * terms[-1]), units=4 * _TERMS)


def rho(square: int, sigma: float, shares: int, dimension: int) -> float:
    """The second expression of theorem 1, squared and halved: claim 2."""
    slack, distance = tau(sigma, shares), math.sqrt(square / shares) / sigma
    ones = min(math.sqrt(dimension), math.sqrt(square))   # |x|_1 <= this |x|_2 for whole numbers
    return up((distance**2 + 2 * slack * ones * distance + slack**2 * dimension) / 2, units=64)


def gaussian_route(delta: float, square: int, sigma: float, shares: int, dimension: int, rounds: int) -> float:
    """The epsilon of claim 3, of all rounds; infinite where it says nothing."""
    variance, smoothing = shares * sigma * sigma, up(math.log(5 * dimension * rounds / _SMOOTHED) / (2 * math.pi**2), units=32)
    ratio = up(rounds * dimension * tau(sigma, shares) / 2 + _SMOOTHED)
    rest = down(delta * math.exp(-ratio)) if ratio < 1 else 0.0
    if variance < 2 * smoothing or rest <= 0:
        return math.inf
    multiplier = down(math.sqrt((variance - smoothing) / square / rounds), units=32)
    return up(float(gaussian_epsilon(rest, multiplier)) + 2 * ratio)


def epsilon(delta: float, square: int, sigma: float, shares: int, dimension: int, rounds: int) -> float:
    """The smaller of claims 2 and 3, of all rounds."""
    gaussian = gaussian_route(delta, square, sigma, shares, dimension, rounds)
    if gaussian < math.inf and shares * sigma * sigma > 1000 and rounds * dimension * tau(sigma, shares) < 1e-6:   # far faster
        return gaussian
    return min(gaussian, zcdp_epsilon(up(rounds * rho(square, sigma, shares, dimension)), delta))


def sigma_for(target: float, delta: float, square: int, shares: int, dimension: int, rounds: int, most_rho: float) -> float:
    """A sigma with this epsilon, about the smallest; infinite where the sampler draws none that is large enough."""

    def holds(sigma: float) -> bool:
        terms = (square, sigma, shares, dimension)
        return up(rounds * rho(*terms)) <= most_rho or gaussian_route(delta, *terms, rounds) <= target

    return _bracket(LEAST_SIGMA, MOST_SIGMA, holds)[1] if holds(MOST_SIGMA) else math.inf


def rho_for(target: float, delta: float) -> float:
    """A rho whose epsilon is at most the target, about the largest; 0 where there is hardly one."""
    found = _bracket(target * 2.0**-60, target, lambda rho: zcdp_epsilon(rho, delta) > target)[0]
    return found if zcdp_epsilon(found, delta) <= target else 0.0


def _bracket(low: float, high: float, holds: Callable[[float], bool]) -> tuple[float, float]:
    """Two numbers a millionth apart: the second holds if high does, as all above it, and the first does not if low does not."""
    while high > low * (1 + 1e-6):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def square_after_rounding(norm: float, dimension: int, clients: int) -> int:
    """Delta_2^2 of theorem 1 with beta = 1/(clients + 1): rounding stays within it with probability 1 - beta at least (claim 4)."""
    root = math.sqrt(dimension)
    spread = math.sqrt(2 * math.log(clients + 1)) * (norm + root / 2)
    return math.floor(up(min(norm * norm + dimension / 4 + spread, (norm + root) ** 2), units=32))


class ModularSum(NamedTuple):
    """A sum of scaled vectors modulo 2^bits, for claim 5."""

    bits: int
    norm: float  # of one vector
    total: float  # of all of them together
    sigma: float
    clients: int
    dimension: int

    @property
    def wrap_probability(self) -> float:
        """At least the probability that a coordinate leaves the modulus."""
        exponent = self._exponent
        return min(1.0, exp_up(1 + math.log(2 * self.dimension) - exponent, units=32, of=25 + exponent))

    @property
    def wrap_error(self) -> float:
        """At least what wrapping adds to the mean squared error of a coordinate. Infinite where the claim says nothing."""
        exponent = self._exponent
        log_error = 1 + math.log(2.005) + math.log(4) * self.bits - exponent
        return math.inf if exponent < 1 else exp_up(log_error, units=32, of=50 + exponent)

    @property
    def _exponent(self) -> float:
        """R^2/(2 V)."""
        margin = down(2.0 ** (self.bits - 1) - 2 - self.clients * self.norm * SLACK)
        return max(0.0, margin) ** 2 / 2 / (self.total * self.total / self.dimension + self.clients * (self.sigma * self.sigma + 0.25))
