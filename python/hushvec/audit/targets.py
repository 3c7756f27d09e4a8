"""What is audited: two inputs, a way to release them, what is claimed; and statistics of the outputs.

A row is all that one person contributes: r d numbers for r rows a person. A label is a row of one number, its index.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hushvec.mechanisms import (  # isort: skip
    CodebookResponse, VectorMechanism, answers_with_codes, known_mechanisms, releases_directions, takes_integers,
)
from hushvec._native import _core
from hushvec._native.products import product
from hushvec._util import validate

Rows = NDArray[Any]
Scores = NDArray[np.float64]
Release = Callable[[Rows], Rows]

# Inputs are this many times longer than clip_norm: a clip that is missing is seen like a noise that is too small.
STRETCH = 8.0

# Two rows of a float-grade law are equal with no more than this probability: its float32 numbers are made from 32-bit words.
FLOAT_COLLISION = 2.0**-20

@runtime_checkable
class AuditTarget(Protocol):
    """Anything that can be audited.

    Attributes:
        name: for messages.
        epsilon, delta: claimed.
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

    That pair is the farthest apart in L2, and in L1 too. Rows of whole numbers have u = (1, 0, ..., 0). Rows come longer than C, so
    that the clip is part of what is audited.

    Args:
        mechanism: has apply(x, out, generator), cost, name, dimension, clip_norm and rows_per_person.
        new_generator: opens a key stream; Generator, keyed by the operating system, is what users get.

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
        one = np.full(mechanism.dimension, self._clip_norm / math.sqrt(mechanism.dimension))
        if takes_integers(self.name):
            one = np.zeros(mechanism.dimension)
            one[0] = math.floor(self._clip_norm)
        self._clipped: tuple[Rows, Rows] = (one, -one)  # what the mechanism makes of each row of the pair
        stretch = 1.0 if releases_directions(self.name) else STRETCH  # directions have no length
        row: Rows = np.tile(stretch * one, self._rows).astype(np.int64 if takes_integers(self.name) else np.float32)
        self.pair: tuple[Rows, Rows] = (row, np.negative(row))

    @property
    def collision(self) -> float | None:
        """For an exact release the product over the elements of (density at its top times the grid)."""
        if getattr(self.mechanism, "grade", "float") != "exact":
            return FLOAT_COLLISION
        top = getattr(self.mechanism, "density_top", None)
        if top is None:
            return None
        element = min(1.0, top * self.mechanism.grid / self.mechanism.noise_parameter)
        return math.exp(min(0.0, self.mechanism.log_density_excess() + len(self.pair[0]) * math.log(element)))

    def stream(self) -> Release:
        generator = self._new_generator()

        def release(inputs: Rows) -> Rows:
            rows = inputs.reshape(-1, self.mechanism.dimension)
            values = np.empty_like(rows)
            self.mechanism.apply(rows, values, generator)
            return values.reshape(inputs.shape)

        return release

    def log_ratio(self, outputs: Rows) -> Scores | None:
        law = _claimed_law(self.mechanism)
        if law is None:
            return None
        rows = outputs.reshape(-1, self.mechanism.dimension).astype(np.float64, copy=False)
        try:
            densities = law.log_densities(rows, np.stack(self._clipped))
        except NotImplementedError:
            return None
        return np.asarray((densities[:, 0] - densities[:, 1]).reshape(len(outputs), -1).sum(axis=1))


def _claimed_law(mechanism: Any) -> VectorMechanism | None:
    """The mechanism itself, or for an object of another class the mechanism whose name it has, with its numbers; None if unknown."""
    if isinstance(mechanism, VectorMechanism):
        return mechanism
    kind = known_mechanisms().get(mechanism.name)
    if kind is None or not all(hasattr(mechanism, name) for name in ("noise_parameter", *kind.further_numbers)):
        return None
    numbers = {name: getattr(mechanism, name) for name in ("dimension", *kind.further_numbers)}
    clip_norm, rows = getattr(mechanism, "clip_norm", 1.0), getattr(mechanism, "rows_per_person", 1)
    setting = {"clip_norm": clip_norm, "rows_per_person": rows, "epsilon": mechanism.cost[0], "released_grid": None}
    return kind.stated({**numbers, **setting, kind.parameter_name: mechanism.noise_parameter})


class LabelTarget:
    """Randomized response over the labels 0, ..., k - 1, at the pair (0, k - 1), with the claimed epsilon.

    Args:
        answer: takes an array of true labels, one per person, and the Generator to draw from; returns as many noisy labels.
        labels: k, at least 2.
        new_generator: opens a key stream; as in `MechanismTarget`.

    Example:
        >>> from hushvec.audit import LabelTarget
        >>> LabelTarget(lambda truth, generator: truth, labels=10, epsilon=1.0).pair
        (array([0]), array([9]))
    """

    categorical = True
    delta = 0.0

    def __init__(
        self, answer: Callable[[NDArray[np.intp], _core.Generator], Any], *, labels: int, epsilon: float,
        name: str = "randomized_response", new_generator: Callable[[], _core.Generator] = _core.Generator,
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


# Rows that are in no published table count as labels too, k and above: as many as their digests are told apart.
_FOREIGN_BYTES = 2

Answer = Callable[[Rows, _core.Generator], Any]


class CodebookTarget:
    """A release of rows by a public codebook, judged by the codes of the codebook that was published.

    Args:
        mechanism: of `PublicCodebook.mechanism`, with the codebook that the receipt names.
        answer: takes rows [n, d], each another person's, and the Generator; returns the released rows. None: the mechanism. What
            prepares the release belongs inside, such as a codebook fitted on its rows.
        pair: the two neighboring rows; two codes of the codebook if None.
        new_generator: opens a key stream; as in `MechanismTarget`.

    Guarantees:
        A released row that the published codebook cannot give is a label of its own, so a codebook that moves is refuted.

    Edge cases:
        With several rows per person, one is audited, at its share of epsilon. Codes released as the same row count as one label.

    Reference:
        docs/audit.md; docs/proofs/codebook.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.audit import CodebookTarget, audit_pair
        >>> from hushvec.mechanisms import PublicCodebook
        >>> codebook = PublicCodebook.of(np.eye(8, dtype=np.float32))
        >>> audit_pair(CodebookTarget(codebook.mechanism(2.0)), samples=20_000).flagged
        False
    """

    categorical = True
    delta = 0.0
    name = "codebook"

    def __init__(
        self, mechanism: CodebookResponse, answer: Answer | None = None, *, pair: tuple[Rows, Rows] | None = None,
        new_generator: Callable[[], _core.Generator] = _core.Generator,
    ) -> None:
        if not answers_with_codes(mechanism):
            raise TypeError(f"mechanism must be a hushvec.mechanisms.CodebookResponse, got {validate.kind(mechanism)}")
        self.mechanism = mechanism
        self.epsilon = mechanism.response.epsilon
        self._answer = self._released if answer is None else answer
        self._new_generator = new_generator
        # the first code that is released as a row, by the row's bytes
        self._label_of: dict[bytes, int] = {row.tobytes(): code for code, row in reversed(list(enumerate(mechanism.table)))}
        self.pair = _far_codes(mechanism) if pair is None else _checked(pair, mechanism.dimension)
        self._truths = [self._label_of[mechanism.table[code].tobytes()] for code in mechanism.codebook.encode(np.stack(self.pair))]

    @property
    def collision(self) -> float:
        """The sum of the squared probabilities is at most the largest: that of the truth, or of several codes in one label."""
        most = len(self.mechanism.table) - len(self._label_of) + 1
        law = self.mechanism.response
        return min(1.0, law.probability_of_truth + (most - 1) * law.probability_of_each_other)

    def stream(self) -> Release:
        generator = self._new_generator()

        def release(inputs: Rows) -> Rows:
            rows = np.ascontiguousarray(self._answer(inputs, generator), np.float32)
            return np.array([self._label(row) for row in rows], np.intp).reshape(-1, 1)

        return release

    def log_ratio(self, outputs: Rows) -> Scores:
        first, second = (np.equal(outputs[:, 0], label) for label in self._truths)
        ratio: Scores = self.epsilon * (first.astype(np.float64) - second)
        return ratio

    def _released(self, rows: Rows, generator: _core.Generator) -> Rows:
        values = np.empty_like(rows)
        self.mechanism.apply(rows, values, generator)
        return values

    def _label(self, row: NDArray[np.float32]) -> int:
        content = row.tobytes()
        known = self._label_of.get(content)
        if known is not None:
            return known
        digest = hashlib.blake2b(content, digest_size=_FOREIGN_BYTES).digest()
        return len(self.mechanism.table) + int.from_bytes(digest, "little")


def _far_codes(mechanism: CodebookResponse) -> tuple[Rows, Rows]:
    table, codes = mechanism.table, mechanism.codebook.codes
    other = np.flatnonzero((table != table[0]).any(axis=1))
    if not len(other):
        raise ValueError(f"mechanism must release at least two different rows, got one for all {len(table)} codes")
    return codes[0].copy(), codes[other[-1]].copy()


def _checked(pair: Any, dimension: int) -> tuple[Rows, Rows]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(f"pair must be a tuple of two rows, got {validate.kind(pair)}")
    first, second = (np.asarray(row, np.float32) for row in pair)
    for row in (first, second):
        if row.shape != (dimension,):
            raise ValueError(f"pair must hold two rows of {dimension} elements, got shape {row.shape}")
        if not np.isfinite(row).all():
            raise ValueError("pair must be finite, got NaN or Inf")
    return first, second


FEWEST_SAMPLES = 1000

# Outputs come in runs of about this many numbers: 8 MB as float64.
CHUNK_NUMBERS = 1 << 20

Progress = Callable[[int], None]


def as_target(audited: Any) -> AuditTarget:
    """A target as it is; a mechanism as a MechanismTarget, or as a CodebookTarget where it answers with public codes."""
    if isinstance(audited, AuditTarget):
        return audited
    return CodebookTarget(audited) if answers_with_codes(audited) else MechanismTarget(audited)


def parts(rows: int, width: int) -> Iterator[int]:
    """Numbers of rows that add up to `rows`, each about CHUNK_NUMBERS numbers of `width` a row."""
    largest = max(1, CHUNK_NUMBERS // width)
    for first in range(0, rows, largest):
        yield min(largest, rows - first)


# Above this many numbers in an output the classifier sees only the numbers, below it also their squares.
SQUARES_UP_TO = 64


@dataclass(frozen=True)
class Statistic:
    """A name, and a function from outputs [n, width] to n numbers."""

    name: str
    of: Callable[[Rows], Any]


def as_numbers(target: AuditTarget, outputs: Rows) -> Rows:
    """Labels as they are, vectors as float64: what statistics take."""
    if target.categorical:
        return outputs
    numbers = outputs.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise ValueError(f"outputs of {target.name} must be finite, got NaN or Inf")
    return numbers


def untrained(target: AuditTarget) -> list[Statistic]:
    """The statistics that need no samples to be set up, the best first."""
    found = []
    if target.log_ratio(np.zeros((1, len(target.pair[0])), target.pair[0].dtype)) is not None:
        found.append(Statistic("log ratio", target.log_ratio))
    if not target.categorical:
        difference = target.pair[0].astype(np.float64) - target.pair[1]
        along = difference / np.linalg.norm(difference)  # a unit vector from the second input to the first
        found.append(Statistic("projection", lambda outputs: _times(outputs, along)))
    return found


def trained(target: AuditTarget, first: Rows, second: Rows) -> list[Statistic]:
    """All statistics, `first` and `second` being outputs of the two inputs that are used for nothing else."""
    if target.categorical:
        return [*untrained(target), Statistic("label frequency", _frequencies(first[:, 0], second[:, 0]))]
    return [
        *untrained(target),
        Statistic("norm", lambda outputs: np.sqrt(np.einsum("ij,ij->i", outputs, outputs))),
        Statistic("classifier", _classifier(first, second)),
    ]


def _frequencies(first: Rows, second: Rows) -> Callable[[Rows], Scores]:
    """ln of the ratio of frequencies, half a count added to each; 0 for labels never seen."""
    size = int(max(first.max(), second.max())) + 1
    counts = [np.bincount(labels, minlength=size) for labels in (first, second)]
    ratios = np.append(np.log((counts[0] + 0.5) / (counts[1] + 0.5)), 0.0)
    return lambda outputs: ratios[np.minimum(outputs[:, 0], size)]


def _classifier(first: Rows, second: Rows) -> Callable[[Rows], Scores]:
    features = np.concatenate([_features(first), _features(second)])
    fitted = fit_logistic(features, np.repeat([True, False], [len(first), len(second)]))
    scaled: Scores = fitted.weights / fitted.spread
    offset = fitted.mean @ scaled - fitted.intercept
    return lambda outputs: _times(_features(outputs), scaled) - offset


def _times(outputs: Scores, vector: Scores) -> Scores:
    """outputs @ vector in this thread: the blocks are too small for those of a BLAS."""
    product: Scores = np.einsum("ij,j->i", outputs, vector)
    return product


def _features(outputs: Scores) -> Scores:
    return np.hstack([outputs, outputs * outputs]) if outputs.shape[1] <= SQUARES_UP_TO else outputs


# ---- logistic regression ----

RIDGE = 1.0
_STEPS = 50
_LARGEST_LOGIT = 30.0
_ENOUGH = 1e-10


@dataclass(frozen=True)
class Logistic:
    """A fitted model: logit = (features - mean) / spread @ weights + intercept, with a spread of 1 where a feature never varied."""

    mean: Scores
    spread: Scores
    weights: Scores
    intercept: float

    def logits(self, features: Scores) -> Scores:
        """Log odds of each row."""
        scaled = self.weights / self.spread
        found: Scores = product(features - self.mean, scaled) + self.intercept
        return found


def fit_logistic(features: Scores, truth: NDArray[np.bool_], *, ridge: float = RIDGE) -> Logistic:
    """The weights that minimize the negative log likelihood + ridge/2 times their squared length, but for the intercept."""
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
    design = np.concatenate([(features - mean) / spread, np.ones((len(features), 1))], axis=1)
    penalty = np.append(np.full(features.shape[1], ridge), 0.0)
    weights = np.zeros(design.shape[1])
    loss = _loss(design, truth, penalty, weights)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(product(design, weights), -_LARGEST_LOGIT, _LARGEST_LOGIT)))
        gradient = product(design.T, chance - truth) + penalty * weights
        curvature = product((design * (chance * (1 - chance))[:, None]).T, design) + np.diag(penalty + 1e-9)
        step = np.linalg.solve(curvature, gradient)
        weights, loss, gained = _shortened(design, truth, penalty, weights, step, loss)
        if gained <= _ENOUGH * max(1.0, abs(loss)):
            break
    return Logistic(mean, spread, weights[:-1], float(weights[-1]))


def _shortened(
    design: Scores, truth: NDArray[np.bool_], penalty: Scores, weights: Scores, step: Scores, loss: float
) -> tuple[Scores, float, float]:
    """Newton's step, halved until the loss falls: (weights, loss, what was gained)."""
    length = 1.0
    while length > 1e-6:
        further = weights - length * step
        reached = _loss(design, truth, penalty, further)
        if reached <= loss:
            return further, reached, loss - reached
        length /= 2
    return weights, loss, 0.0


def _loss(design: Scores, truth: NDArray[np.bool_], penalty: Scores, weights: Scores) -> float:
    logits = product(design, weights)
    return float(np.logaddexp(0.0, logits).sum() - logits[truth].sum() + 0.5 * (penalty * weights) @ weights)
