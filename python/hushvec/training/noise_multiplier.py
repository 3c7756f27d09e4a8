"""`noise_multiplier_for`: the noise that a training run needs for a privacy budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hushvec._util import validate
from hushvec._util.rounding import raised, up
from hushvec.accounting import PrivacyLoss, rough_epsilon
from hushvec.errors import HushvecError
from hushvec.noise import gaussian_sigma
from hushvec.training.schedule import STATED, StepSchedule

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
    """The nearest arguments on either side of the crossing, with their costs: `low` costs more than the target, `high` does not;
    0 at infinite cost, and infinity at cost 0, before there is one."""

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


def closed_in(
    cost: Callable[[float], float], target: float, *, guess: float, slope: float, tolerance: float, largest: float
) -> Bracket:
    """A closed bracket with high <= low (1 + tolerance); NoCrossingError if the crossing is above `largest`.

    ln cost is close to linear in the logarithm of the argument, and falls, but for roundings; `slope` is a guess of how fast.
    """
    bracket, trial, aside, trials = Bracket(), guess, ASIDE * tolerance, 0
    while not bracket.high <= bracket.low * (1 + tolerance):
        if trial > largest:
            raise NoCrossingError(f"no argument up to {largest!r} costs at most {target!r}")
        found, trials = cost(trial), trials + 1
        new_end = {"high": trial, "high_cost": found} if found <= target else {"low": trial, "low_cost": found}
        bracket = replace(bracket, **new_end)
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


# The answer is at most this much larger, relatively, than a noise multiplier that is not enough.
TOLERANCE = 1e-4
LARGEST = 2.0**40

# Grids so many times coarser than usual, on which the first guesses are made, and how close these come. What a grid adds to epsilon
# grows with the square of its step.
COARSE, HALF_AS_COARSE = 16, 8
ROUGH_TOLERANCE = 0.02


def noise_multiplier_for(
    epsilon: float, delta: float, sampling_probability: float, steps: int, adjacency: str = "add-remove", *, clipped: str = "example"
) -> float:
    """A noise multiplier, sigma / clip_norm, with which so many steps are (epsilon, delta)-DP.

    Args:
        epsilon: > 0, for all steps together.
        delta: in (0, 1), for all steps together.
        sampling_probability: of every example in every step; in (0, 1].
        steps: >= 1.
        adjacency: "add-remove" or "replace-one". The answer is sigma / clip_norm in both.
        clipped: "example" or "batch", as in `StepSchedule`.

    Returns:
        The noise multiplier. Receipts of the run state at most this epsilon, which both verifiers prove; with sampling that takes
        1/4096 more noise than `compose` asks for. One that is smaller by a factor of at most 1.0001 is not enough.

    Raises:
        ValueError: no noise multiplier below 2^40 is enough; delta is at least the probability of being in any batch, so that any
            noise is.

    Guarantees:
        `StepSchedule(noise_multiplier=answer, ...).as_stated.epsilon(steps, delta) <= epsilon`: this has been checked. Less noise
        never costs less (docs/proofs/composition.md, "Fewer different losses"): the exact epsilon falls as noise grows. That nothing
        is confirmed below the rejected one assumes that what `compose` adds, for its grid and for roundings, does not fall faster
        than epsilon grows there.

    Edge cases:
        sampling_probability = 1 is answered exactly: one Gaussian of sqrt(steps) times the sensitivity.

    Example:
        >>> from hushvec.training import noise_multiplier_for
        >>> round(noise_multiplier_for(2.0, 1e-5, 0.2, 20), 2)
        2.16
    """
    target, delta = validate.positive("epsilon", epsilon), validate.delta(delta)
    count = validate.whole_number("steps", steps, at_least=1)

    def schedule(multiplier: float) -> StepSchedule:
        return StepSchedule(
            noise_multiplier=multiplier, sampling_probability=sampling_probability, adjacency=adjacency, clipped=clipped
        )

    def cost(multiplier: float) -> float:
        return schedule(multiplier).as_stated.epsilon(count, delta)

    factor = schedule(1.0).sensitivity_factor
    unsampled = factor * float(gaussian_sigma(target, delta, up(math.sqrt(count))))
    if sampling_probability == 1:
        return raised(lambda multiplier: cost(multiplier) <= target, unsampled)
    # An example in no batch loses nothing: at a delta as large as the chance of being in one, every noise is enough.
    in_any = -math.expm1(count * math.log1p(-sampling_probability))
    if delta >= in_any:
        raise ValueError(f"delta must be < {in_any!r}, the probability that an example is in any batch, got {delta!r}")
    start = factor * _of_many_small_steps(target, delta, sampling_probability, count)
    try:
        guess, slope = _guessed(lambda multiplier: schedule(multiplier).loss, count, target, delta, start)
    except NoCrossingError:   # at a delta below what grids leave out, another theorem has the only answer
        guess, slope = unsampled, 1.0
    try:
        return closed_in(cost, target, guess=guess / STATED, slope=slope, tolerance=TOLERANCE, largest=LARGEST).high
    except NoCrossingError:
        raise ValueError(f"epsilon must be large enough for a noise multiplier below 2^40, got {target!r}") from None


def _of_many_small_steps(epsilon: float, delta: float, probability: float, count: int) -> float:
    """The limit of many steps with a small loss each: one Gaussian with q sqrt(count (e^(1/z^2) - 1)) in place of 1/sigma.
    (Bu, Dong, Long, Su 2020, theorem 5. A starting point for the search, not a bound.)"""
    narrow = float(gaussian_sigma(epsilon, delta, 1.0)) * probability * math.sqrt(count)
    if narrow > 1e8:   # e^(1/z^2) - 1 is 1/z^2
        return narrow
    return 1 / math.sqrt(math.log1p(narrow**-2)) if narrow > 1e-150 else 1 / math.sqrt(-2 * math.log(narrow))


def _guessed(loss: Callable[[float], PrivacyLoss], count: int, target: float, delta: float, start: float) -> tuple[float, float]:
    """A noise multiplier close to the smallest one, computed on coarse grids, and how fast ln epsilon falls there."""

    def rough(multiplier: float, coarsening: int) -> float:
        return rough_epsilon(loss(multiplier), count, delta, coarsening)

    bracket = closed_in(
        lambda multiplier: rough(multiplier, COARSE), target, guess=start, slope=1.0, tolerance=ROUGH_TOLERANCE, largest=LARGEST
    )
    near, slope = crossing(bracket, target), bracket.slope or 1.0
    without_grid = (4 * rough(near, HALF_AS_COARSE) - rough(near, COARSE)) / 3
    if not 0 < without_grid < math.inf:
        return near, slope
    return near * math.exp(math.log(without_grid / target) / slope), slope
