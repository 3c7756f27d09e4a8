"""Theory of the cosine against measurement, for every mechanism, with as many rows as it takes to see a difference of 1 %."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import hushvec
from hushvec.mechanisms import VectorMechanism
from hushvec.release import privatize
from hushvec.retrieval.measures import cosines, theoretical_cosine
from hushvec_studies.clinical.cohort import VERSION
from hushvec_studies.clinical.contenders import CLASSICAL, EMPIRICAL, LDP, mechanism_for
from hushvec_studies.harness.measurements import Measurement, grid, noise_seed

DIMENSIONS = (384, 1920)

# The standard error of a measured mean is at most this part of it, so that 1 % is five of them.
RELATIVE_ERROR = 0.002
# Prices for which that takes more elements than this are left out: the signal is too small to be weighed.
_MOST_ELEMENTS = 1.2e9

EPSILONS = (2.0, 5.0, 10.0, 16.0, 50.0, 200.0, 1000.0)
SIGMAS = (0.01, 0.05, 0.2, 1.0)
_OTHERS = 999
_ROWS_AT_ONCE = 20_000
_DISTINCT_ROWS = 2_000


@dataclass(frozen=True, kw_only=True)
class Agreement(Measurement):
    """One comparison; `mechanism`, `epsilon`, `sigma` and `delta` as for a cell, `seed` of rows and noise."""

    mechanism: str
    dimension: int
    epsilon: float | None
    sigma: float | None
    delta: float
    seed: int

    @property
    def key(self) -> dict[str, Any]:
        return {"version": VERSION, "agreement": dict(vars(self))}

    @property
    def label(self) -> str:
        price = f"epsilon {self.epsilon:g}" if self.epsilon is not None else f"sigma {self.sigma:g}"
        return f"cosine in {self.dimension} dimensions, {self.mechanism}, {price}"

    @property
    def rows(self) -> int:
        """As many as the standard error asks for: a cosine varies by about 1 / sqrt(d), PrivUnit's by a third of itself more."""
        expected = theoretical_cosine(self.law)
        spread = math.hypot(1 / math.sqrt(self.dimension), expected / 3 if self.mechanism.startswith("privunit") else 0.0)
        return max(_DISTINCT_ROWS, math.ceil(1.1 * (spread / (RELATIVE_ERROR * expected)) ** 2))

    @property
    def law(self) -> VectorMechanism:
        return mechanism_for(self.mechanism, others=_OTHERS, **self.fields("dimension", "epsilon", "sigma", "delta"))


def agreements(delta: float, seed: int, dimensions: tuple[int, ...] = DIMENSIONS) -> list[Agreement]:
    """All comparisons that can be made with a bearable number of rows."""
    one = partial(Agreement, delta=delta, seed=seed)
    kinds = tuple(name for name in LDP if name != CLASSICAL)
    planned = [
        cell
        for dimension in dimensions
        for cell in (
            *grid(one, dimension=(dimension,), mechanism=kinds, epsilon=EPSILONS, sigma=(None,)),
            *grid(one, dimension=(dimension,), mechanism=(EMPIRICAL,), epsilon=(None,), sigma=SIGMAS),
        )
    ]
    return [one for one in planned if one.rows * one.dimension <= _MOST_ELEMENTS]


def measure_agreement(one: Agreement) -> dict[str, Any]:
    """Release unit rows in random directions, and compare the mean cosine with what theory says of the mechanism."""
    mechanism = one.law
    rng = np.random.default_rng([one.seed, one.dimension])
    clean = rng.standard_normal((_DISTINCT_ROWS, one.dimension), dtype=np.float32)
    clean /= np.linalg.norm(clean, axis=1, keepdims=True)
    generator = hushvec.Generator.unsafe_seeded(noise_seed(one.digest))
    total = one.rows
    seen = []
    for first in range(0, total, _ROWS_AT_ONCE):
        rows = clean[np.arange(first, min(first + _ROWS_AT_ONCE, total)) % _DISTINCT_ROWS]
        seen.append(cosines(rows, privatize(rows, mechanism=mechanism, delta=one.delta, generator=generator).values))
    values = np.concatenate(seen)
    mean, theory = float(values.mean()), theoretical_cosine(mechanism)
    return {
        **one.fields("mechanism", "dimension", "epsilon", "sigma"),
        "true_epsilon": mechanism.cost[0],
        "true_delta": mechanism.cost[1],
        "rows": total,
        "cosine": mean,
        "cosine_error": float(values.std(ddof=1)) / math.sqrt(total),
        "cosine_theory": theory,
        "difference": mean / theory - 1,
    }
