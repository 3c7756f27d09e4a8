"""clip and clip_and_noise: values, layouts, in place, edge sizes."""

import math

import numpy as np
import pytest

import hushvec as hv

DTYPES = ["float32", "float64", "float16"]


def seeded(seed=1):
    return hv.Generator.unsafe_seeded(seed)


def some_rows(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def apply_clip(x, out=None):
    return hv.clip(x, 1.0, out=out)


def apply_noise(x, out=None):
    return hv.clip_and_noise(x, 1.0, 0.5, out=out, generator=seeded())


def apply_float_noise(x, out=None):
    return hv.clip_and_noise(x, 1.0, 0.5, exact=False, out=out, generator=seeded())


FUNCTIONS = [apply_clip, apply_noise, apply_float_noise]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("clip_norm", [0.25, 1.0, 3.7])
def test_long_rows_come_down_to_the_norm(dtype, clip_norm):
    x = some_rows((20, 384), dtype)
    norms = np.linalg.norm(hv.clip(x, clip_norm).astype(np.float64), axis=1)
    assert (norms <= clip_norm).all()
    np.testing.assert_allclose(norms, clip_norm, rtol=2e-3 if dtype == "float16" else 2e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_short_rows_come_back_bit_for_bit(dtype):
    x = some_rows((20, 384), dtype)
    np.testing.assert_array_equal(hv.clip(x, 1000.0), x)


def test_directions_are_kept():
    x = some_rows((5, 100), "float64")
    clipped = hv.clip(x, 1.0)
    np.testing.assert_allclose(clipped / clipped[:, :1], x / x[:, :1], rtol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0,), (1,), (5, 1), (1, 1), (2, 255), (2, 257), (2, 100_000), (100_000,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_edge_sizes(function, shape, dtype):
    result = function(some_rows(shape, dtype))
    assert result.shape == shape
    assert result.dtype == dtype
    assert np.isfinite(result).all()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_one_dimensional_array_is_one_row(function):
    x = some_rows((1, 300), "float32")
    np.testing.assert_array_equal(function(x[0]), function(x)[0])


def layouts(x):
    wide = np.full((x.shape[0], 2 * x.shape[1] + 3), np.nan, x.dtype)
    every_other = wide.copy()[:, : 2 * x.shape[1] : 2]
    every_other[:] = x
    padded = wide.copy()[:, : x.shape[1]]
    padded[:] = x
    skipped = np.repeat(x, 2, axis=0)[::2]
    return {
        "padded rows": padded,
        "every other column": every_other,
        "every other row": skipped,
        "fortran": np.asfortranarray(x),
        "backwards": np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
        "transposed": np.ascontiguousarray(x.T).T,
    }


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["padded rows", "every other column", "every other row", "fortran", "backwards", "transposed"])
def test_strides_change_nothing(function, dtype, layout):
    x = some_rows((7, 130), dtype)
    arranged = layouts(x)[layout]
    expected = function(x)
    np.testing.assert_array_equal(function(arranged), expected)
    out = layouts(np.zeros_like(x))[layout]
    assert function(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    function(arranged, out=arranged)
    np.testing.assert_array_equal(arranged, expected)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_result_is_new_and_contiguous(function):
    x = some_rows((4, 64), "float32")
    before = x.copy()
    result = function(np.asfortranarray(x))
    assert result.flags.c_contiguous
    assert not np.shares_memory(function(x), x)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_broadcast_and_read_only_input(function):
    x = np.broadcast_to(some_rows(32, "float32"), (4, 32))
    np.testing.assert_array_equal(function(x), function(x.copy()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_values_lie_on_the_grid(dtype, core):
    sigma, grid = core.exact_grid(0.3, 1.0)
    y = hv.clip_and_noise(some_rows((8, 384), dtype), 1.0, sigma, generator=seeded())
    steps = y.astype(np.float64) / grid
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert not np.signbit(y[y == 0]).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_is_the_sum_of_clip_and_noise_rounded(dtype, core):
    x = some_rows((30, 384), dtype)
    sigma, grid = core.exact_grid(0.3, 1.0)
    y = hv.clip_and_noise(x, 1.0, sigma, generator=seeded(5)).astype(np.float64)
    noise = hv.gaussian_noise(x.shape, sigma, generator=seeded(5)).astype(np.float64)
    assert np.abs(y - (hv.clip(x, 1.0) + noise)).max() <= 0.5 * grid * (1 + 1e-3)


def test_float_grade_is_the_plain_sum():
    x = some_rows((30, 384), "float32")
    y = hv.clip_and_noise(x, 1.0, 0.3, exact=False, generator=seeded(5))
    np.testing.assert_allclose(y, hv.clip(x, 1.0) + hv.gaussian_noise(x.shape, 0.3, generator=seeded(5)), atol=1e-6)


def test_float_grade_without_noise_clips():
    x = some_rows((5, 64), "float32")
    np.testing.assert_array_equal(hv.clip_and_noise(x, 1.0, 0.0, exact=False), hv.clip(x, 1.0))


def test_threads_change_nothing():
    x = some_rows((300, 384), "float32")
    try:
        hv.set_num_threads(1)
        alone = apply_noise(x)
        hv.set_num_threads(2)
        np.testing.assert_array_equal(apply_noise(x), alone)
    finally:
        hv.set_num_threads(0)


def test_a_scale_releases_as_the_laplacian_mechanism_does():
    x = np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32)
    scale = hv.laplace_scale(4.0, 2.0 * math.sqrt(40))
    released = hv.clip_and_noise(x, 1.0, scale=scale, generator=seeded(3))
    expected = hv.privatize(x, epsilon=4.0, mechanism="laplacian", generator=seeded(3))
    assert np.array_equal(released, expected.values)
    assert not np.array_equal(released, hv.clip_and_noise(x, 1.0, scale, generator=seeded(3)))


@pytest.mark.parametrize(
    ("noise", "text"), [({}, "neither"), ({"sigma": 1.0, "scale": 1.0}, "sigma must be left out"), ({"scale": "1"}, "^scale must be ")]
)
def test_one_of_sigma_and_scale(noise, text):
    with pytest.raises(TypeError, match=text):
        hv.clip_and_noise(np.ones(4, np.float32), 1.0, **noise)
