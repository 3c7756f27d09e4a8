"""Statistical tests. Each returns a p-value; a caller rejects below its stated alpha."""

import numpy as np
from scipy import special, stats


def uniformity(u):
    """Kolmogorov-Smirnov, two-sided: u is a sample of the uniform law on [0, 1]."""
    u = np.sort(np.asarray(u, dtype=np.float64))
    n = u.size
    ranks = np.arange(n)
    distance = max(np.max((ranks + 1) / n - u), np.max(u - ranks / n))
    return float(special.kolmogorov(np.sqrt(n) * distance))


def law(samples, cdf):
    """Kolmogorov-Smirnov: the samples follow the continuous law with this cdf."""
    return uniformity(cdf(np.asarray(samples, dtype=np.float64)))


def laplace_cdf(z):
    half_tail = 0.5 * np.exp(-np.abs(z))
    return np.where(z < 0, half_tail, 1.0 - half_tail)


def laplace_upper_tail(z):
    half_tail = 0.5 * np.exp(-np.abs(z))
    return np.where(z < 0, 1.0 - half_tail, half_tail)


def cell_probabilities(cells, x, s, cdf, upper_tail):
    """P(round(x + s * Z) = n) for each integer n in cells, without cancellation in the upper tail."""
    low = (cells - 0.5 - x) / s
    high = (cells + 0.5 - x) / s
    return np.where(low > 0, upper_tail(low) - upper_tail(high), cdf(high) - cdf(low))


def dithered_uniforms(n, x, s, cdf, rng):
    """Exactly uniform on [0, 1] if n = round(x + s * Z): a uniform point of the cell's share of the cdf."""
    low = cdf((n - 0.5 - x) / s)
    high = cdf((n + 0.5 - x) / s)
    return low + rng.random(np.shape(n)) * (high - low)


def cells(n, x, s, cdf, upper_tail, least_expected=25.0):
    """Chi-square on the grid cells of n = round(x + s * Z) for one x; thin cells at the ends are joined."""
    n = np.asarray(n).astype(np.int64)
    expected_of = lambda values: n.size * cell_probabilities(values, x, s, cdf, upper_tail)  # noqa: E731
    centre = int(np.rint(x))
    reach = 1
    while expected_of(np.array([float(centre + reach)]))[0] >= least_expected:
        reach += 1
    values = np.arange(centre - reach, centre + reach + 1)
    clipped = np.clip(n, values[0], values[-1])
    observed = np.bincount(clipped - values[0], minlength=values.size)
    expected = expected_of(values.astype(np.float64))
    expected[0] = n.size * cdf((values[0] + 0.5 - x) / s)
    expected[-1] = n.size * upper_tail((values[-1] - 0.5 - x) / s)
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    return float(stats.chi2.sf(statistic, values.size - 1))


def uncorrelated(a, b):
    """Two-sided test that the correlation of a and b is 0: sqrt(n) * r is standard normal."""
    a = np.asarray(a, dtype=np.float64)
    b = np.asarray(b, dtype=np.float64)
    a, b = a - a.mean(), b - b.mean()
    r = np.dot(a, b) / np.sqrt(np.dot(a, a) * np.dot(b, b))
    return float(2.0 * special.ndtr(-abs(r) * np.sqrt(a.size)))


def independent(a, b):
    """The smallest p-value, times their number, of correlations of (a, b), (a^2, b^2) and (|a|, |b|)."""
    p_values = [uncorrelated(a, b), uncorrelated(np.square(a), np.square(b)), uncorrelated(np.abs(a), np.abs(b))]
    return min(1.0, len(p_values) * min(p_values))


def independent_at_lag(samples, lag):
    """`independent` for samples[:-lag] and samples[lag:]."""
    return independent(samples[:-lag], samples[lag:])


def count(observed, trials, probability):
    """Two-sided exact binomial test of a number of events."""
    lower = stats.binom.cdf(observed, trials, probability)
    upper = stats.binom.sf(observed - 1, trials, probability)
    return float(min(1.0, 2.0 * min(lower, upper)))


def jointly_gaussian(cosines, sines):
    """Box-Muller pairs: half the squared radius is Exp(1), the angle uniform, the two uncorrelated."""
    half_square = 0.5 * (np.square(cosines) + np.square(sines))
    angle = np.arctan2(sines, cosines) / (2.0 * np.pi) + 0.5
    p_values = [uniformity(-np.expm1(-half_square)), uniformity(angle), uncorrelated(half_square, angle)]
    return min(1.0, len(p_values) * min(p_values))
