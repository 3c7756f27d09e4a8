"""The cost of reports of n people once they are shuffled: the profile of a pair that dominates all of them, rounded up.

With t the epsilon of one report, p = 1/(e^t + 1) and C ~ Binomial(n - 1, 2p), A ~ Binomial(C, 1/2), D ~ Bernoulli(e^t p), no local
randomizers and no neighbors do worse than

    (A + D, C - A + 1 - D)    against    (A + 1 - D, C - A + D)

in either direction (docs/proofs/shuffling.md, claim 1). C counts the clones: reports of others that could as well be the person's
own. Given C the profile is that of a fair walk of N = C + 1 steps, M its end:

    delta(x) = tanh(t/2) (1 + e^x) E[max(0, M - N r)] / N,    r = tanh(x/2) / tanh(t/2)

It falls with C, so clones are counted in blocks, each with its smallest C. That, a smaller 2p, and what is left out of tails only
add to delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushvec._util.rounding import UNIT, down, exp_up, smallest, up

_Floats = NDArray[np.float64]

# More people than this count as this many, except in the closed form: tables grow with the root of n.
MOST_PEOPLE = 2**30
# Epsilons beyond which nobody is a clone of anybody, or below which there is nothing left to gain.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-12, 100.0
# Deviations after which the number of clones and the walk are cut off; the odds of that are below 1e-70.
REACH = 18.0
# Blocks of numbers of clones, between so many deviations below and above the mean, and cells in all tables together.
BLOCKS, BELOW, ABOVE = 512, 10.0, 6.0
MOST_CELLS = 2**21
# Where a grid of losses may end.
SMALLEST_DELTA = 1e-40
# Added to each probability of a number of clones for what underflows.
UNDERFLOW = 1e-250


def shuffled_delta(epsilon: float, people: int, at: float) -> float:
    """delta at epsilon = `at` >= 0 of one shuffled report among `people`, each of `epsilon`; rounded up."""
    if at >= epsilon:
        return 0.0
    if not is_amplified(epsilon, people):
        return 1.0
    return min(closed_form_delta(epsilon, people, at), float(profile(epsilon, people).deltas(np.array([at]))[0]))


def is_amplified(epsilon: float, people: int) -> bool:
    """Whether a profile is worked out at all."""
    return people > 1 and SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON


def shuffled_curve(epsilon: float, people: int, at: _Floats) -> _Floats:
    """`shuffled_delta` at points of either sign, where `is_amplified`: by symmetry delta(x) = 1 - e^x + e^x delta(-x)."""
    deltas = profile(epsilon, people).deltas(np.abs(at))
    below = (np.exp(np.minimum(at, 0.0)) * deltas - np.expm1(np.minimum(at, 0.0))) * (1 + 16 * UNIT)
    curve: _Floats = np.where(at < 0, below, deltas)
    return curve


def far_end(epsilon: float, people: int) -> float:
    """Where delta is below SMALLEST_DELTA, or epsilon."""
    return smallest(lambda at: shuffled_delta(epsilon, people, at) <= SMALLEST_DELTA, epsilon)


def deviation(epsilon: float, people: int) -> float:
    slope = math.tanh(epsilon / 2)
    return slope * min(epsilon, 2 / math.sqrt(1 + _mean_clones(epsilon, people)))


def _mean_clones(epsilon: float, people: int) -> float:
    """The mean of C, rounded down; of at most 2^1000 people, which floats can hold."""
    return max(0.0, down(float(min(people - 1, 2**1000)) * 2 / (math.exp(epsilon) + 1), units=16))


def closed_form_delta(epsilon: float, people: int, at: float) -> float:
    """Chernoff's bound for too few clones and Hoeffding's for the walk (docs/proofs/shuffling.md, claim 3), rounded up."""
    slope = math.tanh(epsilon / 2)
    ratio = down(math.tanh(at / 2) / slope)
    mean = _mean_clones(epsilon, people)
    # Any share may be missing; with this one both bounds are about the same.
    missing = min(1.0, (math.sqrt(ratio * ratio + 4) - ratio) * ratio / 2)
    steps = 1 + max(0.0, down((1 - missing) * mean, units=16, of=mean))
    distance = down(ratio - up(slope / steps), of=ratio)
    if distance <= 0:
        return 1.0
    few, far = down(missing * missing * mean / 2, units=16), down(steps * distance * distance / 2, units=16)
    return min(1.0, up(exp_up(-few) + exp_up(-far)))


@dataclass(frozen=True, eq=False)
class Profile:
    """The profile of one pair, in tables of blocks of numbers of clones.

    `steps` is N of each block and `weights` its probability, rounded up; `outside` is that of fewer clones than in any block.
    `middle` is the smallest number of upward steps that does not end below 0. `chances` has, row by row, the probabilities of
    middle + j upward steps out of N, divided by what the table holds of the law, and `tails` the sums of each row from j on;
    rounding can change both by the relative amount `error`.
    """

    epsilon: float
    steps: _Floats
    weights: _Floats
    outside: float
    middle: _Floats
    chances: _Floats
    tails: _Floats
    error: float

    def deltas(self, at: _Floats) -> _Floats:
        """delta at each point >= 0, rounded up."""
        found = np.zeros(at.shape)
        inside = np.flatnonzero(at < self.epsilon)
        width = max(1, MOST_CELLS // len(self.steps))
        for start in range(0, len(inside), width):
            part = inside[start : start + width]
            found[part] = self._deltas(at[part])
        return found

    def _deltas(self, at: _Floats) -> _Floats:
        slope = math.tanh(self.epsilon / 2)
        ratio = np.tanh(at / 2) / slope * (1 - 16 * UNIT)
        rows, steps, middle = np.arange(len(self.steps))[:, None], self.steps[:, None], self.middle[:, None]
        # Where the end N r of the walk lies beyond the table, its last column stands for it: delta falls with r.
        end = np.minimum(steps * ratio, 2 * (middle + self.chances.shape[1] - 1) - steps - 1)
        upward = np.floor((steps + end) / 2) + 1
        column = (upward - middle).astype(np.int64)
        # The mean of M over ends with at least k upward steps is k times the probability of k (claim 2).
        gained, lost = upward * self.chances[rows, column], end * self.tails[rows, column]
        excess = np.maximum(gained - lost, 0.0) + (self.error + 32 * UNIT) * (gained + lost)
        together = (self.weights / self.steps) @ excess * slope * (1 + np.exp(at))
        # Without a clone delta is largest: that of randomized response.
        alone = -np.expm1(at - self.epsilon) / (1 + math.exp(-self.epsilon))
        deltas: _Floats = (together + self.outside * alone) * (1 + (64 + len(self.steps)) * UNIT)
        return deltas


@lru_cache(maxsize=8)
def profile(epsilon: float, people: int) -> Profile:
    first, weights, outside = _blocks(min(people, MOST_PEOPLE) - 1, down(2 / math.expm1(epsilon)))
    steps = first + 1.0
    middle = np.ceil(steps / 2)
    cells = int(min(steps[-1] // 2, REACH / 2 * math.sqrt(steps[-1]) + REACH)) + 2
    upward = middle[:, None] + np.arange(cells - 1)
    ratios = np.maximum(steps[:, None] - upward, 0.0) / (upward + 1)
    chances = np.concatenate([np.ones((len(steps), 1)), np.cumprod(ratios, axis=1)], axis=1)
    tails = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1]
    # All ends of the walk in the table, and their mirror images: at most 1 when divided by the true sum.
    total = 2 * tails[:, :1] - np.where(steps % 2 == 0, 1.0, 0.0)[:, None]
    return Profile(
        epsilon=epsilon, steps=steps, weights=weights, outside=outside, middle=middle, chances=chances / total,
        tails=tails / total, error=(8 * cells + 64) * UNIT,
    )


def _blocks(others: int, odds: float) -> tuple[_Floats, _Floats, float]:
    """Blocks of the binomial law of clones among so many others, with the odds of one."""
    share = odds / (1 + odds)
    deviation = math.sqrt(others * share / (1 + odds))
    mode = min(others, math.floor((others + 1) * share))
    lowest = max(0, mode - math.ceil(REACH * deviation + 4 * REACH))
    highest = min(others, mode + math.ceil(REACH * deviation + 4 * REACH))
    # Ratios of neighbors, away from the mode: every factor is at most about 1.
    up_from = np.arange(mode, highest, dtype=np.float64)
    down_from = np.arange(mode, lowest, -1, dtype=np.float64)
    rising = np.cumprod((others - up_from) / (up_from + 1) * odds)
    falling = np.cumprod(down_from / (others - down_from + 1) / odds)
    masses = np.concatenate([falling[::-1], [1.0], rising])
    error = (8 * len(masses) + 64) * UNIT
    masses = masses / masses.sum() * (1 + error) + UNDERFLOW
    # Numbers outside are less likely by a factor each: a geometric series. Those above are no worse than the highest one.
    above, below = (others - highest) / (highest + 1) * odds, lowest / (others - lowest + 1) / odds
    # 1 minus a factor is above 1e-4, and so off by 1e4 units at most.
    outside = up(masses[0] * below / (1 - below), units=2**16) if lowest else 0.0
    masses[-1] = up(masses[-1] / (1 - above), units=2**16) if highest < others else masses[-1]
    cells = REACH / 2 * math.sqrt(mode + 1.0) + REACH
    places = _places(len(masses), mode - lowest, deviation, max(16, min(BLOCKS, int(MOST_CELLS / cells))))
    return lowest + places.astype(np.float64), np.add.reduceat(masses, places) * (1 + error), outside


def _places(size: int, mode: int, deviation: float, blocks: int) -> NDArray[np.int64]:
    """Where blocks start: evenly around the mode, where almost all weight is, and a few in each tail."""
    if size <= blocks:
        return np.arange(size)
    start, end = max(0, math.floor(mode - BELOW * deviation)), min(size, math.ceil(mode + ABOVE * deviation) + 1)
    ranges = ((0, start, 4), (start, end, blocks), (end, size, 4))
    starts = [np.linspace(low, high, count, endpoint=False).astype(np.int64) for low, high, count in ranges if low < high]
    return np.unique(np.concatenate(starts))
