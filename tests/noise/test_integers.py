"""Rows of whole numbers: the clip against Python's integers, at every size, the sampler's noise, and sums beyond the dtype."""

import math
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from evidence.reference.sizes import scaled
from hushvec.noise.discrete import clip_and_add, whole_rows

POWERS = {"l1": 1, "l2": 2}
LAWS = {"l1": "discrete_laplacian", "l2": "discrete_gaussian"}
SAMPLERS = {"l1": hv.discrete_laplacian, "l2": hv.discrete_gaussian}
NO_NOISE = 2.0**-6  # 0 but for one sample in 10^27
ENDS = (-(2**63), 2**63 - 1)


def clipped_exactly(row, clip_norm, norm):
    """floor(|x| C / N) with the sign of x, for a row of norm N > C; by whole numbers alone."""
    power, bound = POWERS[norm], Fraction(clip_norm) ** POWERS[norm]
    total = sum(abs(element) ** power for element in row)
    if total <= bound:
        return row
    sizes = [math.floor(abs(element) ** power * bound / total) for element in row]
    sizes = sizes if norm == "l1" else [math.isqrt(size) for size in sizes]
    assert sum(size**power for size in sizes) <= bound
    return [-size if element < 0 else size for element, size in zip(row, sizes)]


def clipped(rows, clip_norm, norm):
    values = np.array(rows, np.int64)
    return clip_and_add(values, clip_norm, LAWS[norm], NO_NOISE, hv.Generator.unsafe_seeded(5)).tolist()


@pytest.mark.parametrize("norm", POWERS)
@pytest.mark.parametrize("bits", [1, 4, 20, 31, 32, 53, 54, 62, 63])
def test_the_clip_is_exact(norm, bits):
    rng = np.random.default_rng((1, bits))
    for dimension in (1, 2, 3, 7):
        rows = rng.integers(-(2**bits), 2**bits - 1, (6, dimension), np.int64, endpoint=True)
        rows[0] = rows[0, 0]  # equal sizes: quotients that are whole
        rows[1, 0] = ENDS[bits % 2] if bits == 63 else 2**bits - 1
        length = math.sqrt(sum(element**2 for element in rows[2].tolist()))
        for clip_norm in (1.0, 2.0 ** (bits / 2), 2.0**bits, max(1.0, length), max(1.0, math.nextafter(length, 0)), 2.0**66):
            assert clipped(rows, clip_norm, norm) == [clipped_exactly(row, clip_norm, norm) for row in rows.tolist()]


@pytest.mark.parametrize(
    ("row", "clip_norm", "norm", "expected"),
    [
        ([3, 4], 5.0, "l2", [3, 4]),  # on the sphere
        ([3, 4], math.nextafter(5.0, 0), "l2", [2, 3]),  # just outside
        ([-3, 4], math.nextafter(7.0, 0), "l1", [-2, 3]),
        ([6, -8], 5.0, "l2", [3, -4]),  # a float a little below 3 would make it 2
        ([2**62, 2**62], 2.0**62, "l2", [3260954456333195553] * 2),  # 2^62 / sqrt(2)
        ([-(2**63), 0], 2.0**63, "l2", [-(2**63), 0]),
        ([-(2**63), 1], 2.0**63, "l2", [-(2**63) + 1, 0]),
        ([-(2**63)], 10.9, "l1", [-10]),
        ([2**63 - 1], 2.0**63, "l1", [2**63 - 1]),
    ],
)
def test_decisions_at_the_edge(row, clip_norm, norm, expected):
    assert clipped([row], clip_norm, norm) == [expected] == [clipped_exactly(row, clip_norm, norm)]


def test_a_clip_in_floats_is_noticed():
    """What the float64 of the same formula gives for these rows is not what the exact clip gives."""
    rows = np.array([[2**53 + 1, 1], [6 * 10**15, 8 * 10**15 + 1]])
    lengths = np.sqrt((rows.astype(float) ** 2).sum(axis=1, keepdims=True))
    naive = np.trunc(rows * np.minimum(1, 1e16 / lengths)).astype(np.int64).tolist()
    assert naive != clipped(rows, 1e16, "l2")


@pytest.mark.parametrize(("dtype", "ends"), [("int64", ENDS), ("int32", (-(2**31), 2**31 - 1))])
def test_sums_beyond_the_dtype_are_its_ends(dtype, ends):
    x = np.array([ends] * 200, dtype)
    noisy = clip_and_add(x, 2.0**65, "discrete_gaussian", 100.0, hv.Generator.unsafe_seeded(5))
    for column, end in enumerate(ends):
        share = float((noisy[:, column] == end).mean())
        assert 0.35 < share < 0.65  # half and the share of 0; 4.2 standard deviations of 200 rows, from a fixed seed
        assert abs(noisy[:, column].astype(float) - end).max() < 1000


def test_noise_is_that_of_the_sampler():
    """Blocks, dtypes and strides change nothing, and x stays as it is."""
    x = np.arange(-60_000, 60_000).reshape(400, 300)
    for rows in (x, x.astype(np.int32), np.asfortranarray(x), x[:, ::-1][:, ::-1]):
        before = rows.copy()
        noisy = clip_and_add(rows, 1e9, "discrete_laplacian", 7.0, hv.Generator.unsafe_seeded(5))
        noise = hv.discrete_laplacian(rows.shape, 7.0, generator=hv.Generator.unsafe_seeded(5))
        assert (noisy == x + noise).all() and noisy.dtype == rows.dtype and (rows == before).all()


def rows_of_any_kind(rng, dimension, dtype):
    """Sizes of any number of bits, in five patterns: as drawn, equal, sparse, with the lower end, powers of two."""
    top = np.iinfo(dtype).bits - 1
    bits, shape = int(rng.integers(1, top + 1)), (int(rng.integers(1, 6)), dimension)
    rows = rng.integers(-(2**bits), 2**bits - 1, shape, np.int64, endpoint=True)
    pattern = rng.integers(5)
    if pattern == 1:
        rows[:] = rows[:, :1]
    elif pattern == 2:
        rows *= rng.random(shape) < 0.1
    elif pattern == 3:
        rows[rng.random(shape) < 0.1] = -(2**top)
    elif pattern == 4:
        rows = np.sign(rows) << rng.integers(0, bits, shape)
    return rows.clip(-(2**top), 2**top - 1).astype(dtype)


@pytest.mark.parametrize("norm", POWERS)
def test_a_release_is_the_exact_clip_and_the_samplers_noise(norm):
    rng = np.random.default_rng(POWERS[norm])
    for turn in range(scaled(150, 3000)):
        x = rows_of_any_kind(rng, int(rng.choice([1, 2, 3, 17, 64, 300])), ("int64", "int32")[turn % 2])
        sizes = np.abs(x[0].astype(float)) ** POWERS[norm]
        length = sizes.sum() ** (1 / POWERS[norm])
        clip_norm = max(1.0, rng.choice([length, math.nextafter(length, 0), length / 2, length // 4, length * rng.random(), 1e300]))
        scale = rng.choice([NO_NOISE, 1.5, 3.2e5, 2.0**40])
        noise = SAMPLERS[norm](x.shape, scale, generator=hv.Generator.unsafe_seeded(turn)).tolist()
        least, most = int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max)
        short = [clipped_exactly(row, clip_norm, norm) for row in x.tolist()]
        expected = [[min(max(a + b, least), most) for a, b in zip(row, more)] for row, more in zip(short, noise)]
        for same in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1]):
            noisy = clip_and_add(same, clip_norm, LAWS[norm], scale, hv.Generator.unsafe_seeded(turn))
            assert noisy.dtype == x.dtype and noisy.tolist() == expected


def test_threads_change_nothing(core):
    rng = np.random.default_rng(3)
    x = rng.integers(-1000, 1000, (2_100, 301))
    found = []
    before = core.get_num_threads()
    for threads in (1, 2, 3):
        core.set_num_threads(threads)
        found.append(clip_and_add(x, 9_000.0, "discrete_gaussian", 3.2e5, hv.Generator.unsafe_seeded(5)))
    core.set_num_threads(before)
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.parametrize("clip_norm", [0.5, math.inf, math.nan])
def test_the_core_refuses_other_clip_norms(clip_norm):
    with pytest.raises(ValueError, match=r"^clip_norm must be finite and >= 1, got "):
        clip_and_add(np.ones((2, 2), np.int64), clip_norm, "discrete_gaussian", 1.0, hv.Generator.unsafe_seeded(5))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.ones((2, 2)), TypeError, "x must be a numpy array of int64 or int32 .*'gaussian' takes floats.*, got ndarray of float64"),
        (np.ones((2, 2), np.int16), TypeError, "got ndarray of int16"),
        (np.ones((2, 2), np.uint64), TypeError, "got ndarray of uint64"),
        (np.ones((2, 2), bool), TypeError, "got ndarray of bool"),
        (np.ones((2, 2), ">i8"), TypeError, "got ndarray of >i8"),
        (np.ma.ones((2, 2), np.int64), TypeError, "got MaskedArray of int64"),
        ([[1, 2]], TypeError, "got list"),
        (np.ones((2, 2, 2), np.int64), ValueError, "x must have 1 or 2 dimensions, got 3"),
    ],
)
def test_what_is_not_taken(x, error, message):
    with pytest.raises(error, match=message):
        whole_rows("x", x)
