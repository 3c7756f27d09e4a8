"""`clip_and_noise_gradients`: structures, the sum against the textbook and Opacus, the law of the noise, refusals."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from evidence.reference.checks import dithered_uniforms, uniformity
from hushvec.training import clip_and_noise_gradients
from hushvec.training.gradients import sigma_of
from training.small_runs import clipped_sum, seeded

ALPHA = 1e-6   # of every statistical test below


def gradients_of(rows, *shapes, seed=0, scale=1.0):
    source = torch.Generator().manual_seed(seed)
    return [scale * torch.randn(rows, *shape, generator=source) for shape in shapes]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("structure", ["array", "list", "tuple", "dict"])
def test_the_structure_comes_back_without_the_examples(library, structure):
    parts = gradients_of(5, (3, 2), (3,))
    if library == "numpy":
        parts = [part.numpy() for part in parts]
    given = {"array": parts[0], "list": parts, "tuple": tuple(parts), "dict": dict(zip("ab", parts))}[structure]
    noisy = clip_and_noise_gradients(given, 1.0, 1.0)
    found = {"array": lambda: [noisy], "dict": lambda: list(noisy.values())}.get(structure, lambda: list(noisy))()
    assert type(noisy) is type(given)
    for part, source in zip(found, parts):
        assert type(part) is type(source)
        assert tuple(part.shape) == tuple(source.shape[1:]) and "float32" in str(part.dtype)


@pytest.mark.parametrize("clipping", ["auto", "exact", "estimated"])
@pytest.mark.parametrize("clip_norm", [0.1, 1.0, 30.0])
def test_without_noise_it_is_the_sum_of_clipped_gradients(clipping, clip_norm):
    parts = gradients_of(17, (6, 5), (7,), (), scale=1.5)
    found = clip_and_noise_gradients(parts, clip_norm, 0.0, clipping=clipping)
    loosest = 0.97 if clipping == "estimated" else 1 - 2**-19
    expected, loose = clipped_sum(parts, clip_norm), clipped_sum(parts, clip_norm * loosest)
    assert all((part.shape, part.dtype) == (other.shape, torch.float32) for part, other in zip(found, expected))
    distance = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(found, expected)))
    allowed = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(loose, expected))) * 17**0.5 + 17 * clip_norm * 2e-5
    assert distance <= allowed


def test_the_divisor_is_a_constant_of_the_caller():
    parts = gradients_of(8, (50,))
    whole = clip_and_noise_gradients(parts, 1.0, 1.0, generator=seeded(1))
    shared = clip_and_noise_gradients(parts, 1.0, 1.0, divisor=16.0, generator=seeded(1))
    assert torch.equal(whole[0] / 16, shared[0])


GRID = 2.0**-4   # of sigma from 0.5 to 1


def noise_of(multiplier, clip_norm, size, **arguments):
    """What is added to a sum that is known exactly: rows of one coordinate each, far below the clip norm."""
    rows = np.zeros((3, size), np.float32)
    return clip_and_noise_gradients(rows, clip_norm, multiplier, **arguments).astype(np.float64)


def rejected(noise, sigma):
    """Two-sided chi-square test of the variance and Kolmogorov-Smirnov test of the law of rounded noise, each at ALPHA / 2."""
    n = len(noise)
    statistic = float((noise**2).sum()) / sigma**2
    tail = min(stats.chi2.cdf(statistic, n), stats.chi2.sf(statistic, n))
    u = dithered_uniforms(np.rint(noise / GRID), 0.0, sigma / GRID, stats.norm.cdf, np.random.default_rng(1))
    return 2 * tail < ALPHA / 2 or uniformity(u) < ALPHA / 2


def test_the_noise_on_the_sum_is_gaussian_of_the_stated_deviation():
    """n = 200,000 coordinates; the tests reject 5 % less, 5 % more, half (2 C for C) and a Laplace law of the same variance."""
    noise, sigma = noise_of(1.3, 0.7, 200_000), 1.3 * 0.7
    assert not rejected(noise, sigma)
    assert rejected(noise, sigma * 0.95) and rejected(noise, sigma * 1.05) and rejected(noise, sigma * 2)
    assert rejected(np.random.default_rng(0).laplace(scale=sigma / math.sqrt(2), size=len(noise)), sigma)


def test_noise_is_new_in_every_call_and_coordinate():
    first, second = noise_of(1.0, 1.0, 20_000), noise_of(1.0, 1.0, 20_000)
    for pair in ((first, second), (first[1:], first[:-1])):
        # n = 20,000 pairs: under independence the correlation has deviation 0.0071
        assert abs(np.corrcoef(*pair)[0, 1]) < stats.norm.isf(ALPHA / 2) / math.sqrt(len(pair[0]))
    parts = clip_and_noise_gradients([np.zeros((2, 5_000), np.float32), np.zeros((2, 5_000), np.float32)], 1.0, 1.0)
    assert abs(np.corrcoef(*parts)[0, 1]) < stats.norm.isf(ALPHA / 2) / math.sqrt(5_000)


def test_an_empty_sample_is_noise_alone_where_it_is_allowed():
    parts = [torch.zeros(0, 4, 5), torch.zeros(0, 30)]
    noisy = clip_and_noise_gradients(parts, 1.0, 2.0, allow_empty=True)
    assert [tuple(part.shape) for part in noisy] == [(4, 5), (30,)]
    assert all(bool((part != 0).any()) for part in noisy)  # an element alone is 0 with probability 0.05: the grid is sigma / 8
    with pytest.raises(ValueError, match=r"per_example_grads\[0\] must have at least 1 example, got 0"):
        clip_and_noise_gradients(parts, 1.0, 2.0)


def test_sigma_is_never_below_the_product():
    from fractions import Fraction

    for multiplier, clip_norm in [(0.1, 0.3), (1.1, 0.7), (3.0, 1.0), (1e-3, 1e3)]:
        sigma = sigma_of(multiplier, clip_norm)
        exact = Fraction(multiplier) * Fraction(clip_norm)
        assert exact <= Fraction(sigma) <= exact * (1 + Fraction(1, 2**52))


ROWS = torch.ones(4, 3)
BAD = {
    "no array": ("text", 1.0, 1.0, {}, TypeError, "per_example_grads must be a numpy array or a torch tensor, got str"),
    "empty list": ([], 1.0, 1.0, {}, ValueError, "at least 1 array"),
    "scalar": (torch.tensor(1.0), 1.0, 1.0, {}, ValueError, "at least 1 dimension"),
    "integers": (torch.ones(4, 3, dtype=torch.int64), 1.0, 1.0, {}, TypeError, "int64"),
    "rows differ": ([ROWS, torch.ones(5, 3)], 1.0, 1.0, {}, ValueError, r"per_example_grads\[1\] must have 4 examples"),
    "nan": ({"w": ROWS, "b": ROWS * math.nan}, 1.0, 1.0, {}, ValueError, r"per_example_grads\['b'\] must be finite, got nan in row 0"),
    "inf": (ROWS * math.inf, 1.0, 1.0, {}, ValueError, "finite"),
    "clip norm": (ROWS, 0.0, 1.0, {}, ValueError, "clip_norm must be > 0, got 0.0"),
    "clip norm kind": (ROWS, True, 1.0, {}, TypeError, "clip_norm must be a number, got bool"),
    "noise": (ROWS, 1.0, -1.0, {}, ValueError, "noise_multiplier must be >= 0, got -1.0"),
    "noise nan": (ROWS, 1.0, math.nan, {}, ValueError, "noise_multiplier must be finite"),
    "divisor": (ROWS, 1.0, 1.0, {"divisor": 0}, ValueError, "divisor must be > 0"),
    "clipping": (ROWS, 1.0, 1.0, {"clipping": "batch"}, ValueError, "clipping must be one of"),
    "generator": (ROWS, 1.0, 1.0, {"generator": 5}, TypeError, "generator must be"),
    "allow_empty": (ROWS[:0], 1.0, 1.0, {"allow_empty": 1}, TypeError, "allow_empty must be True or False"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    gradients, clip_norm, noise, arguments, kind, text = BAD[case]
    with pytest.raises(kind, match=text):
        clip_and_noise_gradients(gradients, clip_norm, noise, **arguments)


def test_gradients_that_the_units_of_a_sum_do_not_hold():
    """A clip norm that "does not clip" drops them one and all: refused above 2^20, and without noise said below."""
    rows = np.full((2, 3), 1e-3, np.float32)
    with pytest.raises(ValueError, match=r"clip_norm must be <= 2\^20 for gradients, got 1073741824\.0"):
        clip_and_noise_gradients(rows, 2.0**30, 0.0)
    with pytest.warns(UserWarning, match=r"gradients of at most 0\.001 are rounded to multiples of 0\.0312"):
        assert not clip_and_noise_gradients(rows, 2.0**20, 0.0).any()
    assert clip_and_noise_gradients(rows, 1.0, 0.0) == pytest.approx(2e-3, rel=1e-3)
