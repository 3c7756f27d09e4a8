"""Privacy loss distributions, overstated on a grid by Connect the Dots (Doroshenko et al. 2022), composed by `tilted`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.rounding import down
from hushvec.accounting import losses, optimal, shuffling
from hushvec.accounting.closed_forms import variation_of
from hushvec.accounting.discrete import discrete_gaussian_curve
from hushvec.accounting.poisson import crossings, dp_accounting, laplace_curve, sampled_gaussian, sampled_laplace
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


# Kinds that have a grid; where too many differ, neighbors in size are taken as the worst of them.
ON_GRIDS = (
    losses.PureDP, losses.BoundedRangeDP, losses.LaplaceDP, losses.Shuffled,
    losses.PoissonSampledGaussianDP, losses.PoissonSampledLaplaceDP,
)  # fmt: skip

# The widest grid step for Gaussian and shuffled losses, what others cost together by theirs, relative to their spread, and the finest;
# finer steps take longer, coarser ones give looser bounds; all are valid.
COARSEST_STEP = 1e-4
STEP_OF_SUM = 0.002
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


def rough_epsilon(loss: losses.PrivacyLoss, count: int, delta: float, coarsening: int) -> float:
    """`epsilon_of` equal releases, on a grid so many times coarser: still valid and much faster, but larger."""
    core = Releases.of({loss: count}, loss.adjacency)
    if has_too_little_noise(core):
        return math.inf
    return max(directed.epsilon(delta) for directed in _sums(core, coarsening))


def has_too_little_noise(core: Releases) -> bool:
    """Whether losses of Gaussian releases are too large for a grid."""
    sampled = (loss.noise_multiplier for loss, _ in core.counts if isinstance(loss, losses.PoissonSampledGaussianDP))
    return gaussian_part(core) > LARGEST_SQUARE or min(sampled, default=1.0) < LARGEST_SQUARE**-0.5


@lru_cache(maxsize=8)
def _composed(core: Releases, coarsening: int) -> tuple[Sum, ...]:
    return _sums(core, coarsening)


def _sums(core: Releases, coarsening: int) -> tuple[Sum, ...]:
    """The sum of all losses: of removing, and where that is not the same, of adding. On a grid so many times coarser than usual."""
    step = coarsening * _step(core)
    parts = [(loss, count) for loss, count in core.counts if not isinstance(loss, losses.GaussianDP)]
    squares = gaussian_part(core)
    if squares:
        parts.append((losses.GaussianDP(noise_multiplier=down(1 / math.sqrt(squares)), adjacency=core.adjacency), 1))
    laws = [(_laws(loss, step), count) for loss, count in parts]
    directions = 1 if all(_is_symmetric(loss) for loss, _ in parts) else 2
    return tuple(Sum([(both[direction], count) for both, count in laws], step) for direction in range(directions))


def _laws(loss: losses.PrivacyLoss, step: float) -> tuple[GridLaw, GridLaw]:
    """The loss of one release on the grid: of removing, and of adding."""
    removing = _law(loss, "remove", step)
    return removing, removing if _is_symmetric(loss) else _law(loss, "add", step)


def _is_symmetric(loss: Any) -> bool:
    """Whether removing a person loses what adding one does."""
    sampled = isinstance(loss, (losses.PoissonSampledGaussianDP, losses.PoissonSampledLaplaceDP))
    return not sampled or loss.adjacency == "replace-one" or loss.sampling_probability == 1


def _law(loss: Any, direction: str, step: float) -> GridLaw:
    """The loss of one release on the grid, and how far it falls short of its exact curve where that is known."""
    gaussian, curve = _gaussian_curve(loss, direction), _curve(loss, direction)
    if gaussian:
        curve, law = partial(sampled_gaussian, *gaussian), sampled_gaussian_law(*gaussian, step)
    elif curve:
        last = max(1, math.ceil(_spread(loss)[1] / step))
        law = connect_the_dots(-last, curve(np.arange(-last, last + 1, dtype=np.float64) * step), step)
    else:
        return _three_points(loss, step)
    furthest = max(-law.first, law.first + len(law.masses)) * step
    is_compared = furthest <= LARGEST_LOSS and not isinstance(loss, losses.LaplaceDP)
    return law._replace(short=shortfall(law, step, curve)) if is_compared else law


def _curve(loss: Any, direction: str) -> Callable[[_Floats], _Floats] | None:
    """delta at each epsilon of either sign, rounded up, of what is no Gaussian and more than an epsilon and a total variation."""
    if isinstance(loss, losses.LaplaceDP):
        return partial(laplace_curve, loss.pure_epsilon)
    if isinstance(loss, losses.PoissonSampledLaplaceDP):
        return partial(sampled_laplace, loss.unamplified.pure_epsilon, loss.sampling_probability, direction)
    if isinstance(loss, losses.DiscreteGaussianDP):
        return partial(discrete_gaussian_curve, loss.sigma, loss.sensitivity)
    return partial(shuffling.shuffled_curve, *_batch(loss)) if _is_amplified(loss) else None


def _three_points(loss: losses.PrivacyLoss, step: float) -> GridLaw:
    """The worst mechanism of this epsilon and total variation, each of its losses moved to the two cells around it."""
    epsilon, points = loss.pure_epsilon, optimal.three_points(loss.pure_epsilon, loss.total_variation)
    cells, masses = optimal.split_upwards(np.array([epsilon, 0.0, -epsilon]), np.array(points), step)
    law = np.zeros(cells[-1] - cells[0] + 1)
    law[cells - cells[0]] = masses
    return GridLaw(int(cells[0]), law, 0.0)


def _is_amplified(loss: Any) -> bool:
    """Whether shuffling lowers the loss; otherwise it is that of one report."""
    return isinstance(loss, losses.Shuffled) and shuffling.is_amplified(*_batch(loss))


def _batch(loss: losses.Shuffled) -> tuple[float, int]:
    """The epsilon of a report, and how many people there are tables for."""
    return loss.epsilon_bound, min(loss.n, shuffling.MOST_PEOPLE)


def _gaussian_curve(loss: Any, direction: str) -> tuple[float, float, str] | None:
    """Arguments of `sampled_gaussian` for this loss: deviation, probability, direction. None for other noise."""
    if isinstance(loss, losses.GaussianDP):
        return loss.noise_multiplier, 1.0, "remove"
    if not isinstance(loss, losses.PoissonSampledGaussianDP):
        return None
    if loss.adjacency == "replace-one":
        # The curve's deviation is in units of one vector's norm, which is half the sensitivity under replace-one.
        return 2 * loss.noise_multiplier, loss.sampling_probability, "replace"
    return loss.noise_multiplier, loss.sampling_probability, direction


def _step(core: Releases) -> float:
    """A grid step: small beside the spread of the sum, and of a Gaussian or shuffled loss, as long as the whole fits in MOST_CELLS."""
    variance, finest = gaussian_part(core), math.inf
    widest = 12 * math.sqrt(variance) + variance
    for loss, count in core.counts:
        if isinstance(loss, losses.GaussianDP):
            finest = min(finest, COARSEST_STEP)
            continue
        spread, reach = _spread(loss)
        variance += count * spread * spread
        widest = max(widest, reach)
        if isinstance(loss, losses.PoissonSampledGaussianDP) or _is_amplified(loss):
            finest = min(finest, COARSEST_STEP, spread / 10 if count > 100 or _is_amplified(loss) else math.inf)
    # A loss moved within a cell gains about step^2 / 8 on average.
    finest = min(finest, STEP_OF_SUM * math.sqrt(math.sqrt(variance) / core.number))
    width = widest + variance + 24 * math.sqrt(variance)
    return max(finest, FINEST_STEP, 2 * widest / MOST_CELLS_OF_ONE, 2 * width / MOST_CELLS)


def _spread(loss: Any) -> tuple[float, float]:
    """About the deviation of a loss, to choose a grid, and the largest value that it takes, or about that for Gaussian noise."""
    if isinstance(loss, losses.PoissonSampledGaussianDP):
        slope = 1 / loss.noise_multiplier
        variance = math.expm1(min(slope * slope, 50.0))
        return min(loss.sampling_probability * math.sqrt(variance), slope), slope * slope / 2 + 9 * slope
    if isinstance(loss, losses.DiscreteGaussianDP):
        slope = math.floor(loss.sensitivity) / loss.sigma
        return slope, slope * slope / 2 + 12 * slope
    if _is_amplified(loss):
        return shuffling.deviation(*_batch(loss)), shuffling.far_end(*_batch(loss))
    share = min(1.0, loss.total_variation / variation_of(loss.pure_epsilon))
    return loss.pure_epsilon * math.sqrt(share), loss.pure_epsilon
