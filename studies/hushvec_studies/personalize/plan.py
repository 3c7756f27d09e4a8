"""What the study measures: settings, and the runs that they ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hushvec_studies.personalize.adapter import Schedule
from hushvec_studies.personalize.base import SHAPES, Base
from hushvec_studies.personalize.cell import AuditCell, Cell
from hushvec_studies.personalize.notes import draw_notes
from hushvec_studies.personalize.texts import Texts

MODELS = "models"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of the study.

    Args:
        texts: that adapters learn from and are tested on.
        base: beneath them.
        epsilons: math.inf for ordinary training.
        delta: that goes with them.
        batch, steps, clip_norm, learning_rate, rank: of every run.
        seeds: a run at each epsilon for each of them.
        canaries: of the audits; 0 for none.
        audit_notes: texts that an audited run learns from beside its canaries, at most: fewer of them show each canary more often.
        audit_delta, confidence: of the audits.
    """

    texts: Texts
    base: Base
    epsilons: tuple[float, ...] = (math.inf, 2.0, 1.0, 0.5)
    delta: float = 1e-5
    batch: int = 200
    steps: int = 100
    clip_norm: float = 1.0
    learning_rate: float = 0.01
    rank: int = 8
    seeds: tuple[int, ...] = (1,)
    canaries: int = 0
    audit_notes: int = 1000
    audit_delta: float = 1e-6
    confidence: float = 0.999


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
        for seed in settings.seeds
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
