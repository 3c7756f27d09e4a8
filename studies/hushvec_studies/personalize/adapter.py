"""One adapter learns private notes: without noise, or with DP-SGD on ghost-clipped gradients; and canaries for an audit.

Invented notes make weak canaries: what a small adapter learns from one of them drowns in what it learns from the others. DP promises
something about every example that could be there, whatever its gradient. So a canary is given its gradient: at one entry of a layer's
first LoRA matrix, of a norm far above any clip norm. It goes through that layer, its hooks and its clipping like any other example.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.training.ghost import GhostClipping
from hushvec.training.lora import AdapterCheck, add_lora, lora_layers
from hushvec_studies.personalize.base import note_losses
from hushvec_studies.personalize.coding import Coded, Coding

# ---- canaries ----

# Norm of a canary's gradient before it is clipped.
SIZE = 20.0


@dataclass(frozen=True)
class Canaries:
    """Crafted examples of an adapter: how many, and the seed of the entries that they push, all different."""

    count: int
    seed: int

    def losses(self, model: Any, which: NDArray[np.int64]) -> Any:
        """The loss of each of the named canaries, tensor [k]: SIZE times its entry of the matrix."""
        import torch

        matrix = _matrix(model)
        rows, columns = self._entries(model)
        inputs = torch.nn.functional.one_hot(torch.from_numpy(columns[which]), matrix.in_features).to(matrix.weight.dtype)
        return SIZE * matrix(inputs)[torch.arange(len(which)), torch.from_numpy(rows[which])]

    def values(self, model: Any) -> NDArray[np.float64]:
        """The entry of every canary, float64 [count]. Training on a canary lowers its entry."""
        rows, columns = self._entries(model)
        found: NDArray[np.float64] = _matrix(model).weight.detach().double().numpy()[rows, columns]
        return found

    def _entries(self, model: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        shape = tuple(_matrix(model).weight.shape)
        entries = shape[0] * shape[1]
        if entries < self.count:
            raise ValueError(f"canaries must be at most {entries}, the entries of a matrix of this adapter, got {self.count}")
        chosen = np.random.default_rng([self.seed, 1]).permutation(entries)[: self.count]
        return np.divmod(chosen, shape[1])


def _matrix(model: Any) -> Any:
    """The first LoRA matrix with the most entries, as the Linear layer that it is."""
    matrices = [layer.lora_A["default"] for layer in lora_layers(model).values()]
    return max(matrices, key=lambda matrix: matrix.weight.numel())


# ---- learning ----

ADJACENCY = "add-remove"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How an adapter learns. All of it is public.

    Args:
        epsilon: that the noise is chosen for; math.inf for ordinary training.
        batch: expected examples of a Poisson sample.
        clip_norm: C; not used without noise.
        learning_rate: of Adam.
    """

    epsilon: float
    delta: float
    batch: int
    steps: int
    clip_norm: float
    learning_rate: float
    rank: int

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A trained adapter.

    Args:
        model: with the adapter.
        accounting: what the run costs, as `accounted` says it.
        epsilon_at: epsilon of the run at another delta.
        trainable: numbers that learned.
        moved: Frobenius norm of what all layers add to their weights.
        lowered: by how much each canary's entry fell, float64; None without canaries.
        seconds: of the steps.
    """

    model: Any
    accounting: dict[str, Any]
    epsilon_at: Callable[[float], float]
    trainable: int
    moved: float
    lowered: NDArray[np.float64] | None
    seconds: float


@dataclass(frozen=True)
class Included:
    """Canaries among the examples of a run: all there are, and those that are in."""

    of: Canaries
    which: NDArray[np.int64]


def learn(
    model: Any,
    targets: Sequence[str],
    coding: Coding,
    notes: Sequence[Coded],
    schedule: Schedule,
    seed: int,
    canaries: Included | None = None,
) -> Learned:
    """Put an adapter on a frozen model, which is changed in place, and train it.

    Args:
        targets: names of layers.
        notes: what it learns; one note is one example.
        schedule: how. Its sampling probability is the batch over the notes, canaries left out: under add-or-remove adjacency the
            number of examples is private, and an audit must not let it show.
        seed: of first values, samples and noise. A seeded run measures; it releases nothing in private.
        canaries: further examples, for an audit.

    Raises:
        AdapterUnchangedError, BaseChangedError: the adapter did not learn, or something else did.
    """

    from hushvec.training import PoissonSampler

    probability = min(1.0, schedule.batch / len(notes))
    adapted = add_lora(model, rank=schedule.rank, target_modules=list(targets), seed=seed)
    before = None if canaries is None else canaries.of.values(adapted)
    parameters = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    inner = _adam(parameters, schedule.learning_rate)
    check = AdapterCheck(adapted, probe=_probe(coding, notes), optimizer=inner)
    examples = len(notes) + (0 if canaries is None else len(canaries.which))
    sampler = PoissonSampler(examples, probability, steps=schedule.steps, generator=hushvec.Generator.unsafe_seeded(2 * seed))

    def losses_of(places: Sequence[int]) -> Iterator[Any]:
        """The losses of the sampled notes, then those of the sampled canaries; neither if there are none."""
        places = list(places)  # read once: what is read behind a gradient counts for the next one
        some = [notes[place] for place in places if place < len(notes)]
        if some:
            yield note_losses(adapted, coding, some)
        crafted = np.array([place - len(notes) for place in places if place >= len(notes)], np.int64)
        if canaries is not None and len(crafted):
            yield canaries.of.losses(adapted, canaries.which[crafted])

    adapted.train()
    start = time.perf_counter()
    train = _with_noise if schedule.private else _ordinary
    accounting, epsilon_at = train(adapted, inner, sampler, losses_of, schedule, seed)
    seconds = time.perf_counter() - start
    change = check.require_changed()
    check.require_base_unchanged()
    return Learned(
        model=adapted,
        accounting=accounting,
        epsilon_at=epsilon_at,
        trainable=sum(parameter.numel() for parameter in parameters),
        moved=math.sqrt(sum(distance**2 for distance in change.layers.values())),
        lowered=None if canaries is None or before is None else before - canaries.of.values(adapted),
        seconds=seconds,
    )


Losses = Callable[[Sequence[int]], Iterator[Any]]
Trained = tuple[dict[str, Any], Callable[[float], float]]


def _with_noise(model: Any, inner: Any, sampler: Any, losses_of: Losses, schedule: Schedule, seed: int) -> Trained:
    """DP-SGD: (what it costs at the schedule's delta, what it costs at any)."""
    from hushvec.training import Account, DPOptimizer

    probability = sampler.sampling_probability
    multiplier = noise_multiplier(schedule.epsilon, schedule.delta, probability, schedule.steps)
    optimizer = DPOptimizer(
        inner,
        clip_norm=schedule.clip_norm,
        noise_multiplier=multiplier,
        expected_batch_size=schedule.batch,
        sampling_probability=probability,
        delta=schedule.delta,
        account=Account(adjacency=ADJACENCY, generator=hushvec.Generator.unsafe_seeded(2 * seed + 1)),
    )
    with GhostClipping(model, schedule.clip_norm) as ghost:
        for places in sampler:
            optimizer.zero_grad()
            ghost.empty_batch()
            for losses in losses_of(places):
                ghost.backward(losses)
            optimizer.step()
    guarantee = optimizer.guarantee()
    return accounted(schedule, probability, guarantee.epsilon, multiplier, guarantee.grade), optimizer.epsilon


def accounted(schedule: Schedule, probability: float, epsilon: float, multiplier: float, grade: str | None) -> dict[str, Any]:
    """What a run of a schedule costs: an infinite epsilon is None. The multiplier is the noise's standard deviation over the clip
    norm, the grade that of the sums of gradients, None without noise."""
    return {
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": schedule.delta,
        "adjacency": ADJACENCY,
        "noise_multiplier": multiplier,
        "sampling_probability": probability,
        "steps": schedule.steps,
        "grade": grade,
    }


@lru_cache
def noise_multiplier(epsilon: float, delta: float, probability: float, steps: int) -> float:
    """Of a schedule; runs that differ in their seeds only ask once."""
    from hushvec.training import noise_multiplier_for

    multiplier: float = noise_multiplier_for(epsilon, delta, probability, steps, ADJACENCY)
    return multiplier


def _ordinary(model: Any, inner: Any, sampler: Any, losses_of: Losses, schedule: Schedule, seed: int) -> Trained:
    """Training as anybody would, on the same samples."""
    import torch

    for places in sampler:
        if places:
            inner.zero_grad()
            loss: Any = torch.cat(list(losses_of(places))).mean()
            loss.backward()
            inner.step()
    return accounted(schedule, sampler.sampling_probability, math.inf, 0.0, None), lambda delta: math.inf


def _probe(coding: Coding, notes: Sequence[Coded]) -> dict[str, Any]:
    """A note for the check that the model answers differently afterwards; its answer leaves this process in no form."""
    import torch

    ids, _, mask = map(torch.from_numpy, coding.batch(notes[:1]))
    return {"input_ids": ids, "attention_mask": mask}


def _adam(parameters: list[Any], learning_rate: float) -> Any:
    import torch

    return torch.optim.Adam(parameters, lr=learning_rate)
