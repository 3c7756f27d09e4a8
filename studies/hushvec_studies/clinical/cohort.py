"""Patients' vectors: a population to draw them from, or the rows of a file.

A drawn vector has a part that all patients share, a part that those with the same diagnosis share, and a part of its own:

    x = sqrt(mean) m + sqrt(diagnosis) g_j + sqrt(1 - mean - diagnosis) z,   then |x| = 1

with m and g_1, g_2, ... of length 1 and z of mean square length 1, all of them random directions, hence nearly orthogonal. The shares
are what cosines are made of: two patients have about `mean` in common, two of one diagnosis about `mean + diagnosis`. z lies in
`own_dimension` directions; with few of them even two random patients have much in common. With twin > 0 patients come in pairs whose
own parts have the cosine `twin`: relatives, second visits, copied notes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushvec.extend.helpers import product

# Raised when a change of this package changes what is measured: results of older versions are then measured anew.
VERSION = 1
DIMENSION = 1920

# Cosine of the mean directions of two populations that are not one: another hospital, another country, another year.
ELSEWHERE_AGREES = 0.8

# What each stream of random numbers is for.
_DIRECTIONS, _PATIENTS, _PUBLIC, _ELSEWHERE, _ELSEWHERE_PUBLIC = range(5)


class Source(Hashable, Protocol):
    """Where patients come from."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def key(self) -> Mapping[str, Any]:
        """Everything that the rows depend on, ready for JSON."""

    def patients(self, count: int) -> NDArray[np.float32]:
        """[count, d], unit rows: those whose vectors are released."""

    def public(self, count: int, patients: int) -> NDArray[np.float32]:
        """[m, d], unit rows of people who need no protection and are none of `patients(patients)`: `count` of a drawn population, of
        recorded rows all there are."""


@dataclass(frozen=True, kw_only=True)
class Strengths:
    """How alike the patients of a population are.

    Args:
        mean: share of the squared length that all have in common, in [0, 1).
        diagnosis: share that those of one diagnosis have in common besides; mean + diagnosis < 1.
        diagnoses: how many there are, all as frequent.
        own_dimension: directions of the patients' own parts; None: all.
        twin: cosine of the own parts within a pair of patients, in [0, 1); 0: no pairs.
    """

    mean: float = 0.0
    diagnosis: float = 0.0
    diagnoses: int = 20
    own_dimension: int | None = None
    twin: float = 0.0

    @property
    def own(self) -> float:
        """Share of the squared length that is a patient's own."""
        return 1.0 - self.mean - self.diagnosis


# From patients who have nothing in common to such as are hard to tell apart even without noise.
COHORTS: dict[str, Strengths] = {
    "distinct": Strengths(),
    "clinical": Strengths(mean=0.5, diagnosis=0.2, own_dimension=400),
    "alike": Strengths(mean=0.7, diagnosis=0.2, own_dimension=400),
    "few directions": Strengths(mean=0.5, diagnosis=0.2, own_dimension=40),
    "pairs": Strengths(mean=0.5, diagnosis=0.2, own_dimension=400, twin=0.8),
}


@dataclass(frozen=True, kw_only=True)
class Population:
    """A population of given strengths. The same seed gives the same directions, and the same patients for the same count.

    Example:
        >>> population = Population(name="ward", strengths=Strengths(mean=0.5, diagnosis=0.2), dimension=64, seed=1)
        >>> rows = population.patients(400)
        >>> rows.shape, round(float((rows @ rows.T).mean()), 1)
        ((400, 64), 0.5)
    """

    name: str
    strengths: Strengths
    dimension: int = DIMENSION
    seed: int = 2025

    def __post_init__(self) -> None:
        own = self.strengths.own_dimension
        if own is not None and own > self.dimension:
            raise ValueError(f"own_dimension must be at most {self.dimension}, the dimension, got {own}")

    @property
    def key(self) -> dict[str, Any]:
        return {"strengths": asdict(self.strengths), "dimension": self.dimension, "seed": self.seed}

    def patients(self, count: int) -> NDArray[np.float32]:
        return self._drawn(count, self._directions, _PATIENTS)

    def public(self, count: int, patients: int) -> NDArray[np.float32]:
        return self._drawn(count, self._directions, _PUBLIC)

    def elsewhere(self, count: int) -> NDArray[np.float32]:
        """Patients of another population: its mean has a cosine of 0.8 with this one's, all other directions are new."""
        rng = self._rng(_ELSEWHERE)
        other = _Directions.drawn(self.strengths, self.dimension, rng)
        here = self._directions.mean
        aside = _unit(other.mean - (other.mean @ here) * here)
        mean = ELSEWHERE_AGREES * here + np.sqrt(1 - ELSEWHERE_AGREES**2) * aside
        return self._drawn(count, _Directions(mean, other.diagnoses, other.own), _ELSEWHERE_PUBLIC)

    @cached_property
    def _directions(self) -> _Directions:
        return _Directions.drawn(self.strengths, self.dimension, self._rng(_DIRECTIONS))

    def _drawn(self, count: int, directions: _Directions, stream: int) -> NDArray[np.float32]:
        rng = self._rng(stream)
        strengths = self.strengths
        diagnoses = rng.integers(0, strengths.diagnoses, count)
        own = rng.standard_normal((count, len(directions.own) if directions.own is not None else self.dimension))
        if strengths.twin > 0:
            # row 2i + 1 keeps a part of row 2i, and its diagnosis
            first, second = own[: count - count % 2 : 2], own[1::2]
            second *= np.sqrt(1 - strengths.twin**2)
            second += strengths.twin * first
            diagnoses[1::2] = diagnoses[: count - count % 2 : 2]
        own /= np.sqrt(own.shape[1])
        spread = own if directions.own is None else product(own, directions.own)
        mixed = (
            np.sqrt(strengths.mean) * directions.mean
            + np.sqrt(strengths.diagnosis) * directions.diagnoses[diagnoses]
            + np.sqrt(strengths.own) * spread
        )
        return _unit(mixed).astype(np.float32)

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream])


@dataclass(frozen=True)
class _Directions:
    """mean [d], diagnoses [g, d], unit vectors; own [r, d], orthonormal, or None for the whole space."""

    mean: NDArray[np.float64]
    diagnoses: NDArray[np.float64]
    own: NDArray[np.float64] | None

    @classmethod
    def drawn(cls, strengths: Strengths, dimension: int, rng: np.random.Generator) -> _Directions:
        mean = _unit(rng.standard_normal(dimension))
        diagnoses = _unit(rng.standard_normal((strengths.diagnoses, dimension)))
        if strengths.own_dimension is None:
            return cls(mean, diagnoses, None)
        return cls(mean, diagnoses, np.linalg.qr(rng.standard_normal((dimension, strengths.own_dimension)))[0].T)


class Recorded:
    """Rows of an .npy file: patients evenly over it, and as public rows those that are left over.

    Rows are float [n, d] and are brought to unit length.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is no such file; NaN, Inf or a row of zeros, which has no direction.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = Path(path).name
        self._rows, digest = _read(Path(path))
        self.key: dict[str, Any] = {"file": digest, "public": "the other rows"}
        self.dimension = self._rows.shape[1]

    def __len__(self) -> int:
        return len(self._rows)

    def patients(self, count: int) -> NDArray[np.float32]:
        return self._rows[self._chosen(count)]

    def public(self, count: int, patients: int) -> NDArray[np.float32]:
        left = np.ones(len(self._rows), bool)
        left[self._chosen(patients)] = False
        return self._rows[left]

    def _chosen(self, count: int) -> NDArray[np.intp]:
        if count > len(self._rows):
            raise ValueError(f"patients must be at most {len(self._rows)}, the rows of {self.name}, got {count}")
        return np.arange(count) * len(self._rows) // count


def _read(path: Path) -> tuple[NDArray[np.float32], str]:
    """Unit rows of a file, and its SHA-256."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    try:
        rows = np.load(path, allow_pickle=False)
    except ValueError as mistake:
        raise ValueError(f"{path} is not an .npy file: {mistake}") from None
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind != "f" or rows.shape[1] < 2 or len(rows) < 2:
        raise ValueError(f"{path} must hold a float array of at least two rows and two columns")
    if not np.isfinite(rows).all():
        raise ValueError(f"{path}: row {int((~np.isfinite(rows)).any(axis=1).argmax())} must be finite")
    wide = rows.astype(np.float64)
    empty = ~wide.any(axis=1)
    if empty.any():
        raise ValueError(f"{path}: row {int(empty.argmax())} must not be zero")
    return _unit(wide).astype(np.float32), digest


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
