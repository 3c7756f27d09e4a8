"""Covariance and principal components of many people's rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.display import Sheet, shown
from hushvec._util.rounding import float32_up, root_up
from hushvec.aggregates.rows import PrivateRows, directions
from hushvec.aggregates.spending import Spending, Terms
from hushvec.aggregates.totals import MomentTotals, moment_unit
from hushvec.extend import release_sheet
from hushvec.mechanisms import PublicProjection
from hushvec.mechanisms.projection import signed_axes
from hushvec.receipts import AggregateReceipt

_Values = NDArray[np.float64]

MEAN_SHARE = 0.05  # of mu^2, for the mean that directions are taken from: flat between 0.01 and 0.1, docs/aggregates.md


@shown
@dataclass(frozen=True)
class PrivateCovariance:
    """The result of `private_covariance`. `print` shows its receipt in words.

    Args:
        covariance: float64 [d, d], symmetric, without negative eigenvalues.
        mean: float64 [d].
        count: how many rows there are, with noise where that is private.
        standard_error: of the noise of an element beside the diagonal, before negative eigenvalues became 0.
        receipt: the guarantee.
    """

    covariance: _Values
    mean: _Values
    count: float
    standard_error: float
    receipt: AggregateReceipt

    def __repr__(self) -> str:
        return f"PrivateCovariance({len(self.mean)} x {len(self.mean)}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(f"a mean and a covariance of {len(self.mean):,} elements", self.receipt)


@shown
@dataclass(frozen=True)
class PrivatePCA:
    """The result of `private_pca`. `print` shows its receipt in words.

    Args:
        projection: the map, accepted wherever a `PublicProjection` is.
        variances: float64 [m]: of the rows' directions along each component, with the noise's expected part taken off.
        receipt: the guarantee of the map.
    """

    projection: PublicProjection
    variances: _Values
    receipt: AggregateReceipt

    def __repr__(self) -> str:
        return f"PrivatePCA({self.projection!r}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        sizes = f"{self.projection.dimension} -> {self.projection.output_dimension}"
        return release_sheet(f"a map {sizes}, digest {self.projection.digest[:16]}", self.receipt)


def shrunk(vector: _Values, noise: float) -> _Values:
    """A vector with noise of that deviation, shrunk towards 0 as the noise asks for: James and Stein (1961)."""
    return vector * max(0.0, 1 - len(vector) * noise**2 / max(float(vector @ vector), noise**2))


def private_covariance(rows: Any, *, epsilon: float, delta: float, clip_norm: float = 1.0, **terms: Any) -> PrivateCovariance:
    """Mean and covariance of many people's clipped rows, from one release.

    Args:
        rows, clip_norm, epsilon, delta and terms: as in `private_sums`.

    Raises:
        ValueError: as `private_sums`; more than 2^26 rows; nothing is charged.

    Guarantees:
        (epsilon, delta)-DP for one person, exact as sampled. A person with r rows moves the sum of x x^T by at most r C^2 in
        Frobenius norm (sqrt(2) r C^2 under "replace-one"), the sums by r C (2 r C). The moments get the share of mu^2 that makes the
        Frobenius error of the covariance smallest where the mean is as long as it can be.

    Reference:
        Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss" (2014), algorithm 1; docs/proofs/aggregates.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_covariance
        >>> rows = np.random.default_rng(0).normal(size=(5000, 8)).astype(np.float32)
        >>> private_covariance(rows, clip_norm=4.0, epsilon=1.0, delta=1e-5).covariance.shape
        (8, 8)
    """
    norm = validate.clip_norm(clip_norm)
    given = PrivateRows(rows, Terms(epsilon, delta, **terms), "mean and covariance")
    moments = given.total(partial(_moments, clip_norm=norm))
    share = 1 / (1 + math.sqrt(given.dimension) / 2)
    given.plan_mean(norm, share)
    sigma = given.spending.moments("second moments of rows", given.dimension, norm, None)
    mean, _, count = given.mean(norm, share)
    total = noisy_moments(given.spending, moments, norm, sigma)
    values, vectors = np.linalg.eigh(total / max(count, 1.0) - np.outer(mean, mean))
    covariance = (vectors * np.maximum(values, 0)) @ vectors.T
    error = sigma / math.sqrt(2) / max(count, 1.0)
    return PrivateCovariance((covariance + covariance.T) / 2, mean, count, error, given.spending.receipt(given.count))


def private_pca(
    rows: Any, *, components: int, epsilon: float, delta: float, clip_norm: float = 1.0, whiten: bool = False, **terms: Any
) -> PrivatePCA:
    """Principal components of many people's rows: a map for `PublicProjection`'s places, fitted on the private rows themselves.

    The mean is released first; the components are those of the directions of the rows around it, which need no clipping norm.

    Args:
        components: m, how many are kept, 1 <= m <= d.
        whiten: also divide each component by its spread.
        rows, epsilon, delta, terms, and clip_norm for the mean: as in `private_sums`.

    Raises:
        ValueError: as `private_covariance`; more components than columns.

    Guarantees:
        (epsilon, delta)-DP for one person, for the mean and the moments together; the map is post-processing. What the same people
        then spend behind the map comes on top: give both calls one budget and one adjacency, or compose their receipts.

    Edge cases:
        As many components as the noise allows: with n rows those of variance well above sigma sqrt(d) / n. More are noise, and spend
        the accuracy of what comes behind the map.

    Reference:
        Dwork, Talwar, Thakurta, Zhang (2014), algorithm 1; docs/proofs/aggregates.md.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> from hushvec.aggregates import private_pca
        >>> rows = np.random.default_rng(0).normal(size=(5000, 32)).astype(np.float32)
        >>> fitted = private_pca(rows, components=8, epsilon=1.0, delta=1e-5, clip_norm=8.0, adjacency="replace-one")
        >>> hv.privatize(fitted.projection.transform(rows), epsilon=8.0, normalize=True, mechanism="privunit").values.shape
        (5000, 8)
    """
    given = PrivateRows(rows, Terms(epsilon, delta, **terms), "principal components")
    return components_of(given, validate.clip_norm(clip_norm), *checked_components(components, given.dimension, whiten))


def checked_components(components: int, columns: int, whiten: bool = False) -> tuple[int, bool]:
    """How many components, and whether to whiten. ValueError for more components than columns."""
    wanted = validate.whole_number("components", components, at_least=1)
    if wanted > columns:
        raise ValueError(f"components must be at most {columns}, the columns of rows, got {wanted}")
    return wanted, validate.flag("whiten", whiten)


def components_of(given: PrivateRows, clip_norm: float, wanted: int, whiten: bool) -> PrivatePCA:
    """As `private_pca`, for all that is left to spend."""
    mean, _, count = given.mean(clip_norm, MEAN_SHARE)
    moments = given.total(partial(_moments_of_directions, mean=mean))
    sigma = given.spending.moments("second moments of directions around the mean", given.dimension, 1.0, None)
    total = noisy_moments(given.spending, moments, 1.0, sigma) / max(count, 1.0)
    values, vectors = np.linalg.eigh(total)
    axes = vectors[:, ::-1][:, :wanted].T
    # A component found through noise of spectral norm 2 s is an eigenvalue s^2 / value too long: Baik, Ben Arous, Peche (2005).
    level = sigma * math.sqrt(given.dimension / 2) / max(count, 1.0)
    variances = np.maximum(values[::-1][:wanted], 2 * level)
    variances = (variances + np.sqrt(variances**2 - 4 * level**2)) / 2
    scales = (1 / np.sqrt(wanted * variances)).astype(np.float32) if whiten else None
    projection = PublicProjection(mean.astype(np.float32), signed_axes(axes).astype(np.float32), scales)
    return PrivatePCA(projection, variances, given.spending.receipt(given.count))


def _moments(rows: Any, codes: Any, *, clip_norm: float) -> NDArray[np.int64]:
    totals = MomentTotals(rows.shape[1], clip_norm)
    totals.add(rows)
    return totals.total()


def _moments_of_directions(rows: Any, codes: Any, *, mean: _Values) -> NDArray[np.int64]:
    return _moments(directions(rows, mean), codes, clip_norm=1.0)


def noisy_moments(spending: Spending, total: NDArray[np.int64], clip_norm: float, sigma: float) -> _Values:
    """Sums x x^T of `MomentTotals` with noise: sigma on the diagonal, sigma / sqrt(2), rounded up, beside it; symmetric."""
    unit, upper = moment_unit(clip_norm) ** 2, np.triu_indices(len(total), 1)
    noisy = np.zeros(total.shape)
    noisy[upper] = spending.noisy(total[upper], unit, beside_diagonal(sigma))
    noisy += noisy.T
    noisy[np.diag_indices(len(total))] = spending.noisy(np.diagonal(total), unit, sigma)
    return noisy


def beside_diagonal(sigma: float) -> float:
    """The smallest float32 of at least sigma / sqrt(2)."""
    return float(float32_up(Fraction(root_up(Fraction(sigma) ** 2 / 2))))
