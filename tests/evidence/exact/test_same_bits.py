"""The released bits depend on key, nonce and rows alone: not on the backend, the threads, how the array lies in memory,
how the rows are split into calls that restart the stream, nor (beyond its rounding) on the dtype.

Each call is held against the reference, so equality over backends follows.
"""

import numpy as np
import pytest

from evidence.exact.calls import LAYOUTS, Call, once_for_all_layouts, outputs
from evidence.exact.rows import around_the_ball
from evidence.reference import chacha, exact, release
from evidence.reference.sizes import scaled

DTYPES = ("float16", "bfloat16", "float32", "float64")
DIMENSIONS = scaled((1, 31, 257), (1, 31, 257, 768))
SEED = 2024
CIPHERS = ("chacha20", "aes256")


@once_for_all_layouts
def expected_of(call):
    return release.clip_and_noise(
        call.rows,
        call.clip_norm,
        call.sigma,
        key=chacha.seed_key(call.seed),
        nonce=call.earlier_calls,
        rounds=call.rounds,
        law=call.law,
        dtype=call.dtype,
    )


def assert_exact(backend, calls):
    for call, got in zip(calls, outputs(backend, calls), strict=True):
        np.testing.assert_array_equal(got, expected_of(call), err_msg=repr(call))


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("law", ("gaussian", "laplacian"))
def test_dtypes(backend, law, cipher):
    rng = np.random.default_rng(31)
    assert_exact(
        backend,
        [
            Call(
                around_the_ball(rng, 9, dimension, clip_norm, dtype),
                dtype,
                law=law,
                clip_norm=clip_norm,
                sigma=sigma,
                seed=SEED,
                cipher=cipher,
            )
            for dtype in DTYPES
            for dimension in DIMENSIONS
            for clip_norm, sigma in ((1.0, 0.3), (20.0, 0.01))
        ],
    )


def test_float16_and_bfloat16_saturate(backend):
    """sigma far above the largest float16: every output is finite."""
    rng = np.random.default_rng(32)
    rows = around_the_ball(rng, 4, 100, 1.0, "float16")
    calls = [Call(rows, "float16", sigma=1e6, seed=SEED)]
    (got,) = outputs(backend, calls)
    assert np.isfinite(got.astype(np.float64)).all()
    assert (np.abs(got.astype(np.float64)) == release.LARGEST_FLOAT16).any()
    np.testing.assert_array_equal(got, expected_of(calls[0]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(backend, layout):
    rng = np.random.default_rng(33)
    dtypes = ("float32", "float64", "float16") if layout != "in_place" else DTYPES
    assert_exact(
        backend,
        [
            Call(around_the_ball(rng, 7, dimension, 1.0, dtype), dtype, sigma=0.3, seed=SEED, layout=layout, law=law)
            for dtype in dtypes
            for dimension in scaled((1, 15, 128), (1, 15, 128, 300))
            for law in ("gaussian", "laplacian")
        ],
    )


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("threads", (1, 2, 3))
def test_threads(backend, threads, cipher):
    rng = np.random.default_rng(34)
    options = dict(seed=SEED, threads=threads, cipher=cipher)
    calls = [Call(around_the_ball(rng, 1500, 300, 1.0, "float32"), sigma=0.3, **options)]
    calls.append(Call(around_the_ball(rng, 700, 257, 1.0, "float64"), "float64", sigma=0.3, **options))
    calls.append(Call(around_the_ball(rng, 700, 257, 1.0, "float32"), law="laplacian", **options))
    calls.append(Call(around_the_ball(rng, 700, 257, 1.0, "float32"), layout="in_place", **options))
    assert_exact(backend, calls)


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("law", ("gaussian", "laplacian"))
def test_first_rows_alone_are_the_first_rows_of_all(backend, law, cipher):
    """A restarted stream gives the first rows the same bits whatever follows; rows of 100 straddle groups of 256."""
    rng = np.random.default_rng(35)
    rows = around_the_ball(rng, 40, 100, 1.0, "float32")
    counts = (1, 2, 3, 13, 40)
    got = outputs(backend, [Call(rows[:count], sigma=0.3, seed=SEED, law=law, cipher=cipher) for count in counts])
    for count, part in zip(counts, got, strict=True):
        np.testing.assert_array_equal(part, got[-1][:count])


def test_row_and_column_only_set_the_place_in_the_stream(backend):
    """The same 6,144 zeros as (6144, 1), (1, 6144) and (8, 768) get the same noise."""
    shapes = ((6144, 1), (1, 6144), (8, 768))
    got = outputs(backend, [Call(np.zeros(shape, dtype=np.float32), seed=SEED) for shape in shapes])
    for part in got[1:]:
        np.testing.assert_array_equal(part.reshape(-1), got[0].reshape(-1))


def test_nonces_count_up_from_zero(backend):
    rows = np.zeros((3, 100), dtype=np.float32)
    assert_exact(backend, [Call(rows, seed=SEED, earlier_calls=calls, cipher="chacha12") for calls in (0, 1, 2, 7)])


def float32_tolerance(z):
    """Far above the rounding of any backend, far below the distance between unrelated draws."""
    return 2e-5 * (1.0 + np.abs(z))


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("law", ("gaussian", "laplacian"))
@pytest.mark.parametrize("threads", (1, 3))
def test_float32_fills_follow_the_layout(backend, law, threads, cipher):
    shapes = ((1, 1), (3, 100), (1, 255), (2, 256), (300, 513))
    calls = [
        Call(
            np.empty(shape, dtype=np.float32),
            function="fill",
            law=law,
            sigma=2.5,
            seed=SEED,
            threads=threads,
            earlier_calls=k,
            cipher=cipher,
        )
        for k, shape in enumerate(shapes)
    ]
    noise = {"gaussian": release.gaussian_noise, "laplacian": release.laplacian_noise}[law]
    for call, got in zip(calls, outputs(backend, calls), strict=True):
        want = noise(chacha.seed_key(SEED), call.earlier_calls, call.rounds, call.rows.size).reshape(call.rows.shape)
        assert (np.abs(got / 2.5 - want) <= float32_tolerance(want)).all(), repr(call)


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("law", ("gaussian", "laplacian"))
def test_float64_fills_take_64_bits(backend, law, cipher):
    """Bits 33 to 64 come from domain 16; 32-bit uniforms would be off by up to 1e-5 here, and 1e-10 on average."""
    call = Call(np.empty((100, 513)), "float64", function="fill", law=law, seed=SEED, earlier_calls=2, cipher=cipher)
    (got,) = outputs(backend, [call])
    key, size = chacha.seed_key(SEED), call.rows.size
    high = release.call_words(key, 2, call.rounds, size)
    low = release.call_words(key, 2, call.rounds, size, domain=chacha.DOMAIN_LOW_WORDS)
    if law == "laplacian":
        want = exact.laplace_values_64(high, low)[:size]
    else:
        (a, b), (a_low, b_low) = release.box_muller_words(high), release.box_muller_words(low)
        want = release.in_sample_order(*exact.gaussian_values_64(a, b, a_low, b_low), size)
    np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-13, atol=1e-13)
