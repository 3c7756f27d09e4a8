"""Find where a decreasing cost crosses a target: one argument on each side, close together, in few evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hushvec.errors import HushvecError

# Number of trials that use slopes. Later ones halve the bracket.
SLOPED_TRIALS = 12
# Trials aim past the crossing by this share of the tolerance, so that one on each side closes the bracket.
ASIDE = 0.4
# As long as all trials were on the same side, they aim further past it by this factor each, up to e^3 times the argument.
FURTHER, FURTHEST = 8.0, 3.0


class NoCrossingError(HushvecError):
    """The cost is above the target up to the largest argument."""


@dataclass(frozen=True)
class Bracket:
    """The nearest arguments found on either side of the crossing.

    Args:
        low, low_cost: the largest argument seen whose cost is above the target; 0 and infinity before there is one.
        high, high_cost: the smallest one whose cost is not; infinity and 0 before there is one.
    """

    low: float = 0.0
    low_cost: float = math.inf
    high: float = math.inf
    high_cost: float = 0.0

    @property
    def is_closed(self) -> bool:
        return self.low > 0 and self.high < math.inf

    @property
    def slope(self) -> float | None:
        """How fast ln cost falls with ln argument, between the ends; None if unknown."""
        if not (self.is_closed and 0 < self.high_cost < self.low_cost < math.inf):
            return None
        return math.log(self.low_cost / self.high_cost) / math.log(self.high / self.low)

    def with_trial(self, trial: float, cost: float, target: float) -> Bracket:
        """The bracket after one more evaluation."""
        return replace(self, high=trial, high_cost=cost) if cost <= target else replace(self, low=trial, low_cost=cost)


def closed_in(
    cost: Callable[[float], float], target: float, *, guess: float, slope: float, tolerance: float, largest: float
) -> Bracket:
    """A closed bracket with high <= low (1 + tolerance).

    Args:
        cost: of an argument > 0. Its logarithm is close to linear in that of the argument, and falls, but for roundings.
        guess, slope: of the crossing, and of -d ln cost / d ln argument; > 0.
        largest: no argument above it is tried.

    Raises:
        NoCrossingError: the crossing is above `largest`.
    """
    bracket, trial, aside, trials = Bracket(), guess, ASIDE * tolerance, 0
    while not bracket.high <= bracket.low * (1 + tolerance):
        if trial > largest:
            raise NoCrossingError(f"no argument up to {largest!r} costs at most {target!r}")
        bracket, trials = bracket.with_trial(trial, cost(trial), target), trials + 1
        if bracket.is_closed:
            trial = _between(bracket, target, ASIDE * tolerance, halve=trials > SLOPED_TRIALS)
        else:
            trial = _beyond(bracket, target, slope, aside)
            aside = min(FURTHER * aside, FURTHEST)
    return bracket


def crossing(bracket: Bracket, target: float) -> float:
    """Where the line through both ends of a closed bracket meets the target; their geometric mean if there is no such line."""
    slope = bracket.slope
    return bracket.low * math.exp(math.log(bracket.low_cost / target) / slope) if slope else math.sqrt(bracket.low * bracket.high)


def _beyond(bracket: Bracket, target: float, slope: float, aside: float) -> float:
    """A point beyond the crossing, starting from the only known end; half or twice the argument if its cost does not help."""
    upwards = bracket.low > 0
    end, cost = (bracket.low, bracket.low_cost) if upwards else (bracket.high, bracket.high_cost)
    distance = abs(math.log(cost / target)) / slope if 0 < cost < math.inf else math.log(2)
    distance = min(distance, FURTHEST) + aside
    return end * math.exp(distance if upwards else -distance)


def _between(bracket: Bracket, target: float, aside: float, *, halve: bool) -> float:
    """A point beyond the crossing, starting from the nearer end, and inside the bracket."""
    width = math.log(bracket.high / bracket.low)
    share = math.log(crossing(bracket, target) / bracket.low)
    if halve or bracket.slope is None:
        return bracket.low * math.exp(width / 2)
    margin = min(aside, width / 4)
    share += aside if share < width / 2 else -aside
    return bracket.low * math.exp(min(max(share, margin), width - margin))
