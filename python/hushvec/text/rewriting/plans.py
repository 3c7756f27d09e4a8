"""The guarantee of a rewriting, and plans by number of chunks: how rows are released and how texts are made from the release."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec.mechanisms import (  # isort: skip
    MECHANISMS, EmpiricalGaussian, PublicProjection, VectorMechanism, priced_mechanisms, releases_directions,
)
from hushvec._native._core import Generator
from hushvec._util import validate
from hushvec.accounting import gaussian_sigma_for
from hushvec.extend import Budget, ReleasePlan, release_planned
from hushvec.noise import clip, gaussian_epsilon
from hushvec.receipts import LabelReceipt, Receipt
from hushvec.release import privatize_labels
from hushvec.text.inverters.protocol import ChoosingInverter, Inverter, LawInverter, Lifted, behind
from hushvec.text.public_choice import PublicChoice

AUTO = "auto"

CHOICE = "randomized_response"


def rewriting_mechanisms() -> tuple[str, ...]:
    """Return the names of what texts can be rewritten with: noise on rows that is made for a price, and the choice of public texts."""
    priced = priced_mechanisms()
    return *(name for name in MECHANISMS if name in priced), CHOICE


def is_of_documents(mechanism: str) -> bool:
    """Whether a mechanism leaves enough of a row for a whole document to be one."""
    return mechanism == CHOICE or releases_directions(mechanism)


NOTE_NO_PUBLIC_TEXTS = "mechanism 'auto' is {mechanism!r} here: the inverter has no public texts to choose from"
NOTE_BASIC = "sigma is that of basic composition over the rows; epsilon is what it buys for all of them together"


class Shares(NamedTuple):
    """The guarantee for one chunk alone."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class DocumentTerms:
    """The guarantee for a whole document, checked.

    Args:
        epsilon: > 0, or infinity for no noise and no guarantee.
        delta: in (0, 1) for "gaussian"; the others do not use it, 0 is accepted.
        mechanism: one of `rewriting_mechanisms()`.
        composition: "joint" or "basic", for "gaussian"; epsilons of the others add up.
    """

    epsilon: float
    delta: float
    clip_norm: float
    mechanism: str
    composition: str

    def __post_init__(self) -> None:
        validate.choice("mechanism", self.mechanism, rewriting_mechanisms())
        validate.clip_norm(self.clip_norm)
        validate.delta(self.delta, zero_allowed=self.is_pure)
        validate.keep_floats(self, "delta", "clip_norm")
        if self.has_noise:
            validate.keep_floats(self, "epsilon")
            validate.positive("epsilon", self.epsilon)

    @property
    def has_noise(self) -> bool:
        return not (isinstance(self.epsilon, float) and self.epsilon == math.inf)

    @property
    def is_pure(self) -> bool:
        return self.is_choice or not MECHANISMS[self.mechanism].takes_delta

    @property
    def is_choice(self) -> bool:
        return self.mechanism == CHOICE

    @property
    def total_delta(self) -> float:
        return 0.0 if self.is_pure else float(self.delta)

    def shares(self, chunks: int) -> Shares:
        """(epsilon/K, delta/K) where guarantees add up. Not in a joint Gaussian release."""
        epsilon, delta = self.epsilon / chunks, self.total_delta / chunks
        if not self.is_pure and self.composition == "joint" and chunks > 1:
            epsilon = float(gaussian_epsilon(delta, self._gaussian_sigma(chunks), 2 * self.clip_norm))
        return Shares(epsilon, delta)

    def sigma(self, chunks: int, mechanism: VectorMechanism) -> float | None:
        """Standard deviation of the noise, Gaussian as calibrated before it is rounded up to a float32; None for Laplace noise."""
        return mechanism.law_numbers.get("sigma") if self.is_pure else self._gaussian_sigma(chunks)

    def mechanism_for(self, chunks: int, dimension: int) -> VectorMechanism:
        """The mechanism that adds noise to rows [chunks, dimension] of one document; not for randomized response."""
        setting: dict[str, Any] = {"dimension": dimension, "clip_norm": float(self.clip_norm), "rows_per_person": chunks}
        if self.is_pure or not self.is_basic(chunks):
            kind = MECHANISMS[self.mechanism]
            return kind.for_price(epsilon=float(self.epsilon), delta=float(self.delta), **setting)
        return EmpiricalGaussian(chosen_sigma=self._gaussian_sigma(chunks), delta=float(self.delta), **setting)

    def is_basic(self, chunks: int) -> bool:
        """Whether the noise of so many rows is that of basic composition."""
        return not self.is_pure and self.composition != "joint" and chunks > 1

    def _gaussian_sigma(self, chunks: int) -> float:
        return gaussian_sigma_for(chunks, self.epsilon, self.delta, 2 * self.clip_norm, composition=self.composition)


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
    inverter: Inverter
    sigma: float | None = None
    scale: float | None = None

    @abstractmethod
    def release(self, rows: Rows, budget: Budget | None) -> tuple[NDArray[Any], Receipt | LabelReceipt | None]:
        """Charge and release the rows [at most K, d] of one document: K values, public from here on, and their receipt."""

    def texts(self, values: NDArray[Any]) -> list[str]:
        texts = self.inverter.invert(values)
        if len(texts) != len(values):
            raise ValueError(f"inverter must return {len(values)} texts, one for each row, got {len(texts)}")
        return list(texts)

    def padded(self, rows: Rows) -> Rows:
        return np.concatenate([rows, np.zeros((self.chunks - len(rows), rows.shape[1]), np.float32)])


@dataclass(frozen=True, kw_only=True)
class CleanPlan(Plan):
    """Rows are clipped, without noise or guarantee."""

    sigma: float | None = 0.0
    clip_norm: float

    def release(self, rows: Rows, budget: Budget | None) -> tuple[NDArray[Any], None]:
        return clip(self.padded(rows), self.clip_norm), None


@dataclass(frozen=True, kw_only=True)
class NoisePlan(Plan):
    """Rows are released with noise, behind a public map if there is one, and inverted."""

    planned: ReleasePlan
    projection: PublicProjection | None
    notes: tuple[str, ...]

    def release(self, rows: Rows, budget: Budget | None) -> tuple[NDArray[Any], Receipt]:
        length = self.planned.mechanism.clip_norm
        mapped = rows if self.projection is None else behind(self.projection, rows, length)
        release = release_planned(self.padded(mapped), self.planned, budget=budget, notes=self.notes, projection=self.projection)
        assert isinstance(release.receipt, Receipt)
        return release.values, release.receipt


@dataclass(frozen=True, kw_only=True)
class ChoicePlan(Plan):
    """The number of each row's nearest public text is released by randomized response; epsilon is that of all K rows together."""

    epsilon: float
    choice: PublicChoice
    generator: Generator
    notes: tuple[str, ...]

    def release(self, rows: Rows, budget: Budget | None) -> tuple[NDArray[Any], LabelReceipt]:
        nearest = self.choice.nearest(self.padded(rows))
        labels = range(len(self.choice.texts))
        values, receipt = privatize_labels(
            nearest, labels, epsilon=self.epsilon, budget=budget, per="release", generator=self.generator
        )
        return np.asarray(values), replace(receipt, notes=(*receipt.notes, *self.notes, NOTE_CHOICE))

    def texts(self, values: NDArray[Any]) -> list[str]:
        return [self.choice.texts[number] for number in values.tolist()]


@dataclass
class Planner:
    """Plans for documents of any number of chunks, made at first use."""

    terms: DocumentTerms
    inverter: Inverter
    projection: PublicProjection | str | None
    generator: Generator
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.terms.is_choice and not isinstance(self.inverter, ChoosingInverter):
            name, kind = self.terms.mechanism, validate.kind(self.inverter)
            raise TypeError(f"inverter must have public texts to choose from for mechanism {name!r}, got {kind}")
        self._plans: dict[tuple[int, int], Plan] = {}

    def plan(self, chunks: int, dimension: int) -> Plan:
        plan = self._plans.get((chunks, dimension))
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[chunks, dimension] = self._made(chunks, dimension)
        return plan

    def _made(self, chunks: int, dimension: int) -> Plan:
        terms, inverter, projection = self.terms, self.inverter, self.projection
        if not terms.has_noise:
            return CleanPlan(chunks, Shares(math.inf, 0.0), inverter, clip_norm=float(terms.clip_norm))
        shares = terms.shares(chunks)
        if isinstance(inverter, ChoosingInverter) and terms.is_choice:
            choice = inverter.choice_for(shares.epsilon)
            return ChoicePlan(
                chunks, shares, inverter, epsilon=float(terms.epsilon), choice=choice, generator=self.generator, notes=self.notes
            )
        if isinstance(projection, str):
            projection = inverter.projection_for(terms.mechanism, shares.epsilon) if isinstance(inverter, LawInverter) else None
        mechanism = terms.mechanism_for(chunks, dimension if projection is None else projection.output_dimension)
        if isinstance(inverter, LawInverter):
            inverter = inverter.for_release(mechanism, projection)
        elif projection is not None:
            inverter = Lifted(inverter, projection)
        basic = (NOTE_BASIC,) if terms.is_basic(chunks) else ()
        return NoisePlan(
            chunks, shares, inverter, sigma=terms.sigma(chunks, mechanism), scale=mechanism.law_numbers.get("scale"),
            planned=ReleasePlan(
                mechanism=mechanism, per="release", dtype="float32", normalize=False, renormalize=False, generator=self.generator
            ),
            projection=projection,
            notes=(*self.notes, *basic, *(() if projection is None else (NOTE_LENGTH,))),
        )
