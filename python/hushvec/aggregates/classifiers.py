"""Classifiers of vectors from many people's labelled rows: class centroids, and a linear classifier trained in a few noisy steps."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.arrays import as_matrix
from hushvec._native.products import inner_products
from hushvec._native.rowwise import given_rows
from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec.aggregates.models import LinearModel
from hushvec.aggregates.moments import MEAN_SHARE, PrivateRows, directions, shrunk, unit
from hushvec.aggregates.spending import Terms, group_codes
from hushvec.aggregates.totals import MOST_COLUMNS, GroupTotals, ProductTotals, blocks, moment_unit, whole_rows
from hushvec.extend import release_sheet
from hushvec.receipts import AggregateReceipt
from hushvec.receipts.aggregates import MOST_STATISTICS

_Values = NDArray[np.float64]

# Chosen on public collections (docs/aggregates.md), never on the rows at hand.
STEPS = 8
_RESIDUAL_NORM = 0.3
_HEAT = 0.5
_KEPT_ELEMENTS = 1 << 29  # of directions that are made once, not in every step: 2 GiB


@shown
class LinearClassifier(LinearModel):
    """Linear scores of the directions of rows around a mean; the label with the largest one is the answer.

    Made by `private_classifier` or `load`. What it computes is post-processing of its release: any number of questions is free.

    Args:
        classes_: the k labels.
        mean_: float32 [d], taken off every row of unit length; what is left is brought to unit length again.
        coef_: float32 [k, d], rows of unit length.
        receipt: the guarantee for the people whose rows it was made of.
        heat: probabilities are softmax(heat * scores).
    """

    def __init__(
        self, classes: Sequence[Hashable], mean: NDArray[Any], coef: NDArray[Any], receipt: AggregateReceipt, *, heat: float
    ) -> None:
        self.classes_ = _array(classes)
        self.mean_ = np.array(mean, np.float32)
        self.coef_ = np.array(coef, np.float32)
        self.receipt = receipt
        self.heat = validate.positive("heat", heat)
        if self.coef_.shape != (len(self.classes_), len(self.mean_)):
            raise ValueError(f"coef must have shape {(len(self.classes_), len(self.mean_))}, got {self.coef_.shape}")

    def decision_function(self, rows: Any) -> NDArray[np.float32]:
        """Return scores of every label, float32 [n, k], in [-1, 1]: cosines of the row's direction around the mean with the label's.

        ValueError for NaN or Inf in the rows, [n, d] or one row [d], and for another number of columns.
        """
        mean = self.mean_.astype(np.float64)
        scores = [inner_products(directions(unit(block), mean), self.coef_) for block in blocks(self._given(rows), len(self.classes_))]
        return np.concatenate([np.empty((0, len(self.classes_)), np.float32), *scores])

    def predict(self, rows: Any) -> NDArray[Any]:
        """The most likely label of each row, [n] of the dtype of `classes_`."""
        return np.asarray(self.classes_[self.decision_function(rows).argmax(axis=1)])

    def predict_proba(self, rows: Any) -> _Values:
        """Probabilities of the labels, float64 [n, k]: softmax(heat * scores). They rank well; they are not calibrated."""
        return _softmax(self.heat * self.decision_function(rows).astype(np.float64))

    def score(self, rows: Any, labels: Any) -> float:
        """The share of rows whose label is predicted."""
        return float(np.mean(self.predict(rows) == np.asarray(labels)))

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        labels = self.classes_.tolist()
        if not all(type(label) in (str, int) for label in labels):
            raise TypeError("labels must be str or int to be saved")
        return {"heat": self.heat, "classes": labels}, {"mean": self.mean_, "coef": self.coef_}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.classes_)} labels, {len(self.mean_)} columns, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(f"a classifier of {plural(len(self.classes_), 'label')}", self.receipt)


class CentroidClassifier(LinearClassifier):
    """A `LinearClassifier` whose rows of `coef_` are the directions of noisy class centroids. Made by `class_centroids` or `load`."""


def class_centroids(rows: Any, groups: Any, *, labels: Any, epsilon: float, delta: float, **terms: Any) -> CentroidClassifier:
    """A classifier by the nearest class centroid, from two passes over many people's labelled rows.

    Only directions count: rows are brought to unit length. Their mean is released first, for a twentieth of mu^2; then the sums by
    class of the rows' directions around it. No clipping norm has to be chosen. `private_classifier` is more accurate, and slower.

    Args:
        groups: n labels.
        rows, labels, epsilon, delta and terms: as in `private_sums`.

    Raises:
        ValueError, PrivacyBudgetExhaustedError: as `private_sums`; nothing is charged.

    Guarantees:
        (epsilon, delta)-DP for one person with all their rows, their labels included, exact as sampled.

    Reference:
        docs/proofs/aggregates.md; docs/aggregates.md has accuracies on two collections.
    """
    given, codes, names = _labelled(rows, groups, labels, Terms(epsilon, delta, **terms), "class centroids")
    mean = _mean_direction(given)
    weights = _class_sums(given, codes, len(names), mean, None)
    heat = _heat(given.dimension, len(names))
    return CentroidClassifier(names, mean, unit(weights), given.spending.receipt(len(given.rows)), heat=heat)


def private_classifier(
    rows: Any, groups: Any, *, labels: Any, epsilon: float, delta: float, steps: int = STEPS, **terms: Any
) -> LinearClassifier:
    """A linear classifier of many people's labelled rows: class centroids, then a few noisy steps of logistic regression.

    The mean is as in `class_centroids`; the class sums and each step get equal shares of the rest of mu^2. In a step a person adds
    r z^T, z the direction of the row and r its label's indicator less the probabilities so far, clipped to 0.3.

    Args:
        steps: how many, >= 0. The default was chosen on public data and is good from epsilon 1/4 to 8.
        rows, groups, labels, epsilon, delta and terms: as in `class_centroids`.

    Raises:
        ValueError: as `class_centroids`; more than 62 steps.

    Guarantees:
        As `class_centroids`: the matrices r z^T are of norm 0.3 at most, and are added as integers.

    Reference:
        Bassily, Smith, Thakurta (2014), for noisy gradients; docs/proofs/aggregates.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_classifier
        >>> rows, topics = np.eye(4)[[0, 1] * 2000], [0, 1] * 2000
        >>> len(private_classifier(rows, topics, labels=2, epsilon=1.0, delta=1e-5).receipt.statistics)
        10
    """
    count = validate.whole_number("steps", steps, at_least=0)
    if count > MOST_STATISTICS - 2:
        raise ValueError(f"steps must be at most {MOST_STATISTICS - 2}, got {count}")
    given, codes, names = _labelled(rows, groups, labels, Terms(epsilon, delta, **terms), "linear classifier")
    mean = _mean_direction(given)
    share = (1 - MEAN_SHARE) / (count + 1)
    heat, spending = _heat(given.dimension, len(names)), given.spending
    weights = _class_sums(given, codes, len(names), mean, share if count else None)
    fits = count and len(given.rows) * given.dimension <= _KEPT_ELEMENTS
    kept = list(_turned(given, mean, len(names))) if fits else None
    for step in range(1, count + 1):
        totals, first = ProductTotals(len(names), given.dimension, _RESIDUAL_NORM), 0
        coef = unit(weights).astype(np.float32)
        for whole in kept or _turned(given, mean, len(names)):
            residuals = _residuals(whole, codes[first : first + len(whole)], coef, heat * moment_unit(1.0))
            totals.add_whole(whole_rows(residuals, _RESIDUAL_NORM), whole)
            first += len(whole)
        purpose = f"step {step} of {count}: residuals times directions"
        noise = spending.sums(purpose, 1, weights.size, _RESIDUAL_NORM, share if step < count else None, counts=False)
        weights += spending.noisy(totals.total(), totals.unit, noise.sigma) / (_RESIDUAL_NORM * math.sqrt(step))
    return LinearClassifier(names, mean, unit(weights), spending.receipt(len(given.rows)), heat=heat)


def _labelled(
    rows: Any, groups: Any, labels: Any, terms: Terms, purpose: str
) -> tuple[PrivateRows, NDArray[np.uint32], tuple[Hashable, ...]]:
    count = len(as_matrix(given_rows("rows", rows, finite=False).values))
    codes, names = group_codes(groups, labels, count)
    if len(names) < 2:
        raise ValueError(f"labels must be at least 2, got {len(names)}")
    given = PrivateRows(rows, terms, f"{purpose} of {plural(len(names), 'label')}")
    if given.dimension > MOST_COLUMNS:
        raise ValueError(f"rows must have at most 2^17 columns, got {given.dimension}")
    return given, codes if given.kept is None else codes[given.kept], names


def _turned(given: PrivateRows, mean: _Values, classes: int) -> Iterator[NDArray[np.float32]]:
    """Directions around the mean in whole units, a block at a time."""
    for block in blocks(given.rows, classes):
        yield whole_rows(directions(unit(block), mean), 1.0)


def _class_sums(given: PrivateRows, codes: NDArray[np.uint32], classes: int, mean: _Values, share: float | None) -> _Values:
    totals, first = GroupTotals(classes, given.dimension, 1.0), 0
    for block in blocks(given.rows):
        totals.add(directions(unit(block), mean), codes[first : first + len(block)])
        first += len(block)
    noise = given.spending.sums("directions around the mean, by class", classes, given.dimension, 1.0, share, counts=False)
    return given.spending.noisy(totals.sums(), totals.unit, noise.sigma)


def _residuals(turned: NDArray[np.float32], codes: NDArray[np.uint32], weights: NDArray[np.float32], heat: float) -> _Values:
    """Indicators of the labels less their probabilities, float64 [n, k]. A row of them depends on that row alone.

    Columns are filled up to a multiple of 16, so that a vector register never holds elements of two rows.
    """
    classes = len(weights)
    scores = np.full((len(turned), -(-classes // 16) * 16), -np.inf)
    scores[:, :classes] = heat * inner_products(turned, weights).astype(np.float64)
    residuals = -_softmax(scores)
    residuals[np.arange(len(codes)), codes] += 1
    return residuals[:, :classes]


def _array(labels: Sequence[Hashable]) -> NDArray[Any]:
    """Labels as they are: numpy would make "1" of 1 beside "a", a float of 2^63 beside -1, and rows of tuples."""
    items = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if all(isinstance(item, (str, int, float)) for item in items):
        plain = np.asarray(items)
        if [(type(item), item) for item in plain.tolist()] == [(type(item), item) for item in items]:
            return plain
    array = np.empty(len(items), object)
    for place, item in enumerate(items):
        array[place] = item
    return array


def _softmax(scores: _Values) -> _Values:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _heat(dimension: int, classes: int) -> float:
    """Directions of d elements have cosines of about d^(-1/2) by chance, and the largest of k about sqrt(2 ln k) times that."""
    return _HEAT * math.sqrt(dimension * math.log(classes))


def _mean_direction(given: PrivateRows) -> _Values:
    """The noisy mean of the rows' directions, shrunk as its noise asks for: far less noise from few rows."""
    mean, noise, _ = given.mean(1.0, MEAN_SHARE, unit)
    return shrunk(mean, noise).astype(np.float32).astype(np.float64)  # as the classifier keeps it
