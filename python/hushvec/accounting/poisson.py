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

_Floats = NDArray[np.float64]
_DIRECTIONS = ("remove", "add", "replace")
_CELLS = 2**12


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


# Whole orders at which dp-accounting evaluates the curve, and orders below 2 at which it is summed here, where it can rise steeply.
# Between two of them it is interpolated, above the last one it is inf. The cost of a whole order is proportional to it.
LOW_ORDERS: NDArray[np.float64] = 1 + np.geomspace(2.0**-10, 1.0, 21)
WHOLE_ORDERS: NDArray[np.float64] = np.array([*range(2, 33), *range(34, 65, 2), 72, 80, 96, 112, 128, 160, 192, 256, 384, 512], float)


def add_remove_delta(noise_multiplier: float, sampling_probability: float, epsilon: float) -> float:
    """q delta(x) with q (e^x - 1) = e^epsilon - 1 and delta the Gaussian's (Balle, Barthe, Gaboardi 2018, theorem 8)."""
    unsampled = unamplified_epsilon(sampling_probability, epsilon)
    return up(sampling_probability * float(gaussian_delta(unsampled, noise_multiplier)))


def amplified_epsilon(epsilon: float, sampling_probability: float) -> float:
    """ln(1 + q (e^epsilon - 1)), rounded up and never above epsilon."""
    if sampling_probability == 1 or epsilon > 700:
        return epsilon
    return min(epsilon, up(math.log1p(sampling_probability * math.expm1(epsilon))))


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

    (a - 1) D(a) is convex in a and 0 at a = 1, so between two orders the straight line is an upper bound.
    """
    release = noise_multiplier, sampling_probability
    low, whole = _low_log_moments(*release, "remove"), _log_moments(*release)
    return np.minimum(_interpolated(WHOLE_ORDERS, whole, orders), _interpolated(LOW_ORDERS, low, orders))


def _interpolated(at: _Floats, moments: _Floats, orders: _Floats) -> _Floats:
    known, values = np.concatenate([[1.0], at]), np.concatenate([[0.0], moments])
    found: _Floats = np.interp(orders, known, values, right=math.inf) * (1 + 8 * UNIT) / (orders - 1)
    return np.where(np.isnan(found), math.inf, found)  # between an order and one that overflows


def replace_one_rdp(noise_multiplier: float, sampling_probability: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Above order 2 by way of the input without the person: D_a(P, Q) <= (a - 1/2)/(a - 1) D_2a(P, N) + D_(2a - 1)(N, Q).

    Both are under add-remove, with half the sensitivity (Mironov 2017, proposition 11). dp-accounting has no curve for this case.
    """
    first = add_remove_rdp(2 * noise_multiplier, sampling_probability, 2 * orders)
    second = add_remove_rdp(2 * noise_multiplier, sampling_probability, 2 * orders - 1)
    low = _low_log_moments(2 * noise_multiplier, sampling_probability, "replace")
    found: NDArray[np.float64] = ((orders - 0.5) / (orders - 1) * first + second) * (1 + 16 * UNIT)
    return np.minimum(found, _interpolated(LOW_ORDERS, low, orders))


@lru_cache(maxsize=1024)
def _log_moments(noise_multiplier: float, sampling_probability: float) -> NDArray[np.float64]:
    """(a - 1) D(a) at WHOLE_ORDERS, rounded up."""
    accounting = dp_accounting("the Renyi curve of a Poisson-sampled Gaussian")
    whole, relation = WHOLE_ORDERS, accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = accounting.rdp.RdpAccountant(orders=whole, neighboring_relation=relation)
    accountant.compose(accounting.PoissonSampledDpEvent(sampling_probability, accounting.GaussianDpEvent(noise_multiplier)))
    moments = (whole - 1) * accountant.rdp
    # Each of a + 1 terms of the moment carries the rounding of three ln(a!), of logarithms of q and 1 - q, and of the exponent.
    magnitude = 3 * whole * np.log(whole) + whole * (abs(math.log(sampling_probability)) + 1) + np.abs(moments)
    found: _Floats = moments + 16 * UNIT * (magnitude + whole)
    return found


@lru_cache(maxsize=1024)
@np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
def _low_log_moments(deviation: float, probability: float, direction: str) -> _Floats:
    """(a - 1) D(a) at LOW_ORDERS, rounded up: docs/proofs/subsampling.md, claim 4.

    With y = dP/dQ the moment is 1 + E_Q[f(y - 1)] for the convex f(u) = (1 + u)^a - 1 - a u. In each of many cells y goes to the two
    ends, so that Q and P of the cell stay the same, which enlarges it.
    """
    special: Any = importlib.import_module("scipy.special")
    q, shift, orders = probability, 1 / deviation, LOW_ORDERS[:, None]
    points = np.linspace(-10.0, 10.0 + 2 * shift, _CELLS)

    def masses(mean: float) -> _Floats:
        below, above = special.ndtr(points - mean), special.ndtr(mean - points)
        inner = np.where(points[1:] > mean, above[:-1] - above[1:], below[1:] - below[:-1])
        return np.concatenate([below[:1], np.maximum(inner, 0.0)])

    second = base = masses(0.0)
    if direction == "replace":
        base = masses(-shift)
        second = (1 - q) * second + q * base
        other = 1 - q + q * np.exp(-points * shift - shift * shift / 2)
        excess = np.concatenate([[-1.0], 2 * q * math.exp(-shift * shift / 2) * np.sinh(points * shift) / other])
    else:
        excess = np.concatenate([[-q], q * np.expm1(points * shift - shift * shift / 2)])
    gained = q * (masses(shift) - base) - second * excess[:-1]   # P - Q of a cell, beyond what y at its lower end gives
    upper = np.clip(gained / np.maximum(np.diff(excess), 1e-300), 0.0, second)
    # f near 0 by its second derivative, as its terms cancel there
    near = orders * (orders - 1) / 2 * excess * excess * (1 + np.abs(excess))
    heights = np.where(np.abs(excess) < 1e-4, near, np.expm1(orders * np.log1p(np.maximum(excess, -1 + UNIT))) - orders * excess)
    within = (heights[:, :-1] * (second - upper) + heights[:, 1:] * upper).sum(axis=1)
    # beyond the last point y is at most (1 - q + q X)/(1 - q) under replace-one, and X at least its value there
    last = math.exp(min(700.0, points[-1] * shift - shift * shift / 2))
    factor = ((1 - q) / last + q) ** LOW_ORDERS * ((1 - q) ** (1 - LOW_ORDERS) if direction == "replace" else 1.0)
    tail = np.exp(LOW_ORDERS * (LOW_ORDERS - 1) / 2 * shift * shift) * special.ndtr(LOW_ORDERS * shift - points[-1])
    moments: _Floats = np.log1p((within + factor * tail) * (1 + 1e-6) + 1e-15 * q)
    return np.where(np.isfinite(moments), moments, math.inf)


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


def crossings(deviation: float, probability: float, direction: str, epsilons: _Floats) -> tuple[_Floats, NDArray[np.bool_]]:
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


def laplace_curve(pure_epsilon: float, epsilons: _Floats) -> _Floats:
    """delta of Laplace noise at each epsilon of either sign, rounded up: docs/proofs/composition.md."""
    half = np.minimum(epsilons - pure_epsilon, 0.0) / 2
    found: _Floats = np.where(epsilons > -pure_epsilon, -np.expm1(half), -np.expm1(np.minimum(epsilons, 0.0))) * (1 + 8 * UNIT)
    return found


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def sampled_laplace(pure_epsilon: float, probability: float, direction: str, epsilons: _Floats) -> _Floats:
    """delta at each epsilon of either sign, rounded up, for Laplace noise on a Poisson sample: "remove" or "add" a person.

    For P and Q with and without the person P - e^x Q is q (L - e^y Q), and Q - e^x P is w (Q - e^y L), with w = 1 - (1 - q) e^x and
    Laplace laws L and Q. Where no y is that, P - e^x Q is positive everywhere, and Q - e^x P nowhere.
    """
    q, growth, less = probability, np.exp(epsilons), np.expm1(epsilons)
    if validate.choice("direction", direction, _DIRECTIONS[:2]) == "remove":
        weight, at, beyond = less + q, np.log((less + q) / q), -less
        found = q * laplace_curve(pure_epsilon, at)
    else:
        weight, beyond = np.where(epsilons > 0, 1 - (1 - q) * growth, q * growth - less), np.zeros_like(epsilons)
        found = weight * laplace_curve(pure_epsilon, epsilons + np.log(q / weight))
    # Curves fall by at most what weights and arguments are off by.
    room = UNIT * (16 + 4 * pure_epsilon) * (epsilons < amplified_epsilon(pure_epsilon, q))
    curve: _Floats = np.where(weight > 0, found, beyond) + room
    return curve
