"""What is audited, seen through one small protocol: two inputs, a way to release them, and what is claimed of it.

A row of `inputs` is all that one person contributes, and a row of outputs all that is released of it: a mechanism for r rows a
person takes and gives rows of r d numbers here. A label is a row of one number, its index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec.mechanisms.by_name import releases_directions

Rows = NDArray[Any]
Scores = NDArray[np.float64]
Release = Callable[[Rows], Rows]

# Inputs are this many times longer than clip_norm: a clip that is missing is seen like a noise that is too small.
STRETCH = 8.0

# Two rows of a float-grade law are equal with no more than this probability: its float32 numbers are made from 32-bit words.
FLOAT_COLLISION = 2.0**-20

# The density of an element's noise at its top, where sigma or scale is 1.
_TOPS = {"gaussian": 1 / math.sqrt(2 * math.pi), "privunit": 1 / math.sqrt(2 * math.pi), "laplacian": 0.5}


@runtime_checkable
class AuditTarget(Protocol):
    """Anything that can be audited.

    Attributes:
        name: for messages.
        epsilon: claimed.
        delta: claimed.
        categorical: whether outputs are label numbers and not vectors.
        pair: the two neighboring inputs, arrays [width].
        collision: at least the probability that two independent outputs for one input are equal; None if it is not known.
    """

    @property
    def name(self) -> str: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def categorical(self) -> bool: ...
    @property
    def pair(self) -> tuple[Rows, Rows]: ...
    @property
    def collision(self) -> float | None: ...

    def stream(self) -> Release:
        """A function from inputs [n, width] to outputs [n, width], that draws from a key stream opened now."""

    def log_ratio(self, outputs: Rows) -> Scores | None:
        """ln of how much likelier each output is for pair[0] than for pair[1] under the claimed law; None if there is no such."""


class MechanismTarget:
    """A mechanism of hushvec.mechanisms, at its worst pair of inputs: C u and -C u with u = (1, ..., 1)/sqrt(d).

    That pair is the farthest apart in L2, and in L1 too. Rows come longer than C, so that the clip is part of what is audited.

    Args:
        mechanism: has apply(x, out, generator), cost, name, dimension, clip_norm and rows_per_person.
        new_generator: opens a key stream; Generator, keyed by the operating system, is what users get.

    Raises:
        TypeError: `mechanism` has not these attributes.

    Example:
        >>> from hushvec.audit import MechanismTarget
        >>> from hushvec.mechanisms import Gaussian
        >>> target = MechanismTarget(Gaussian(epsilon=1.0, dimension=4))
        >>> target.pair[0].tolist()
        [4.0, 4.0, 4.0, 4.0]
    """

    categorical = False

    def __init__(self, mechanism: Any, new_generator: Callable[[], _core.Generator] = _core.Generator) -> None:
        missing = [name for name in ("apply", "cost", "name", "dimension") if not hasattr(mechanism, name)]
        if missing:
            raise TypeError(f"mechanism must have {', '.join(missing)}, got {validate.kind(mechanism)}")
        self.mechanism = mechanism
        self.name: str = mechanism.name
        self.epsilon, self.delta = (float(part) for part in mechanism.cost)
        self._new_generator = new_generator
        self._rows = int(getattr(mechanism, "rows_per_person", 1))
        self._clip_norm = float(getattr(mechanism, "clip_norm", 1.0))
        self._element = self._clip_norm / math.sqrt(mechanism.dimension)
        one = np.full(mechanism.dimension * self._rows, self._stretch * self._element, np.float32)
        self.pair: tuple[Rows, Rows] = (one, -one)

    @property
    def _stretch(self) -> float:
        """Directions have no length: mechanisms for them get unit rows."""
        return 1.0 if releases_directions(self.name) else STRETCH

    @property
    def collision(self) -> float | None:
        """Of an exact release: (density at its top times the grid), for every element.

        The density of PrivUnitG is at most e^epsilon times the normal one.
        """
        if getattr(self.mechanism, "grade", "float") != "exact":
            return FLOAT_COLLISION
        top = _TOPS.get(self.mechanism.law)
        if top is None:
            return None
        element = min(1.0, top * self.mechanism.grid / self.mechanism.noise_parameter)
        log_excess = self.epsilon if self.mechanism.law == "privunit" else 0.0
        return math.exp(min(0.0, log_excess + len(self.pair[0]) * math.log(element)))

    def stream(self) -> Release:
        generator = self._new_generator()

        def release(inputs: Rows) -> Rows:
            rows = inputs.reshape(-1, self.mechanism.dimension)
            values = np.empty_like(rows)
            self.mechanism.apply(rows, values, generator)
            return values.reshape(inputs.shape)

        return release

    def log_ratio(self, outputs: Rows) -> Scores | None:
        law = _LOG_RATIOS.get(self.name)
        return None if law is None else law(self.mechanism, outputs, self._element)


class LabelTarget:
    """Randomized response over the labels 0, ..., k - 1, at the pair (0, k - 1).

    Args:
        answer: takes an array of true labels, one per person, and the Generator to draw from; returns as many noisy labels.
        labels: k, at least 2.
        epsilon: claimed.
        name: for messages.
        new_generator: opens a key stream; as in `MechanismTarget`.

    Raises:
        TypeError: wrong kinds.
        ValueError: labels < 2, or epsilon not above 0.

    Example:
        >>> from hushvec.audit import LabelTarget
        >>> LabelTarget(lambda truth, generator: truth, labels=10, epsilon=1.0).pair
        (array([0]), array([9]))
    """

    categorical = True
    delta = 0.0

    def __init__(
        self,
        answer: Callable[[NDArray[np.intp], _core.Generator], Any],
        *,
        labels: int,
        epsilon: float,
        name: str = "randomized_response",
        new_generator: Callable[[], _core.Generator] = _core.Generator,
    ) -> None:
        self.labels = validate.whole_number("labels", labels, at_least=2)
        self.epsilon = validate.positive("epsilon", epsilon)
        self.name = name
        self.pair: tuple[Rows, Rows] = (np.array([0], np.intp), np.array([self.labels - 1], np.intp))
        self._answer = answer
        self._new_generator = new_generator

    @property
    def collision(self) -> float:
        """The sum of the squared probabilities is at most the largest, that of the truth."""
        return 1 / (1 + (self.labels - 1) * math.exp(-self.epsilon))

    def stream(self) -> Release:
        generator = self._new_generator()
        return lambda inputs: np.asarray(self._answer(inputs[:, 0], generator), np.intp).reshape(-1, 1)

    def log_ratio(self, outputs: Rows) -> Scores:
        first, last = (np.equal(outputs[:, 0], label[0]) for label in self.pair)
        ratio: Scores = self.epsilon * (first.astype(np.float64) - last)
        return ratio


def _gaussian(mechanism: Any, y: Scores, element: float) -> Scores:
    ratio: Scores = y.sum(axis=1) * (2 * element / mechanism.noise_parameter**2)
    return ratio


def _laplacian(mechanism: Any, y: Scores, element: float) -> Scores:
    ratio: Scores = (np.abs(y + element) - np.abs(y - element)).sum(axis=1) / mechanism.noise_parameter
    return ratio


def _l2_laplace(mechanism: Any, y: Scores, element: float) -> Scores:
    rows = y.reshape(len(y), -1, mechanism.dimension)
    longer = np.linalg.norm(rows + element, axis=2) - np.linalg.norm(rows - element, axis=2)
    ratio: Scores = longer.sum(axis=1) / mechanism.noise_parameter
    return ratio


def _privunit(mechanism: Any, y: Scores, element: float) -> Scores:
    """Only two things about an output matter: is it in the cap around u, is it in the one around -u?"""
    rows = y.reshape(len(y), -1, mechanism.dimension)
    along = rows.sum(axis=2) / (mechanism.noise_parameter * math.sqrt(mechanism.dimension))
    caps = (along >= mechanism.threshold).astype(np.float64) - (-along >= mechanism.threshold)
    ratio: Scores = caps.sum(axis=1) * mechanism.cost[0]
    return ratio


_LOG_RATIOS: dict[str, Callable[[Any, Scores, float], Scores]] = {
    "gaussian": _gaussian,
    "empirical": _gaussian,
    "laplacian": _laplacian,
    "l2_laplace": _l2_laplace,
    "privunit": _privunit,
}
