"""Discrete noise follows its law: chi-square against exact probabilities, alpha = 1e-6 a test.

n = 10^7 samples (10^6 by default). Weights are computed to 40 digits and normalized by their sum over all integers of weight 1e-60
or more. Cells of less than 25 expected samples are joined. Beyond the steps (5 sigmas, 13 scales), which few samples reach, samples
are made from words of the tail alone, n = 65,536 of them, and held against the law given that they lie there.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from evidence.reference import discrete
from evidence.reference.sizes import scaled

ALPHA = 1e-6
SAMPLES = scaled(1_000_000, 10_000_000)
DRAW = {"gaussian": hv.discrete_gaussian, "laplacian": hv.discrete_laplacian}
LAWS = tuple(DRAW)


def weights(law, scale, first, last):
    """w(first), ..., w(last), 0 <= first, to 40 digits: each from the one before, by exact quotients."""
    with mpmath.workdps(60):
        s = mpmath.mpf(scale)
        if law == "laplacian":
            return [mpmath.exp(-k / s) for k in range(first, last + 1)]
        return [mpmath.exp(-(k * k) / (2 * s * s)) for k in range(first, last + 1)]


def probabilities(law, scale, reach):
    """P(-reach), ..., P(reach), the ends with all that lies beyond."""
    furthest = math.ceil((17 if law == "gaussian" else 140) * scale) + 1
    with mpmath.workdps(60):
        half = weights(law, scale, 0, max(reach, furthest))
        total = half[0] + 2 * mpmath.fsum(half[1:])
        one_side = [float(w / total) for w in half[:reach]] + [float(mpmath.fsum(half[reach:]) / total)]
    return np.array(one_side[:0:-1] + one_side)


def chi_square(observed, expected):
    """The p-value; cells are joined outwards until 25 are expected."""
    order = np.argsort(-expected)
    group = np.cumsum(expected[order[::-1]])[::-1]
    few = int(np.sum(expected[order] >= 25.0))
    head, tail = order[:few], order[few:]
    o, e = list(observed[head]), list(expected[head])
    if tail.size and group[few] >= 25.0:
        o, e = [*o, observed[tail].sum()], [*e, expected[tail].sum()]
    elif tail.size:
        o[-1] += observed[tail].sum()
        e[-1] += expected[tail].sum()
    statistic = float(np.sum((np.array(o) - np.array(e)) ** 2 / np.array(e)))
    return float(stats.chi2.sf(statistic, len(o) - 1))


def p_value(law, scale, samples):
    reach = max(2, math.ceil((6 if law == "gaussian" else 14) * scale))
    observed = np.bincount(np.clip(samples, -reach, reach) + reach, minlength=2 * reach + 1)
    return chi_square(observed, samples.size * probabilities(law, scale, reach))


def drawn(law, scale, count=SAMPLES, seed=301):
    return DRAW[law](count, scale, generator=hv.Generator.unsafe_seeded(seed))


@pytest.mark.parametrize("scale", (0.3, 0.7, 1.0, 2.5, 4.0, 32.0, 100.0, 300.1))
@pytest.mark.parametrize("law", LAWS)
def test_law(law, scale):
    assert p_value(law, scale, drawn(law, scale)) > ALPHA


@pytest.mark.parametrize("scale", (2.0**-6, 2.0**-4))
@pytest.mark.parametrize("law", LAWS)
def test_small_scales_give_zeros(law, scale):
    """P(k != 0) is below e^-15 for the Laplacian of 2^-4, and below e^-63 for the others."""
    assert np.count_nonzero(drawn(law, scale, 100_000)) <= (3 if (law, scale) == ("laplacian", 2.0**-4) else 0)


@pytest.mark.parametrize("scale", (3.2e5, 2.0**30 * 1.3, 2.0**40))
@pytest.mark.parametrize("law", LAWS)
def test_large_scales(law, scale):
    """k / scale has the continuous law, but for steps of 1 / scale (Kolmogorov-Smirnov); low bits are uniform (chi-square)."""
    samples = drawn(law, scale)
    continuous = stats.norm.cdf if law == "gaussian" else stats.laplace.cdf
    assert stats.kstest(samples / scale, continuous).pvalue > ALPHA
    assert stats.chisquare(np.bincount(samples % 64, minlength=64)).pvalue > ALPHA


@pytest.mark.parametrize("scale", (100.0, 300.1, 3.2e5))
@pytest.mark.parametrize("law", LAWS)
def test_beyond_the_steps(law, scale, hooks):
    reference = discrete.Law(law, scale)
    end = reference.h << reference.b
    words = np.arange(reference.ends[-2], reference.ends[-1], dtype=np.uint32)
    source = hv.Generator.unsafe_seeded(302)
    samples = hooks.discrete_of_words("portable", law == "laplacian", scale, source, words, np.zeros_like(words))
    beyond = samples[(samples >= end) | (samples < -end)]
    assert beyond.size > 2000
    cells = 40
    width = max(1, math.ceil(scale * (0.02 if law == "gaussian" else 0.1)))
    edges = end + width * np.arange(cells + 1)
    given = np.diff(continuous_tail(law, scale, edges)) if scale > 1000 else discrete_tail(law, scale, end, width, cells)
    for side in (beyond[beyond >= 0], -1 - beyond[beyond < 0]):
        observed = np.bincount(np.minimum((side - end) // width, cells - 1), minlength=cells)
        expected = side.size * np.append(given[:-1], 1 - given[:-1].sum())
        assert chi_square(observed, expected) > ALPHA


def continuous_tail(law, scale, edges):
    """P(end <= k < edge | k >= end) by the continuous law at edge - 1/2: off by 1e-6 or less from a scale of 10^5 on."""
    upper = stats.norm.sf if law == "gaussian" else stats.laplace.sf
    return 1 - upper((edges - 0.5) / scale) / upper((edges[0] - 0.5) / scale)


def discrete_tail(law, scale, end, width, cells):
    half = np.array([float(w) for w in weights(law, scale, end, end + width * cells + math.ceil(30 * scale))])
    return np.array([half[i * width : (i + 1) * width].sum() for i in range(cells)]) / half.sum()


def test_wrong_laws_are_rejected():
    """One per cent of the scale; 0 counted for both signs; normals rounded, which other samplers start from; envelopes alone."""
    rng = np.random.default_rng(303)
    count = 1_000_000
    for law in LAWS:
        for scale in (0.3, 4.0, 100.0):
            assert p_value(law, scale, drawn(law, 1.01 * scale, 10_000_000)) < ALPHA
            samples = drawn(law, scale, count)
            assert p_value(law, scale, np.repeat(samples, 1 + (samples == 0))) < ALPHA
    assert p_value("gaussian", 0.3, np.rint(0.3 * rng.standard_normal(count)).astype(np.int64)) < ALPHA
    reference = discrete.Law("gaussian", 0.3)
    words = rng.integers(0, 2**32, 10_000_000)
    place = np.searchsorted(reference.ends, words, side="right")
    accepted = np.array(reference.steps * 2 + [reference.h])[place[place <= 4 * reference.h]]
    assert np.mean(np.abs(accepted) >= reference.h) > 1e-6   # P(|k| >= 3) is e^-50
    assert np.abs(drawn("gaussian", 0.3, 10_000_000)).max() < reference.h
