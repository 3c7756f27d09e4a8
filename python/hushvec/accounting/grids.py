"""dp-accounting's grids of sampled Gaussians and of shuffled reports, all cells at once.

Its own constructor asks for the point at which the loss has a value cell by cell, a loop that takes most of the time of a
composition. Here the points are `curves.crossings`; the probabilities beyond them and the masses (Connect the Dots) are
dp-accounting's, so the grid is the same up to the rounding of the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.accounting import curves
from hushvec.accounting.tilted import GridLaw

# Losses beyond which e^loss overflows.
LARGEST_LOSS = 600.0


def sampled_gaussian(accounting: Any, deviation: float, probability: float, direction: str, step: float) -> GridLaw | None:
    """The loss of `curves.sampled_gaussian` on a grid; None where it goes beyond LARGEST_LOSS."""
    mechanisms = accounting.pld.privacy_loss_mechanism
    kinds = mechanisms.AdjacencyType
    kind = {"remove": kinds.REMOVE, "add": kinds.ADD, "replace": kinds.REPLACE}[direction]
    mechanism = mechanisms.GaussianPrivacyLoss(deviation, sampling_prob=probability, adjacency_type=kind)
    ends = mechanism.connect_dots_bounds()
    if max(abs(ends.epsilon_lower), abs(ends.epsilon_upper)) > LARGEST_LOSS:
        return None
    first, last = math.floor(ends.epsilon_lower / step), math.ceil(ends.epsilon_upper / step)
    epsilons = np.arange(first, last + 1) * step
    crossing, there = curves.crossings(deviation, probability, direction, epsilons)
    # Losses of its laws fall with x.
    deltas = mechanism.mu_upper_cdf(-crossing) - np.exp(epsilons + mechanism.mu_lower_log_cdf(-crossing))
    deltas = np.where(there, deltas, -np.expm1(epsilons))
    return of(
        accounting.pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, first, last, np.clip(deltas, 0.0, 1.0))
    )


def symmetric(accounting: Any, curve: Callable[[NDArray[np.float64]], NDArray[np.float64]], end: float, step: float) -> GridLaw:
    """The loss of a pair that is its own mirror image, by its delta curve, on a grid between -end and end."""
    last = max(1, math.ceil(end / step))
    deltas = np.minimum.accumulate(np.clip(curve(np.arange(-last, last + 1, dtype=np.float64) * step), 0.0, 1.0))
    return of(accounting.pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -last, last, deltas))


def of(masses: Any) -> GridLaw:
    """dp-accounting's masses. The package has no public name for them; the extra pins the version."""
    dense = masses.to_dense_pmf()
    try:
        return GridLaw(int(dense._lower_loss), np.asarray(dense._probs, np.float64), float(dense._infinity_mass))
    except AttributeError:
        raise RuntimeError(f"dp-accounting must be 0.6.0, as the extra accounting has it, got {version('dp-accounting')}") from None
