"""Pearson's chi-square on counts of a fixed law: the statistic has a chi-square law with cells - 1 degrees of freedom."""

import numpy as np
from scipy import stats

ALPHA = 1e-6


def p_value(counts, probabilities):
    """Of the counts under the law; expected counts should be above 10."""
    counts, probabilities = np.asarray(counts, dtype=float), np.asarray(probabilities, dtype=float)
    assert abs(probabilities.sum() - 1) < 1e-9
    expected = counts.sum() * probabilities
    assert expected.min() > 10
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)
