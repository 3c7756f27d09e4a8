"""int8 releases on a grid so coarse that few integers saturate: docs/format.md section 14, docs/proofs/saturation.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from hushvec._util.statistics import norm_sf

LARGEST = 127
SATURATION = (-LARGEST, LARGEST)

# A computed bound below this is stated as this: it is a matter of floating point from there on.
SMALLEST_PROBABILITY = 2.0**-64

# Where the bound is evaluated: shares of the signal that one element has, and lengths of the component of PrivUnitG.
_SHARES = 16
_LENGTHS = 128
_REACH = 8.0  # beyond the threshold, in units of sigma


@lru_cache(maxsize=1024)
def gaussian_saturation(sigma: float, clip_norm: float, grid: float, dimension: int) -> float:
    """At most this share of the values of a clipped row saturates, on average over the noise, whatever the row is."""
    limit = _limit(sigma, grid)
    return _over_a_row(lambda share: _beyond(limit, share * clip_norm / sigma), dimension)


@lru_cache(maxsize=1024)
def privunit_saturation(sigma: float, cap_probability: float, threshold: float, grid: float, dimension: int) -> float:
    """The same for PrivUnitG, whose signal is the component along the row's direction."""
    limit = _limit(sigma, grid)
    lengths = [(threshold + _REACH) * i / _LENGTHS for i in range(_LENGTHS + 1)]
    longer = [_component_beyond(cap_probability, threshold, length) for length in lengths]

    def beyond(share: float) -> float:
        values = [_beyond(limit, share * length) for length in lengths]
        steps = sum((above - below) * tail for below, above, tail in zip(values, values[1:], longer))
        return values[0] + steps + (1 - values[-1]) * longer[-1]

    return _over_a_row(beyond, dimension)


def _limit(sigma: float, grid: float) -> float:
    """From where on a value saturates, in units of sigma: halves are rounded away from the last integer."""
    return (LARGEST + 0.5) * grid / sigma


def _beyond(limit: float, signal: float) -> float:
    """P[|N(signal, 1)| >= limit], or 1 where the signal alone is beyond."""
    return norm_sf(limit - signal) + norm_sf(limit + signal) if signal < limit else 1.0


def _component_beyond(cap_probability: float, threshold: float, length: float) -> float:
    """At least P[|alpha| > length] of the component alpha of PrivUnitG."""
    past = max(0.0, length - threshold)
    in_cap = math.exp(-past * (threshold + past / 2))
    return cap_probability * in_cap + (1 - cap_probability) * min(1.0, 4 * norm_sf(length))


def _over_a_row(beyond: Callable[[float], float], dimension: int) -> float:
    """The average over the elements of a row: at most 1 / share^2 of them have more than a share of the signal."""
    all_of_it = beyond(1.0)
    shares = (i / _SHARES for i in range(1, _SHARES))
    bound = min(all_of_it, *(beyond(share) + min(1.0, 1 / (dimension * share * share)) * all_of_it for share in shares))
    return min(1.0, max(bound, SMALLEST_PROBABILITY))

