"""The guarantee of a training run so far, its conditions, and its receipt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from hushvec._native import _core
from hushvec.accounting import CorrelatedNoise, SampleRange, compose
from hushvec.extend import key_fields
from hushvec.receipts import NOTE_FLOAT, NOTE_NOISE_FREE, NOTE_SEED, LedgerEntry, TrainingReceipt
from hushvec.training.run_account import RunAccount

NOTE_GRADIENTS = (
    "each gradient is taken to depend on its own example and the parameters alone; layers that mix examples, losses divided by a "
    "number that depends on the batch, state that a module keeps in Python attributes, or kernels whose last bits depend on the "
    "batch, are the model's business"
)
NOTE_POISSON = (
    "each example was in each batch with sampling_probability, independently, and each step had a batch of its own; the optimizer "
    "cannot see how batches were drawn"
)


class Unit(NamedTuple):
    """What a guarantee says of examples: what each is taken to depend on, and how those of a batch were drawn."""

    alone: str
    sampled: str


EXAMPLES = Unit(NOTE_GRADIENTS, NOTE_POISSON)
NOTE_UNNAMED = (
    "nothing is gained from sampling: epsilon is as if every example were in every batch, since the optimizer could not tell for "
    "every step which Poisson sample of this process it rests on, whole and used once in the run"
)
NOTE_PUBLIC = (
    "sampling_probability, expected_batch_size and steps are taken to be public: made of a public, rounded number of examples, not "
    "of their exact number, which these would give away"
)
NOTE_CORRELATED = (
    "noise is correlated over steps: epsilon is of all {} steps, however many were taken, and each example is taken to be in the "
    "batches of at most {} of them, {} or more apart; the optimizer cannot see how batches were drawn"
)
NOTE_UNWATCHED = (
    "at least one step had gradients of a model that was not watched: a forward pass may have written examples into its buffers or "
    "frozen parameters without noise (give DPOptimizer model=)"
)
NOTE_CHANGED = "the model has changed outside of the private steps, and may hold examples without noise: {}"
NOTE_ALLOWED = "buffers that forward passes may write are taken to hold nothing of the examples: {}"
NOTE_ACCEPTED = "changes of the model that accept_changes() was told of are taken to hold nothing of the examples"
NOTE_OTHERS = (
    "other optimizers with the same accountant, budget or parameters are taken to draw batches of their own, independently; what is "
    "not in the accountant adds to this"
)
NOTE_DISTRIBUTED = (
    "several processes took part, each with examples of its own: one that two of them had counts as two. Sums went from process to "
    "process without noise"
)
NOTE_ADAPTIVE = (
    "the clip norm follows a noisy share of the norms below it: each row was clipped to it and summed with one more coordinate, "
    "whether it was shorter. clip_norm, sensitivity and sigma are those of one sum, with that coordinate; each had the ratios of these"
)
NOTE_BATCH = "the gradient of a batch was clipped as a whole: its sensitivity is twice the clip norm"
NOTE_RESUMED = (
    "the run was resumed without a journal: this is one branch. Steps of other runs from the same checkpoint, and steps after it that "
    "were lost with their process, are not counted; nothing computed in them may have been seen, or their cost adds to this"
)
NOTE_BUDGET = "the budget was charged for the whole schedule before its first step"


@dataclass(frozen=True, kw_only=True)
class TrainingGuarantee:
    """The guarantee of all steps taken so far, for one example in the training data.

    Fields mean what they do in `hushvec.receipts.TrainingReceipt`, but for these:

    Args:
        epsilon: of everything in the accountant; math.inf where a step had no noise.
        key_source: "os" or "seed": of the noise, and of the samples of this process.
        charge: the row of the budget's ledger as a mapping, or None.
        notes: conditions, one sentence each.
    """

    epsilon: float
    delta: float
    adjacency: str
    theorem: str
    steps: int
    planned_steps: int | None
    noise_multiplier: float
    sensitivity: float
    sigma: float
    clip_norm: float
    clipping: str
    sampling_probability: float
    expected_batch_size: float
    grade: str
    key_source: str
    resumed: int
    is_dp_claim: bool
    charge: dict[str, Any] | None
    notes: tuple[str, ...]
    correlation: CorrelatedNoise | None = None

    def to_dict(self) -> dict[str, Any]:
        """Every field, in types that strict JSON has: an infinite epsilon is None, notes are a list."""
        fields = asdict(self)
        correlation = None if self.correlation is None else self.correlation.to_dict()
        epsilon = None if math.isinf(self.epsilon) else self.epsilon
        return {**fields, "epsilon": epsilon, "notes": list(self.notes), "correlation": correlation}

    def __str__(self) -> str:
        unit = "batch" if self.clipping == "batch" else "example"
        planned = f" of {self.planned_steps}" if self.planned_steps is not None else ""
        claim = "" if self.is_dp_claim else " (no claim: see the notes)"
        lines = [
            f"({self.epsilon:.6g}, {self.delta:.6g})-DP, {self.adjacency}, after {self.steps}{planned} steps{claim}",
            f"  each {unit} clipped to {self.clip_norm:.6g}, noise {self.sigma:.6g} ({self.noise_multiplier:.6g} clip norms), "
            f"sensitivity {self.sensitivity:.6g}",
            f"  sampling probability {self.sampling_probability:.6g}, grade {self.grade}, key from {self.key_source}",
            *(f"  - {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def guarantee_of(
    account: RunAccount, delta: float | None, *, key_is_seeded: bool, changes: Sequence[str] = (), unit: Unit = EXAMPLES
) -> TrainingGuarantee:
    """Return the guarantee after the steps in the account. `changes` names what has changed in the model outside of the private
    steps."""
    checked, settings, record = account.delta_or_own(delta), account.settings, account.record
    priced = len(account.accountant) > 0 and not record.noise_free
    composition = account.accountant.compose(delta=checked) if priced else None
    seeded, noise_free = record.seeded or key_is_seeded, record.noise_free or settings.noise_multiplier == 0
    correlated = ""
    if (noise := settings.noise) is not None:
        correlated = NOTE_CORRELATED.format(noise.steps, noise.max_participations, noise.min_separation)
    applies = {
        NOTE_NOISE_FREE: noise_free,
        NOTE_FLOAT: record.float_sums,
        NOTE_SEED: seeded,
        NOTE_UNWATCHED: record.unwatched,
        NOTE_CHANGED.format(", ".join(changes)): bool(changes),
        NOTE_ALLOWED.format(", ".join(record.allowed_buffers)): bool(record.allowed_buffers),
        NOTE_ACCEPTED: record.accepted,
        NOTE_OTHERS: account.independent_batches,
        NOTE_ADAPTIVE: settings.adaptive is not None,
        NOTE_BATCH: settings.clips_batches,
        unit.alone: not settings.clips_batches,
        unit.sampled: account.schedule.sampling_probability < 1 and not account.is_unnamed,
        NOTE_UNNAMED: account.is_unnamed,
        NOTE_PUBLIC: settings.sampling_probability < 1 and settings.adjacency == "add-remove",
        correlated: noise is not None,
        NOTE_DISTRIBUTED: record.distributed,
        NOTE_RESUMED: record.resumed > 0 and account.journal is None,
        NOTE_BUDGET: record.charged,
    }
    norm = record.row_norm or settings.row_norm().of_rows
    return TrainingGuarantee(
        epsilon=composition.epsilon if composition else (math.inf if record.noise_free else 0.0),
        delta=checked,
        **{**{name: getattr(settings, name) for name in _COPIED}, **({"sampling_probability": 1.0} if account.is_unnamed else {})},
        theorem=composition.theorem if composition else "",
        steps=record.steps, planned_steps=settings.steps, clip_norm=norm, sigma=settings.sigma_of(norm),
        sensitivity=account.schedule.sensitivity_factor * norm,
        grade="float" if record.float_sums else "exact",
        key_source="seed" if seeded else "os",
        resumed=record.resumed, is_dp_claim=not (noise_free or record.float_sums or seeded or record.unwatched or changes),
        charge=record.charge,
        notes=tuple(note for note, holds in applies.items() if holds),
        correlation=settings.noise,
    )


# The fields that the guarantee copies from the settings, and the receipt from the guarantee beside them.
_COPIED = ("adjacency", "sampling_probability", "noise_multiplier", "clipping", "expected_batch_size")
_OWN = (
    *("clip_norm", "sigma", "correlation", "delta", "steps", "planned_steps", "sensitivity", "resumed", "grade", "key_source"),
    *("is_dp_claim", "notes"),
)


def receipt_of(account: RunAccount, guarantee: TrainingGuarantee, generator: _core.Generator, *, on_device: bool) -> TrainingReceipt:
    """The receipt of a run; its epsilon is of the run alone, that of the guarantee of all that the accountant holds.

    Raises:
        ValueError: on a device, of a generator that was asked for AES-256.
    """
    drawn = key_fields(generator, on_device=on_device, half_words=guarantee.correlation is None)
    steps, charge = guarantee.steps, guarantee.charge
    together = None
    if steps > 0 and guarantee.noise_multiplier > 0:
        loss = account.loss if account.is_unnamed else account.schedule.as_stated.loss
        together = compose([(loss, account.schedule.counted(steps))], delta=guarantee.delta)
    unpriced = None if guarantee.noise_multiplier == 0 and steps > 0 else 0.0
    return TrainingReceipt(
        **{**drawn, **{name: getattr(guarantee, name) for name in (*_COPIED, *_OWN)}},
        epsilon=unpriced if together is None else together.epsilon,
        theorem="" if together is None else together.theorem,
        samples=None if account.record.samples is None else tuple(SampleRange(*one) for one in account.record.samples),
        library_version=_core.__version__,
        charge=None if charge is None else LedgerEntry(**charge),
    )
