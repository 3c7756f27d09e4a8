"""Privacy loss distributions, overstated on a grid by Connect the Dots (Doroshenko et al. 2022), composed by `tilted`."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.rounding import UNIT, down
from hushvec.accounting import shuffling
from hushvec.accounting.losses import GaussianDP, LaplaceDP, PoissonSampledGaussianDP, PrivacyLoss, Shuffled
from hushvec.accounting.poisson import crossings, dp_accounting, sampled_gaussian
from hushvec.accounting.releases import Releases, gaussian_part
from hushvec.accounting.tilted import GridLaw, Sum, shortfall

# Losses beyond which e^loss overflows, so that a grid is not compared with the curve of its release.
LARGEST_LOSS = 600.0

_Floats = NDArray[np.float64]


def connect_the_dots(first: int, deltas: _Floats, step: float) -> GridLaw:
    """The law on cells first, first + 1, ... whose delta curve goes through these points (algorithm 1 of the paper)."""
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    falls = np.diff(deltas)
    masses = np.empty_like(deltas)
    masses[0] = 1 - deltas[0] + falls[0] / math.expm1(step)
    masses[1:-1] = (falls[1:] - falls[:-1] * math.exp(step)) / math.expm1(step)
    masses[-1] = falls[-1] / math.expm1(-step)
    return GridLaw(first, np.maximum(masses, 0.0), float(deltas[-1]))


@np.errstate(over="ignore")
def sampled_gaussian_law(deviation: float, probability: float, direction: str, step: float) -> GridLaw:
    """The loss of `sampled_gaussian` on a grid."""
    mechanisms: Any = dp_accounting("composition of privacy loss distributions").pld.privacy_loss_mechanism
    kind = mechanisms.AdjacencyType[direction.upper()]
    mechanism = mechanisms.GaussianPrivacyLoss(deviation, sampling_prob=probability, adjacency_type=kind)
    ends = mechanism.connect_dots_bounds()
    first, last = math.floor(ends.epsilon_lower / step), math.ceil(ends.epsilon_upper / step)
    epsilons = np.arange(first, last + 1) * step
    crossing, there = crossings(deviation, probability, direction, epsilons)
    # Losses of its laws fall with x.
    deltas = mechanism.mu_upper_cdf(-crossing) - np.exp(epsilons + mechanism.mu_lower_log_cdf(-crossing))
    return connect_the_dots(first, np.where(there, deltas, -np.expm1(epsilons)), step)


def _symmetric_curve(loss: Any, at: _Floats) -> _Floats:
    """delta at each epsilon, rounded up, for Laplace noise and for reports that shuffling amplifies."""
    if isinstance(loss, LaplaceDP):
        half = np.minimum(at - loss.pure_epsilon, 0.0) / 2
        return np.where(at > -loss.pure_epsilon, -np.expm1(half), -np.expm1(np.minimum(at, 0.0))) * (1 + 8 * UNIT)
    return shuffling.shuffled_curve(*_batch(loss), at)


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
    return _sums(core, coarsening)


def _sums(core: Releases, coarsening: int) -> tuple[Sum, ...]:
    """The sum of all losses: of removing, and where that is not the same, of adding. On a grid so many times coarser than usual."""
    step = coarsening * _step(core)
    parts = [(loss, count) for loss, count in core.counts if not isinstance(loss, GaussianDP)]
    squares = gaussian_part(core)
    if squares:
        parts.append((GaussianDP(noise_multiplier=down(1 / math.sqrt(squares)), adjacency=core.adjacency), 1))
    laws = [(_laws(loss, step), count) for loss, count in parts]
    directions = 1 if all(_is_symmetric(loss) for loss, _ in parts) else 2
    return tuple(Sum([(both[direction], count) for both, count in laws], step) for direction in range(directions))


def _laws(loss: PrivacyLoss, step: float) -> tuple[GridLaw, GridLaw]:
    """The loss of one release on the grid: of removing, and of adding."""
    removing = _law(loss, "remove", step)
    return removing, removing if _is_symmetric(loss) else _law(loss, "add", step)


def _is_symmetric(loss: PrivacyLoss) -> bool:
    """Whether removing a person loses what adding one does."""
    return not isinstance(loss, PoissonSampledGaussianDP) or loss.adjacency == "replace-one" or loss.sampling_probability == 1


def _law(loss: Any, direction: str, step: float) -> GridLaw:
    """The loss of one release on the grid, and how far it falls short of its exact curve where that is known."""
    gaussian = _gaussian_curve(loss, direction)
    if gaussian:
        curve, law = partial(sampled_gaussian, *gaussian), sampled_gaussian_law(*gaussian, step)
    elif isinstance(loss, LaplaceDP) or _is_amplified(loss):
        curve = partial(_symmetric_curve, loss)
        end = loss.pure_epsilon if isinstance(loss, LaplaceDP) else shuffling.far_end(*_batch(loss))
        last = max(1, math.ceil(end / step))
        law = connect_the_dots(-last, curve(np.arange(-last, last + 1, dtype=np.float64) * step), step)
    else:
        return _two_points(loss.pure_epsilon, step)
    furthest = max(-law.first, law.first + len(law.masses)) * step
    is_compared = furthest <= LARGEST_LOSS and not isinstance(loss, LaplaceDP)
    return law._replace(short=shortfall(law, step, curve)) if is_compared else law


def _two_points(epsilon: float, step: float) -> GridLaw:
    """Randomized response, the worst mechanism of this epsilon, each of its two losses rounded up."""
    first, last = math.ceil(-epsilon / step), math.ceil(epsilon / step)
    masses = np.zeros(last - first + 1)
    masses[-1] = 1 / (1 + math.exp(-epsilon))
    masses[0] += math.exp(-epsilon) / (1 + math.exp(-epsilon))
    return GridLaw(first, masses, 0.0)


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
