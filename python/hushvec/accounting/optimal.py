"""Optimal composition of pure guarantees: Kairouz, Oh, Viswanath (2015), theorem 3.3; Murtagh and Vadhan (2016), theorem 1.5.

The worst epsilon-DP mechanism is randomized response: its privacy loss is +epsilon with probability e^epsilon/(1 + e^epsilon), and
-epsilon otherwise. Losses of independent releases add up, also where later ones are chosen after seeing earlier ones, so the
worst loss of k releases is a sum of independent two-point variables, and

    delta(x) = E[max(0, 1 - e^(x - sum))]

Exact evaluation is #P-hard in general (Murtagh and Vadhan). Beyond MOST_ATOMS sums every value goes to the two points of a grid
around it, which makes a worse mechanism (docs/proofs/composition.md), so the answer errs upwards only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushvec._util.rounding import SMALLEST, UNIT, smallest, sum_up, up

# Sums kept exactly. 2^18 take about 20 ms.
MOST_ATOMS = 2**18
# Cells of the grid: as many as WORK additions allow, in these bounds. 2^30 take about a second.
FEWEST_CELLS, MOST_CELLS = 2**14, 2**17
WORK = 2**30
# What the grid leaves out at its upper end counts as a loss without bound. This is the most that can be.
TAIL = 1e-40
# Equal releases are a binomial law with one weight each: 2^22 of them take 2 s and 200 MB.
MOST_EQUAL = 2**22
# Above this epsilon, which guarantees next to nothing, weights leave the range of floats.
LARGEST_EPSILON = 700.0

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Losses, off by `loss_error`, weights, off by the relative `weight_error`; `unbounded` is the probability of no bound."""

    losses: _Floats
    weights: _Floats
    unbounded: float
    loss_error: float
    weight_error: float

    def delta(self, epsilon: float) -> float:
        """E[max(0, 1 - e^(epsilon - loss))], rounded up."""
        threshold = epsilon - self.loss_error
        over = self.losses > threshold
        part = float(np.dot(-np.expm1(threshold - self.losses[over]), self.weights[over]))
        roundings = 16 + int(over.sum())
        underflow = 4 * SMALLEST * roundings
        return min(1.0, up(part * (1 + self.weight_error), units=roundings) + underflow + self.unbounded) if part else self.unbounded


def epsilon_of(epsilons: tuple[tuple[float, int], ...], delta: float) -> float:
    largest = sum_up(epsilons)
    if delta == 0 or not _is_representable(epsilons):
        return largest
    distribution = compose_losses(epsilons)
    if distribution.unbounded > delta:
        return largest
    return smallest(lambda epsilon: epsilon >= largest or distribution.delta(epsilon) <= delta, largest)


def delta_of(epsilons: tuple[tuple[float, int], ...], epsilon: float) -> float:
    if epsilon >= sum_up(epsilons):
        return 0.0
    return compose_losses(epsilons).delta(epsilon) if _is_representable(epsilons) else 1.0


@lru_cache(maxsize=16)
def compose_losses(epsilons: tuple[tuple[float, int], ...]) -> LossDistribution:
    """The distribution of the sum: exact if it is small enough, else on a grid."""
    ordered = sorted(epsilons)
    atoms = math.prod(min(count, MOST_ATOMS) + 1 for _, count in ordered[:20])
    if len(ordered) <= 20 and atoms <= MOST_ATOMS:
        return _exact(ordered)
    # A power of two: the length of the grid for releases with that many values in all.
    values = sum(min(2 * (count + 1), MOST_CELLS) for _, count in ordered)
    return _on_grid(ordered, min(MOST_CELLS, max(FEWEST_CELLS, 1 << int(math.log2(WORK / values)))))


def _is_representable(epsilons: tuple[tuple[float, int], ...]) -> bool:
    return max(epsilon for epsilon, _ in epsilons) <= LARGEST_EPSILON


def _exact(epsilons: list[tuple[float, int]]) -> LossDistribution:
    losses: _Floats = np.zeros(1)
    weights: _Floats = np.ones(1)
    loss_error = weight_error = 0.0
    for epsilon, count in epsilons:
        more_losses, more_weights, error = _repeated(epsilon, count)
        losses = (losses[:, None] + more_losses).ravel()
        weights = (weights[:, None] * more_weights).ravel()
        loss_error += 4 * UNIT * epsilon * count
        weight_error += error + 2 * UNIT
    return LossDistribution(losses, weights, 0.0, loss_error * len(epsilons), weight_error * 1.01)


def _repeated(epsilon: float, count: int) -> tuple[_Floats, _Floats, float]:
    """Losses (count - 2 i) epsilon with binomial weights, and by how much a weight can be off.

    Weights are products of the ratios of neighbors, away from the largest one: nothing overflows.
    """
    failures = np.arange(count + 1, dtype=np.float64)
    odds = math.exp(-epsilon)   # of a loss of -epsilon against one of +epsilon
    ratios = (count - failures[:-1]) / failures[1:] * odds   # weight of i + 1 over weight of i
    mode = int(np.searchsorted(-ratios, -1.0))
    above = np.cumprod(ratios[mode:])
    below = np.cumprod(1 / ratios[:mode][::-1])[::-1]
    weights = np.concatenate([below, [1.0], above])
    losses: _Floats = (count - 2 * failures) * epsilon
    normalized: _Floats = weights / math.fsum(weights)
    return losses, normalized, (8 * count + 16) * UNIT


def _on_grid(epsilons: list[tuple[float, int]], size: int) -> LossDistribution:
    """The sum on `size` grid points, every value moved to the two around it; beyond the grid a loss counts as infinite."""
    mean = math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in epsilons)
    squares = math.fsum(count * epsilon * epsilon for epsilon, count in epsilons)
    # Hoeffding's bound, which holds for all partial sums at once.
    likely, largest = mean + math.sqrt(2 * squares * -math.log(TAIL)), math.fsum(count * epsilon for epsilon, count in epsilons)
    reach = min(likely, largest)
    # Each kind of release can move the largest loss up by one more cell.
    spare = min(len(epsilons), size // 8) if largest <= likely else 0
    step = reach / (size // 2 - 2 - spare)
    middle = size // 2
    total = np.zeros(size)
    total[middle] = 1.0
    unbounded, weight_error = 0.0, 0.0
    for epsilon, count in epsilons:
        losses, weights, error = _repeated(epsilon, count)
        cells, split = _split(losses, weights, step)
        # Losses wider than the grid do not fit on it: high ones leave, low ones are overstated.
        inside = cells < size
        unbounded += float(split[~inside].sum())
        cells = np.maximum(cells, 1 - size)
        total, lost = _add(total, cells[inside], split[inside])
        unbounded += lost
        weight_error += error + (32 + inside.sum()) * UNIT
    weight_error *= 1.01
    on_grid: _Floats = (np.arange(size, dtype=np.float64) - middle) * step
    return LossDistribution(on_grid, total, up(unbounded * (1 + weight_error), units=64), 8 * UNIT * reach, weight_error)


def _split(losses: _Floats, weights: _Floats, step: float) -> tuple[NDArray[np.int64], _Floats]:
    """Each weight on the two multiples of `step` around its loss; the sums of weight and weight e^-loss stay the same."""
    scaled = losses / step
    low = np.floor(scaled)
    # Rounding of losses/step must not take weight down: a little more of it goes to the upper point.
    upper_distance = np.clip((low + 1 - scaled) * step - 8 * UNIT * np.abs(losses), 0, step)
    share = np.expm1(upper_distance) / math.expm1(step)
    cells = np.concatenate([low, low + 1]).astype(np.int64)
    split = np.concatenate([weights * share, weights * (1 - share)])
    kept = split > 0
    distinct, where = np.unique(cells[kept], return_inverse=True)
    return distinct, np.bincount(where, weights=split[kept], minlength=len(distinct)).astype(np.float64)


def _add(total: _Floats, cells: NDArray[np.int64], weights: _Floats) -> tuple[_Floats, float]:
    """`total` plus an independent variable on `cells`, its lower end kept in the lowest cell, and the weight lost above."""
    result = np.zeros_like(total)
    lost = 0.0
    size = len(total)
    for cell, weight in zip(cells.tolist(), weights.tolist()):
        if cell >= 0:
            result[cell:] += weight * total[: size - cell]
            lost += weight * float(total[size - cell :].sum())
        else:
            result[:cell] += weight * total[-cell:]
            result[0] += weight * float(total[:-cell].sum())
    return result, lost
