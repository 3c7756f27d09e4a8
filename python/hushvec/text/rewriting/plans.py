"""What is fixed by the number of chunks of a document: mechanism, public map, and the inverter for what they release."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec._core import Generator
from hushvec.mechanisms import EmpiricalGaussian, Mechanism, PublicProjection
from hushvec.release import ReleasePlan
from hushvec.text.inverters.protocol import Inverter, LawInverter
from hushvec.text.rewriting.terms import NOTE_BASIC, Shares, Terms

AUTO = "auto"

NOTE_LENGTH = "behind the map rows were brought to length clip_norm, before the clip"

# Kept by a planner, one for each number of chunks that documents had: most have few.
MOST_PLANS = 256


@dataclass(frozen=True)
class Plan:
    """How the rows of a document with a given number of chunks are released and inverted.

    Args:
        shares: what the release of one chunk guarantees.
        sigma: Gaussian noise as calibrated; None for Laplace noise and without noise.
        release: of the rows, all about one person; None: no noise.
        projection: the public map before the mechanism, or None.
        inverter: of released rows.
        notes: for the receipt.
    """

    shares: Shares
    sigma: float | None
    release: ReleasePlan | None
    projection: PublicProjection | None
    inverter: Inverter
    notes: tuple[str, ...] = ()

    @property
    def mechanism(self) -> Mechanism | None:
        return None if self.release is None else self.release.mechanism


class Planner:
    """Plans for documents of any number of chunks, made when they are first needed.

    Args:
        terms: the promise for a document.
        inverter: of the embedder's space.
        projection: a public map; AUTO: the one that the inverter asks for, if it does; None: none.
        generator: key stream of the releases.
        notes: for every receipt.
    """

    def __init__(
        self,
        terms: Terms,
        inverter: Inverter,
        projection: PublicProjection | str | None,
        generator: Generator,
        notes: tuple[str, ...],
    ) -> None:
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
            return Plan(Shares(math.inf, 0.0), None, None, None, self._inverter)
        shares = self._terms.shares(chunks)
        projection = self._projection_for(shares.epsilon)
        mechanism = self._terms.mechanism_for(chunks, dimension if projection is None else projection.output_dimension)
        release = ReleasePlan(
            mechanism=mechanism, per="release", dtype="float32", normalize=False, renormalize=False, generator=self._generator
        )
        inverter = self._inverter_for(mechanism, projection)
        return Plan(shares, self._terms.sigma(chunks, mechanism), release, projection, inverter, self._notes_on(mechanism, projection))

    def _notes_on(self, mechanism: Mechanism, projection: PublicProjection | None) -> tuple[str, ...]:
        basic = (NOTE_BASIC,) if isinstance(mechanism, EmpiricalGaussian) else ()
        return (*self._notes, *basic, *(() if projection is None else (NOTE_LENGTH,)))

    def _projection_for(self, epsilon: float) -> PublicProjection | None:
        if not isinstance(self._projection, str):
            return self._projection
        return self._inverter.projection_for(self._terms.mechanism, epsilon) if isinstance(self._inverter, LawInverter) else None

    def _inverter_for(self, mechanism: Mechanism, projection: PublicProjection | None) -> Inverter:
        if isinstance(self._inverter, LawInverter):
            return self._inverter.for_release(mechanism, projection)
        return self._inverter if projection is None else _Lifting(self._inverter, projection)


@dataclass(frozen=True)
class _Lifting:
    """An inverter of the embedder's space, for rows released behind a public map."""

    inverter: Inverter
    projection: PublicProjection

    def invert(self, embeddings: NDArray[np.float32]) -> list[str]:
        return self.inverter.invert(np.asarray(self.projection.lift(embeddings), np.float32))
