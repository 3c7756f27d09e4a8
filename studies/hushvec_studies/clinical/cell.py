"""One cell of the study: one mechanism at one price on one cohort behind one public map, and what it measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.audit.bootstrap import bootstrap
from hushvec.extend.helpers import inner_products
from hushvec.mechanisms import VectorMechanism
from hushvec.noise import gaussian_delta, gaussian_epsilon
from hushvec.release import privatize
from hushvec.retrieval import Estimate
from hushvec.retrieval.measures import cosines, theoretical_cosine
from hushvec_studies.clinical.cohort import VERSION, Population, Source
from hushvec_studies.clinical.contenders import MEAN, NONE, expected_top_1, fitted, mechanism_for
from hushvec_studies.harness.measurements import Measurement, noise_seed

# The price of Gaussian noise is also stated at these.
OTHER_DELTAS = (1e-3, 1e-8)

_SENSITIVITY = 2.0  # of unit rows
_SCORES_AT_ONCE = 1 << 24
_TOP = 10


@dataclass(frozen=True, kw_only=True)
class Cell(Measurement):
    """What is measured.

    Args:
        source: where the patients come from.
        public_rows: how many rows the public map is fitted on, at most.
        public_map, mechanism: names of hushvec_studies.clinical.contenders.
        epsilon, sigma: what the mechanism is asked for; the other one is None.
        delta: for the Gaussian kinds.
        draws: how often each patient is released.
        seed: of the noise.
    """

    source: Source
    patients: int
    public_rows: int
    public_map: str
    mechanism: str
    epsilon: float | None
    sigma: float | None
    delta: float
    draws: int
    seed: int
    confidence: float = 0.95
    resamples: int = 1000

    @property
    def key(self) -> dict[str, Any]:
        public_rows = self.public_rows if self.public_map != NONE else None
        return {"version": VERSION, **vars(self), "source": dict(self.source.key), "public_rows": public_rows}

    @property
    def label(self) -> str:
        price = f"epsilon {self.epsilon:g}" if self.epsilon is not None else f"sigma {self.sigma:g}"
        return f"{self.source.name}, {self.public_map}, {self.mechanism}, {price}"


def measure(cell: Cell) -> dict[str, Any]:
    """Release every patient `draws` times, look each release up among the clean rows of all patients, and describe the outcome.

    Rows go through the public map and to unit length; a release is looked up by its inner product with the clean rows there. Of equal
    scores the earlier patient's is taken to be better, as an index does. Intervals are of patients, their draws together.

    Returns a flat row, ready for strict JSON; `hushvec study clinical --help` explains the columns.
    """
    clean, components = prepared(cell.source, cell.patients, cell.public_rows, cell.public_map)
    others = len(clean) - 1
    price = cell.fields("epsilon", "sigma", "delta")
    mechanism = mechanism_for(cell.mechanism, dimension=clean.shape[1], others=others, **price)
    ranks, near = (np.stack(drawn, axis=1) for drawn in zip(*_draws(clean, mechanism, cell)))
    measures = {"top_1": ranks < 1, "top_10": ranks < _TOP, "mrr": 1.0 / (1 + ranks)}
    settings = cell.fields("confidence", "resamples", "seed")
    groups = np.repeat(np.arange(len(clean)), cell.draws)
    shares = bootstrap({name: column.ravel() for name, column in measures.items()}, groups=groups, limits=(0.0, 1.0), **settings)
    cosine = bootstrap({"cosine": near.ravel()}, groups=groups, **settings)["cosine"]
    row: dict[str, Any] = {**_described(cell, clean.shape[1], components), **_price(mechanism, cell)}
    for name, estimate in shares.items():
        row |= _columns(name, estimate)
    row |= _columns("cosine", cosine)
    row["cosine_theory"] = theoretical_cosine(mechanism)
    row["top_1_distinct"] = expected_top_1(mechanism, others)
    row["top_1_theory"] = _theory(cell, mechanism, others)
    return row


def _theory(cell: Cell, mechanism: VectorMechanism, others: int) -> float | None:
    """Top-1 where it is known: patients who share the mean and nothing else, which a public map may take away."""
    strengths = cell.source.strengths if isinstance(cell.source, Population) else None
    if strengths is None or strengths.own_dimension is not None or strengths.diagnosis > 0 or strengths.twin > 0:
        return None
    if cell.public_map == NONE:
        return expected_top_1(mechanism, others, strengths.own)
    return expected_top_1(mechanism, others) if cell.public_map == MEAN else None


@lru_cache(maxsize=2)
def prepared(source: Source, patients: int, public_rows: int, public_map: str) -> tuple[NDArray[np.float32], int | None]:
    """Unit rows of the patients behind the public map, and how many components it keeps (None: all)."""
    projection = fitted(public_map, source, public_rows, patients)
    rows = source.patients(patients)
    if projection is None:
        return rows, None
    mapped = projection.transform(rows).astype(np.float64)
    norms = np.linalg.norm(mapped, axis=1, keepdims=True)
    if not norms.all():
        raise ValueError(
            f"{source.name}: patient {int((norms == 0).argmax())} is nothing but the public mean and has no direction behind it"
        )
    components = None if projection.components is None else projection.output_dimension
    return (mapped / norms).astype(np.float32), components


def ranks_of(released: NDArray[np.float32], clean: NDArray[np.float32]) -> NDArray[np.intp]:
    """[n]: how many clean rows come before the row's own, by inner product with the released row; of equal ones the earlier."""
    own = np.arange(len(clean))
    at_once = max(1, _SCORES_AT_ONCE // len(clean))
    counted = []
    for first in range(0, len(clean), at_once):
        rows = own[first : first + at_once]
        scores = inner_products(released[rows], clean)
        mine = scores[np.arange(len(rows)), rows][:, None]
        before = (scores > mine) | ((scores == mine) & (own < rows[:, None]))
        counted.append(before.sum(axis=1))
    return np.concatenate(counted)


def _draws(
    clean: NDArray[np.float32], mechanism: VectorMechanism, cell: Cell
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    generator = hushvec.Generator.unsafe_seeded(noise_seed(cell.digest))
    for _ in range(cell.draws):
        values = privatize(clean, mechanism=mechanism, delta=cell.delta, generator=generator).values
        yield ranks_of(values, clean), cosines(clean, values)


def _described(cell: Cell, dimension: int, components: int | None) -> dict[str, Any]:
    strengths = cell.source.strengths if isinstance(cell.source, Population) else None
    return {
        "cohort": cell.source.name,
        **{name: getattr(strengths, name, None) for name in ("mean", "diagnosis", "own_dimension", "twin")},
        **cell.fields("patients", "draws", "public_map"),
        "dimension": dimension,
        "components": components,
        **cell.fields("mechanism", "epsilon", "sigma"),
    }


def _price(mechanism: VectorMechanism, cell: Cell) -> dict[str, Any]:
    """What the mechanism really costs, and for Gaussian noise what it costs at other deltas and at the epsilon that was asked for."""
    epsilon, delta = mechanism.cost
    price: dict[str, Any] = {
        "grade": mechanism.grade,
        "noise_parameter": mechanism.noise_parameter,
        "true_epsilon": epsilon,
        "true_delta": delta,
        "delta_at_epsilon": None,
    }
    gaussian = mechanism.law == "gaussian"
    if gaussian and cell.epsilon is not None:
        price["delta_at_epsilon"] = gaussian_delta(cell.epsilon, mechanism.noise_parameter, _SENSITIVITY)
    for other in OTHER_DELTAS:
        name = f"true_epsilon_at_{other:g}"
        price[name] = gaussian_epsilon(other, mechanism.noise_parameter, _SENSITIVITY) if gaussian else None
    return price


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
