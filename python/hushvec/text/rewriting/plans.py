"""Plans by number of chunks: how a document's rows are released, and how texts are made from the release."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native._core import Generator
from hushvec._util import validate
from hushvec.mechanisms import EmpiricalGaussian, PublicProjection, VectorMechanism
from hushvec.noise.fills import clip
from hushvec.receipts.labels import LabelReceipt
from hushvec.receipts.vectors import Receipt
from hushvec.release.charging import Budget
from hushvec.release.labels import privatize_labels
from hushvec.release.vectors import ReleasePlan, release_planned
from hushvec.text.inverters.mapped import Lifted, behind
from hushvec.text.inverters.protocol import ChoosingInverter, Inverter, LawInverter, TextChooser
from hushvec.text.rewriting.terms import NOTE_BASIC, Shares, Terms

# Plans kept by a planner, one per number of chunks: most documents have few.
MOST_PLANS = 256

NOTE_LENGTH = "behind the map rows were brought to length clip_norm, before the clip"
NOTE_CHOICE = "an answer is the number of a public text, the nearest one being the truth"

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Plan(ABC):
    """For documents of K `chunks`; `shares` is what the release of one chunk guarantees."""

    chunks: int
    shares: Shares

    sigma: float | None = None
    scale: float | None = None

    @abstractmethod
    def release(self, rows: Rows, budget: Budget | None) -> tuple[NDArray[Any], Receipt | LabelReceipt | None]:
        """Charge and release the rows [at most K, d] of one document: K values, public from here on, and their receipt."""

    @abstractmethod
    def texts(self, values: NDArray[Any]) -> list[str]:
        """A text for each released value of any number of documents."""

    def padded(self, rows: Rows) -> Rows:
        """K rows, padded with zeros."""
        return np.concatenate([rows, np.zeros((self.chunks - len(rows), rows.shape[1]), np.float32)])


@dataclass(frozen=True, kw_only=True)
class CleanPlan(Plan):
    """Rows are clipped, without noise or guarantee."""

    sigma: float | None = 0.0
    clip_norm: float
    inverter: Inverter

    def release(self, rows: Rows, budget: Budget | None) -> tuple[NDArray[Any], None]:
        return clip(self.padded(rows), self.clip_norm), None

    def texts(self, values: NDArray[Any]) -> list[str]:
        return inverted(self.inverter, values)


@dataclass(frozen=True, kw_only=True)
class NoisePlan(Plan):
    """Rows are released with noise, behind a public map if there is one, and inverted."""

    planned: ReleasePlan
    projection: PublicProjection | None
    inverter: Inverter
    notes: tuple[str, ...]

    def release(self, rows: Rows, budget: Budget | None) -> tuple[NDArray[Any], Receipt]:
        length = self.planned.mechanism.clip_norm
        mapped = rows if self.projection is None else behind(self.projection, rows, length)
        release = release_planned(self.padded(mapped), self.planned, budget=budget, notes=self.notes, projection=self.projection)
        assert isinstance(release.receipt, Receipt)
        return release.values, release.receipt

    def texts(self, values: NDArray[Any]) -> list[str]:
        return inverted(self.inverter, values)


@dataclass(frozen=True, kw_only=True)
class ChoicePlan(Plan):
    """The number of each row's nearest public text is released by randomized response; epsilon is that of all K rows together."""

    epsilon: float
    chooser: TextChooser
    generator: Generator
    notes: tuple[str, ...]

    def release(self, rows: Rows, budget: Budget | None) -> tuple[NDArray[Any], LabelReceipt]:
        nearest = self.chooser.nearest(self.padded(rows))
        labels = range(len(self.chooser.texts))
        values, receipt = privatize_labels(
            nearest, labels, epsilon=self.epsilon, budget=budget, per="release", generator=self.generator
        )
        return np.asarray(values), replace(receipt, notes=(*receipt.notes, *self.notes, NOTE_CHOICE))

    def texts(self, values: NDArray[Any]) -> list[str]:
        return [self.chooser.texts[number] for number in values.tolist()]


class Planner:
    """Plans for documents of any number of chunks, made at first use."""

    def __init__(
        self,
        terms: Terms,
        inverter: Inverter,
        projection: PublicProjection | str | None,
        generator: Generator,
        notes: tuple[str, ...],
    ) -> None:
        if terms.is_choice and not isinstance(inverter, ChoosingInverter):
            raise TypeError(
                f"inverter must have public texts to choose from for mechanism {terms.mechanism!r}, got {validate.kind(inverter)}"
            )
        self._terms = terms
        self._inverter = inverter
        self._projection = projection
        self._generator = generator
        self._notes = notes
        self._plans: dict[tuple[int, int], Plan] = {}

    def plan(self, chunks: int, dimension: int) -> Plan:
        """The plan for rows [chunks, dimension] of the embedder."""
        plan = self._plans.get((chunks, dimension))
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[chunks, dimension] = self._made(chunks, dimension)
        return plan

    def _made(self, chunks: int, dimension: int) -> Plan:
        if not self._terms.has_noise:
            return CleanPlan(chunks, Shares(math.inf, 0.0), clip_norm=float(self._terms.clip_norm), inverter=self._inverter)
        shares = self._terms.shares(chunks)
        if isinstance(self._inverter, ChoosingInverter) and self._terms.is_choice:
            return ChoicePlan(
                chunks,
                shares,
                epsilon=float(self._terms.epsilon),
                chooser=self._inverter.choice_for(shares.epsilon),
                generator=self._generator,
                notes=self._notes,
            )
        return self._with_noise(chunks, dimension, shares)

    def _with_noise(self, chunks: int, dimension: int, shares: Shares) -> NoisePlan:
        projection = self._projection_for(shares.epsilon)
        mechanism = self._terms.mechanism_for(chunks, dimension if projection is None else projection.output_dimension)
        basic = (NOTE_BASIC,) if isinstance(mechanism, EmpiricalGaussian) else ()
        return NoisePlan(
            chunks,
            shares,
            sigma=self._terms.sigma(chunks, mechanism),
            scale=mechanism.noise_parameter if mechanism.parameter_name == "scale" else None,
            planned=ReleasePlan(
                mechanism=mechanism,
                per="release",
                dtype="float32",
                normalize=False,
                renormalize=False,
                generator=self._generator,
            ),
            projection=projection,
            inverter=self._inverter_for(mechanism, projection),
            notes=(*self._notes, *basic, *(() if projection is None else (NOTE_LENGTH,))),
        )

    def _projection_for(self, epsilon: float) -> PublicProjection | None:
        if not isinstance(self._projection, str):
            return self._projection
        return self._inverter.projection_for(self._terms.mechanism, epsilon) if isinstance(self._inverter, LawInverter) else None

    def _inverter_for(self, mechanism: VectorMechanism, projection: PublicProjection | None) -> Inverter:
        if isinstance(self._inverter, LawInverter):
            return self._inverter.for_release(mechanism, projection)
        return self._inverter if projection is None else Lifted(self._inverter, projection)


def inverted(inverter: Inverter, rows: Rows) -> list[str]:
    """One text for each row; another number of texts is refused."""
    texts = inverter.invert(rows)
    if len(texts) != len(rows):
        raise ValueError(f"inverter must return {len(rows)} texts, one for each row, got {len(texts)}")
    return list(texts)
