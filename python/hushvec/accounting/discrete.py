"""The profile of discrete Gaussian noise on whole numbers, rounded up: docs/proofs/discrete_gaussian.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util import rounding
from hushvec._util.rounding import UNIT
from hushvec.noise.calibration import gaussian_delta

# Up to this sigma the profile of one number is summed; above it, and for vectors, the Gaussian's bounds it.
LARGEST_SUMMED = 512.0
_REACH = 36  # sigmas; what lies beyond is below SMALLEST_FAR
# The probability of noise so long that the densities are not compared there: this, or this share of the Gaussian's delta.
SMALLEST_FAR = 2.0**-900
FAR_SHARE = 2.0**-24


class DiscreteReleases(NamedTuple):
    """`times` releases of whole numbers with the same noise."""

    sigma: float
    sensitivity: float
    coordinates: int
    times: int = 1


def is_summed(sigma: float, coordinates: int) -> bool:
    """Whether the profile is computed from the law of the noise itself."""
    return coordinates == 1 and sigma <= LARGEST_SUMMED


def discrete_gaussian_delta(epsilon: float, sigma: float, sensitivity: float, coordinates: int) -> float:
    """At least the delta of noise on so many whole numbers that move by at most `sensitivity` >= 1 in L2. It may exceed 1."""
    if is_summed(sigma, coordinates):
        distance, (k, weights, rooms) = math.floor(sensitivity), _weights(sigma)
        losses = (distance / (2 * sigma * sigma)) * (distance + 2 * k)  # nothing is added where they are below epsilon
        gains = -np.expm1(np.minimum(0.0, epsilon - losses - 8 * UNIT * (epsilon + np.abs(losses))))
        above, below = float((gains * (weights + rooms)).sum()), float((weights - rooms).sum())
        return rounding.up(above / below, units=8 + 4 * len(k)) + SMALLEST_FAR
    far = max(SMALLEST_FAR, FAR_SHARE * float(gaussian_delta(epsilon, sigma, sensitivity)))
    shift, factor = gaussian_terms([DiscreteReleases(sigma, sensitivity, coordinates)], far)
    delta = float(gaussian_delta(max(0.0, rounding.down(epsilon - shift, of=epsilon)), sigma, sensitivity))
    return rounding.up((delta + max(0.0, shift - epsilon)) * factor + far, units=32)


@np.errstate(over="ignore")
def discrete_gaussian_curve(sigma: float, sensitivity: float, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """The delta of one number at each epsilon of either sign, rounded up: claim 3 of the note."""
    distance, tails, errors = math.floor(sensitivity), *_tails(sigma)
    end, last = (len(tails) - 2) // 2, len(tails) - 1
    # P(Y > s) - e^epsilon P(Y > s + distance), with the first k that counts where the loss is above epsilon
    first = np.floor(epsilons * (sigma * sigma / distance) - distance / 2) + 1
    here, there = (np.clip(first + end + moved, 0, last).astype(np.int64) for moved in (0, distance))
    growth = np.exp(np.minimum(epsilons, 700.0))
    gained, off = tails[here] - growth * tails[there], errors[here] + growth * errors[there]
    curve: NDArray[np.float64] = (np.maximum(gained, 0.0) + off) / (tails[0] - errors[0]) * (1 + 8 * UNIT) + SMALLEST_FAR
    return curve


@lru_cache(maxsize=8)
def _tails(sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of the weights from each k on, and of nothing, and by how much they can be off."""
    k, weights, rooms = _weights(sigma)
    rooms = rooms + weights * UNIT * (8 + len(k))
    tails, errors = (np.append(np.cumsum(part[::-1])[::-1], 0.0) for part in (weights, rooms))
    return tails, errors


def _weights(sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """k from -end to end, exp(-k^2 / (2 sigma^2)), and by how much these can be off."""
    end = math.ceil(_REACH * sigma) + 2
    k = np.arange(-end, end + 1, dtype=np.float64)
    exponents = k * k / (2 * sigma * sigma)
    weights = np.exp(-exponents)
    return k, weights, weights * UNIT * (4 * exponents + 8)


def gaussian_terms(releases: Sequence[DiscreteReleases], far: float) -> tuple[float, float]:
    """Claim 4 of the note for all of them together: h, and c, which is infinite where it is of no use.

    delta(epsilon) is at most c times that of continuous noise at epsilon - h, plus `far`.
    """
    numbers = sum(one.coordinates * one.times for one in releases)
    moved = math.fsum(one.times * (one.sensitivity / one.sigma) ** 2 for one in releases)
    radius = math.sqrt(numbers) + math.sqrt(-2 * math.log(far)) + math.sqrt(moved)
    shift = rounding.up((radius / min(one.sigma for one in releases)) ** 2 / 8, units=32)
    excess = math.fsum(one.times * one.coordinates * ((1 + 0.5 / one.sigma) / one.sigma) ** 2 / 8 for one in releases)
    return shift, rounding.up(math.exp(excess), units=32) if excess <= 1 else math.inf
