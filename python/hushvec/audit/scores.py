"""Outputs reduced to one number, large where the first input of the pair is the likelier one.

"log ratio" trusts the claimed law and is the best there is if the law holds (Neyman and Pearson 1933). The others trust
nothing: the place along the line between the two inputs, the length, and what a classifier learns from outputs set apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec.audit.targets import AuditTarget, Rows, Scores

# Above this many numbers in an output the classifier sees only the numbers, below it also their squares.
SQUARES_UP_TO = 64
_NEWTON_STEPS = 5
_LARGEST_LOGIT = 30.0


@dataclass(frozen=True)
class Statistic:
    """A name, and a function from outputs [n, width] to n numbers."""

    name: str
    of: Callable[[Rows], Scores]


def as_numbers(target: AuditTarget, outputs: Rows) -> Rows:
    """Labels as they are, vectors as float64: what statistics take."""
    if target.categorical:
        return outputs
    numbers = outputs.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise ValueError(f"outputs of {target.name} must be finite, got NaN or Inf")
    return numbers


def log_ratio_of(target: AuditTarget, outputs: Rows) -> Scores:
    """The log ratio of a target that has one."""
    scores = target.log_ratio(outputs)
    if scores is None:
        raise ValueError(f"{target.name} has no log_ratio")
    return scores


def untrained(target: AuditTarget) -> list[Statistic]:
    """The statistics that need no samples to be set up, the best first."""
    found = []
    if target.log_ratio(np.zeros((1, len(target.pair[0])), target.pair[0].dtype)) is not None:
        found.append(Statistic("log ratio", lambda outputs: log_ratio_of(target, outputs)))
    if not target.categorical:
        along = _direction(target)
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


def _direction(target: AuditTarget) -> Scores:
    """Unit vector from the second input to the first."""
    difference = target.pair[0].astype(np.float64) - target.pair[1]
    return difference / np.linalg.norm(difference)


def _frequencies(first: Rows, second: Rows) -> Callable[[Rows], Scores]:
    """ln of the ratio of frequencies, half a count added to each; 0 for labels never seen."""
    size = int(max(first.max(), second.max())) + 1
    counts = [np.bincount(labels, minlength=size) for labels in (first, second)]
    ratios = np.append(np.log((counts[0] + 0.5) / (counts[1] + 0.5)), 0.0)
    return lambda outputs: ratios[np.minimum(outputs[:, 0], size)]


def _classifier(first: Rows, second: Rows) -> Callable[[Rows], Scores]:
    """Logistic regression with a unit normal prior on the weights of standardized features, by Newton's method."""
    features = np.concatenate([_features(first), _features(second)])
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread == 0] = 1.0
    design = (features - mean) / spread
    truth = np.repeat([1.0, 0.0], [len(first), len(second)])
    weights = np.zeros(design.shape[1])
    for _ in range(_NEWTON_STEPS):
        logits = np.clip(design @ weights, -_LARGEST_LOGIT, _LARGEST_LOGIT)
        chance = 1 / (1 + np.exp(-logits))
        gradient = design.T @ (truth - chance) - weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + np.eye(len(weights))
        weights += np.linalg.solve(curvature, gradient)
    scaled: NDArray[np.float64] = weights / spread
    offset = mean @ scaled
    return lambda outputs: _times(_features(outputs), scaled) - offset


def _times(outputs: Scores, vector: Scores) -> Scores:
    """outputs @ vector in this thread: the blocks are too small for those of a BLAS."""
    product: Scores = np.einsum("ij,j->i", outputs, vector)
    return product


def _features(outputs: Scores) -> Scores:
    return np.hstack([outputs, outputs * outputs]) if outputs.shape[1] <= SQUARES_UP_TO else outputs
