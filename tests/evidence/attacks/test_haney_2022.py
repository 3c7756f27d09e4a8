"""Haney, Desfontaines, Hartman, Shrestha, Hay, "Precision-based attacks and interval refining: how to break, then fix, differential
privacy on finite computers" (2022): the precision of an output.

Floating-point numbers are spaced more widely the larger they are. A sum of data and noise has low bits that depend on how large the
data were, and so has rounding to a grid that was chosen by the data. The attack looks only at the precision of an output, the exponent
of its last bit, and so also finds what hides the holes that Mironov's attack looks for.

Every test: n outputs of each of two neighbours; statistic: the epsilon that counts of "precision at least 2^j", for every j, prove
(Clopper-Pearson, Bonferroni), alpha = 1e-6.
"""

import numpy as np
import pytest

import hushvec as hv
from evidence.attacks import naive
from evidence.attacks.evidence import counts, epsilon_shown
from evidence.reference.sizes import scaled
from evidence.statistical.draws import generator

N = scaled(30_000, 3_000_000)
EPSILON, DELTA = 1.0, 1e-5
ZERO = 2000

# Rows of a pair: 0 and C; the smallest subnormal; the largest number; beside an edge of the clip; all magnitudes in one row.
PAIRS = {
    "zero, one": lambda kind: ([0.0], [1.0]),
    "subnormal, one": lambda kind: ([kind.smallest_subnormal], [1.0]),
    "tiny, largest": lambda kind: ([kind.tiny], [kind.max]),
    "thirds, edge": lambda kind: ([-1 / 3], [1 - kind.epsneg]),
    "mixed": lambda kind: ([1.0, kind.tiny, 0.0], [kind.tiny, kind.max / 4, -kind.eps]),
}


def precision(y):
    """The exponent of the last bit that is set: y is an odd multiple of 2^precision; ZERO for 0."""
    mantissa, exponent = np.frexp(y)
    whole = np.abs(np.ldexp(mantissa, 53).astype(np.int64))
    last = np.where(whole == 0, 1, whole & -whole)
    return np.where(whole == 0, ZERO, exponent - 53 + np.log2(last.astype(np.float64)).astype(np.int64))


EVENTS = [lambda y, j=j: precision(y) >= j for j in (*range(-160, -60, 10), *range(-60, 12), ZERO)]


def shown(first, second, delta=0.0):
    """What the precisions of these outputs [n, d] prove, every column as a separate attack."""
    columns = range(first.shape[1])
    sides = [np.concatenate([counts(EVENTS, side[:, column]) for column in columns]) for side in (first, second)]
    return epsilon_shown(*sides, len(first), delta=delta)


def test_precision():
    y = np.array([0.0, 1.0, 0.75, 6.0, 2.0**-149, -(2.0**-30) * 5])
    assert precision(y).tolist() == [ZERO, 0, -2, 1, -149, -30]


def test_float_noise_is_broken():
    """Laplace noise in float64, claimed epsilon = 1; at least 5 is proved."""
    rng = np.random.default_rng(1)
    first, second = (naive.laplace(np.full((N, 1), x), 2 / EPSILON, rng) for x in (0.0, 1.0))
    assert shown(first, second) > 5


def test_rounding_to_a_grid_that_the_input_chose_is_broken():
    """Rounding hides the low bits of the sum and shows the binade of the input; at least 5 is proved of a claimed 1."""
    rng = np.random.default_rng(2)
    first, second = (naive.on_a_grid_of_the_input(np.full((N, 1), x), 2 / EPSILON, rng) for x in (0.01, 1.0))
    assert shown(first, second) > 5


@pytest.mark.parametrize("noise", ["gaussian_noise", "laplacian_noise", "l2_laplace_noise"])
def test_noise_added_by_hand_is_broken_as_the_documents_say(noise):
    stream = generator(3)
    sides = [np.full((N, 1), x, np.float32) for x in (0.0, 1.0)]
    first, second = (hv.add_noise(x, getattr(hv, noise)(x.shape, 2.0, generator=stream)) for x in sides)
    assert shown(first.astype(np.float64), second.astype(np.float64)) > 5


def rows_of(row, dtype):
    """n copies of a row, in this dtype, torch's where numpy has none."""
    if dtype != "bfloat16":
        return np.tile(np.array(row, dtype), (N, 1))
    torch = pytest.importorskip("torch")
    return torch.tensor(row, dtype=torch.bfloat16).repeat(N, 1)


def limits(dtype):
    if dtype != "bfloat16":
        return np.finfo(dtype)
    torch = pytest.importorskip("torch")
    kind = torch.finfo(torch.bfloat16)
    return type("Limits", (), dict(smallest_subnormal=2.0**-133, tiny=kind.tiny, max=kind.max, eps=kind.eps, epsneg=kind.eps / 2))


def doubles(values):
    return values.astype(np.float64) if isinstance(values, np.ndarray) else values.double().numpy()


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("mechanism", ["laplacian", "gaussian"])
def test_privatize_withstands_it(mechanism, dtype, pair):
    """And both inputs are released on one grid, which the receipt names."""
    first, second = PAIRS[pair](limits(dtype))
    stream = generator(4)
    sides, grids = [], set()
    for row in (first, second):
        values, receipt = hv.privatize(rows_of(row, dtype), epsilon=EPSILON, delta=DELTA, mechanism=mechanism, generator=stream)
        sides.append(doubles(values))
        grids.add(receipt.grid)
    assert shown(*sides, delta=receipt.delta) <= EPSILON
    (grid,) = grids
    assert all(np.array_equal(side / grid, np.rint(side / grid)) for side in sides)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_privunit_withstands_it(dtype):
    """Rows of two numbers: their directions are opposite, their lengths 2^0 and the smallest normal number's."""
    tiny = max(float(limits(dtype).tiny), 2.0**-99)
    stream = generator(5)
    sides = [
        doubles(hv.privatize(rows_of(row, dtype), epsilon=EPSILON, mechanism="privunit", generator=stream).values)
        for row in ([1.0, 0.5], [-tiny, 0.0])
    ]
    assert shown(*sides) <= EPSILON


@pytest.mark.parametrize("sigma", [2.0**-30, 0.01, 1.0, 300.0])
def test_exact_clip_and_noise_withstands_it(sigma):
    """At every ratio of noise to clip norm. The claim at sigma is epsilon at delta = 1e-5."""
    first, second = noisy_by_clip(sigma, exact=True)
    assert shown(first, second, DELTA) <= hv.gaussian_epsilon(DELTA, sigma, 1.0)


@pytest.mark.parametrize(("sigma", "proved"), [(1.0, 5.0), (8.0, 3.0)])
def test_clip_and_noise_in_floating_point_is_broken_as_its_documents_say(sigma, proved):
    """exact=False on float64 rows, which claim an epsilon of 4.4 and of 0.4."""
    first, second = noisy_by_clip(sigma, exact=False)
    assert shown(first, second, DELTA) > proved > hv.gaussian_epsilon(DELTA, sigma, 1.0)


def noisy_by_clip(sigma, exact):
    stream = generator(6)
    return [hv.clip_and_noise(np.full((N, 1), x), 1.0, sigma, exact=exact, generator=stream) for x in (0.0, 1.0)]
