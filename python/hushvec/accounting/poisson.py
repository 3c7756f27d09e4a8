"""Gaussian noise on a Poisson sample: the exact privacy profile, delta curves for arrays, and the Renyi curve through dp-accounting.

With q = sampling probability, s = noise multiplier and N(c) the normal law of mean c and deviation s (add-remove), or s' = 2 s in
units of one vector's norm (replace-one), the worst neighbors give (docs/proofs/subsampling.md)

    add-remove    (1 - q) N(0) + q N(1)  against  N(0), in both directions: "remove" and "add"
    replace-one   (1 - q) N(0) + q N(1)  against  (1 - q) N(0) + q N(-1), deviation s', its own mirror image
"""

from __future__ import annotations

import importlib
import math
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec._util.rounding import UNIT, down, up
from hushvec._util.statistics import norm_sf
from hushvec.errors import MissingExtraError
from hushvec.noise.calibration import gaussian_delta

EXTRA = "accounting"


def dp_accounting(feature: str) -> ModuleType:
    """The package dp_accounting with its rdp and pld parts loaded."""
    with needs_extra(feature, EXTRA):
        package = importlib.import_module("dp_accounting")
        for part in ("pld.privacy_loss_mechanism", "rdp"):
            importlib.import_module(f"dp_accounting.{part}")
    return package


def has_dp_accounting() -> bool:
    try:
        dp_accounting("")
    except MissingExtraError:
        return False
    return True


# Whole orders at which dp-accounting evaluates the curve. Between two of them it is interpolated, above the last one it is inf.
# The cost of one order is proportional to it.
WHOLE_ORDERS: NDArray[np.float64] = np.array([*range(2, 33), *range(34, 65, 2), 72, 80, 96, 112, 128, 160, 192, 256, 384, 512], float)


def add_remove_delta(noise_multiplier: float, sampling_probability: float, epsilon: float) -> float:
    """q delta(x) with q (e^x - 1) = e^epsilon - 1 and delta the Gaussian's (Balle, Barthe, Gaboardi 2018, theorem 8)."""
    unsampled = unamplified_epsilon(sampling_probability, epsilon)
    return up(sampling_probability * float(gaussian_delta(unsampled, noise_multiplier)))


def unamplified_epsilon(sampling_probability: float, epsilon: float) -> float:
    """x with q (e^x - 1) = e^epsilon - 1, rounded down: ln(1 + (e^epsilon - 1)/q)."""
    if epsilon < 700:
        exact = math.log1p(math.expm1(epsilon) / sampling_probability)
        if math.isfinite(exact):
            return max(0.0, down(exact))
    return epsilon   # beyond e^709: the profile falls, so a smaller argument is on the safe side


def replace_one_delta(noise_multiplier: float, sampling_probability: float, epsilon: float) -> float:
    """P(X > x) - e^epsilon Q(X > x), where x is the point from which on P's density exceeds e^epsilon times Q's.

    It maximizes the difference, so its own rounding matters in the second order only. Where e^epsilon overflows, the profile at
    700 is the answer, as it falls with epsilon.
    """
    q, epsilon = sampling_probability, min(epsilon, 700.0)
    deviation = 2 * noise_multiplier
    if q == 1:
        return float(gaussian_delta(epsilon, noise_multiplier))
    crossing = float(_replace_crossing(deviation * deviation, q, np.array([epsilon]))[0])
    truth = q * norm_sf((crossing - 1) / deviation)
    other = q * math.exp(epsilon) * norm_sf((crossing + 1) / deviation)
    middle = (1 - q) * math.expm1(epsilon) * norm_sf(crossing / deviation)
    # Tails of argument t move by t^2 roundings for one rounding of t.
    reach = ((abs(crossing) + 1) / deviation) ** 2 + epsilon
    return max(0.0, up(truth - other - middle, units=16 + 8 * reach, of=truth + other + middle))


def add_remove_rdp(noise_multiplier: float, sampling_probability: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Renyi divergences of the sampled Gaussian, for any orders > 1, rounded up; inf above the largest of WHOLE_ORDERS.

    (a - 1) D(a) is convex in a and 0 at a = 1, so between whole orders the straight line is an upper bound.
    """
    whole, moments = np.concatenate([[1.0], WHOLE_ORDERS]), _log_moments(noise_multiplier, sampling_probability)
    found: NDArray[np.float64] = np.interp(orders, whole, moments, right=math.inf) * (1 + 8 * UNIT) / (orders - 1)
    return found


def replace_one_rdp(noise_multiplier: float, sampling_probability: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """By way of the input without the person: D_a(P, Q) <= (a - 1/2)/(a - 1) D_2a(P, N) + D_(2a - 1)(N, Q).

    Both are under add-remove, with half the sensitivity (Mironov 2017, proposition 11). dp-accounting has no curve for this case.
    """
    first = add_remove_rdp(2 * noise_multiplier, sampling_probability, 2 * orders)
    second = add_remove_rdp(2 * noise_multiplier, sampling_probability, 2 * orders - 1)
    found: NDArray[np.float64] = ((orders - 0.5) / (orders - 1) * first + second) * (1 + 16 * UNIT)
    return found


@lru_cache(maxsize=1024)
def _log_moments(noise_multiplier: float, sampling_probability: float) -> NDArray[np.float64]:
    """(a - 1) D(a) at a = 1 and at WHOLE_ORDERS, rounded up."""
    accounting = dp_accounting("the Renyi curve of a Poisson-sampled Gaussian")
    whole, relation = WHOLE_ORDERS, accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = accounting.rdp.RdpAccountant(orders=whole, neighboring_relation=relation)
    accountant.compose(accounting.PoissonSampledDpEvent(sampling_probability, accounting.GaussianDpEvent(noise_multiplier)))
    moments = (whole - 1) * accountant.rdp
    # Each of a + 1 terms of the moment carries the rounding of three ln(a!), of logarithms of q and 1 - q, and of the exponent.
    magnitude = 3 * whole * np.log(whole) + whole * (abs(math.log(sampling_probability)) + 1) + np.abs(moments)
    moments = moments + 16 * UNIT * (magnitude + whole)
    return np.concatenate([[0.0], moments])


_Floats = NDArray[np.float64]
_DIRECTIONS = ("remove", "add", "replace")


def sampled_gaussian(deviation: float, probability: float, direction: str, epsilons: _Floats) -> _Floats:
    """delta at each epsilon < 700, rounded up, for noise of this deviation in units of the norm of one vector.

    `direction`: "remove" and "add" are those of the module's table, "replace" is its replace-one.
    """
    validate.choice("direction", direction, _DIRECTIONS)
    special: Any = importlib.import_module("scipy.special")
    q, growth = probability, np.exp(epsilons)
    crossing, there = crossings(deviation, probability, direction, epsilons)
    if direction == "replace":
        first, second, third = (special.ndtr(-(crossing + shift) / deviation) for shift in (-1.0, 1.0, 0.0))
        plus, minus = q * first + np.where(epsilons < 0, -(1 - q) * np.expm1(epsilons) * third, 0.0), q * growth * second
        minus = minus + np.where(epsilons > 0, (1 - q) * np.expm1(epsilons) * third, 0.0)
        return _above(plus, minus, (np.abs(crossing) + 1) / deviation)
    if direction == "remove":
        base, shifted = special.ndtr(-crossing / deviation), special.ndtr(-(crossing - 1) / deviation)
        found = _above(q * shifted + (1 - q) * base, growth * base, (np.abs(crossing) + 1) / deviation)
        return np.where(there, found, -np.expm1(np.minimum(epsilons, 0.0)) * (1 + 4 * UNIT))
    base, shifted = special.ndtr(-crossing / deviation), special.ndtr(-(crossing + 1) / deviation)
    found = _above(base, growth * ((1 - q) * base + q * shifted), (np.abs(crossing) + 1) / deviation)
    return np.where(there, found, 0.0)


def crossings(
    deviation: float, probability: float, direction: str, epsilons: _Floats
) -> tuple[_Floats, NDArray[np.bool_]]:
    """The x at which the loss is epsilon, with the laws turned so that it grows with x, and whether there is one.

    Where there is none, all losses of removing are above epsilon, and all of adding below it.
    """
    square = deviation * deviation
    if validate.choice("direction", direction, _DIRECTIONS) == "replace":
        return _replace_crossing(square, probability, epsilons), np.ones(epsilons.shape, bool)
    # Densities cross where e^x (or e^-x) is 1 - q + q e^((2c - 1)/(2 z^2)): at no point where `odds` is not positive.
    sign = 1.0 if direction == "remove" else -1.0
    odds = (np.expm1(np.minimum(sign * epsilons, 600.0)) + probability) / probability
    there = odds > 0
    log_odds = np.log(np.maximum(odds, 1e-300)) + np.maximum(sign * epsilons - 600.0, 0.0)  # beyond e^600 nothing else counts
    return np.where(there, sign * (square * log_odds + 0.5), 0.0), there


def _replace_crossing(square: float, q: float, epsilons: _Floats) -> _Floats:
    """The point from which on the first density exceeds e^epsilon times the second, for epsilons of either sign: it is odd in epsilon.

    With w = e^(x/s'^2), c = q e^(-1/(2 s'^2)) and r = 1 - q, it solves c w^2 - r (e^epsilon - 1) w - c e^epsilon = 0. In units of c:
    w = b + sqrt(b^2 + e^epsilon), b = r (e^epsilon - 1)/(2 c); logarithms, because c may underflow.
    """
    size = np.abs(epsilons)
    if q == 1:
        return square * epsilons / 2
    with np.errstate(divide="ignore"):
        grown = np.log(np.expm1(np.minimum(size, 600.0))) + np.maximum(size - 600.0, 0.0)
        log_b = math.log1p(-q) + grown - math.log(2 * q) + 0.5 / square
    reach = log_b - size / 2
    near = size / 2 + np.arcsinh(np.exp(np.minimum(reach, 300.0)))
    return np.sign(epsilons) * square * np.where(reach > 300, log_b + math.log(2), near)


def _above(plus: _Floats, minus: _Floats, argument: _Floats) -> _Floats:
    """plus - minus and the rounding of both: a normal tail is off by t^2 roundings of its argument t, plus a few."""
    found: _Floats = np.maximum(plus - minus, 0.0) + UNIT * (24 + 4 * argument * argument) * (plus + minus)
    return found
