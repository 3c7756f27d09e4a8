"""Sums of independent losses on a grid, by Fourier transforms of tilted laws: deltas with a small relative error.

A transform has an absolute error of about 2^-53 times its length and the number of factors; a delta of 1e-6 is a sum of
probabilities far out, where that error can be larger than they are. So the laws are tilted first: with t > 0 and

    w(l) = p(l) e^(t l) / M,    M = sum of p(l) e^(t l),    K(t) = sum of ln M over all releases,

the sum of n losses has the probability e^(K - t l) times that of the sum of n tilted ones, and

    delta(x) = e^(K - t x) * sum over l > x of v(l - x) W(l),    v(u) = (1 - e^-u) e^(-t u) < 1,    W the law of the tilted sum.

Where t minimizes K(t) - t x, the tilted sum lies around x, e^(K - t x) is not much more than delta, and an error of W weighs as much
relative to delta as it does to 1. docs/proofs/composition.md, "Tilted transforms", bounds all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util.rounding import SMALLEST, UNIT, exp_up, up

_Floats = NDArray[np.float64]

# Tilts are looked for in between: 1/t is the scale on which deltas fall.
SMALLEST_TILT, LARGEST_TILT = 2.0**-12, 2.0**12
# The tilted sum is outside of its window with probability e^-40 a side at most; that is folded in, and counted as unbounded.
FOLDED = 40.0
# A tilt below the best one costs little in error, and keeps the tilted law from its far tail, hence the window short.
LOWERED = 0.9
# Transforms of 2^21 cells take half a second. For a longer window the tilt is lowered, while that shortens it by this factor.
MOST_CELLS = 2**21
SHORTER = 0.99
# Weights of losses so far above epsilon, times the tilt, are at most e^-NEGLECTED; that much is added for all of them together.
NEGLECTED = 60.0
# Tilts and windows are chosen by some of these blocks of cells for their place, and as many for their mass.
BLOCKS = 1024
# Units by which a grid's delta curve may be below that of its release, relative to the probability above, where not compared.
BUILDING_UNITS = 4096.0


class GridLaw(NamedTuple):
    """The loss of one release: masses[0] is at first * step, `unbounded` at infinity; `short` is what deltas may lack."""

    first: int
    masses: _Floats
    unbounded: float
    short: _Floats | None = None


class Sum:
    """The sum of independent losses on one grid, by laws with how often each occurs."""

    def __init__(self, laws: Sequence[tuple[GridLaw, int]], step: float) -> None:
        self.laws, self.step = tuple(laws), step
        self.count = sum(count for _, count in laws)
        self.losses = [(law.first + np.arange(len(law.masses), dtype=np.float64)) * step for law, _ in laws]
        certain = math.fsum(count * math.log1p(-law.unbounded) if law.unbounded < 1 else -math.inf for law, count in laws)
        # Beyond the last cell a curve is short by no more than there.
        ends = math.fsum(count * float(law.short[-1]) for law, count in laws if law.short is not None)
        self.unbounded = up((-math.expm1(certain) if certain else 0.0) + ends, units=64)
        self._blocks = [_blocks(law.masses, losses) for (law, _), losses in zip(self.laws, self.losses)]

    def delta(self, epsilon: float) -> float:
        """E[max(0, 1 - e^(epsilon - sum))], rounded up; 1.0 where no tilt helps."""
        tilted = self._tilted(self._best(lambda t: self._rough_moment(t) + _log_largest_weight(t) - t * epsilon))
        return 1.0 if tilted is None else tilted.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 found with delta(epsilon) <= delta; inf if there is none."""
        if self.unbounded >= delta:
            return math.inf
        bound = -math.log(delta - self.unbounded)
        tilt = self._best(lambda t: (self._rough_moment(t) + _log_largest_weight(t) + bound) / t)
        tilted = self._tilted(tilt)
        if tilted is None:
            return math.inf
        chernoff = (tilted.log_moment + _log_largest_weight(tilted.tilt) + bound) / tilted.tilt
        return _solved(tilted.delta, delta, max(0.0, chernoff) * (1 + 1e-9) + 1e-9)

    def _rough_moment(self, tilt: float) -> float:
        """K up to the spread of losses within a block: good enough to choose a tilt, but no bound."""
        moments = []
        for (_, count), (masses, losses) in zip(self.laws, self._blocks):
            exponents = tilt * losses
            largest = float(exponents.max())
            moments.append(count * (math.log(float(np.dot(masses, np.exp(exponents - largest)))) + largest))
        return math.fsum(moments)

    def log_moment(self, tilt: float) -> float:
        return math.fsum(count * self._one_moment(number, tilt)[1] for number, (_, count) in enumerate(self.laws))

    def _one_moment(self, number: int, tilt: float) -> tuple[_Floats, float]:
        """p(l) e^(t l) of one law, in units of the largest e^(t l), and ln M. The tilt may be negative."""
        law, losses = self.laws[number][0], self.losses[number]
        largest = float(losses[-1 if tilt > 0 else 0])
        weights: _Floats = law.masses * np.exp(tilt * (losses - largest))
        total = float(weights.sum())
        return weights, (math.log(total) + tilt * largest) if total > 0 else math.inf

    def _best(self, cost: Callable[[float], float]) -> float:
        return LOWERED * _minimizer(cost, SMALLEST_TILT, LARGEST_TILT, 1.01)

    def _tilted(self, tilt: float) -> Tilted | None:
        """The tilted law, at a lower tilt if its window would be too long; None if that does not help."""
        before = math.inf
        while True:
            shift, lower, upper = self._window(tilt)
            cells = (upper - lower) / self.step + 2
            if cells <= MOST_CELLS:
                size = 1 << max(6, math.ceil(math.log2(cells)))
                return self._on_window(tilt, math.floor(lower / self.step), size, tilt + shift)
            if not cells < SHORTER * before:
                return None
            before, tilt = cells, LOWERED * tilt

    def _window(self, tilt: float) -> tuple[float, float, float]:
        """Losses outside of which the tilted law is with probability e^-FOLDED, by Chernoff, and the shift for the upper."""
        moment, width = self._rough_moment(tilt), 1e-3 * tilt
        curvature = self._rough_moment(tilt + width) - 2 * moment + self._rough_moment(tilt - width)
        deviation = max(math.sqrt(max(curvature, 0.0)) / width, self.step)

        def reach(shift: float) -> float:
            return (self._rough_moment(tilt + shift) - moment + FOLDED) / abs(shift)

        least, most = min(0.05 / deviation, tilt / 2), max(50 / deviation, 2 * tilt)
        upwards = _minimizer(reach, least, most, 1.05)
        downwards = -_minimizer(lambda shift: reach(-shift), least, most, 1.05)
        return upwards, -reach(downwards), reach(upwards)

    def _on_window(self, tilt: float, first: int, size: int, steeper: float) -> Tilted:
        """The tilted law on cells first, ..., first + size - 1. What is above them is bounded by way of a steeper tilt."""
        moment, end = self.log_moment(tilt), (first + size) * self.step
        beyond = self.log_moment(steeper) - steeper * end
        rounding = 64 + 16 * (abs(moment) + abs(beyond) + 4 * steeper * (abs(end) + abs(first) * self.step))
        return Tilted(
            tilt=tilt, log_moment=moment, log_rounding=rounding * UNIT + self._weight_error(tilt), step=self.step, first=first,
            masses=self._convolved(tilt, size, first), error=transform_error(self.count, len(self.laws), size),
            building=self._building(tilt),
            outside=up(self.unbounded + exp_up(beyond + rounding * UNIT + self._weight_error(steeper), of=abs(beyond))),
        )

    def _building(self, tilt: float) -> float:
        """A bound on how far the curves of the factors together fall short, in units of e^(K - t x).

        Where one is short by s(y) at epsilon y, the sum is short by the mean of s(x - the others' sum), and s(y) is at most
        M e^(-t y) times the largest s(l) e^(t l) / M over the cells. `growth` covers others that are releases themselves.
        """
        total = growth = 0.0
        for number, ((law, count), losses) in enumerate(zip(self.laws, self.losses)):
            if law.short is None:
                total += count * BUILDING_UNITS * UNIT
                continue
            moment, there = self._one_moment(number, tilt)[1], law.short > 0
            if not there.any():
                continue
            largest = float(np.max(np.log(law.short[there]) + tilt * losses[there]))
            share = count * exp_up(largest - moment + tilt * self.step, units=64, of=abs(moment) + abs(largest) + 1)
            total += share
            growth += share * tilt * (1 + tilt) * (float(losses[-1] - losses[0]) + 1 / tilt)
        return up(total * exp_up(growth), units=64)

    def _weight_error(self, tilt: float) -> float:
        """The relative error of a sum's probability that comes from its tilted factors."""
        return math.fsum(
            count * UNIT * (16 + 4 * tilt * float(losses[-1] - losses[0]) + 4 * abs(self._one_moment(number, tilt)[1]))
            for number, ((_, count), losses) in enumerate(zip(self.laws, self.losses))
        )

    def _convolved(self, tilt: float, size: int, first: int) -> _Floats:
        """The law of the tilted sum on cells first, ..., first + size - 1, with everything outside folded onto them."""
        spectrum: NDArray[np.complex128] | float = 1.0
        for number, (law, count) in enumerate(self.laws):
            weights = self._one_moment(number, tilt)[0]
            cells = (law.first + np.arange(len(weights))) % size
            folded = np.bincount(cells, weights=weights / weights.sum(), minlength=size)
            spectrum = spectrum * _power(np.fft.rfft(folded), count)
        circle: _Floats = np.fft.irfft(spectrum, size)
        return np.roll(circle, -(first % size))


@dataclass(frozen=True, eq=False)
class Tilted:
    """The law W of a tilted sum: t is `tilt`, K is `log_moment`, the loss of cell j of `masses` is (first + j) * step.

    `masses` can be off by `error` in the 2-norm, K - t x and the logarithm of a probability by `log_rounding`. The factors' own
    curves can be short of `building` times e^(K - t x). `outside` is the probability of losses that are not on the grid.
    """

    tilt: float
    log_moment: float
    log_rounding: float
    step: float
    first: int
    masses: _Floats
    error: float
    building: float
    outside: float

    def delta(self, epsilon: float) -> float:
        """E[max(0, 1 - e^(epsilon - sum))], rounded up."""
        start = max(0, math.floor(epsilon / self.step) - self.first)
        cells = max(0, min(len(self.masses) - start, math.ceil(NEGLECTED / (self.tilt * self.step)) + 2))
        over: _Floats = (self.first + start + np.arange(cells, dtype=np.float64)) * self.step - epsilon
        over = np.maximum(over, 0.0)
        weights = -np.expm1(-over) * np.exp(-self.tilt * over)
        part = float((weights * self.masses[start : start + cells]).sum())  # np.dot starts threads
        short = math.sqrt(float((weights * weights).sum())) * self.error
        roundings = len(weights) + 64 + 8 * self.tilt * self.step * len(weights)
        total = up(part, units=roundings, of=abs(part) + short) + 1.01 * short + self.building + math.exp(-NEGLECTED)
        height = self.log_moment - self.tilt * epsilon
        scale = exp_up(height + self.log_rounding, of=abs(self.log_moment) + self.tilt * abs(epsilon))
        return min(1.0, up(up(scale * max(0.0, total)) + self.outside))


def _blocks(masses: _Floats, losses: _Floats) -> tuple[_Floats, _Floats]:
    """Some thousands of blocks of cells with their masses and mean losses; each has few cells and little mass, or is one cell."""
    reached = np.cumsum(masses)
    by_mass = np.searchsorted(reached, np.linspace(0.0, reached[-1], BLOCKS, endpoint=False))
    by_place = np.arange(0, len(masses), max(1, len(masses) // BLOCKS))
    starts = np.unique(np.concatenate([by_place, by_mass, by_mass + 1]))
    starts = starts[starts < len(masses)]
    together = np.add.reduceat(masses, starts)
    moments = np.add.reduceat(masses * losses, starts)
    there = together > 0
    return together[there], moments[there] / together[there]


def _minimizer(cost: Callable[[float], float], low: float, high: float, within: float) -> float:
    """Roughly the minimum of a cost that falls and then rises, by golden sections of the logarithm."""
    low, high = math.log(low), math.log(high)
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = cost(math.exp(left)), cost(math.exp(right))
    while high - low > math.log(within):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = cost(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = cost(math.exp(right))
    return math.exp((low + high) / 2)


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """base**exponent by repeated squaring, of base itself: a third of the time of numpy's, which takes logarithms."""
    result = base.copy()
    for digit in bin(exponent)[3:]:
        np.multiply(result, result, out=result)
        if digit == "1":
            np.multiply(result, base, out=result)
    return result


def _log_largest_weight(tilt: float) -> float:
    """ln of the largest (1 - e^-u) e^(-t u) over u > 0: delta(x) <= e^(K - t x) times it."""
    return tilt * math.log(tilt / (1 + tilt)) - math.log1p(tilt)


def shortfall(law: GridLaw, step: float, curve: Callable[[_Floats], _Floats]) -> _Floats:
    """By how much the grid's delta curve is below `curve`, at each cell, rounded up.

    Between cells it is no further below: there it is linear in e^epsilon, and that of a release convex.
    """
    losses: _Floats = (law.first + np.arange(len(law.masses), dtype=np.float64)) * step
    precise, masses = losses.astype(np.longdouble), law.masses.astype(np.longdouble)
    unit = float(np.finfo(np.longdouble).eps) / 2   # 2^-64 on x86, 2^-53 where long double is nothing more
    above, weighted = _tails(masses), _tails(masses * np.exp(-precise))
    roundings = 8 * math.isqrt(len(masses)) + 64 + 8 * np.abs(losses)
    own = above - np.exp(precise) * weighted + law.unbounded - unit * roundings * (2 * above)
    short: _Floats = np.maximum(curve(losses) - own, 0.0).astype(np.float64) * (1 + 4 * UNIT)
    short[0] = max(short[0], 1 - math.fsum([law.unbounded, *law.masses.tolist()]) + 2 * UNIT)
    return short


def _tails(masses: Any) -> Any:
    """Sums of all masses behind each cell: of blocks of about sqrt(n), then within a block, so that few roundings add up."""
    width = math.isqrt(len(masses)) + 1
    padded = np.zeros(width * width, masses.dtype)
    padded[: len(masses)] = masses
    blocks = padded.reshape(width, width)[::-1, ::-1]
    within = np.cumsum(blocks, axis=1)
    before = np.concatenate([np.zeros(1, masses.dtype), np.cumsum(within[:, -1])[:-1]])
    behind = (within + before[:, None])[::-1, ::-1].reshape(-1)
    return np.append(behind[1:], masses.dtype.type(0))[: len(masses)]


def transform_error(count: int, laws: int, size: int) -> float:
    """How much the convolution of `count` laws of `laws` kinds can be off in the 2-norm, by transforms of this length."""
    transform = 7 * math.log2(size) * UNIT   # relative error of one in the 2-norm (Higham 2002, theorem 24.2)
    return 1.01 * ((count + laws + 1) * transform + 8 * (count + laws) * UNIT)


def _solved(curve: Callable[[float], float], target: float, upper: float) -> float:
    """The smallest epsilon >= 0 found with curve(epsilon) <= target, by the Illinois rule; inf if upper is too small."""
    def height(epsilon: float) -> float:
        return math.log(max(curve(epsilon), SMALLEST) / target)

    low, at_low = 0.0, height(0.0)
    if at_low <= 0:
        return 0.0
    high, at_high = upper, height(upper)
    if at_high > 0:
        return math.inf
    lowered = None
    while high - low > 1e-11 * high:
        trial = low + (high - low) * at_low / (at_low - at_high)
        trial = min(max(trial, low + 2e-12 * high), high - 2e-12 * high)
        found = height(trial)
        if found <= 0:
            high, at_high = trial, found
            at_low *= 0.5 if lowered is True else 1.0
        else:
            low, at_low = trial, found
            at_high *= 0.5 if lowered is False else 1.0
        lowered = found <= 0
    return high
