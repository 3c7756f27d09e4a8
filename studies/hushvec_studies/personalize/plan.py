"""What the study measures: settings, and the runs that they ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, InstanceOf, model_validator

from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.settings import Epsilon, Positive, Several, Share
from hushvec_studies.personalize.adapter import Schedule
from hushvec_studies.personalize.base import SHAPES, Base
from hushvec_studies.personalize.cell import AuditCell, Cell
from hushvec_studies.personalize.notes import draw_notes
from hushvec_studies.personalize.texts import Texts

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
    canaries: Annotated[int, Field(ge=0), AfterValidator(_none_or_enough)] = Field(
        default=0, description="audit a run at each epsilon with so many"
    )
    audit_notes: Count = Field(default=1000, description="texts of an audited run at most: fewer show each canary more often")
    audit_delta: Share = Field(default=1e-6, description="of the audits")
    confidence: Share = Field(default=0.999, description="of the audits")

    @model_validator(mode="after")
    def _batches_fit(self) -> Settings:
        if self.batch > len(self.texts.train):
            raise ValueError(f"batch must be <= the {len(self.texts.train)} texts to learn from, got {self.batch}")
        if self.canaries and self.batch > self.audit_notes:
            raise ValueError(f"audit_notes must be >= batch = {self.batch}, got {self.audit_notes}")
        return self


def shipped_base(name: str, entities: tuple[str, ...], public: int, seed: int) -> Base:
    """A base model of a shape that reads drawn public notes."""
    return Base(
        name=name,
        shape=SHAPES[name],
        public=tuple(draw_notes(public, "public", seed)),
        entities=entities,
        folder=None,
        context=SHAPES[name].context,
        seed=seed,
    )


def folder_base(folder: Path, context: int) -> Base:
    """A model of the user's: its folder, as transformers saves it with its tokenizer."""
    return Base(name=folder.name, shape=None, public=(), entities=(), folder=folder, context=context, seed=0)


def planned(settings: Settings, folder: Path) -> tuple[list[Cell], list[AuditCell]]:
    """(runs, audits), the one without DP first."""
    runs = [
        Cell(texts=settings.texts, base=settings.base, schedule=schedule, seed=seed, cache=folder / MODELS)
        for schedule in _schedules(settings, settings.epsilons)
        for seed in dict.fromkeys(settings.seeds)
    ]
    if not settings.canaries:
        return runs, []
    audits = [
        AuditCell(
            texts=replace(settings.texts, train=settings.texts.train[: settings.audit_notes]),
            base=settings.base,
            schedule=schedule,
            seed=settings.seeds[0],
            cache=folder / MODELS,
            canaries=settings.canaries,
            delta=settings.audit_delta,
            confidence=settings.confidence,
        )
        for schedule in _schedules(settings, settings.epsilons)
    ]
    return runs, audits


def _schedules(settings: Settings, epsilons: Iterable[float]) -> list[Schedule]:
    return [
        Schedule(
            epsilon=epsilon,
            delta=settings.delta,
            batch=settings.batch,
            steps=settings.steps,
            clip_norm=settings.clip_norm,
            learning_rate=settings.learning_rate,
            rank=settings.rank,
        )
        for epsilon in sorted(set(epsilons), reverse=True)
    ]
