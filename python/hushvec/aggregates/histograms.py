"""How many people fall into each of some public bins, and quantiles of the lengths of their rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.arrays import as_matrix
from hushvec._native.rowwise import given_rows, require_finite
from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec.aggregates.spending import People, Spending, Terms, group_codes
from hushvec.aggregates.totals import blocks, on_host
from hushvec.extend import release_sheet
from hushvec.receipts import AggregateReceipt

_Values = NDArray[np.float64]

# Lengths from 2^-16 to 2^16, four bins to a factor of two: more bins would add more noise than they remove of a quantile's error.
_BINS_OF_AN_OCTAVE = 4
_OCTAVES = 16
_SURE = 4.0  # deviations of its noise from which a bin counts as one that has rows: 129 empty ones reach it with a chance of 0.4 %
_EDGES = np.exp2(np.arange(-_OCTAVES * _BINS_OF_AN_OCTAVE, _OCTAVES * _BINS_OF_AN_OCTAVE + 1) / _BINS_OF_AN_OCTAVE)


@shown
@dataclass(frozen=True)
class PrivateHistogram:
    """The result of `private_histogram`. `print` shows its receipt in words.

    Args:
        counts: float64 [k]: how many rows have each label, plus noise, hence not whole and perhaps negative.
        labels: the k public labels.
        sigma: standard deviation of the noise of every count.
        receipt: the guarantee.
    """

    counts: _Values
    labels: tuple[Hashable, ...]
    sigma: float
    receipt: AggregateReceipt

    def __repr__(self) -> str:
        return f"PrivateHistogram({len(self.labels)} labels, sigma={self.sigma:.3g}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(f"counts of {plural(len(self.labels), 'label')}", self.receipt)


def private_histogram(values: Any, labels: Any, *, epsilon: float, delta: float, **terms: Any) -> PrivateHistogram:
    """How many of many people's values are equal to each public label.

    Args:
        values: n elements, each one of labels.
        labels: the public list of all labels, or k for 0 ... k - 1.
        epsilon, delta, and in `terms` adjacency, people, rows_per_person, budget, generator: `hushvec.aggregates.Terms`.

    Guarantees:
        (epsilon, delta)-DP for one person, exact as sampled: a person with r values moves the counts by at most r in L2, sqrt(2) r
        under "replace-one". ValueError for a value that is not in labels; nothing is charged.

    Reference:
        Dwork and Roth (2014), section 3.3; docs/proofs/aggregates.md.

    Example:
        >>> from hushvec.aggregates import private_histogram
        >>> private_histogram(["tea", "milk", "tea"], ["milk", "tea"], epsilon=1.0, delta=1e-5).counts.shape
        (2,)
    """
    given_terms = Terms(epsilon, delta, **terms)
    size = len(values)
    codes, names = group_codes(values, labels, size, "values")
    spending = Spending(given_terms, f"counts of {plural(len(names), 'label')}")
    kept = _kept(given_terms, spending, size)
    sigma = spending.counts("counts of each label", len(names), None)
    counts = np.bincount(codes[kept], minlength=len(names))
    spending.charge()
    return PrivateHistogram(spending.noisy_counts(counts, sigma), names, sigma, spending.receipt(int(counts.sum())))


@shown
@dataclass(frozen=True)
class PrivateNormQuantiles:
    """The result of `private_norm_quantiles`. `print` shows its receipt in words.

    Args:
        probabilities: float64 [q]: the share of rows that is to be at most so long.
        norms: float64 [q]: lengths, upper ends of bins, which are 19 % wide.
        receipt: the guarantee.
    """

    probabilities: _Values
    norms: _Values
    receipt: AggregateReceipt

    def __repr__(self) -> str:
        return f"PrivateNormQuantiles({dict(zip(self.probabilities.tolist(), self.norms.tolist()))})"

    def _sheet(self) -> Sheet:
        found = ", ".join(f"{norm:.4g} at {share:g}" for share, norm in zip(self.probabilities, self.norms))
        return release_sheet(f"quantiles of lengths: {found}", self.receipt)


def private_norm_quantiles(
    rows: Any, probabilities: Sequence[float] = (0.5, 0.9, 0.99), *, epsilon: float, delta: float, **terms: Any
) -> PrivateNormQuantiles:
    """Quantiles of the L2 norms of many people's rows, so that nobody has to guess a `clip_norm`.

    Args:
        probabilities: shares of the rows, > 0 and < 1.
        rows, epsilon, delta and terms: as in `private_sums`.

    Guarantees:
        As `private_histogram` of the rows' bins, of which this is post-processing. ValueError for NaN or Inf in rows; nothing is
        charged.

    Edge cases:
        Norms are looked for in [2^-16, 2^16]; shorter and longer ones count as these. Lengths that fewer than 4 deviations of the
        noise of a count share (15 rows at epsilon = 1, delta = 1e-5) are not seen: of few rows, the outermost are left out.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_norm_quantiles
        >>> rows = np.random.default_rng(0).normal(size=(5000, 64)).astype(np.float32)
        >>> bool(6 < private_norm_quantiles(rows, [0.5], epsilon=1.0, delta=1e-5).norms[0] < 12)
        True
    """
    validate.instance("probabilities", probabilities, Sequence, "a sequence of numbers")
    shares = np.array([validate.probability("probabilities", share) for share in probabilities])
    given = given_rows("rows", rows, finite=False)
    given_terms = Terms(epsilon, delta, **terms)
    spending = Spending(given_terms, "quantiles of lengths")
    matrix = as_matrix(given.values)
    require_finite("rows", matrix)
    kept = _kept(given_terms, spending, len(matrix))
    lengths = np.concatenate([np.zeros(0), *(_norms(block) for block in blocks(matrix))])
    bins = np.clip(np.searchsorted(_EDGES, lengths[kept]), 0, len(_EDGES) - 1)
    sigma = spending.counts("rows in each bin of lengths", len(_EDGES), None)
    spending.charge()
    counts = spending.noisy_counts(np.bincount(bins, minlength=len(_EDGES)), sigma)
    counts[counts < min(_SURE * sigma, counts.max())] = 0
    below = np.cumsum(counts)  # of each share, the first bin up to which at least that share of the counts lies:
    places = (below >= shares[:, None] * below[-1]).argmax(axis=1)
    return PrivateNormQuantiles(shares, _EDGES[places], spending.receipt(len(bins)))


def _kept(terms: Terms, spending: Spending, rows: int) -> Any:
    """The rows that enter, as an index."""
    return slice(None) if terms.people is None else People(spending.rows_per_person).kept(terms.people, rows)


def _norms(block: Any) -> _Values:
    # in C order, so that each is a function of its row alone: in another order numpy adds the squares of one row unlike those of two
    with np.errstate(over="ignore"):
        lengths: _Values = np.linalg.norm(np.asarray(on_host(block), np.float64, order="C"), axis=1)
    return lengths
