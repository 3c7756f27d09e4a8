"""`StepSchedule`: what steps of private training cost. `Settings`: what every step of a run is made with. `Clipping` and `Account`:
arguments of `DPOptimizer` that belong together."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.rounding import up
from hushvec.accounting import ADJACENCIES, Accountant, PrivacyLoss, compose
from hushvec.accounting import CorrelatedNoise as CorrelatedNoise  # of hushvec.training, for users
from hushvec.extend import Budget
from hushvec.receipts import CLIPPED, sensitivity_factor, step_loss
from hushvec.training.clip_rules import AdaptiveClip as AdaptiveClip  # of hushvec.training, for users
from hushvec.training.clip_rules import ClipRule, RowNorm
from hushvec.training.clipped_sums import CLIPPINGS
from hushvec.training.gradients import require_scales, sigma_of

STATED = 1 - 2.0**-12  # of the noise, with which receipts state epsilon


def require_noise(value: Any) -> CorrelatedNoise | None:
    noise: CorrelatedNoise | None = validate.instance(
        "noise", value, CorrelatedNoise | None, "a hushvec.training.CorrelatedNoise or None"
    )
    return noise


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

    @property
    def as_stated(self) -> StepSchedule:
        """The schedule whose epsilon receipts state and budgets are charged: with sampling it has 1/4096 less noise, so that
        programs with a coarser grid than `compose` has, such as `hushvec-verify`, prove the same epsilon."""
        return self if self.sampling_probability == 1 else replace(self, noise_multiplier=self.noise_multiplier * STATED)

    def rho(self, steps: int) -> float:
        """rho of so many steps in zero-concentrated DP, rounded up. Sampling does not lower it."""
        count = self.counted(validate.whole_number("steps", steps, at_least=0))
        if count == 0:
            return 0.0
        return math.inf if self.noise_multiplier == 0 else up(count * self.loss.rho)


def norms_of(clip_norm: float | Sequence[float]) -> tuple[float, tuple[float, ...] | None]:
    """The clip norm of whole gradients, and those of their parts if several were given."""
    if not isinstance(clip_norm, (list, tuple)):
        return clip_norm, None  # type: ignore[return-value]
    norms = tuple(validate.positive(f"clip_norm[{number}]", norm) for number, norm in enumerate(clip_norm))
    if not norms:
        raise ValueError("clip_norm must have one norm for each parameter, got none")
    return up(math.hypot(*norms)), norms


def require_norm_for_each(norms: Sequence[float] | None, parameters: Sized) -> None:
    if norms is not None and len(norms) != len(parameters):
        raise ValueError(f"clip_norm must have a norm for each of {len(parameters)} parameters, got {len(norms)}")


BATCH = "batch"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of every step of a run, which `DPOptimizer` explains; a run that resumes must have the same.

    `clip_norms` are those of the parameters, where several were given as clip_norm, which is then the L2 norm of them.
    """

    clip_norm: float
    noise_multiplier: float
    expected_batch_size: float
    sampling_probability: float
    adjacency: str
    clipping: str
    steps: int | None
    noise: CorrelatedNoise | None = None
    loss_scale: float = 1.0
    adaptive: AdaptiveClip | None = None
    normalize: float | None = None
    clip_norms: tuple[float, ...] | None = None

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
        self._require_one_rule()
        self.row_norm()

    def _require_one_rule(self) -> None:
        given = {"adaptive": self.adaptive, "normalize": self.normalize, "a list of clip norms": self.clip_norms}
        rules = [name for name, value in given.items() if value is not None]
        if rules and self.clips_batches:
            raise ValueError(f'clipping must clip examples with {rules[0]}, got "batch"')
        if self.adaptive is not None and (len(rules) > 1 or self.noise is not None):
            raise ValueError(f"adaptive must be None with {'correlated noise' if self.noise else rules[1]}, got both")
        if self.normalize is not None:
            object.__setattr__(self, "normalize", validate.positive("normalize", self.normalize))
            if self.clip_norm / self.normalize > 2.0**100:
                raise ValueError(f"normalize must be at least clip_norm 2^-100, got {self.normalize!r}")

    def rule(self, norm: RowNorm) -> ClipRule | None:
        """Return by what rule rows are scaled before the sum clips them, in the unit of scaled losses; None: by none."""
        if self.adaptive is None and self.normalize is None and self.clip_norms is None:
            return None
        limits = tuple(limit * self.loss_scale for limit in self.clip_norms or (norm.clip_norm,))
        return ClipRule(limits, (self.normalize or 0.0) * self.loss_scale, norm.beside * self.loss_scale if norm.adapts else None)

    def row_norm(self) -> RowNorm:
        """A new one, as it is at the first step."""
        return RowNorm(self.clip_norm, self.adaptive, self.noise_multiplier, self.expected_batch_size)

    def sigma_of(self, row_norm: float) -> float:
        """Standard deviation of the raw noise on a sum of rows clipped to this norm, in its unit."""
        return sigma_of(self.noise_multiplier, row_norm, self._stretch)

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
            noise_multiplier=self.noise_multiplier, sampling_probability=self.sampling_probability, adjacency=self.adjacency,
            clipped="batch" if self.clips_batches else "example",
            noise=self.noise,
        )

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


@dataclass(frozen=True)
class Clipping:
    """How `DPOptimizer` clips, beside the clip norm. It checks what is in here.

    Args:
        method: "auto", "exact", "estimated": each example, as in `clip_and_noise_gradients`. "batch": p.grad as a whole; refused
            unless allow_batch_level is True.
        adaptive: an `AdaptiveClip`, with which the clip norm follows a quantile of the norms of gradients; clip_norm is the first one.
            The noise on gradients is a little larger for it, so that both cost as much as without. p.grad_sample only.
        normalize: gamma > 0, in the unit of the gradients, for automatic clipping: a gradient g counts as g C / (|g| + gamma), so
            that C and the learning rate are one number to tune (the paper takes 0.01). By layer with a list of clip norms.
            p.grad_sample only.
        loss_scale: a public power of two in [1, 2^24] by which you multiply losses before their backward pass, as float16 needs;
            gradients are divided by it after clipping. Above 1 an example whose gradient overflows (NaN or Inf) counts as zero
            instead of an error, and in `overflowed`.
        allow_batch_level: account for the method "batch" with its sensitivity 2 C.

    Reference:
        Automatic: Bu, Wang, Zha, Karypis (2023), equation 1.
    """

    method: str = "auto"
    adaptive: AdaptiveClip | None = None
    normalize: float | None = None
    loss_scale: float = 1.0
    allow_batch_level: bool = False


@dataclass(frozen=True, kw_only=True)
class Account:
    """How the steps of a `DPOptimizer` are accounted for, and what is taken as given. It checks what is in here.

    Args:
        adjacency: "add-remove": an example is there or not. "replace-one": it is another one; the noise multiplier then buys half.
        accountant: a hushvec.accounting.Accountant that other releases about the same people are counted in; a new one if None.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged once, for all `steps`, before the first
            step's noise is drawn. Needs steps and delta.
        journal: path of a file that counts steps before they are drawn, for runs whose lost steps may have been seen.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy: the
            guarantee says so, and together with a budget it is refused.
        independent_batches: whether other optimizers with this accountant, budget or these parameters draw separate batches.
            Without it they are refused: two releases of one batch cost more than two batches.
        allow_buffers: names of the model's buffers that a forward pass may write, since they hold nothing of the examples.
    """

    adjacency: str = "add-remove"
    accountant: Accountant | None = None
    budget: Budget | None = None
    journal: str | PathLike[str] | None = None
    generator: _core.Generator | None = None
    independent_batches: bool = False
    allow_buffers: Sequence[str] = ()


# Where arguments are that `DPOptimizer` and `PrivateTrainer` had by themselves.
PLACES = {
    **{name: f"clipping=Clipping({name}=...)" for name in ("adaptive", "normalize", "loss_scale", "allow_batch_level")},
    **{name: f"account=Account({name}=...)" for name in Account.__dataclass_fields__},
}


def clipping_of(value: str | Clipping) -> Clipping:
    """Return a method alone as a `Clipping`."""
    return value if isinstance(value, Clipping) else Clipping(value)


def account_of(value: Account | None) -> Account:
    return validate.instance("account", value, Account | None, "a hushvec.training.Account or None") or Account()
