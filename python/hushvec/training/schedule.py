"""What steps of private training cost: from a noise multiplier to epsilon, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hushvec import _validate
from hushvec.accounting import ADJACENCIES, GaussianDP, PoissonSampledGaussianDP, PrivacyLoss, compose
from hushvec.accounting.rounding import up
from hushvec.calibrate import gaussian_sigma

UNITS = ("example", "batch")

# The solver stops where the noise multiplier is this close to the smallest one, relatively.
TOLERANCE = 1e-4
MOST_TRIALS = 60


@dataclass(frozen=True, kw_only=True)
class StepSchedule:
    """One kind of step, as often as it is taken.

    Args:
        noise_multiplier: sigma / clip_norm, >= 0; 0 is training without privacy.
        sampling_probability: of every example in every step, independently; in (0, 1].
        adjacency: "add-remove" (an example is there or not) or "replace-one" (it is another one).
        clipped: "example": every example's gradient is clipped. "batch": the gradient of a whole batch is.

    Guarantees:
        `loss` covers one step, whatever the model: docs/proofs/dp_sgd.md, theorem 1 for examples and theorem 2 for batches.

    Example:
        >>> from hushvec.training import StepSchedule
        >>> round(StepSchedule(noise_multiplier=1.0, sampling_probability=0.01).epsilon(1000, 1e-5), 2)
        1.83
        >>> StepSchedule(noise_multiplier=1.0, sampling_probability=0.01, clipped="batch").loss.noise_multiplier
        0.5
    """

    noise_multiplier: float
    sampling_probability: float
    adjacency: str = "add-remove"
    clipped: str = "example"

    def __post_init__(self) -> None:
        noise = _validate.not_negative("noise_multiplier", self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", noise)
        probability = _validate.positive("sampling_probability", self.sampling_probability)
        if probability > 1:
            raise ValueError(f"sampling_probability must be > 0 and <= 1, got {probability!r}")
        object.__setattr__(self, "sampling_probability", probability)
        _validate.choice("adjacency", self.adjacency, ADJACENCIES)
        _validate.choice("clipped", self.clipped, UNITS)

    @property
    def sensitivity_factor(self) -> int:
        """Sensitivity of a step in clip norms: what sigma / clip_norm is divided by before it is a loss's noise multiplier.

        A batch's clipped gradient lies anywhere in the ball, before and after one example changed: 2 clip norms apart. Under
        sampling and replace-one both inputs lie that far from the gradient without the example, which the proved law takes as
        vectors of norm 2 clip_norm.
        """
        if self.clipped == "example":
            return 1 if self.adjacency == "add-remove" else 2
        return 4 if self.adjacency == "replace-one" and self.sampling_probability < 1 else 2

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of one step.

        Raises:
            ValueError: there is no noise, so no loss is finite.
        """
        if self.noise_multiplier == 0:
            raise ValueError("noise_multiplier must be > 0 for a privacy loss, got 0.0")
        multiplier = self.noise_multiplier / self.sensitivity_factor
        if self.sampling_probability == 1:
            return GaussianDP(noise_multiplier=multiplier, adjacency=self.adjacency)
        return PoissonSampledGaussianDP(
            noise_multiplier=multiplier, sampling_probability=self.sampling_probability, adjacency=self.adjacency
        )

    def epsilon(self, steps: int, delta: float) -> float:
        """Of so many steps together, rounded up; 0.0 for no steps, math.inf without noise."""
        count = _validate.whole_number("steps", steps, at_least=0)
        checked = _validate.delta(delta)
        if count == 0:
            return 0.0
        return math.inf if self.noise_multiplier == 0 else compose([(self.loss, count)], delta=checked).epsilon

    def rho(self, steps: int) -> float:
        """Zero-concentrated DP of so many steps, rounded up. Sampling does not lower it."""
        count = _validate.whole_number("steps", steps, at_least=0)
        if count == 0:
            return 0.0
        return math.inf if self.noise_multiplier == 0 else up(count * self.loss.rho)


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
        The noise multiplier: at most a factor of 1.0001 above the smallest one that `compose` grants.

    Raises:
        ValueError, TypeError: a value breaks its rule; no noise multiplier below 2^40 is enough.
        MissingExtraError: hushvec[accounting] is not installed and examples are sampled.

    Guarantees:
        `StepSchedule(noise_multiplier=answer, ...).epsilon(steps, delta) <= epsilon`: that call was made.

    Edge cases:
        sampling_probability = 1 is answered exactly: one Gaussian of sqrt(steps) times the sensitivity.

    Reference:
        docs/accounting.md for the composition, docs/proofs/dp_sgd.md for the step.

    Example:
        >>> from hushvec.training import noise_multiplier_for
        >>> round(noise_multiplier_for(2.0, 1e-5, 0.2, 20), 2)
        2.16
    """
    target, delta = _validate.positive("epsilon", epsilon), _validate.delta(delta)
    count = _validate.whole_number("steps", steps, at_least=1)

    def schedule(multiplier: float) -> StepSchedule:
        return StepSchedule(
            noise_multiplier=multiplier, sampling_probability=sampling_probability, adjacency=adjacency, clipped=clipped
        )

    unsampled = schedule(1.0).sensitivity_factor * float(gaussian_sigma(target, delta, up(math.sqrt(count))))
    if sampling_probability == 1:
        return raised_until(lambda multiplier: schedule(multiplier).epsilon(count, delta) <= target, unsampled)
    return _solved(lambda multiplier: schedule(multiplier).epsilon(count, delta), target, unsampled)


def raised_until(holds: Any, value: float) -> float:
    """value, or the first float found above it that holds, in steps of a few roundings that double."""
    found, units = value, 1.0
    while not holds(found):
        found, units = up(found, units=units), 2 * units
    return found


def _solved(cost: Any, target: float, enough: float) -> float:
    """The smallest noise multiplier with cost <= target, up to TOLERANCE; `enough` is one of which that is likely.

    The logarithm of epsilon is close to linear in that of the noise multiplier, so the next trial is where the line between the
    last two ends crosses the target, moved a little into the bracket so that both of its ends come closer.
    """
    high, high_cost = enough, cost(enough)
    while high_cost > target:
        if high > 2.0**40:
            raise ValueError(f"epsilon must be large enough for a noise multiplier below 2^40, got {target!r}")
        high, high_cost = 2 * high, cost(2 * high)
    low, low_cost = high / 2, cost(high / 2)
    while low_cost <= target:
        high, high_cost, low, low_cost = low, low_cost, low / 2, cost(low / 2)
    for _ in range(MOST_TRIALS):
        if high <= low * (1 + TOLERANCE):
            break
        trial = _between(low, low_cost, high, high_cost, target)
        found = cost(trial)
        if found <= target:
            high, high_cost = trial, found
        else:
            low, low_cost = trial, found
    return high


def _between(low: float, low_cost: float, high: float, high_cost: float, target: float) -> float:
    """A point of the bracket near the solution, on its far side from the nearer end."""
    width = math.log(high / low)
    if not (math.isfinite(low_cost) and high_cost > 0 and low_cost > high_cost):
        return low * math.exp(width / 2)
    share = math.log(low_cost / target) / math.log(low_cost / high_cost)
    step = TOLERANCE / 2
    guess = share * width
    guess += step if guess < width / 2 else -step
    return low * math.exp(min(max(guess, step / 2), width - step / 2))
