"""Optimal composition of pure guarantees: Kairouz, Oh, Viswanath (2015), theorem 3.3; Murtagh and Vadhan (2016), theorem 1.5.

The worst epsilon-DP mechanism of total variation v is randomized response among several labels: its privacy loss is +epsilon with
probability v/(1 - e^-epsilon), -epsilon with e^-epsilon times that, and else 0; on one bit, where v is tanh(epsilon/2), never 0
(docs/proofs/composition.md). Losses of independent releases add up, also where later ones are chosen after seeing earlier ones, so
the worst loss of k releases is a sum of independent three-point variables, and

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

from hushvec._util.rounding import SMALLEST, UNIT, down, smallest, sum_up, up

# Sums kept exactly. 2^18 take about 20 ms.
MOST_ATOMS = 2**18
# Cells of the grid: as many as WORK additions allow, in these bounds. 2^30 take about a second.
FEWEST_CELLS, MOST_CELLS = 2**14, 2**17
WORK = 2**30
# What the grid leaves out at its upper end counts as a loss without bound. This is the most that can be.
TAIL = 1e-40
# Equal releases have a law with one or two weights each: 2^22 of them take 2 s and 200 MB.
MOST_EQUAL = 2**22
# Above this epsilon, which guarantees next to nothing, weights leave the range of floats.
LARGEST_EPSILON = 700.0
# A loss of 0 that is less likely counts as one of +epsilon or -epsilon; one of epsilon is at least so likely: quotients stay floats.
RAREST = 2.0**-40
RAREST_LOSS = 1e-100

# (epsilon, total variation, how many)
Groups = tuple[tuple[float, float, int], ...]

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
        part = float((-np.expm1(threshold - self.losses[over]) * self.weights[over]).sum())  # np.dot starts threads
        roundings = 16 + int(over.sum())
        underflow = 4 * SMALLEST * roundings
        return min(1.0, up(part * (1 + self.weight_error), units=roundings) + underflow + self.unbounded) if part else self.unbounded


def epsilon_of(groups: Groups, delta: float) -> float:
    largest = _sum(groups)
    if delta == 0 or not _is_representable(groups):
        return largest
    distribution = compose_losses(groups)
    if distribution.unbounded > delta:
        return largest
    return smallest(lambda epsilon: epsilon >= largest or distribution.delta(epsilon) <= delta, largest)


def delta_of(groups: Groups, epsilon: float) -> float:
    if epsilon >= _sum(groups):
        return 0.0
    return compose_losses(groups).delta(epsilon) if _is_representable(groups) else 1.0


@lru_cache(maxsize=16)
def compose_losses(groups: Groups) -> LossDistribution:
    """The distribution of the sum: exact if it is small enough, else on a grid."""
    ordered = sorted(groups)
    sizes = [1 + count * (2 if three_points(epsilon, variation)[1] else 1) for epsilon, variation, count in ordered]
    if len(ordered) <= 20 and math.prod(min(size, MOST_ATOMS + 1) for size in sizes) <= MOST_ATOMS:
        return _exact(ordered)
    # A power of two: the length of the grid for releases with that many values in all.
    values = sum(min(2 * size, MOST_CELLS) for size in sizes)
    return _on_grid(ordered, min(MOST_CELLS, max(FEWEST_CELLS, 1 << int(math.log2(WORK / values)))))


def _sum(groups: Groups) -> float:
    return sum_up((epsilon, count) for epsilon, _, count in groups)


def _is_representable(groups: Groups) -> bool:
    return max(epsilon for epsilon, _, _ in groups) <= LARGEST_EPSILON


def three_points(epsilon: float, variation: float) -> tuple[float, float, float]:
    """Probabilities of the losses epsilon, 0 and -epsilon, the first rounded up and the last down. Without 0 they are 1 in sum."""
    likely = max(RAREST_LOSS, up(variation / -math.expm1(-epsilon), units=16))
    rare = down(likely * math.exp(-epsilon), units=32)
    if (between := 1 - likely - rare) > RAREST:
        return likely, between, rare
    odds = math.exp(-epsilon)
    return 1 / (1 + odds), 0.0, odds / (1 + odds)


def _exact(groups: list[tuple[float, float, int]]) -> LossDistribution:
    losses: _Floats = np.zeros(1)
    weights: _Floats = np.ones(1)
    loss_error = weight_error = 0.0
    for epsilon, variation, count in groups:
        more_losses, more_weights, error = _repeated(epsilon, variation, count)
        losses = (losses[:, None] + more_losses).ravel()
        weights = (weights[:, None] * more_weights).ravel()
        loss_error += 4 * UNIT * epsilon * count
        weight_error += error + 2 * UNIT
    return LossDistribution(losses, weights, 0.0, loss_error * len(groups), weight_error * 1.01)


def _repeated(epsilon: float, variation: float, count: int) -> tuple[_Floats, _Floats, float]:
    """Losses of so many equal releases together, from the largest on, with their weights, and by how much a weight can be off.

    Weights are products of the ratios of neighbors, away from the largest one: nothing overflows.
    """
    likely, between, rare = three_points(epsilon, variation)
    if between == 0:
        failures = np.arange(count + 1, dtype=np.float64)
        # weight of i + 1 over weight of i, and the odds of a loss of -epsilon against one of +epsilon
        weights = _products((count - failures[:-1]) / failures[1:] * math.exp(-epsilon))
        losses: _Floats = (count - 2 * failures) * epsilon
        error = 8 * count + 16
    else:
        # Coefficients of (likely + between z + rare z^2)^count, up to z^count: sums of positive terms. The rest mirrors them.
        ratio, ratios = math.inf, []
        for n in range(1, count + 1):
            ratio = ((count + 1 - n) * between + (2 * count + 2 - n) * rare / ratio) / (n * likely)
            ratios.append(ratio)
        upper = _products(np.array(ratios))
        steps = np.arange(count, -count - 1, -1, dtype=np.float64)
        losses = steps * epsilon
        weights = np.concatenate([upper, upper[-2::-1] * np.exp(losses[count + 1 :])])
        error = 64 * count + 64 + math.ceil(count * epsilon)
    normalized: _Floats = weights / math.fsum(weights)
    return losses, normalized, error * UNIT


def _products(ratios: _Floats) -> _Floats:
    """Products of the first so many ratios, over the largest of them."""
    mode = int(np.argmax(np.concatenate([[0.0], np.cumsum(np.log(ratios))])))
    above = np.cumprod(ratios[mode:])
    below = np.cumprod(1 / ratios[:mode][::-1])[::-1]
    return np.concatenate([below, [1.0], above])


def _on_grid(groups: list[tuple[float, float, int]], size: int) -> LossDistribution:
    """The sum on `size` grid points, every value moved to the two around it; beyond the grid a loss counts as infinite."""
    mean = math.fsum(count * epsilon * variation for epsilon, variation, count in groups)
    squares = math.fsum(count * epsilon * epsilon for epsilon, _, count in groups)
    # Hoeffding's bound, which holds for all partial sums at once.
    likely, largest = mean + math.sqrt(2 * squares * -math.log(TAIL)), math.fsum(count * epsilon for epsilon, _, count in groups)
    reach = min(likely, largest)
    # Each kind of release can move the largest loss up by one more cell.
    spare = min(len(groups), size // 8) if largest <= likely else 0
    step = reach / (size // 2 - 2 - spare)
    middle = size // 2
    total = np.zeros(size)
    total[middle] = 1.0
    unbounded, weight_error = 0.0, 0.0
    for epsilon, variation, count in groups:
        losses, weights, error = _repeated(epsilon, variation, count)
        cells, split = split_upwards(losses, weights, step)
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


def split_upwards(losses: _Floats, weights: _Floats, step: float) -> tuple[NDArray[np.int64], _Floats]:
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
