"""`noise_multiplier_for`: the noise that a training run needs for a privacy budget."""

from __future__ import annotations

import math
from collections.abc import Callable

from hushvec._util import validate
from hushvec._util.rounding import raised, up
from hushvec.accounting import PrivacyLoss
from hushvec.accounting.pld import rough_epsilon
from hushvec.noise.calibration import gaussian_sigma
from hushvec.training.bracket import NoCrossingError, closed_in, crossing
from hushvec.training.schedule import StepSchedule

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
        The noise multiplier. `compose` confirms it, and rejects one that is smaller by a factor of at most 1.0001.

    Raises:
        ValueError, TypeError: a value breaks its rule; no noise multiplier below 2^40 is enough; delta is at least the
            probability of being in any batch, so that any noise is.
        MissingExtraError: hushvec[accounting] is not installed and examples are sampled.

    Guarantees:
        `StepSchedule(noise_multiplier=answer, ...).epsilon(steps, delta) <= epsilon`: this has been checked. Less noise never costs
        less (docs/proofs/composition.md, "Fewer different losses"): the exact epsilon falls as noise grows. That `compose`
        confirms nothing below the rejected one assumes that what it adds, for its grid and for roundings, does not fall faster
        than epsilon grows there.

    Edge cases:
        sampling_probability = 1 is answered exactly: one Gaussian of sqrt(steps) times the sensitivity.

    Reference:
        docs/accounting.md for the composition, docs/proofs/dp_sgd.md for the step.

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
        return schedule(multiplier).epsilon(count, delta)

    factor = schedule(1.0).sensitivity_factor
    unsampled = factor * float(gaussian_sigma(target, delta, up(math.sqrt(count))))
    if sampling_probability == 1:
        return raised(lambda multiplier: cost(multiplier) <= target, unsampled)
    _require_noise_to_matter(delta, sampling_probability, count)
    start = factor * _of_many_small_steps(target, delta, sampling_probability, count)
    try:
        guess, slope = _guessed(lambda multiplier: schedule(multiplier).loss, count, target, delta, start)
    except NoCrossingError:   # at a delta below what grids leave out, another theorem has the only answer
        guess, slope = unsampled, 1.0
    try:
        return closed_in(cost, target, guess=guess, slope=slope, tolerance=TOLERANCE, largest=LARGEST).high
    except NoCrossingError:
        raise ValueError(f"epsilon must be large enough for a noise multiplier below 2^40, got {target!r}") from None


def _require_noise_to_matter(delta: float, probability: float, count: int) -> None:
    """Who is in no batch loses nothing: at a delta as large as the chance of being in one every noise is enough, and none is least."""
    in_any = -math.expm1(count * math.log1p(-probability))
    if delta >= in_any:
        raise ValueError(f"delta must be < {in_any!r}, the probability that an example is in any batch, got {delta!r}")


def _of_many_small_steps(epsilon: float, delta: float, probability: float, count: int) -> float:
    """The limit of many steps with a small loss each: one Gaussian with q sqrt(count (e^(1/z^2) - 1)) in place of 1/sigma.

    (Bu, Dong, Long, Su 2020, theorem 5. A starting point for the search, not a bound.)
    """
    narrow = float(gaussian_sigma(epsilon, delta, 1.0)) * probability * math.sqrt(count)
    if narrow > 1e8:   # e^(1/z^2) - 1 is 1/z^2
        return narrow
    return 1 / math.sqrt(math.log1p(narrow**-2)) if narrow > 1e-150 else 1 / math.sqrt(-2 * math.log(narrow))


def _guessed(
    loss: Callable[[float], PrivacyLoss], count: int, target: float, delta: float, start: float
) -> tuple[float, float]:
    """A noise multiplier close to the smallest one, computed on coarse grids, and how fast ln epsilon falls there.

    Raises:
        NoCrossingError: coarse grids give no such epsilon at any noise.
    """

    def rough(multiplier: float, coarsening: int) -> float:
        return rough_epsilon(loss(multiplier), count, delta, coarsening)

    bracket = closed_in(
        lambda multiplier: rough(multiplier, COARSE),
        target,
        guess=start,
        slope=1.0,
        tolerance=ROUGH_TOLERANCE,
        largest=LARGEST,
    )
    near, slope = crossing(bracket, target), bracket.slope or 1.0
    without_grid = (4 * rough(near, HALF_AS_COARSE) - rough(near, COARSE)) / 3
    if not 0 < without_grid < math.inf:
        return near, slope
    return near * math.exp(math.log(without_grid / target) / slope), slope
