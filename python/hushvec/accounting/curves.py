"""Delta curves of a Gaussian under Poisson sampling, for arrays of any real epsilon: what a grid of losses must not fall below.

Each includes an upper bound of its rounding. The laws are those of `poisson`; "remove" and "add" are the two
directions of add-remove, and replace-one is its own mirror image.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.rounding import UNIT

_Floats = NDArray[np.float64]
_DIRECTIONS = ("remove", "add", "replace")


def sampled_gaussian(deviation: float, probability: float, direction: str, epsilons: _Floats) -> _Floats:
    """delta at each epsilon, rounded up.

    Args:
        deviation: of the noise, in units of the norm of one vector.
        probability: q, in (0, 1].
        direction: "remove": (1 - q) N(0) + q N(1) against N(0). "add": the other way round. "replace": (1 - q) N(0) + q N(1)
            against (1 - q) N(0) + q N(-1).
        epsilons: below 700.
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

    For "add" the turned laws are N(0) against (1 - q) N(0) + q N(-1). Where there is none, all losses of removing are above epsilon,
    and all of adding below it.
    """
    square = deviation * deviation
    if validate.choice("direction", direction, _DIRECTIONS) == "replace":
        return _replace_crossing(square, probability, epsilons), np.ones(epsilons.shape, bool)
    # Densities cross where e^x (or e^-x) is 1 - q + q e^((2c - 1)/(2 z^2)): at no point where `odds` is not positive.
    sign = 1.0 if direction == "remove" else -1.0
    odds = (np.expm1(sign * epsilons) + probability) / probability
    there = odds > 0
    return np.where(there, sign * (square * np.log(np.maximum(odds, 1e-300)) + 0.5), 0.0), there


def _replace_crossing(square: float, q: float, epsilons: _Floats) -> _Floats:
    """As in `poisson.replace_one_delta`, for epsilons of either sign: the point is odd in epsilon."""
    size = np.abs(epsilons)
    if q == 1:
        return square * epsilons / 2
    with np.errstate(divide="ignore"):
        log_b = math.log1p(-q) + np.log(np.expm1(size)) - math.log(2 * q) + 0.5 / square
    reach = log_b - size / 2
    near = size / 2 + np.arcsinh(np.exp(np.minimum(reach, 300.0)))
    return np.sign(epsilons) * square * np.where(reach > 300, log_b + math.log(2), near)


def _above(plus: _Floats, minus: _Floats, argument: _Floats) -> _Floats:
    """plus - minus and the rounding of both: a normal tail is off by t^2 roundings of its argument t, plus a few."""
    found: _Floats = np.maximum(plus - minus, 0.0) + UNIT * (24 + 4 * argument * argument) * (plus + minus)
    return found
