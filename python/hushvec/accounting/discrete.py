"""The profile of discrete Gaussian noise on whole numbers, rounded up: docs/proofs/discrete_gaussian.md."""

from __future__ import annotations

import math

import numpy as np

from hushvec._util import rounding
from hushvec._util.rounding import UNIT
from hushvec.noise.calibration import gaussian_delta

# Up to this sigma the profile of one number is summed; above it, and for vectors, the Gaussian's bounds it.
LARGEST_SUMMED = 512.0
_REACH = 36  # sigmas; what lies beyond is below _BEYOND
_BEYOND = 2.0**-900
# Of the Gaussian's delta: the probability of noise so long that the densities are not compared there.
_FAR_SHARE = 2.0**-24


def discrete_gaussian_delta(epsilon: float, sigma: float, sensitivity: float, coordinates: int) -> float:
    """At least the delta of noise on so many whole numbers that move by at most `sensitivity` >= 1 in L2. It may exceed 1."""
    if coordinates > 1 or sigma > LARGEST_SUMMED:
        return _by_the_gaussian(epsilon, sigma, sensitivity, coordinates)
    distance, end = math.floor(sensitivity), math.ceil(_REACH * sigma) + 2
    k = np.arange(-end, end + 1, dtype=np.float64)
    exponents = k * k / (2 * sigma * sigma)
    weights, room = np.exp(-exponents), UNIT * (4 * exponents + 8)
    losses = (distance / (2 * sigma * sigma)) * (distance + 2 * k)  # nothing is added where they are below epsilon
    gains = -np.expm1(np.minimum(0.0, epsilon - losses - 8 * UNIT * (epsilon + np.abs(losses))))
    above, below = float((weights * gains * (1 + room)).sum()), float((weights * (1 - room)).sum())
    return rounding.up(above / below, units=8 + 4 * len(k)) + _BEYOND


def _by_the_gaussian(epsilon: float, sigma: float, sensitivity: float, coordinates: int) -> float:
    """Claim 3 of the note: c (delta of the Gaussian at epsilon - h) + the probability of noise far away."""
    far = max(_BEYOND, _FAR_SHARE * float(gaussian_delta(epsilon, sigma, sensitivity)))
    radius = math.sqrt(coordinates) + math.sqrt(-2 * math.log(far)) + sensitivity / sigma
    shift = rounding.up((radius / sigma) ** 2 / 8, units=32)
    excess = coordinates * ((1 + 0.5 / sigma) / sigma) ** 2 / 8
    if excess > 1:  # for which the bound is of no use
        return 1.0
    delta = float(gaussian_delta(max(0.0, rounding.down(epsilon - shift, of=epsilon)), sigma, sensitivity))
    return rounding.up((delta + max(0.0, shift - epsilon)) * math.exp(excess) + far, units=32)
