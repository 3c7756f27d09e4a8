"""The mechanisms that are compared: each made from public rows alone, for one epsilon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.mechanisms import MECHANISMS as KINDS
from hushvec.mechanisms import Gaussian, PrivUnit, PublicCodebook, PublicProjection, found_share
from hushvec_studies.harness.rows import unit

Rows = NDArray[np.float32]

NONE = "none"
PRIVUNIT, WHITENED_PRIVUNIT = "privunit", "whitened privunit"
GAUSSIAN, WHITENED_GAUSSIAN = "gaussian", "whitened gaussian"
CODEBOOK = "public codebook"
LAPLACIAN, L2_LAPLACE = "laplacian", "l2 laplace"
MECHANISMS = (PRIVUNIT, WHITENED_PRIVUNIT, CODEBOOK, GAUSSIAN, WHITENED_GAUSSIAN, LAPLACIAN, L2_LAPLACE)

WITHOUT_PUBLIC_ROWS = (PRIVUNIT, GAUSSIAN, LAPLACIAN, L2_LAPLACE)

DOCUMENTS, QUESTIONS = "documents", "questions"

COMPONENTS = (20, 40, 80, 160, 320)  # of whitening maps that are tried


@dataclass(frozen=True)
class Contender:
    """A mechanism with what stands before it.

    Args:
        mechanism: that releases rows; None releases them as they are.
        chosen: components of the public map, or codes; None where nothing is chosen.
        beside: brings clean rows to where releases are: behind the map, to unit length.
        delta: of one row.
    """

    mechanism: Any
    chosen: int | None
    beside: Callable[[Rows], Rows]
    delta: float

    def released(self, rows: Rows, generator: hushvec.Generator) -> Rows:
        """Each row with its own noise."""
        clean = self.beside(rows)
        if self.mechanism is None:
            return clean
        return np.asarray(hushvec.privatize(clean, mechanism=self.mechanism, generator=generator).values)


def contender(
    name: str,
    public: Rows,
    epsilon: float,
    delta: float,
    *,
    rows: int | None,
    purpose: str,
    side: str,
    seed: int,
    generator: hushvec.Generator,
) -> Contender:
    """A mechanism by name.

    Args:
        public: rows that nobody needs protection from, none of those that are released.
        delta: for Gaussian noise alone.
        rows: how many are searched, for PrivUnit's split of epsilon; None where they are averaged and not searched.
        purpose: of `PublicCodebook.fit`.
        side: of the search that is released, by which a map is chosen.
        seed: of the codebook.
        generator: of the noise by which a map is chosen.
    """
    dimension = public.shape[1]
    if name in WITHOUT_PUBLIC_ROWS:
        own: dict[str, dict[str, Any]] = {PRIVUNIT: {"corpus_size": rows}, GAUSSIAN: {"delta": delta}}
        given: dict[str, Any] = {"epsilon": epsilon, "dimension": dimension, **own.get(name, {})}
        return Contender(KINDS[name.replace(" ", "_")](**given), None, unit, delta if name == GAUSSIAN else 0.0)
    if name == CODEBOOK:
        codebook = PublicCodebook.fit(public, epsilon=epsilon, purpose=purpose, seed=seed).for_any_row()
        return Contender(codebook.mechanism(epsilon), len(codebook), unit, 0.0)
    mechanism_for = _privunit(searched=rows is not None) if name == WHITENED_PRIVUNIT else _gaussian(delta)
    tried = [components for components in COMPONENTS if components <= min(dimension, len(public) // 4)] or [dimension]

    def share(components: int) -> float:
        """On public halves: how much of a row's neighborhood is found where one side of the search is released behind the map."""
        seen, held_out = public[::2], public[1::2]
        behind = PublicProjection.fit(seen, components=components, whiten=True)
        mapped = unit(behind.transform(held_out))
        law = mechanism_for(epsilon, behind, len(mapped))
        released = np.asarray(hushvec.privatize(mapped, mechanism=law, generator=generator).values)
        return found_share(held_out, *((released, mapped) if side == QUESTIONS else (mapped, unit(released))))

    best = max(tried, key=share)
    whitening = PublicProjection.fit(public, components=best, whiten=True)
    found_delta = 0.0 if name == WHITENED_PRIVUNIT else delta
    return Contender(
        mechanism_for(epsilon, whitening, rows or 0), best, lambda given: unit(whitening.transform(given)), found_delta
    )


def clean() -> Contender:
    return Contender(None, None, unit, 0.0)


def _privunit(searched: bool) -> Callable[[float, PublicProjection, int], PrivUnit]:
    """PrivUnit behind a map, as it serves a search among so many rows, or a mean of them."""
    return lambda epsilon, whitening, rows: PrivUnit(
        epsilon=epsilon, dimension=whitening.output_dimension, corpus_size=rows if searched else None
    )


def _gaussian(delta: float) -> Callable[[float, PublicProjection, int], Gaussian]:
    return lambda epsilon, whitening, rows: Gaussian(epsilon=epsilon, delta=delta, dimension=whitening.output_dimension)


def generators(seed: int, draws: int) -> Iterator[hushvec.Generator]:
    """A key stream for each draw, made from a seed: measurements, and no private releases."""
    for draw in range(draws):
        yield hushvec.Generator.unsafe_seeded(seed + draw)
