"""The guarantee of a rewriting and the mechanism that gives it, for a document of K chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hushvec._util import validate
from hushvec.accounting.composition import COMPOSITIONS, gaussian_sigma_for
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian, PrivUnit, VectorMechanism
from hushvec.noise.calibration import gaussian_epsilon

LEVELS = ("chunk", "document")
AUTO = "auto"

_PURE: dict[str, Callable[..., VectorMechanism]] = {kind.name: kind for kind in (Laplacian, L2Laplace, PrivUnit)}
CHOICE = "randomized_response"
REWRITING_MECHANISMS = (Gaussian.name, *_PURE, CHOICE)
DOCUMENT_MECHANISMS = (PrivUnit.name, CHOICE)

NOTE_NO_PUBLIC_TEXTS = "mechanism 'auto' is {mechanism!r} here: the inverter has no public texts to choose from"
NOTE_NORM_BOUND = "clip_norm is {clip_norm:g}, the stated bound on the norms of the embedder's rows, which are clipped to it"
NOTE_NO_NORM_BOUND = "clip_norm is {clip_norm:g}, the default: no bound on the norms of the embedder's rows is known"
NOTE_BASIC = "sigma is that of basic composition over the rows; epsilon is what it buys for all of them together"


def clip_norm_notes(terms: Terms, given: float | None, norm_bound: float | None) -> tuple[str, ...]:
    """Where the clip norm of additive noise comes from, if the caller did not give it."""
    if given is not None or terms.mechanism in DOCUMENT_MECHANISMS:
        return ()
    note = NOTE_NO_NORM_BOUND if norm_bound is None else NOTE_NORM_BOUND
    return (note.format(clip_norm=terms.clip_norm),)


def require_of_use(mechanism: str, *, composition: str, has_projection: bool) -> None:
    """Refuse a composition or projection that mechanism "auto" would ignore, since it stands for this mechanism."""
    if composition != "joint" and mechanism != Gaussian.name:
        raise ValueError(f"composition must be 'joint' with mechanism 'auto', got {composition!r}: it is of mechanism 'gaussian'")
    if has_projection and mechanism == CHOICE:
        raise ValueError("projection must be 'auto' or None with mechanism 'auto' and public texts: no row is released")


@dataclass(frozen=True)
class Shares:
    """The guarantee for one chunk alone."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Terms:
    """The guarantee for a whole document, checked.

    Args:
        epsilon: > 0, or infinity for no noise and no guarantee.
        delta: in (0, 1) for "gaussian"; the others do not use it, 0 is accepted.
        clip_norm: C.
        mechanism: one of REWRITING_MECHANISMS.
        composition: "joint" or "basic", for "gaussian"; epsilons of the others add up.
    """

    epsilon: float
    delta: float
    clip_norm: float
    mechanism: str
    composition: str

    def __post_init__(self) -> None:
        validate.choice("mechanism", self.mechanism, REWRITING_MECHANISMS)
        validate.choice("composition", self.composition, COMPOSITIONS)
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
        return self.mechanism != Gaussian.name

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
        if isinstance(mechanism, PrivUnit):
            return mechanism.sigma
        return None if self.is_pure else self._gaussian_sigma(chunks)

    def mechanism_for(self, chunks: int, dimension: int) -> VectorMechanism:
        """The mechanism that adds noise to rows [chunks, dimension] of one document; not for randomized response.

        Raises:
            ValueError: the noise is out of its range for so many rows.
        """
        setting: dict[str, Any] = {"dimension": dimension, "clip_norm": float(self.clip_norm), "rows_per_person": chunks}
        if self.is_pure:
            return _PURE[self.mechanism](epsilon=float(self.epsilon), **setting)
        if self.composition == "joint" or chunks == 1:
            return Gaussian(epsilon=float(self.epsilon), delta=float(self.delta), **setting)
        return EmpiricalGaussian(chosen_sigma=self._gaussian_sigma(chunks), delta=float(self.delta), **setting)

    def _gaussian_sigma(self, chunks: int) -> float:
        return gaussian_sigma_for(chunks, self.epsilon, self.delta, 2 * self.clip_norm, composition=self.composition)
