"""What the study measures: settings, and the runs that they ask for."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, InstanceOf, model_validator

from hushvec.audit import AuditResult
from hushvec.training.canaries import audit_training
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.measurements import Measurement, grid
from hushvec_studies.harness.settings import Epsilon, Positive, Several, Share
from hushvec_studies.personalize.adapter import Canaries, Included, Learned, Schedule, learn
from hushvec_studies.personalize.base import SHAPES, TARGETS, Base, ready
from hushvec_studies.personalize.coding import Coded, Coding
from hushvec_studies.personalize.measures import Worth, worth
from hushvec_studies.personalize.texts import Texts, draw_notes

# Raised when a change of this package changes what is measured.
VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Cell(Measurement):
    """A run: the texts that the adapter learns from and is tested on, its base, how it learns, and the folder of base models."""

    texts: Texts
    base: Base
    schedule: Schedule
    seed: int
    cache: Path

    @property
    def key(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "what": "adapter",
            "texts": self.texts.key,
            "base": self.base.key,
            "schedule": {**asdict(self.schedule), "epsilon": _finite(self.schedule.epsilon)},
            "seed": self.seed,
        }

    @property
    def label(self) -> str:
        return f"{price(self.schedule.epsilon)}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True)
class AuditCell(Cell):
    """A run with canaries.

    Args:
        canaries: how many, of which coins put about half among the texts.
        delta: that the audit is at: a smaller one than the schedule's lets it see more.
        confidence: of the audit.
    """

    canaries: int
    delta: float
    confidence: float

    @property
    def key(self) -> dict[str, Any]:
        return {**super().key, "what": "audit", "canaries": self.canaries, "delta": self.delta, "confidence": self.confidence}

    @property
    def label(self) -> str:
        return f"audit at {super().label}"


def measure(cell: Cell) -> dict[str, Any]:
    """Train the adapter and measure it, and its base beside it: a flat row, in which an infinite epsilon is None (`Worth`)."""
    model, coding = ready(cell.base, cell.cache)
    train, test = coded(cell.texts, coding, cell.base.shape.context)
    before = _worth_of_base(cell.base, cell.cache, cell.texts)
    learned = learn(model, TARGETS, coding, train, cell.schedule, cell.seed)
    return {
        "texts": cell.texts.name,
        "base": cell.base.name,
        "seed": cell.seed,
        "epsilon_asked": _finite(cell.schedule.epsilon),
        **learned.accounting,
        **_columns(before, "before"),
        **_columns(worth(learned.model, coding, test, train), "after"),
        "train_notes": len(train),
        "test_notes": len(test),
        "expected_batch": cell.schedule.batch,
        "clip_norm": cell.schedule.clip_norm if cell.schedule.private else None,
        "learning_rate": cell.schedule.learning_rate,
        "rank": cell.schedule.rank,
        "trainable": learned.trainable,
        "adapter_moved": learned.moved,
        "seconds": learned.seconds,
    }


def audited(cell: AuditCell) -> AuditResult:
    """The audit of one run.

    What a run claims depends on its schedule only, never on the coins, so that the claim is filled in when the run is over.
    """
    model, coding = ready(cell.base, cell.cache)
    notes, _ = coded(cell.texts, coding, cell.base.shape.context)
    canaries = Canaries(cell.canaries, cell.seed)
    runs: list[Learned] = []

    def with_canaries(included: NDArray[np.bool_]) -> Learned:
        chosen = Included(canaries, np.flatnonzero(included))
        runs.append(learn(model, TARGETS, coding, notes, cell.schedule, cell.seed, chosen))
        return runs[0]

    result = audit_training(
        with_canaries,
        lambda learned: learned.lowered,
        canaries=cell.canaries,
        epsilon=math.inf,
        delta=cell.delta,
        confidence=cell.confidence,
        name=f"adapter, {price(cell.schedule.epsilon)}",
        coins=np.random.default_rng([cell.seed, 2]),
    )
    return replace(result, epsilon_claimed=runs[0].epsilon_at(cell.delta))


def coded(texts: Texts, coding: Coding, context: int) -> tuple[list[Coded], list[Coded]]:
    """The notes of both parts as tokens."""
    train, test = ([coding.code(note, context) for note in part] for part in (texts.train, texts.test))
    return train, test


def price(epsilon: float) -> str:
    """An epsilon in words."""
    return f"epsilon {epsilon:g}" if math.isfinite(epsilon) else "no DP"


@lru_cache(maxsize=4)
def _worth_of_base(base: Base, cache: Path, texts: Texts) -> Worth:
    model, coding = ready(base, cache)
    train, test = coded(texts, coding, base.shape.context)
    return worth(model, coding, test, train)


def _columns(found: Worth, when: str) -> dict[str, Any]:
    return {f"{name}_{when}": value for name, value in found._asdict().items()}


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


# ---- settings, and the runs that they ask for ----

MODELS = "models"
FEWEST_CANARIES = 32


Count = Annotated[int, Field(ge=1)]


def _none_or_enough(canaries: int) -> int:
    if 0 < canaries < FEWEST_CANARIES:
        raise ValueError(f"must be 0 or >= {FEWEST_CANARIES}, got {canaries}")
    return canaries


class Settings(harness.Settings):
    """Of the study: the texts that adapters learn from and are tested on, the base beneath them, and how they learn."""

    texts: InstanceOf[Texts]
    base: InstanceOf[Base]
    epsilons: Several[Epsilon] = Field(default=(math.inf, 2.0, 1.0, 0.5), description="of each adapter; inf: no DP")
    delta: Share = Field(default=1e-5, description="of every epsilon")
    batch: Count = Field(default=200, description="expected examples of a step")
    steps: Count = Field(default=100, description="of the optimizer")
    clip_norm: Positive = Field(default=1.0, description="norm that gradients of examples are clipped to")
    learning_rate: Positive = Field(default=0.01, description="of Adam")
    rank: Count = Field(default=8, description="of the adapter")
    seeds: Several[Annotated[int, Field(ge=0)]] = Field(default=(1,), description="runs at each epsilon")
    # of audits, which `measure` makes: canaries of each, texts of an audited run at most, as fewer show each canary more often
    canaries: Annotated[int, Field(ge=0), AfterValidator(_none_or_enough)] = 0
    audit_notes: Count = 1000
    audit_delta: Share = 1e-6
    confidence: Share = 0.999

    @model_validator(mode="after")
    def _batches_fit(self) -> Settings:
        if self.batch > len(self.texts.train):
            raise ValueError(f"batch must be <= the {len(self.texts.train)} texts to learn from, got {self.batch}")
        if self.canaries and self.batch > self.audit_notes:
            raise ValueError(f"audit_notes must be >= batch = {self.batch}, got {self.audit_notes}")
        return self


def shipped_base(name: str, entities: tuple[str, ...], public: int, seed: int) -> Base:
    """A base model of a shape that reads drawn public notes."""
    return Base(name=name, shape=SHAPES[name], public=tuple(draw_notes(public, "public", seed)), entities=entities, seed=seed)


def planned(settings: Settings, folder: Path) -> tuple[list[Cell], list[AuditCell]]:
    """(runs, audits), the one without DP first."""
    how = settings.model_dump(include={"delta", "batch", "steps", "clip_norm", "learning_rate", "rank"})
    schedules = [Schedule(epsilon=epsilon, **how) for epsilon in sorted(set(settings.epsilons), reverse=True)]
    shared: dict[str, Any] = {"base": settings.base, "cache": folder / MODELS}
    runs = grid(partial(Cell, texts=settings.texts, **shared), schedule=schedules, seed=dict.fromkeys(settings.seeds))
    if not settings.canaries:
        return runs, []
    shared |= {"seed": settings.seeds[0], "canaries": settings.canaries, "delta": settings.audit_delta}
    fewer = replace(settings.texts, train=settings.texts.train[: settings.audit_notes])
    audits = grid(partial(AuditCell, texts=fewer, confidence=settings.confidence, **shared), schedule=schedules)
    return runs, audits

