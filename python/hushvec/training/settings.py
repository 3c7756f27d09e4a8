"""`Settings`: what must not change between a checkpoint and the run that resumes from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hushvec._util import validate
from hushvec.training.gradients import CLIPPINGS, require_scales, sigma_of
from hushvec.training.schedule import StepSchedule

BATCH = "batch"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of every step of a run, documented in `DPOptimizer`.

    Raises:
        ValueError, TypeError: a value breaks its rule.
    """

    clip_norm: float
    noise_multiplier: float
    expected_batch_size: float
    sampling_probability: float
    adjacency: str
    clipping: str
    steps: int | None

    def __post_init__(self) -> None:
        clip_norm, noise_multiplier = require_scales(self.clip_norm, self.noise_multiplier)
        checked = {
            "clip_norm": clip_norm,
            "noise_multiplier": noise_multiplier,
            "expected_batch_size": validate.positive("expected_batch_size", self.expected_batch_size),
            "sampling_probability": validate.sampling_probability(self.sampling_probability),
            "clipping": validate.choice("clipping", self.clipping, (*CLIPPINGS, BATCH)),
            "steps": None if self.steps is None else validate.whole_number("steps", self.steps, at_least=1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def clips_batches(self) -> bool:
        """Whether the gradient of a whole batch is clipped."""
        return self.clipping == BATCH

    @property
    def schedule(self) -> StepSchedule:
        """What its steps cost; its own rules are those of adjacency and sampling_probability."""
        return StepSchedule(
            noise_multiplier=self.noise_multiplier,
            sampling_probability=self.sampling_probability,
            adjacency=self.adjacency,
            clipped="batch" if self.clips_batches else "example",
        )

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on the sum, in the unit of the gradients."""
        return sigma_of(self.noise_multiplier, self.clip_norm)

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the numbers."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def require_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse a checkpoint made with other settings."""
        for name, value in asdict(self).items():
            if name not in stored:
                raise ValueError(f"the checkpoint must have the setting {name}, got none")
            if stored[name] != value:
                raise ValueError(f"{name} must be {stored[name]!r} as in the checkpoint, got {value!r}")
