"""`StepSchedule`: what steps of private training cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushvec._util import validate
from hushvec._util.rounding import up
from hushvec.accounting import ADJACENCIES, PrivacyLoss, compose
from hushvec.receipts.training import CLIPPED, sensitivity_factor, step_loss


@dataclass(frozen=True, kw_only=True)
class StepSchedule:
    """One kind of step, as often as it is taken.

    Args:
        noise_multiplier: sigma / clip_norm, >= 0; 0 is training without privacy.
        sampling_probability: of every example in every step, independently; in (0, 1].
        adjacency: "add-remove" (an example is there or not) or "replace-one" (it is another one).
        clipped: "example": every example's gradient is clipped. "batch": the gradient of a whole batch is.

    Guarantees:
        `loss` covers one step of any model: docs/proofs/dp_sgd.md, theorem 1 for examples and theorem 2 for batches.

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
        object.__setattr__(self, "noise_multiplier", validate.not_negative("noise_multiplier", self.noise_multiplier))
        object.__setattr__(self, "sampling_probability", validate.sampling_probability(self.sampling_probability))
        validate.choice("adjacency", self.adjacency, ADJACENCIES)
        validate.choice("clipped", self.clipped, CLIPPED)

    @property
    def sensitivity_factor(self) -> int:
        """Sensitivity of a step in clip norms: what sigma / clip_norm is divided by before it is a loss's noise multiplier."""
        return sensitivity_factor(self.adjacency, self.clipped, self.sampling_probability)

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of one step.

        Raises:
            ValueError: there is no noise, so no loss is finite.
        """
        return step_loss(self.noise_multiplier, self.sampling_probability, self.adjacency, self.clipped)

    def epsilon(self, steps: int, delta: float) -> float:
        """Epsilon of so many steps together, rounded up; 0.0 for no steps, math.inf without noise."""
        count = validate.whole_number("steps", steps, at_least=0)
        checked = validate.delta(delta)
        if count == 0:
            return 0.0
        return math.inf if self.noise_multiplier == 0 else compose([(self.loss, count)], delta=checked).epsilon

    def rho(self, steps: int) -> float:
        """rho of so many steps in zero-concentrated DP, rounded up. Sampling does not lower it."""
        count = validate.whole_number("steps", steps, at_least=0)
        if count == 0:
            return 0.0
        return math.inf if self.noise_multiplier == 0 else up(count * self.loss.rho)
