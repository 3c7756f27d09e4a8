"""`StepSchedule`: what steps of private training cost. `Settings`: what every step of a run is made with."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hushvec._util import validate
from hushvec._util.rounding import up
from hushvec.accounting import ADJACENCIES, PrivacyLoss, compose
from hushvec.accounting.correlated import CorrelatedNoise as CorrelatedNoise  # of hushvec.training, for users
from hushvec.receipts.training import CLIPPED, sensitivity_factor, step_loss
from hushvec.training.clipped_sums import CLIPPINGS
from hushvec.training.gradients import require_scales, sigma_of


def require_noise(value: Any) -> CorrelatedNoise | None:
    if value is not None and not isinstance(value, CorrelatedNoise):
        raise TypeError(f"noise must be a hushvec.training.CorrelatedNoise or None, got {validate.kind(value)}")
    return value


@dataclass(frozen=True, kw_only=True)
class StepSchedule:
    """One kind of step, as often as it is taken.

    Args:
        noise_multiplier: sigma / clip_norm, >= 0; 0 is training without privacy.
        sampling_probability: of every example in every step, independently; in (0, 1].
        adjacency: "add-remove" (an example is there or not) or "replace-one" (it is another one).
        clipped: "example": every example's gradient is clipped. "batch": the gradient of a whole batch is.
        noise: a `CorrelatedNoise`, with sampling_probability 1; noise_multiplier is then sigma / (its sensitivity clip_norm).

    Guarantees:
        `loss` covers one step of any model: docs/proofs/dp_sgd.md, theorem 1 for examples and theorem 2 for batches; with correlated
        noise it covers all steps together (docs/proofs/correlated_noise.md).

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
    noise: CorrelatedNoise | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", validate.not_negative("noise_multiplier", self.noise_multiplier))
        object.__setattr__(self, "sampling_probability", validate.sampling_probability(self.sampling_probability))
        validate.choice("adjacency", self.adjacency, ADJACENCIES)
        validate.choice("clipped", self.clipped, CLIPPED)
        if require_noise(self.noise) is not None and self.sampling_probability != 1:
            got = f"{self.sampling_probability!r}: no proof has it gain from sampling (leave it out)"
            raise ValueError(f"sampling_probability must be 1 with correlated noise, got {got}")

    def counted(self, steps: int) -> int:
        """How often `loss` counts for so many steps: once where it is of all steps together."""
        return steps if self.noise is None else min(steps, 1)

    @property
    def sensitivity_factor(self) -> int:
        """Sensitivity of a step in clip norms: what sigma / clip_norm is divided by before it is a loss's noise multiplier."""
        return sensitivity_factor(self.adjacency, self.clipped, self.sampling_probability)

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of one step; ValueError without noise, where none is finite."""
        return step_loss(self.noise_multiplier, self.sampling_probability, self.adjacency, self.clipped)

    def epsilon(self, steps: int, delta: float) -> float:
        """Epsilon of so many steps together, rounded up; 0.0 for no steps, math.inf without noise."""
        count = self.counted(validate.whole_number("steps", steps, at_least=0))
        checked = validate.delta(delta)
        if count == 0:
            return 0.0
        return math.inf if self.noise_multiplier == 0 else compose([(self.loss, count)], delta=checked).epsilon

    def rho(self, steps: int) -> float:
        """rho of so many steps in zero-concentrated DP, rounded up. Sampling does not lower it."""
        count = self.counted(validate.whole_number("steps", steps, at_least=0))
        if count == 0:
            return 0.0
        return math.inf if self.noise_multiplier == 0 else up(count * self.loss.rho)


BATCH = "batch"
# Settings that older checkpoints and journals do not have, which are as if these were in them.
_LATER: dict[str, Any] = {"noise": None, "loss_scale": 1.0}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of every step of a run, which `DPOptimizer` explains; a run that resumes must have the same."""

    clip_norm: float
    noise_multiplier: float
    expected_batch_size: float
    sampling_probability: float
    adjacency: str
    clipping: str
    steps: int | None
    noise: CorrelatedNoise | None = None
    loss_scale: float = 1.0

    def __post_init__(self) -> None:
        clip_norm, noise_multiplier = require_scales(self.clip_norm, self.noise_multiplier, self._stretch)
        scale = validate.positive("loss_scale", self.loss_scale)
        if math.frexp(scale)[0] != 0.5 or not 1 <= scale <= 2**24:
            raise ValueError(f"loss_scale must be a power of two in [1, 2^24], got {scale!r}")
        checked = {
            "clip_norm": clip_norm,
            "noise_multiplier": noise_multiplier,
            "expected_batch_size": validate.positive("expected_batch_size", self.expected_batch_size),
            "sampling_probability": validate.sampling_probability(self.sampling_probability),
            "clipping": validate.choice("clipping", self.clipping, (*CLIPPINGS, BATCH)),
            "steps": None if self.steps is None else validate.whole_number("steps", self.steps, at_least=1),
            "loss_scale": scale,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.noise is not None:
            if noise_multiplier == 0:
                raise ValueError("noise_multiplier must be > 0 with correlated noise, got 0.0")
            if self.steps not in (None, self.noise.steps):
                raise ValueError(f"steps must be those of the noise, {self.noise.steps}, got {self.steps}")
            object.__setattr__(self, "steps", self.noise.steps)

    @property
    def _stretch(self) -> float:
        """Sensitivity of the whole run in units of one step's, where noise is correlated."""
        stretch = 1.0 if (noise := require_noise(self.noise)) is None else noise.sensitivity
        if math.isinf(stretch):
            raise ValueError("noise must have a finite sensitivity, got coefficients with which it grows beyond every float")
        return stretch

    @property
    def clips_batches(self) -> bool:
        return self.clipping == BATCH

    @property
    def schedule(self) -> StepSchedule:
        return StepSchedule(
            noise_multiplier=self.noise_multiplier,
            sampling_probability=self.sampling_probability,
            adjacency=self.adjacency,
            clipped="batch" if self.clips_batches else "example",
            noise=self.noise,
        )

    @property
    def sigma(self) -> float:
        """Standard deviation of the raw noise on the sum, in the unit of the gradients."""
        return sigma_of(self.noise_multiplier, self.clip_norm, self._stretch)

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the numbers."""
        written = {name: value for name, value in asdict(self).items() if _LATER.get(name, not value) != value}
        return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()

    def require_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse a checkpoint made with other settings."""
        stored = {**_LATER, **stored}
        for name, value in asdict(self).items():
            if name not in stored:
                raise ValueError(f"the checkpoint must have the setting {name}, got none")
            if stored[name] != value:
                raise ValueError(f"{name} must be {stored[name]!r} as in the checkpoint, got {value!r}")
