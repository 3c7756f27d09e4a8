"""Privacy loss distributions: put on a grid by dp-accounting, composed here.

dp-accounting puts each loss on a grid so that it overstates (Connect the Dots). It composes them by fast Fourier transforms whose
rounding it does not count: after 10,000 steps its delta can be some 1e-13 below the exact one, and even negative. `tilted` composes
the same grids with an error that is small relative to delta, proved, and part of every answer.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np

from hushvec.accounting import curves, extra
from hushvec.accounting.losses import GaussianDP, LaplaceDP, PoissonSampledGaussianDP
from hushvec.accounting.releases import Releases, gaussian_part
from hushvec.accounting.rounding import down
from hushvec.accounting.tilted import GridLaw, Sum, shortfall

# The widest and the finest grid step; finer steps cost time, coarser ones tightness. Neither costs validity.
COARSEST_STEP = 1e-4
FINEST_STEP = 1e-6
# One loss has half as many cells at most: dp-accounting takes two seconds for 2^19. The sum of all has less than MOST_CELLS.
MOST_CELLS_OF_ONE = 2**20
MOST_CELLS = 2**24

# Where losses of all releases together are too many cells apart, the grid is taken so many times coarser.
COARSENINGS = (1, 8)

# Losses beyond which e^loss leaves the floats, so that grids are not compared with their curves.
LARGEST_COMPARED = 600.0

# Sum of 1/s^2 over Gaussian releases beyond which losses are so large that no grid step means anything.
LARGEST_SQUARE = 1e6


def epsilon_of(core: Releases, delta: float) -> float:
    """Smallest epsilon at delta, rounded up; inf if none was found."""
    for coarsening in COARSENINGS:
        found = max(directed.epsilon(delta) for directed in _composed(core, coarsening))
        if found < math.inf:
            return found
    return math.inf


def delta_of(core: Releases, epsilon: float) -> float:
    """Smallest delta at epsilon, rounded up."""
    for coarsening in COARSENINGS:
        found = max(directed.delta(epsilon) for directed in _composed(core, coarsening))
        if found < 1:
            return found
    return 1.0


@lru_cache(maxsize=8)
def _composed(core: Releases, coarsening: int) -> tuple[Sum, ...]:
    """The sum of all losses: of removing, and where that is not the same, of adding. On a grid so many times coarser than usual."""
    accounting = extra.dp_accounting("composition of privacy loss distributions")
    step = coarsening * _step(core)
    parts = [(loss, count) for loss, count in core.counts if not isinstance(loss, GaussianDP)]
    squares = gaussian_part(core)
    if squares:
        parts.append((GaussianDP(noise_multiplier=down(1 / math.sqrt(squares)), adjacency=core.adjacency), 1))
    singles = [(loss, _one(accounting, loss, step), count) for loss, count in parts]
    symmetric = all(single._symmetric for _, single, _ in singles)
    return tuple(
        Sum([(_law(loss, single, direction, step), count) for loss, single, count in singles], step)
        for direction in (("remove",) if symmetric else ("remove", "add"))
    )


def _law(loss: Any, distribution: Any, direction: str, step: float) -> GridLaw:
    """The masses of dp-accounting's distribution, compared with the curve that they stand for where it is known.

    The package has no public name for the masses; the extra pins the version.
    """
    dense = getattr(distribution, f"_pmf_{direction}").to_dense_pmf()
    law = GridLaw(int(dense._lower_loss), np.asarray(dense._probs, np.float64), float(dense._infinity_mass))
    if isinstance(loss, GaussianDP):
        deviation, probability, kind = loss.noise_multiplier, 1.0, "remove"
    elif isinstance(loss, PoissonSampledGaussianDP):
        replace = loss.adjacency == "replace-one"
        deviation, probability = loss.noise_multiplier * (2 if replace else 1), loss.sampling_probability
        kind = "replace" if replace else direction
    else:
        return law
    if max(abs(law.first), abs(law.first + len(law.masses))) * step > LARGEST_COMPARED:
        return law
    return law._replace(short=shortfall(law, step, partial(curves.sampled_gaussian, deviation, probability, kind)))


def _one(accounting: Any, loss: Any, step: float) -> Any:
    """dp-accounting's distribution of one release."""
    distributions = accounting.pld.privacy_loss_distribution
    if isinstance(loss, GaussianDP):
        return distributions.from_gaussian_mechanism(loss.noise_multiplier, value_discretization_interval=step)
    if isinstance(loss, LaplaceDP):
        return distributions.from_laplace_mechanism(loss.noise_multiplier, value_discretization_interval=step)
    if isinstance(loss, PoissonSampledGaussianDP):
        relations = accounting.NeighboringRelation
        replace = loss.adjacency == "replace-one"
        # dp-accounting's deviation is in units of one vector's norm, which is half the sensitivity under replace-one.
        return distributions.from_gaussian_mechanism(
            loss.noise_multiplier * (2 if replace else 1),
            value_discretization_interval=step,
            sampling_prob=loss.sampling_probability,
            neighboring_relation=relations.REPLACE_ONE if replace else relations.ADD_OR_REMOVE_ONE,
        )
    parameters = accounting.pld.common.DifferentialPrivacyParameters(loss.pure_epsilon, 0.0)
    return distributions.from_privacy_parameters(parameters, value_discretization_interval=step)


def _step(core: Releases) -> float:
    """A grid step: a tenth of the spread of the least noisy loss, as long as the whole fits in MOST_CELLS."""
    variance, finest = gaussian_part(core), COARSEST_STEP
    widest = 12 * math.sqrt(variance) + variance
    for loss, count in core.counts:
        if isinstance(loss, GaussianDP):
            continue
        spread, reach = _spread(loss)
        variance += count * spread * spread
        widest = max(widest, reach)
        if count > 100:
            finest = min(finest, spread / 10)
    width = widest + variance + 24 * math.sqrt(variance)
    return max(min(finest, COARSEST_STEP), FINEST_STEP, 2 * widest / MOST_CELLS_OF_ONE, 2 * width / MOST_CELLS)


def _spread(loss: Any) -> tuple[float, float]:
    """About the deviation of a loss, and about the largest value it takes: only to choose a grid."""
    if isinstance(loss, PoissonSampledGaussianDP):
        slope = 1 / loss.noise_multiplier
        variance = math.expm1(min(slope * slope, 50.0))
        reach = slope * slope / 2 + 9 * slope
        return min(loss.sampling_probability * math.sqrt(variance), slope), reach
    return loss.pure_epsilon, loss.pure_epsilon
