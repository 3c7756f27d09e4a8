"""Releases of version 3, which reads half the key stream, hold the reference's integers: every backend, cipher, law, dtype and layout,
any number of threads. Each call is held against the reference, so equality over backends follows."""

import numpy as np
import pytest

import hushvec as hv
from evidence.exact.calls import LAYOUTS, Call, once_for_all_layouts, outputs
from evidence.exact.rows import around_the_ball, between_integers
from evidence.reference import chacha, clip, half, release
from evidence.reference.sizes import scaled
from hushvec._native import _core

SEED = 3030
DTYPES = ("float16", "bfloat16", "float32", "float64")
LAWS = pytest.mark.parametrize("law", ("gaussian", "laplacian"))
CIPHERS = ("chacha20", "chacha12", "chacha8", "aes256")
DIMENSIONS = (1, 3, 100, 384, 400, 768)
# s = 9.6; 15.6; 1.3, 2 and 2^-9, where clip_norm sets the grid
NOISE = ((1.0, 0.3), (2.5, 0.061), (20.0, 1.2e-5), (1.0, 2.0**-20), (1.0, 2.0**-30))


@once_for_all_layouts
def expected_of(call):
    stream = dict(key=chacha.seed_key(call.seed), nonce=call.earlier_calls, rounds=call.rounds, version=3)
    if call.function == "int8":
        return release.int8_values(call.rows, call.clip_norm, call.sigma, **stream)
    return release.clip_and_noise(call.rows, call.clip_norm, call.sigma, law=call.law, dtype=call.dtype, **stream)


def version_3(rows, dtype, **options):
    return Call(rows, dtype, version=3, **{"seed": SEED, "sigma": 0.3} | options)


def named(noise):
    return dict(zip(("clip_norm", "sigma"), noise, strict=True))


def assert_exact(backend, calls):
    for call, got in zip(calls, outputs(backend, calls), strict=True):
        np.testing.assert_array_equal(got, expected_of(call), err_msg=repr(call))


@pytest.mark.parametrize("cipher", CIPHERS)
@LAWS
def test_dtypes_and_dimensions(backend, law, cipher):
    rng = np.random.default_rng(41)
    calls = [
        version_3(around_the_ball(rng, 5, dimension, 1.0, dtype), dtype, law=law, cipher=cipher)
        for dtype in DTYPES
        for dimension in DIMENSIONS
    ]
    assert_exact(backend, calls)


@LAWS
def test_scales_and_nonces(backend, law):
    rng = np.random.default_rng(42)
    calls = [
        version_3(around_the_ball(rng, 9, 257, noise[0], dtype), dtype, law=law, cipher=cipher, earlier_calls=k, **named(noise))
        for k, noise in enumerate(NOISE)
        for dtype in ("float32", "float64")
        for cipher in ("chacha20", "aes256")
    ]
    assert_exact(backend, calls)


@pytest.mark.parametrize("cipher", ("chacha8", "aes256"))
@pytest.mark.parametrize("shape", ((1, 1), (3, 100), (7, 128), (2, 640)))
@LAWS
def test_rows_that_no_half_word_decides(backend, law, shape, cipher):
    """Every sample is left open, and half of them have another integer than level 0 found: the queue is always full."""
    noise = 1000.0, 0.3
    calls = [
        version_3(
            between_integers(law, shape, *noise, seed=SEED, cipher=cipher, dtype=dtype), dtype, law=law, cipher=cipher, **named(noise)
        )
        for dtype in ("float32", "float64")
    ]
    assert_exact(backend, calls)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(backend, layout):
    rng = np.random.default_rng(43)
    dtypes = ("float32", "float64", "float16") if layout != "in_place" else DTYPES
    assert_exact(
        backend,
        [
            version_3(around_the_ball(rng, 7, dimension, 1.0, dtype), dtype, layout=layout, law=law)
            for dtype in dtypes
            for dimension in scaled((1, 15, 128), (1, 15, 128, 300))
            for law in ("gaussian", "laplacian")
        ],
    )


@pytest.mark.parametrize("cipher", ("chacha20", "aes256"))
@pytest.mark.parametrize("threads", (1, 2, 3))
def test_threads(backend, threads, cipher):
    """Blocks of rows begin at odd groups too, whose words are the second half of a group of words."""
    rng = np.random.default_rng(44)
    options = dict(threads=threads, cipher=cipher)
    calls = [version_3(around_the_ball(rng, 1500, 300, 1.0, "float32"), "float32", **options)]
    calls.append(version_3(around_the_ball(rng, 700, 257, 1.0, "float64"), "float64", **options))
    calls.append(version_3(around_the_ball(rng, 700, 257, 1.0, "float32"), "float32", law="laplacian", **options))
    calls.append(version_3(around_the_ball(rng, 700, 257, 1.0, "float32"), "float32", layout="in_place", **options))
    assert_exact(backend, calls)


@pytest.mark.parametrize("cipher", ("chacha20", "aes256"))
def test_int8(backend, cipher):
    rng = np.random.default_rng(45)
    assert_exact(
        backend,
        [
            version_3(around_the_ball(rng, 9, dimension, noise[0], dtype), dtype, function="int8", cipher=cipher, **named(noise))
            for dtype in DTYPES
            for dimension in (1, 31, 400)
            for noise in ((1.0, 0.3), (1.0, 0.02), (1.0, 2.0**-6), (2.0**-7, 1.9))
        ],
    )


@LAWS
@pytest.mark.parametrize("cipher", ("chacha20", "aes256"))
def test_first_rows_alone_are_the_first_rows_of_all(backend, law, cipher):
    rows = around_the_ball(np.random.default_rng(46), 40, 100, 1.0, "float32")
    counts = (1, 2, 3, 13, 40)
    got = outputs(backend, [version_3(rows[:count], "float32", law=law, cipher=cipher) for count in counts])
    for count, part in zip(counts, got, strict=True):
        np.testing.assert_array_equal(part, got[-1][:count])


def noised(x, law, *, fresh):
    out = np.full_like(x, np.nan)
    generator = hv.Generator.unsafe_seeded(SEED, cipher="chacha8", format_version=3)
    _core.clip_and_noise(x, 1.0, 0.3, out, generator, law, True, out_is_fresh=fresh)
    return out


# Several blocks of rows each, the last one cut short; the last shape is rows for all threads.
@pytest.mark.parametrize("shape", ((400_001, 1), (1_601, 257), (1_203, 768), (9, 100_000), (1, 400_031)))
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
def test_row_blocks(threads, shape, dtype):
    x = around_the_ball(np.random.default_rng(47), *shape, 1.0, dtype).astype(dtype)
    for law in ("gaussian", "laplacian"):
        fresh = noised(x, law, fresh=True)
        np.testing.assert_array_equal(fresh, noised(x, law, fresh=False), err_msg=law)
        first = noised(np.ascontiguousarray(x[:2]), law, fresh=True)
        np.testing.assert_array_equal(fresh[:2], first, err_msg=law)


def test_the_grid_is_the_one_of_the_format():
    for clip_norm, sigma in (*NOISE, (2.0**-100, 2.0**-40), (2.0**100, 2.0**70), (1.0, 1.9999999), (1.0000001, 2.0**-20)):
        assert _core.exact_grid(sigma, clip_norm, half_words=True) == clip.grid(sigma, clip_norm, half.GRID_BITS)
        assert _core.exact_grid(sigma, clip_norm) == clip.grid(sigma, clip_norm)


def test_only_exact_noise_on_rows_differs_from_the_version_of_the_cipher():
    """Noise alone, PrivUnitG and the float grade read the stream of version 1 or 2."""
    x = np.random.default_rng(48).standard_normal((20, 300)).astype(np.float32)
    found = {}
    for version in (None, 3):
        for cipher, of_cipher in (("chacha20", 1), ("aes256", 2)):
            generator = hv.Generator.unsafe_seeded(SEED, cipher=cipher, format_version=version)
            assert generator.format_version == (3 if version else of_cipher)
            outs = [np.empty_like(x) for _ in range(4)]
            _core.clip_and_noise(x, 1.0, 0.3, outs[0], generator, "gaussian", True)
            _core.clip_and_noise(x, 1.0, 0.3, outs[1], generator, "gaussian", False)
            _core.fill_laplacian(outs[2], 1.0, generator)
            _core.privunit(x, *_core.privunit_law(8.0), 0.3, outs[3], generator)
            found[cipher, version] = outs
    for cipher in ("chacha20", "aes256"):
        for k, (of_cipher, of_3) in enumerate(zip(found[cipher, None], found[cipher, 3], strict=True)):
            assert np.array_equal(of_cipher, of_3) == (k > 0), (cipher, k)
