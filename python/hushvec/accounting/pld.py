"""Privacy loss distributions through dp-accounting, with what its floating-point arithmetic can be short of added on top.

dp-accounting puts each loss on a grid so that it overstates (Connect the Dots), and composes by fast Fourier transforms, whose
rounding it does not count: after 10,000 steps its delta can be some 1e-13 below the exact one, and even negative. `_allowance` is
a proved bound of that error (docs/proofs/composition.md, "Rounding in Fourier transforms"), and every answer includes it. It also
means that deltas near the allowance (1e-8 or so after 10,000 steps) get no finite epsilon here; Renyi bounds do not have that limit.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from hushvec.accounting import extra
from hushvec.accounting.losses import GaussianDP, LaplaceDP, PoissonSampledGaussianDP
from hushvec.accounting.releases import Releases, gaussian_part
from hushvec.accounting.rounding import UNIT, down, smallest, up

# The widest and the finest grid step; finer steps cost time, coarser ones tightness. Neither costs validity.
COARSEST_STEP = 1e-4
FINEST_STEP = 1e-6
# Grids are kept about this long at most: 2^20 cells are transformed in a second.
MOST_CELLS = 2**20

# Sum of 1/s^2 over Gaussian releases beyond which losses are so large that no grid step means anything.
LARGEST_SQUARE = 1e6


class Composed(NamedTuple):
    """A composed distribution of dp-accounting, and what its deltas can be short of."""

    distribution: Any
    allowance: float


def epsilon_of(core: Releases, delta: float) -> float:
    """Smallest epsilon at delta, rounded up; inf if the allowance alone exceeds delta."""
    composed = _composed(core)
    if delta <= composed.allowance:
        return math.inf
    start = float(composed.distribution.get_epsilon_for_delta(down(delta - composed.allowance)))
    if not math.isfinite(start):
        return math.inf
    if delta_of(core, start) <= delta:
        return up(start)
    # dp-accounting solves for epsilon up to rounding of its own: a few steps above it holds.
    above = up(start * (1 + 1e-9) + 1e-9)
    if delta_of(core, above) > delta:
        return math.inf
    return smallest(lambda epsilon: delta_of(core, epsilon) <= delta, above)


def delta_of(core: Releases, epsilon: float) -> float:
    """Smallest delta at epsilon, rounded up."""
    composed = _composed(core)
    below = down(epsilon, units=64, of=epsilon + 1)   # for the rounding of the grid's own losses
    return min(1.0, up(max(0.0, float(composed.distribution.get_delta_for_epsilon(below))) + composed.allowance))


@lru_cache(maxsize=8)
def _composed(core: Releases) -> Composed:
    accounting = extra.dp_accounting("composition of privacy loss distributions")
    distributions = accounting.pld.privacy_loss_distribution
    step = _step(core)
    parts: list[tuple[Any, int]] = []
    squares = gaussian_part(core)
    if squares:
        deviation = down(1 / math.sqrt(squares))
        parts.append((distributions.from_gaussian_mechanism(deviation, value_discretization_interval=step), 1))
    parts.extend((_one(accounting, loss, step), count) for loss, count in core.counts if not isinstance(loss, GaussianDP))
    total: Any = None
    allowance = 0.0
    for single, count in parts:
        repeated = single.self_compose(count) if count > 1 else single
        allowance += _allowance(count, max(_cells(repeated), _cells(single)))
        if total is None:
            total = repeated
            continue
        total = total.compose(repeated)
        allowance += _allowance(2, _cells(total))
    return Composed(total, allowance)


def _one(accounting: Any, loss: Any, step: float) -> Any:
    """dp-accounting's distribution of one release."""
    distributions = accounting.pld.privacy_loss_distribution
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
    return max(min(finest, COARSEST_STEP), FINEST_STEP, 2 * width / MOST_CELLS)


def _spread(loss: Any) -> tuple[float, float]:
    """About the deviation of a loss, and about the largest value it takes: only to choose a grid."""
    if isinstance(loss, PoissonSampledGaussianDP):
        slope = 1 / loss.noise_multiplier
        variance = math.expm1(min(slope * slope, 50.0))
        reach = slope * slope / 2 + 9 * slope
        return min(loss.sampling_probability * math.sqrt(variance), slope), reach
    return loss.pure_epsilon, loss.pure_epsilon


def _allowance(count: int, cells: int) -> float:
    """How much of a delta can be lost when `count` distributions are convolved by Fourier transforms, results `cells` long."""
    building = 64 * count * UNIT   # the deltas that each distribution is built from
    if count == 1:
        return building
    length = 1.1 * cells + 64   # transforms are a little longer than their result
    transform = 7 * math.log2(length) * UNIT   # relative error of one in the 2-norm (Higham 2002, theorem 24.2)
    return ((count + 2) * transform + 8 * count * UNIT) * math.sqrt(length) + building


def _cells(distribution: Any) -> int:
    """Length of its grid. The package has no public name for it; the extra pins the version."""
    return int(max(distribution._pmf_remove.size, distribution._pmf_add.size))
