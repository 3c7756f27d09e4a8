"""The table of refusals: each mistake is one clear error, and no output is touched."""

import math

import numpy as np
import pytest

import hushvec as hv

SENTINEL = 12345.0


def rows(shape=(4, 8), dtype=np.float32):
    return np.ones(shape, dtype)


def with_value(value, row):
    x = rows()
    x[row, 3] = value
    return x


def clip(x, out=None):
    return hv.clip(x, 1.0, out=out)


def clip_and_noise(x, out=None):
    return hv.clip_and_noise(x, 1.0, 1.0, out=out)


def float_grade(x, out=None):
    return hv.clip_and_noise(x, 1.0, 1.0, exact=False, out=out)


def privatize(x):
    return hv.privatize(x, epsilon=1.0)


def normalized(x):
    return hv.privatize(x, epsilon=1.0, normalize=True)


def laplacian(x):
    return hv.privatize(x, epsilon=1.0, mechanism="laplacian")


def l2_laplace(x):
    return hv.privatize(x, epsilon=1.0, mechanism="l2_laplace")


WRITERS = [clip, clip_and_noise, float_grade]
EVERYTHING = [*WRITERS, privatize, normalized, laplacian, l2_laplace]

BAD_ARRAYS = [
    (with_value(np.nan, 2), ValueError, "x must be finite, got nan in row 2"),
    (with_value(np.inf, 0), ValueError, "x must be finite, got inf in row 0"),
    (with_value(-np.inf, 3), ValueError, "x must be finite, got -inf in row 3"),
    (with_value(np.nan, 1).astype(np.float64), ValueError, "x must be finite, got nan in row 1"),
    (with_value(np.inf, 1).astype(np.float16), ValueError, "x must be finite, got inf in row 1"),
    (rows(dtype=bool), TypeError, "x must be float32 or float64 or float16, got bool"),
    (rows(dtype=complex), TypeError, "x must be float32 or float64 or float16, got complex128"),
    (rows(dtype=object), TypeError, "x must be float32 or float64 or float16, got object"),
    (rows(dtype=">f4"), TypeError, "x must be in native byte order, got >f4"),
    (np.ma.masked_array(rows(), mask=False), TypeError, "x must be a plain numpy array, got MaskedArray"),
    (rows((2, 3, 4)), ValueError, "x must have 1 or 2 dimensions, got 3"),
    (np.array(1.0, np.float32), ValueError, "x must have 1 or 2 dimensions, got 0"),
    ([[1.0, 2.0], [3.0]], ValueError, "x must have rows of one length, got 1 in row 1 and 2 in row 0"),
    ([["a", "b"]], TypeError, "x must hold numbers, got str in it"),
    ([[1, 1 << 25]], ValueError, "x must hold whole numbers of at most 2^24 in size, which float32 holds exactly, got 33554432"),
    ({"a": 1.0}, TypeError, "x must be a numpy array, a torch tensor or a CuPy array, got dict"),
    (None, TypeError, "x must be a numpy array, a torch tensor or a CuPy array, got NoneType"),
    (1.0, TypeError, "x must be a numpy array, a torch tensor or a CuPy array, got float"),
    ("vector", TypeError, "x must be a numpy array, a torch tensor or a CuPy array, got str"),
]


@pytest.mark.parametrize("function", EVERYTHING)
@pytest.mark.parametrize(("x", "error", "text"), BAD_ARRAYS, ids=[text for _, _, text in BAD_ARRAYS])
def test_bad_arrays(function, x, error, text):
    with pytest.raises(error) as caught:
        function(x)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def read_only():
    out = np.full((4, 8), SENTINEL, np.float32)
    out.flags.writeable = False
    return out


BAD_OUTPUTS = [
    (read_only, ValueError, "out must be writable, got a read-only array"),
    (lambda: np.full((8, 4), SENTINEL, np.float32), ValueError, "out must have shape (4, 8), got (8, 4)"),
    (lambda: np.full(32, SENTINEL, np.float32), ValueError, "out must have shape (4, 8), got (32,)"),
    (lambda: np.full((4, 8), SENTINEL), TypeError, "out must be float32, got float64"),
    (lambda: np.full((4, 8), SENTINEL, ">f4"), TypeError, "out must be in native byte order, got >f4"),
    (lambda: [[SENTINEL] * 8] * 4, TypeError, "out must be a numpy array, a torch tensor or a CuPy array, got list"),
]


@pytest.mark.parametrize("function", WRITERS)
@pytest.mark.parametrize(("make", "error", "text"), BAD_OUTPUTS, ids=[text for _, _, text in BAD_OUTPUTS])
def test_bad_outputs(function, make, error, text):
    out = make()
    with pytest.raises(error) as caught:
        function(rows(), out=out)
    assert str(caught.value) == text
    assert (np.asarray(out, dtype=np.float32) == SENTINEL).all()


@pytest.mark.parametrize("noise", [hv.gaussian_noise, hv.laplacian_noise, hv.l2_laplace_noise])
@pytest.mark.parametrize(("make", "error", "text"), BAD_OUTPUTS, ids=[text for _, _, text in BAD_OUTPUTS])
def test_bad_noise_outputs(noise, make, error, text):
    out = make()
    if error is TypeError and "float64" in text:
        noise((4, 8), out=out)  # noise takes the dtype of out
        assert (out != SENTINEL).all()
        return
    with pytest.raises(error) as caught:
        noise((4, 8), out=out)
    assert str(caught.value) == text
    assert (np.asarray(out, dtype=np.float32) == SENTINEL).all()


@pytest.mark.parametrize("function", WRITERS)
def test_overlapping_output(function):
    memory = np.arange(40, dtype=np.float32)
    before = memory.copy()
    with pytest.raises(ValueError, match="out must be x itself or not overlap it"):
        function(memory[:32].reshape(4, 8), out=memory[8:].reshape(4, 8))
    np.testing.assert_array_equal(memory, before)


@pytest.mark.parametrize("function", WRITERS)
@pytest.mark.parametrize("row", [0, 3])
def test_a_bad_row_leaves_the_output_alone(function, row):
    out = np.full((4, 8), SENTINEL, np.float32)
    with pytest.raises(ValueError, match=f"in row {row}"):
        function(with_value(np.nan, row), out=out)
    assert (out == SENTINEL).all()
    x = with_value(np.inf, row)
    before = x.copy()
    with pytest.raises(ValueError, match=f"in row {row}"):
        function(x, out=x)
    np.testing.assert_array_equal(x, before)


NOT_NUMBERS = ["1", None, True, 1j, [1.0], np.array([1.0]), np.bool_(True)]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("clip_norm", lambda value: hv.clip(rows(), value)),
        ("clip_norm", lambda value: hv.clip_and_noise(rows(), value, 1.0)),
        ("sigma", lambda value: hv.clip_and_noise(rows(), 1.0, value)),
        ("sigma", lambda value: hv.gaussian_noise(3, value)),
        ("scale", lambda value: hv.laplacian_noise(3, value)),
        ("scale", lambda value: hv.l2_laplace_noise(3, value)),
        ("epsilon", lambda value: hv.privatize(rows(), epsilon=value)),
        ("delta", lambda value: hv.privatize(rows(), epsilon=1.0, delta=value)),
        ("clip_norm", lambda value: hv.privatize(rows(), epsilon=1.0, clip_norm=value)),
        ("sigma", lambda value: hv.privatize(rows(), mechanism="empirical", sigma=value)),
    ],
)
def test_what_is_not_a_number(name, call, value):
    with pytest.raises(TypeError, match=f"^{name} must be "):
        call(value)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: hv.clip(rows(), 0), "clip_norm must be > 0, got 0.0"),
        (lambda: hv.clip(rows(), -1.0), "clip_norm must be > 0, got -1.0"),
        (lambda: hv.clip(rows(), math.nan), "clip_norm must be finite, got nan"),
        (lambda: hv.clip(rows(), math.inf), "clip_norm must be finite, got inf"),
        (lambda: hv.clip(rows(), 10**400), "clip_norm must be finite, got 1000"),
        (lambda: hv.clip(rows(), 1e-40), "clip_norm must be in [2^-100, 2^100], got 1e-40"),
        (lambda: hv.clip_and_noise(rows(), 1.0, -1.0), "sigma must be > 0, got -1.0"),
        (lambda: hv.clip_and_noise(rows(), 1.0, 0.0), "sigma must be > 0, got 0.0"),
        (lambda: hv.clip_and_noise(rows(), 1.0, scale=0.0), "scale must be > 0, got 0.0"),
        (lambda: hv.clip_and_noise(rows(), 1.0, scale=-1.0, exact=False), "scale must be >= 0, got -1.0"),
        (lambda: hv.clip_and_noise(rows(), 1.0, scale=1e31), "scale must be <= 2^100, got 1e+31"),
        (lambda: hv.clip_and_noise(rows(), 1.0, math.nan), "sigma must be finite, got nan"),
        (lambda: hv.clip_and_noise(rows(), 1.0, -1.0, exact=False), "sigma must be >= 0, got -1.0"),
        (lambda: hv.clip_and_noise(rows(), 1.0, 1e-10), "clip_norm / sigma must be <= 2^30"),
        (lambda: hv.clip_and_noise(rows(), 1e-10, 1e10), "sigma / clip_norm must be <= 2^60"),
        (lambda: hv.clip_and_noise(rows(), 1.0, 1e31), "sigma must be "),
        (lambda: hv.gaussian_noise(3, -0.1), "sigma must be >= 0, got -0.1"),
        (lambda: hv.gaussian_noise(3, math.nan), "sigma must be finite, got nan"),
        (lambda: hv.laplacian_noise(3, -0.1), "scale must be >= 0, got -0.1"),
        (lambda: hv.l2_laplace_noise(3, math.inf), "scale must be finite, got inf"),
        (lambda: hv.gaussian_noise(-1), "shape must be >= 0, got -1"),
        (lambda: hv.gaussian_noise((1, 2, 3)), "shape must have 1 or 2 dimensions, got 3"),
        (lambda: hv.gaussian_noise(()), "shape must have 1 or 2 dimensions, got 0"),
        (lambda: hv.gaussian_noise(3, out=np.zeros(4, np.float32)), "out must have shape (3,), got (4,)"),
        (lambda: hv.set_num_threads(-1), "n must be >= 0, got -1"),
        (lambda: hv.privatize(rows(), epsilon=0), "epsilon must be > 0, got 0.0"),
        (lambda: hv.privatize(rows(), epsilon=-2.0), "epsilon must be > 0, got -2.0"),
        (lambda: hv.privatize(rows(), epsilon=math.inf), "epsilon must be finite, got inf"),
        (lambda: hv.privatize(rows(), epsilon=math.nan), "epsilon must be finite, got nan"),
        (lambda: hv.privatize(rows(), epsilon=1e-40, mechanism="laplacian"), "scale must be in [2^-100, 2^100], got "),
        (lambda: hv.privatize(rows(), epsilon=1.0, delta=0), "delta must be > 0 and < 1, got 0.0"),
        (lambda: hv.privatize(rows(), epsilon=1.0, delta=1), "delta must be > 0 and < 1, got 1.0"),
        (lambda: hv.privatize(rows(), epsilon=1.0, delta=-1e-5), "delta must be > 0 and < 1, got -1e-05"),
        (lambda: hv.privatize(rows(), epsilon=1.0, delta=math.nan), "delta must be finite, got nan"),
        (lambda: hv.privatize(rows(), epsilon=1.0, delta=1.0, mechanism="laplacian"), "delta must be > 0 and < 1, got 1.0"),
        (lambda: hv.privatize(rows(), epsilon=1.0, clip_norm=0.0), "clip_norm must be > 0, got 0.0"),
        (
            lambda: hv.privatize(rows(), epsilon=1.0, mechanism="gauss"),
            "mechanism must be one of 'gaussian', 'laplacian', 'l2_laplace', 'empirical', 'privunit', "
            "'discrete_gaussian', 'discrete_laplacian', got 'gauss'",
        ),
        (lambda: hv.privatize(rows(), epsilon=1.0, per="row"), "per must be one of 'record', 'release', got 'row'"),
        (lambda: hv.privatize(rows(), epsilon=1.0, sigma=1.0), "sigma must be None for mechanism 'gaussian'"),
        (lambda: hv.privatize(rows(), epsilon=1.0, sigma=1.0, mechanism="laplacian"), "sigma must be None for mechanism"),
        (lambda: hv.privatize(rows(), mechanism="empirical", sigma=0.0), "sigma must be > 0, got 0.0"),
        (lambda: hv.privatize(rows(), epsilon=1.0, mechanism="empirical", sigma=0.2), "epsilon must be >= 91.8"),
        (
            lambda: hv.privatize(rows(), epsilon=1.0, normalize=True, clip_norm=2.0),
            "clip_norm must be 1.0 with normalize=True, got 2.0",
        ),
        (lambda: hv.privatize(rows((4, 0)), epsilon=1.0), "x must have at least 1 column, got 0"),
        (lambda: hv.Generator(rounds=7), "rounds must be 20, 12 or 8, got 7"),
        (lambda: hv.Generator(rounds=2**70), "rounds must be 20, 12 or 8, got 1180591620717411303424"),
        (lambda: hv.Generator(cipher="aes128"), "cipher must be aes256, chacha20, chacha12 or chacha8, got 'aes128'"),
        (lambda: hv.Generator(rounds=14), "rounds must be 20, 12 or 8, got 14"),
        (
            lambda: hv.Generator(rounds=12, cipher="chacha12"),
            "rounds must not be given with cipher, got rounds 12 and cipher 'chacha12'",
        ),
        (lambda: hv.Generator.unsafe_seeded(1, cipher=""), "cipher must be aes256, chacha20, chacha12 or chacha8, got ''"),
        (
            lambda: hv.Generator(cipher="aes256").device_cipher,
            "cipher must be chacha20, chacha12 or chacha8 on a device, got aes256",
        ),
        (lambda: hv.Generator.unsafe_seeded(2**256), "seed must be in [0, 2^256), got 115792"),
        (lambda: hv.Generator.unsafe_seeded(-1), "seed must be in [0, 2^256), got -1"),
    ],
)
def test_bad_values(call, text):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: hv.privatize(rows()), "epsilon must be given for mechanism 'gaussian'"),
        (lambda: hv.privatize(rows(), mechanism="empirical"), "sigma must be given for mechanism 'empirical'"),
        (lambda: hv.privatize(rows(), epsilon=1.0, mechanism=None), "mechanism must be a str, got NoneType"),
        (lambda: hv.privatize(rows(), epsilon=1.0, normalize=1), "normalize must be True or False, got int"),
        (lambda: hv.privatize(rows(), epsilon=1.0, renormalize="yes"), "renormalize must be True or False, got str"),
        (lambda: hv.privatize(rows(), epsilon=1.0, budget=5.0), "budget must have a method consume(epsilon, delta), got float"),
        (lambda: hv.privatize(rows(), epsilon=1.0, generator=7), "generator must be a hushvec.Generator or None, got int"),
        (lambda: hv.clip_and_noise(rows(), 1.0, 1.0, exact=1), "exact must be True or False, got int"),
        (
            lambda: hv.clip_and_noise(rows(), 1.0, 1.0, generator=np.random.default_rng()),
            "generator must be a hushvec.Generator or None, got numpy.random.Generator",
        ),
        (lambda: hv.gaussian_noise(3, generator=42), "generator must be a hushvec.Generator or None, got int"),
        (lambda: hv.gaussian_noise(3.0), "shape must be a whole number, got float"),
        (lambda: hv.gaussian_noise(True), "shape must be a whole number, got bool"),
        (lambda: hv.gaussian_noise(3, dtype="int8"), "dtype must be float32, float64 or float16, got 'int8'"),
        (lambda: hv.gaussian_noise(3, dtype="bfloat16"), "dtype must be float32, float64 or float16, got bfloat16"),
        (lambda: hv.gaussian_noise(3, dtype=object()), "dtype must be float32, float64 or float16, got "),
        (
            lambda: hv.gaussian_noise(3, dtype="float64", like=np.zeros(2, np.float32)),
            "like must be float64, the dtype asked for, got float32",
        ),
        (lambda: hv.gaussian_noise(3, like=[1.0]), "like must be a numpy array, a torch tensor or a CuPy array, got list"),
        (lambda: hv.set_num_threads(1.5), "n must be a whole number, got float"),
        (lambda: hv.set_num_threads(True), "n must be a whole number, got bool"),
        (lambda: hv.Generator(rounds=20.0), "rounds must be a whole number, got float"),
        (lambda: hv.Generator(rounds=True), "rounds must be a whole number, got bool"),
        (lambda: hv.Generator(cipher=256), "cipher must be a string, got int"),
        (lambda: hv.Generator.unsafe_seeded(1, cipher=20), "cipher must be a string, got int"),
        (lambda: hv.Generator.unsafe_seeded("1"), "seed must be a whole number, got str"),
        (lambda: hv.Generator.unsafe_seeded(True), "seed must be a whole number, got bool"),
        (
            lambda: hv.verify_receipt("{}"),
            "receipt must be a receipt of hushvec or a mapping, got str, which hushvec.receipts.receipt_from_json reads",
        ),
    ],
)
def test_bad_kinds(call, text):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)
