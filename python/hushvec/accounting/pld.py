"""Privacy loss distributions: discretized by dp-accounting, composed here.

dp-accounting's grid overstates each loss (Connect the Dots). Its constructor asks for the point at which the loss has a value cell by
cell, a loop that takes most of the time of a composition. Here the points are `poisson.crossings`; the probabilities beyond them and
the masses are dp-accounting's, so the grid is the same up to the rounding of the points.

It composes grids by fast Fourier transforms whose rounding it does not count: after 10,000 steps its delta can be some 1e-13 below
the exact one, and even negative. `tilted` composes the same grids with an error that is small relative to delta, proved, and part of
every answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.rounding import down
from hushvec.accounting import shuffling
from hushvec.accounting.losses import GaussianDP, LaplaceDP, PoissonSampledGaussianDP, PrivacyLoss, Shuffled
from hushvec.accounting.poisson import crossings, dp_accounting, sampled_gaussian
from hushvec.accounting.releases import Releases, gaussian_part
from hushvec.accounting.tilted import GridLaw, Sum, shortfall

# Losses beyond which e^loss overflows.
LARGEST_LOSS = 600.0


def sampled_gaussian_law(accounting: Any, deviation: float, probability: float, direction: str, step: float) -> GridLaw | None:
    """The loss of `sampled_gaussian_law` on a grid; None where it goes beyond LARGEST_LOSS."""
    mechanisms = accounting.pld.privacy_loss_mechanism
    kinds = mechanisms.AdjacencyType
    kind = {"remove": kinds.REMOVE, "add": kinds.ADD, "replace": kinds.REPLACE}[direction]
    mechanism = mechanisms.GaussianPrivacyLoss(deviation, sampling_prob=probability, adjacency_type=kind)
    ends = mechanism.connect_dots_bounds()
    if max(abs(ends.epsilon_lower), abs(ends.epsilon_upper)) > LARGEST_LOSS:
        return None
    first, last = math.floor(ends.epsilon_lower / step), math.ceil(ends.epsilon_upper / step)
    epsilons = np.arange(first, last + 1) * step
    crossing, there = crossings(deviation, probability, direction, epsilons)
    # Losses of its laws fall with x.
    deltas = mechanism.mu_upper_cdf(-crossing) - np.exp(epsilons + mechanism.mu_lower_log_cdf(-crossing))
    deltas = np.where(there, deltas, -np.expm1(epsilons))
    return grid_law(
        accounting.pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, first, last, np.clip(deltas, 0.0, 1.0))
    )


def symmetric_law(accounting: Any, curve: Callable[[NDArray[np.float64]], NDArray[np.float64]], end: float, step: float) -> GridLaw:
    """The loss of a pair that is its own mirror image, by its delta curve, on a grid between -end and end."""
    last = max(1, math.ceil(end / step))
    deltas = np.minimum.accumulate(np.clip(curve(np.arange(-last, last + 1, dtype=np.float64) * step), 0.0, 1.0))
    return grid_law(accounting.pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -last, last, deltas))


def grid_law(masses: Any) -> GridLaw:
    """dp-accounting's masses. The package has no public name for them; the extra pins the version."""
    dense = masses.to_dense_pmf()
    try:
        return GridLaw(int(dense._lower_loss), np.asarray(dense._probs, np.float64), float(dense._infinity_mass))
    except AttributeError:
        raise RuntimeError(f"dp-accounting must be 0.6.0, as the extra accounting has it, got {version('dp-accounting')}") from None


# The widest and the finest grid step; finer steps take longer, coarser ones give looser bounds; all are valid.
COARSEST_STEP = 1e-4
FINEST_STEP = 1e-6
# One loss has half as many cells at most; with 2^19 it takes some 0.3 s. The sum of all has less than MOST_CELLS.
MOST_CELLS_OF_ONE = 2**20
MOST_CELLS = 2**24

# Where losses of all releases together are too many cells apart, the grid is taken so many times coarser.
COARSENINGS = (1, 8)

# Sum of 1/s^2 over Gaussian releases, or 1/s^2 of a sampled one, beyond which losses are so large that no grid step means anything.
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


def rough_epsilon(loss: PrivacyLoss, count: int, delta: float, coarsening: int) -> float:
    """`epsilon_of` equal releases, on a grid so many times coarser: still valid and much faster, but larger."""
    core = Releases.of({loss: count}, loss.adjacency)
    if has_too_little_noise(core):
        return math.inf
    return max(directed.epsilon(delta) for directed in _sums(core, coarsening))


def has_too_little_noise(core: Releases) -> bool:
    """Whether losses of Gaussian releases are too large for a grid."""
    sampled = (loss.noise_multiplier for loss, _ in core.counts if isinstance(loss, PoissonSampledGaussianDP))
    return gaussian_part(core) > LARGEST_SQUARE or min(sampled, default=1.0) < LARGEST_SQUARE**-0.5


@lru_cache(maxsize=8)
def _composed(core: Releases, coarsening: int) -> tuple[Sum, ...]:
    """`_sums` with a small cache."""
    return _sums(core, coarsening)


def _sums(core: Releases, coarsening: int) -> tuple[Sum, ...]:
    """The sum of all losses: of removing, and where that is not the same, of adding. On a grid so many times coarser than usual."""
    accounting = dp_accounting("composition of privacy loss distributions")
    step = coarsening * _step(core)
    parts = [(loss, count) for loss, count in core.counts if not isinstance(loss, GaussianDP)]
    squares = gaussian_part(core)
    if squares:
        parts.append((GaussianDP(noise_multiplier=down(1 / math.sqrt(squares)), adjacency=core.adjacency), 1))
    laws = [(_laws(accounting, loss, step), count) for loss, count in parts]
    directions = 1 if all(_is_symmetric(loss) for loss, _ in parts) else 2
    return tuple(Sum([(both[direction], count) for both, count in laws], step) for direction in range(directions))


def _laws(accounting: Any, loss: PrivacyLoss, step: float) -> tuple[GridLaw, GridLaw]:
    """The loss of one release on the grid: of removing, and of adding."""
    removing = _law(accounting, loss, "remove", step)
    return removing, removing if _is_symmetric(loss) else _law(accounting, loss, "add", step)


def _is_symmetric(loss: PrivacyLoss) -> bool:
    """Whether removing a person loses what adding one does."""
    return not isinstance(loss, PoissonSampledGaussianDP) or loss.adjacency == "replace-one" or loss.sampling_probability == 1


def _law(accounting: Any, loss: Any, direction: str, step: float) -> GridLaw:
    """The loss of one release on the grid, and how far it falls short of its exact curve where that is known."""
    if _is_amplified(loss):
        shuffled = partial(shuffling.shuffled_curve, *_batch(loss))
        batch = symmetric_law(accounting, shuffled, shuffling.far_end(*_batch(loss)), step)
        return batch._replace(short=shortfall(batch, step, shuffled))
    curve = _gaussian_curve(loss, direction)
    law = sampled_gaussian_law(accounting, *curve, step) if curve else None
    if curve is None or law is None:
        return grid_law(getattr(_one(accounting, loss, step), f"_pmf_{direction}"))
    return law._replace(short=shortfall(law, step, partial(sampled_gaussian, *curve)))


def _is_amplified(loss: Any) -> bool:
    """Whether shuffling lowers the loss; otherwise it is that of one report."""
    return isinstance(loss, Shuffled) and shuffling.is_amplified(*_batch(loss))


def _batch(loss: Shuffled) -> tuple[float, int]:
    """The epsilon of a report, and how many people there are tables for."""
    return loss.epsilon_bound, min(loss.n, shuffling.MOST_PEOPLE)


def _gaussian_curve(loss: Any, direction: str) -> tuple[float, float, str] | None:
    """Arguments of `sampled_gaussian` for this loss: deviation, probability, direction. None for other noise."""
    if isinstance(loss, GaussianDP):
        return loss.noise_multiplier, 1.0, "remove"
    if not isinstance(loss, PoissonSampledGaussianDP):
        return None
    if loss.adjacency == "replace-one":
        # The curve's deviation is in units of one vector's norm, which is half the sensitivity under replace-one.
        return 2 * loss.noise_multiplier, loss.sampling_probability, "replace"
    return loss.noise_multiplier, loss.sampling_probability, direction


def _one(accounting: Any, loss: Any, step: float) -> Any:
    """dp-accounting's distribution of one release."""
    distributions = accounting.pld.privacy_loss_distribution
    if isinstance(loss, LaplaceDP):
        return distributions.from_laplace_mechanism(loss.noise_multiplier, value_discretization_interval=step)
    curve = _gaussian_curve(loss, "remove")
    if curve:
        deviation, probability, direction = curve
        relations = accounting.NeighboringRelation
        return distributions.from_gaussian_mechanism(
            deviation,
            value_discretization_interval=step,
            sampling_prob=probability,
            neighboring_relation=relations.REPLACE_ONE if direction == "replace" else relations.ADD_OR_REMOVE_ONE,
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
        if count > 100 or _is_amplified(loss):
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
    if _is_amplified(loss):
        return shuffling.deviation(*_batch(loss)), shuffling.far_end(*_batch(loss))
    return loss.pure_epsilon, loss.pure_epsilon
