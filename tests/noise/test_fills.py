"""gaussian_noise, laplacian_noise, l2_laplace_noise and add_noise as building blocks: shapes, kinds, dtypes, streams."""

import numpy as np
import pytest

import hushvec as hv

NOISES = [hv.gaussian_noise, hv.laplacian_noise, hv.l2_laplace_noise]
SHAPES = [0, 1, 15, 16, 255, 256, 257, (0, 5), (1, 1), (3, 0), (3, 85), (2, 384), (5, 1), (1, 100_000), (2, 100_000)]


def seeded(seed=1):
    return hv.Generator.unsafe_seeded(seed)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_shape_and_dtype(noise, shape, dtype):
    made = noise(shape, 0.5, dtype=dtype, generator=seeded())
    assert made.shape == ((shape,) if isinstance(shape, int) else shape)
    assert made.dtype == dtype
    assert np.isfinite(made).all()
    assert np.count_nonzero(made) >= 0.9 * made.size


@pytest.mark.parametrize("noise", NOISES)
def test_dtype_as_numpy_type(noise):
    assert noise(4, dtype=np.float64).dtype == np.float64
    assert noise(4, dtype=np.dtype("float16")).dtype == np.float16
    assert noise(np.int64(4)).shape == (4,)
    assert noise([2, 3]).shape == (2, 3)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_out_is_filled_and_returned(noise, dtype):
    out = np.full((3, 70), np.nan, dtype)
    assert noise((3, 70), 2.0, out=out, generator=seeded()) is out
    np.testing.assert_array_equal(out, noise((3, 70), 2.0, dtype=dtype, generator=seeded()))


@pytest.mark.parametrize("noise", NOISES)
def test_out_may_be_strided(noise):
    expected = noise((6, 70), generator=seeded())
    for out in (np.zeros((6, 140), np.float32)[:, ::2], np.zeros((70, 6), np.float32).T, np.zeros((12, 70), np.float32)[::2]):
        noise((6, 70), out=out, generator=seeded())
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("noise", NOISES)
def test_like_gives_kind_and_dtype(noise):
    assert noise(7, like=np.zeros((2, 2), np.float64)).dtype == np.float64
    assert noise(7, dtype="float64", like=np.zeros(2, np.float64)).shape == (7,)


@pytest.mark.parametrize("noise", NOISES)
def test_every_call_has_a_stream_of_its_own(noise):
    generator = seeded()
    first, second = noise(64, generator=generator), noise(64, generator=generator)
    assert not np.isin(first, second).any()
    assert not np.isin(noise(64), noise(64)).any()


@pytest.mark.parametrize("noise", NOISES)
def test_scale_is_a_factor(noise):
    unit = noise((3, 64), 1.0, dtype="float64", generator=seeded())
    np.testing.assert_allclose(noise((3, 64), 4.0, dtype="float64", generator=seeded()), 4.0 * unit, rtol=1e-12)
    assert not noise((3, 64), 0.0).any()


def test_add_noise_is_the_sum():
    x, noise = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 0.5, np.float32)
    total = hv.add_noise(x, noise)
    np.testing.assert_array_equal(total, x + 0.5)
    assert total is not x
    assert x[0, 0] == 0
    assert total.dtype == np.float32
    assert hv.add_noise(np.zeros(0, np.float16), np.zeros(0, np.float16)).shape == (0,)


@pytest.mark.parametrize(
    ("noise", "error", "text"),
    [
        (np.zeros(3, np.float32), ValueError, r"noise must have shape \(2, 3\), got \(3,\)"),
        (np.zeros((2, 3)), TypeError, "noise must be float32, got float64"),
        ([[0.0] * 3] * 3, ValueError, r"noise must have shape \(2, 3\), got \(3, 3\)"),
    ],
)
def test_add_noise_refuses(noise, error, text):
    with pytest.raises(error, match=text):
        hv.add_noise(np.zeros((2, 3), np.float32), noise)
