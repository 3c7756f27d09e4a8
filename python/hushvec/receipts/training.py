"""Receipts of private training: the guarantee of the steps taken so far, and whether it follows from their parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from hushvec._util import validate
from hushvec._util.display import number, plural, share
from hushvec.accounting import ADJACENCIES, GaussianDP, PoissonSampledGaussianDP, PrivacyLoss, Repeated, compose
from hushvec.accounting.correlated import CorrelatedNoise
from hushvec.accounting.releases import SampleRange
from hushvec.errors import ReceiptError
from hushvec.receipts import base
from hushvec.receipts.base import NOTE_FLOAT, NOTE_SEED, Facts, Number, OneOf, ReceiptFields, WholeNumber, digest, read_as

TRAINING_KIND = "training"
MECHANISM = "dp_sgd"
CLIPPED = ("example", "batch")
CLIPPINGS = ("auto", "exact", "estimated", "batch")

NOTE_NOISE_FREE = "at least one step had no noise: there is no privacy"


def _ranges(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, tuple) or not all(isinstance(one, SampleRange) for one in value):
        raise ReceiptError(f"{name} must be null or a list of objects with process, first and last")
    for one in value:
        digest(f"{name}.process", one.process, 32)
        WholeNumber(1)(f"{name}.first", one.first)
        WholeNumber(one.first)(f"{name}.last", one.last)


def _correlation(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, CorrelatedNoise):
        raise ReceiptError(f"{name} must be null or an object with coefficients, steps, min_separation and max_participations")


def _read_correlation(value: Any) -> Any:
    if not (isinstance(value, Mapping) and isinstance(value.get("coefficients"), list)):
        return value
    try:
        found = read_as(CorrelatedNoise, {**value, "coefficients": tuple(value["coefficients"])})
    except (TypeError, ValueError) as error:
        raise ReceiptError(f"correlation: {error}") from None
    if isinstance(found, CorrelatedNoise) and repr(found.to_dict()) != repr({name: value[name] for name in found.to_dict()}):
        raise ReceiptError("correlation must have float32 coefficients and no more participations than its separation allows")
    return found


_Probability = Annotated[float, Number("in [2^-64, 1]", lambda value: validate.SMALLEST_SAMPLING_PROBABILITY <= value <= 1)]

NOTE_CLIENTS = (
    "an example is a client with all of its data, and its gradient the client's whole update: each client is taken to send at most "
    "one update in a round, which depends on its own data and what was released before; the server is trusted with it"
)


@dataclass(frozen=True, kw_only=True)
class TrainingReceipt(ReceiptFields):
    """The record of the steps of one training run, and the guarantee that they give one example.

    Fields that are not listed mean what they do in every receipt: `hushvec.receipts.base.ReceiptFields`.

    Args:
        mechanism: "dp_sgd": a Poisson sample, clipped, summed, Gaussian noise.
        adjacency: "add-remove": an example is there or not; "replace-one": it is another one.
        epsilon: guaranteed epsilon of all steps taken, of this run alone; None without noise.
        steps: taken so far, those of a journal included; below 2^40.
        planned_steps: the most there can be, or None.
        sampling_probability: of each example in each step, in [2^-64, 1]. 1 too where steps could not name their samples, so that
            nothing is gained from them.
        noise_multiplier: sigma / clip_norm, as accounted for.
        clip_norm: C, in the unit of the gradients.
        clipping: "auto", "exact", "estimated": each example. "batch": the gradient of a whole batch.
        sensitivity: of one step's sum in L2, in the unit of the gradients.
        sigma: standard deviation of the noise on the sum, at least noise_multiplier * clip_norm; with a correlation that of the raw
            noise, at least its sensitivity times as much.
        expected_batch_size: what noisy sums were divided by.
        samples: which Poisson samples the steps rest on, by the numbers that their process gave them. Empty where nothing was
            sampled; None where it is not known, as in receipts from before this field.
        correlation: how the noise of steps is correlated (`hushvec.training.CorrelatedNoise`), or None. noise_multiplier and epsilon
            are then of all its steps together, of which `steps` were taken.
        theorem: short name of the composition theorem that gave epsilon; empty before the first step and without noise.
        resumed: how often the run resumed from a checkpoint.
        grade: "exact": sums and noise are those of the ideal mechanism, rounded. "float": a sum was made in floating point.
        is_dp_claim: whether the numbers are claimed at all: noise in every step, exact grade, a key of the operating system, a
            model that was watched in every step and has changed in private steps only.
    """

    adjacency: Annotated[str, OneOf(*ADJACENCIES)]
    epsilon: Annotated[float | None, Number(">= 0 and finite, or null", lambda value: value >= 0, optional=True)]
    delta: Annotated[float, Number("> 0 and < 1", lambda value: 0 < value < 1)]
    steps: Annotated[int, WholeNumber(0, 2**40)]
    sampling_probability: _Probability
    noise_multiplier: base.NotNegative
    clip_norm: base.ClipNorm
    clipping: Annotated[str, OneOf(*CLIPPINGS)]
    sensitivity: base.Positive
    sigma: base.NotNegative
    expected_batch_size: base.Positive
    theorem: base.Text
    grade: base.ExactOrFloat
    key_source: base.KeySource
    cipher: base.Cipher
    rounds: base.Rounds
    format_version: base.FormatVersion
    is_dp_claim: base.Flag
    library_version: base.Text
    samples: Annotated[tuple[SampleRange, ...] | None, _ranges] = None
    correlation: Annotated[CorrelatedNoise | None, _correlation] = None
    planned_steps: Annotated[int | None, WholeNumber(1, optional=True)] = None
    resumed: base.Count = 0
    mechanism: Annotated[str, OneOf(MECHANISM)] = MECHANISM
    notes: base.Notes = ()
    charge: base.OptionalCharge = None
    receipt_version: base.Version = 1
    receipt_kind: Annotated[str, OneOf(TRAINING_KIND)] = TRAINING_KIND

    _basis = "steps"

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TrainingReceipt:
        """As of every kind; `samples` and `correlation` may be missing too."""
        whole = isinstance(fields, Mapping) and fields.get("sampling_probability") == 1
        added: dict[str, Any] = {"samples": [] if whole else None, "correlation": None}
        return super().from_dict({**added, **fields} if isinstance(fields, Mapping) else fields)

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        samples = fields["samples"]
        if isinstance(samples, (list, tuple)):
            read = tuple(read_as(SampleRange, one) for one in samples)
            samples = read if all(isinstance(one, SampleRange) for one in read) else samples
        return {**super()._read(fields), "samples": samples, "correlation": _read_correlation(fields["correlation"])}

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        fields["samples"] = None if self.samples is None else list(fields["samples"])
        del fields["correlation"]  # left out where there is none, as in receipts from before this field
        return fields if self.correlation is None else {**fields, "correlation": self.correlation.to_dict()}

    def __getitem__(self, name: str) -> Any:
        """The JSON form of a field."""
        return self.to_dict()[name]

    @property
    def loss(self) -> Repeated:
        """The privacy loss of a step, and how often it was taken, for `hushvec.accounting.compose`.

        Raises:
            ValueError: there was no step, or no noise.
        """
        if self.steps == 0:
            raise ValueError("steps must be >= 1 for a privacy loss, got 0")
        loss = step_loss(self.noise_multiplier, self.sampling_probability, self.adjacency, self._clipped)
        return Repeated(loss, self.steps if self.correlation is None else 1)

    @property
    def unit(self) -> float:
        """An example is a row, or all of a client's."""
        return math.inf if NOTE_CLIENTS in self.notes else 1

    @property
    def has_loss(self) -> bool:
        """Not before the first step, and not without noise."""
        return self.steps > 0 and self.epsilon is not None

    @property
    def rho(self) -> float:
        """The cost of the steps in zero-concentrated DP, rounded up. Sampling does not lower it."""
        return super().rho if self.steps else 0.0

    @property
    def _may_be_of_half_words(self) -> bool:
        return self.correlation is None

    def _otherwise(self) -> str:
        return "with exact sums and a secret key"

    def _why_no_claim(self) -> list[str]:
        applies = {
            NOTE_NOISE_FREE: self.noise_multiplier == 0,
            NOTE_FLOAT: self.grade == "float",
            NOTE_SEED: self.key_source == "seed",
        }
        return [note for note, holds in applies.items() if holds]

    def _faults(self) -> list[str]:
        faults = []
        clip_norm = Fraction(self.clip_norm)
        factor = sensitivity_factor(self.adjacency, self._clipped, self.sampling_probability)
        if Fraction(self.sensitivity) < factor * clip_norm:
            faults.append(f"sensitivity must be >= {factor} clip_norm, got {self.sensitivity!r} at {self.clip_norm!r}")
        stretch = 1.0 if self.correlation is None else self.correlation.sensitivity
        if math.isinf(stretch) or Fraction(self.sigma) < Fraction(self.noise_multiplier) * clip_norm * Fraction(stretch):
            of_run = "" if self.correlation is None else f" * {stretch!r}, the sensitivity of its correlation,"
            faults.append(f"sigma must be >= noise_multiplier * clip_norm{of_run}, got {self.sigma!r}")
        if self.correlation is not None and (self.planned_steps != self.correlation.steps or self.sampling_probability != 1):
            faults.append(
                f"planned_steps must be those of the correlation, {self.correlation.steps}, and sampling_probability 1, got "
                f"{self.planned_steps} and {self.sampling_probability!r}"
            )
        if self.planned_steps is not None and self.steps > self.planned_steps:
            faults.append(f"steps must be at most the {self.planned_steps} planned, got {self.steps}")
        drawn = None if self.samples is None else sum(one.last - one.first + 1 for one in self.samples)
        if drawn is not None and drawn < self.steps and self.sampling_probability < 1:
            faults.append(f"samples must be at least {self.steps}, one for each step, got {drawn}")
        if self.noise_multiplier == 0 and self.steps > 0:
            return faults if self.epsilon is None else [*faults, f"epsilon must be null without noise, got {self.epsilon!r}"]
        if self.epsilon is None:
            return faults if self.noise_multiplier == 0 else [*faults, "epsilon must be given where there is noise, got null"]
        needed = self._epsilon_of_steps()
        if needed > self.epsilon:
            faults.append(
                f"{self.steps} steps of noise_multiplier {self.noise_multiplier!r} at sampling_probability "
                f"{self.sampling_probability!r} give epsilon = {needed:.6g} at delta = {self.delta!r}, more than the "
                f"{self.epsilon!r} stated"
            )
        return faults

    def _epsilon_of_steps(self) -> float:
        if self.steps == 0:
            return 0.0
        try:
            return compose([self], delta=self.delta).epsilon
        except (ValueError, ArithmeticError):  # no theorem has a bound for so little noise
            return math.inf

    def _guarantee(self, verb: str) -> str:
        if self.epsilon is None:
            return "no epsilon is finite without noise"
        kind = {"add-remove": "addition or removal", "replace-one": "replacement"}[self.adjacency]
        return f"({self.epsilon!r}, {self.delta!r})-DP under {kind} of one example in all {self.steps} steps {verb}"

    def _described(self) -> tuple[str, str, Facts]:
        planned = "" if self.planned_steps is None else f" of {self.planned_steps:,} planned"
        resumed = f", resumed {plural(self.resumed, 'time')}" if self.resumed else ""
        clipped = "the gradient of each batch" if self.clipping == "batch" else "the gradient of each example"
        batch = f"sums divided by {number(self.expected_batch_size)}"
        facts = [
            ("mechanism", f"DP-SGD: noise multiplier {number(self.noise_multiplier)}, sigma {number(self.sigma)} on each sum"),
            ("steps", f"{self.steps:,}{planned}{resumed}"),
            ("sampling", f"{self._batches()}; {batch}"),
            ("clipping", f"{clipped} to length {number(self.clip_norm)} (L2)"),
            ("sums", "exact" if self.grade == "exact" else "floating-point, NOT PROTECTED"),
            ("theorem", self.theorem or "none"),
        ]
        return "Receipt of private training", "one example of the training data", facts

    def _batches(self) -> str:
        if (noise := self.correlation) is None:
            return f"{share(self.sampling_probability)} of the examples per step"
        return (
            f"none; each example in at most {plural(noise.max_participations or 1, 'step')}, {noise.min_separation} or more "
            f"apart, whose noise has that of {plural(len(noise.coefficients), 'step')} in it"
        )

    @property
    def _clipped(self) -> str:
        return "batch" if self.clipping == "batch" else "example"


def sensitivity_factor(adjacency: str, clipped: str, sampling_probability: float) -> int:
    """Sensitivity of a step in clip norms.

    A batch's clipped gradient can be anywhere in the ball, before and after one example changed: 2 clip norms apart. Under
    sampling and replace-one both inputs lie that far from the gradient without the example, which the proved law takes as vectors
    of norm 2 clip_norm (docs/proofs/dp_sgd.md).
    """
    validate.choice("adjacency", adjacency, ADJACENCIES)
    if validate.choice("clipped", clipped, CLIPPED) == "example":
        return 1 if adjacency == "add-remove" else 2
    return 4 if adjacency == "replace-one" and sampling_probability < 1 else 2


def step_loss(noise_multiplier: float, sampling_probability: float, adjacency: str, clipped: str) -> PrivacyLoss:
    """The privacy loss of one step. `hushvec.training.StepSchedule` says what the arguments are."""
    if noise_multiplier == 0:
        raise ValueError("noise_multiplier must be > 0 for a privacy loss, got 0.0")
    multiplier = noise_multiplier / sensitivity_factor(adjacency, clipped, sampling_probability)
    if sampling_probability == 1:
        return GaussianDP(noise_multiplier=multiplier, adjacency=adjacency)
    return PoissonSampledGaussianDP(noise_multiplier=multiplier, sampling_probability=sampling_probability, adjacency=adjacency)
