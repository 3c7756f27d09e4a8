"""int8 releases hold the reference's integers on their own grid, saturated: every backend, cipher, dtype and layout."""

import numpy as np
import pytest

import hushvec as hv
from evidence.exact.calls import Call, once_for_all_layouts, outputs
from evidence.exact.rows import around_the_ball
from evidence.reference import chacha, privunit, release
from evidence.reference.sizes import scaled
from evidence.reference.stream import ROUNDS
from hushvec._native import _core

SEED = 77
CIPHERS = pytest.mark.parametrize("cipher", ("chacha20", "aes256"))
DTYPES = ("float16", "bfloat16", "float32", "float64")
# s = 9.6; 12.8, where both terms of the grid are equal; 1.28 and 1.0, where clip_norm sets it; values that reach both ends
NOISE = ((1.0, 0.3), (1.0, 0.2), (1.0, 0.02), (1.0, 2.0**-6), (0.5, 1.9), (2.0**-7, 1.9))


@once_for_all_layouts
def expected_of(call):
    stream = {"key": chacha.seed_key(call.seed), "rounds": ROUNDS[call.cipher]}
    if call.function == "int8":
        return release.int8_values(call.rows, call.clip_norm, call.sigma, **stream)
    return privunit.int8_values(call.rows, *_core.privunit_law(call.epsilon), call.sigma, **stream)


def assert_exact(backend, calls):
    for call, got in zip(calls, outputs(backend, calls), strict=True):
        assert str(got.dtype).removeprefix("torch.") == "int8"
        np.testing.assert_array_equal(got, expected_of(call), err_msg=repr(call))


@CIPHERS
def test_gaussian(backend, cipher):
    rng = np.random.default_rng(81)
    assert_exact(
        backend,
        [
            Call(
                around_the_ball(rng, 9, dimension, clip_norm, dtype),
                dtype, "int8", clip_norm=clip_norm, sigma=sigma, seed=SEED, cipher=cipher,
            )
            for dtype in DTYPES
            for dimension in scaled((1, 31, 257), (1, 31, 257, 768))
            for clip_norm, sigma in NOISE
        ],
    )  # fmt: skip


@CIPHERS
def test_privunit(backend, cipher):
    """The threshold is 3.0 at epsilon 8, 29 at 500: there it sets the grid."""
    rng = np.random.default_rng(82)
    assert_exact(
        backend,
        [
            Call(
                rng.standard_normal((18, dimension)).astype(dtype),
                dtype, "privunit_int8", epsilon=epsilon, sigma=0.3, seed=SEED, cipher=cipher,
            )
            for dtype in ("float32", "float64")
            for dimension in (1, 17, 40)
            for epsilon in (0.5, 8.0, 500.0)
        ],
    )  # fmt: skip


@pytest.mark.parametrize("layout", ("every_other_column", "fortran", "wide_rows", "torch"))
@pytest.mark.parametrize("function", ("int8", "privunit_int8"))
def test_layouts(backend, layout, function):
    rng = np.random.default_rng(83)
    assert_exact(
        backend,
        [
            Call(
                around_the_ball(rng, 7, dimension, 1.0, "float32"),
                "float32", function, sigma=0.3, seed=SEED, layout=layout, threads=2,
            )
            for dimension in (1, 15, 60)
        ],
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@CIPHERS
def test_it_is_the_float_release_on_this_grid_divided_by_it(dtype, cipher):
    """A clip norm of 2^21 g makes g the grid of a float release too; rows that were clipped before stay as they are."""
    x = np.random.default_rng(84).standard_normal((300, 257)).astype(dtype)
    x[0] = 0
    for clip_norm, sigma in NOISE:
        values = np.empty(x.shape, np.int8)
        g = _core.clip_and_noise(x, clip_norm, sigma, values, hv.Generator.unsafe_seeded(SEED, cipher=cipher), "gaussian", True)
        floats = np.empty_like(x)
        wide = _core.clip_and_noise(
            hv.clip(x, clip_norm), g * 2.0**21, sigma, floats, hv.Generator.unsafe_seeded(SEED, cipher=cipher), "gaussian", True
        )
        assert wide == g == _core.int8_grid(sigma, clip_norm)[1]
        np.testing.assert_array_equal(values, np.clip(floats / g, -127, 127))


def test_both_ends_saturate():
    """Rows along one axis, X = 64 and -64, s = 15.2: of 2 * 10^6 values each about 29 are beyond their end, and are it."""
    x = np.ones((4_000_000, 1), np.float32)
    x[::2] = -1
    values = np.empty(x.shape, np.int8)
    sigma = 0.2375
    assert _core.clip_and_noise(x, 1.0, sigma, values, hv.Generator.unsafe_seeded(1), "gaussian", True) == 2.0**-6
    floats = np.empty_like(x)
    _core.clip_and_noise(hv.clip(x, 1.0), 2.0**15, sigma, floats, hv.Generator.unsafe_seeded(1), "gaussian", True)
    n = floats * 64
    assert (n < -127).sum() > 5
    assert (n > 127).sum() > 5
    assert (values[n > 127] == 127).all()
    assert (values[n < -127] == -127).all()
    assert (values.min(), values.max()) == (-127, 127)


@pytest.mark.parametrize("size", range(1, 70))
def test_sizes_around_the_lanes(size):
    x = np.random.default_rng(size).standard_normal((2, size)).astype(np.float32)
    values = np.full((2, size + 3), 99, np.int8)
    _core.clip_and_noise(x, 1.0, 0.3, values[:, :size], hv.Generator.unsafe_seeded(SEED), "gaussian", True)
    np.testing.assert_array_equal(values[:, :size], release.int8_values(x, 1.0, 0.3, key=chacha.seed_key(SEED)))
    assert (values[:, size:] == 99).all()
