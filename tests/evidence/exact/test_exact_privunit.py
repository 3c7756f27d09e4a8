"""PrivUnitG's released integers against the reference, on every backend, level and layout."""

import os
import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv
from evidence.reference import chacha, privunit, release
from evidence.reference.sizes import scaled
from evidence.reference.stream import AES256
from hushvec._native import _core

BACKENDS = hv.backends()["available"]
SEED = 20
KEY = chacha.seed_key(SEED)


def law(epsilon):
    return _core.privunit_law(epsilon)


def released(rows, epsilon, *, sigma=None, dtype=None, nonce=0, rounds=20, **levels):
    """Integers of a release by the backend in use; `levels` are those of the test hook."""
    p, t = law(epsilon)
    sigma = 1.0 / _core.privunit_mean(p, t) if sigma is None else sigma
    out = np.empty(rows.shape, dtype or rows.dtype)
    _core._testing.privunit(KEY, nonce, rounds, rows.astype(out.dtype), p, t, sigma, out, **levels)
    return out.astype(np.float64) / privunit.grid(sigma)[1]


def expected(rows, epsilon, *, sigma=None, nonce=0, rounds=20):
    p, t = law(epsilon)
    sigma = 1.0 / _core.privunit_mean(p, t) if sigma is None else sigma
    return privunit.integers(rows, p, t, sigma, key=KEY, nonce=nonce, rounds=rounds)


def gaussian_rows(count, dimension, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(dtype)


CIPHERS = pytest.mark.parametrize("rounds", (20, AES256))


# 1 and 2: a row is almost only its direction; 15 to 17: lanes; 100, 385: rows that start within groups; 256, 384: whole groups
@pytest.mark.parametrize("dimension", [1, 2, 15, 16, 17, 100, 256, 384, 385])
@pytest.mark.parametrize("epsilon", [0.5, 10.0])
@CIPHERS
def test_bits_are_those_of_the_reference(dimension, epsilon, rounds):
    rows = gaussian_rows(scaled(20, 400) if dimension > 17 else 40, dimension)
    assert (released(rows, epsilon, rounds=rounds) == expected(rows, epsilon, rounds=rounds)).all()


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.01, 1.0, 4.0, 32.0, 200.0, 4096.0])
def test_bits_over_the_range_of_epsilon(epsilon):
    rows = gaussian_rows(34, 30, seed=2)
    assert (released(rows, epsilon) == expected(rows, epsilon)).all()


@pytest.mark.parametrize("rounds, nonce", [(20, 5), (12, 2**40), (8, 0), (AES256, 0), (AES256, 2**40)])
def test_bits_of_other_streams(rounds, nonce):
    rows = gaussian_rows(20, 40, seed=3)
    assert (released(rows, 8.0, nonce=nonce, rounds=rounds) == expected(rows, 8.0, nonce=nonce, rounds=rounds)).all()


@pytest.mark.parametrize("level", [2, 4])
@CIPHERS
def test_every_level_of_the_ladder_gives_the_same_bits(level, rounds):
    """A bound of 10^9 leaves level 1 nothing; first_level 4 leaves float64 nothing either."""
    rows = gaussian_rows(12 if level == 4 else 500, 48, seed=4)
    again = released(rows, 8.0, rounds=rounds, bound_factor=1e9, first_level=level)
    assert (again == released(rows, 8.0, rounds=rounds)).all()


@pytest.mark.parametrize("sigma", [2.0**-100, 1e-3, 1.0, 31.999, 32.0, 2.0**90])
def test_bits_of_other_scales(sigma):
    rows = gaussian_rows(8, 40, seed=5)
    assert (released(rows, 8.0, sigma=sigma) == expected(rows, 8.0, sigma=sigma)).all()


def special_rows(dtype):
    big = float(np.finfo(dtype).max)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    rows = np.zeros((12, 20), dtype)
    rows[1, 3] = 1.0
    rows[2, 3] = -1.0
    rows[3, 3] = tiny  # no direction
    rows[4] = 2.0**-103  # norm 2^-100.8: no direction
    rows[5] = 2.0**-102  # norm 2^-99.8
    rows[6] = big
    rows[7, 0] = big
    rows[8] = 1e-30
    rows[9, 5], rows[9, 6] = 1.0, 2.0**-22  # an element that rounds to 0
    rows[10, 5], rows[10, 6] = 1.0, -(2.0**-21)
    rows[11] = np.where(np.arange(20) % 2, 1.0, -1.0)
    return rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_rows(dtype):
    rows = special_rows(dtype)
    assert (released(rows, 10.0) == expected(rows, 10.0)).all()


def test_rows_without_direction_are_pure_noise():
    zeros = np.zeros((3, 300), np.float32)
    s, _ = privunit.grid(1.0)
    z = privunit.normals(0, zeros.size, key=KEY, nonce=0, rounds=20)
    pure = np.array([privunit.rounded(s * value) for value in z]).reshape(zeros.shape)
    assert (released(zeros, 10.0, sigma=1.0) == pure).all()


def test_float64_rows():
    rows = gaussian_rows(20, 100, seed=6, dtype=np.float64)
    assert (released(rows, 10.0) == expected(rows, 10.0)).all()


def test_float16_rows_round_to_nearest():
    rows = gaussian_rows(20, 100, seed=7).astype(np.float16)
    p, t = law(3.0)
    sigma = 1.0 / _core.privunit_mean(p, t)
    out = np.empty_like(rows)
    _core._testing.privunit(KEY, 0, 20, rows, p, t, sigma, out)
    n = privunit.integers(rows.astype(np.float32), p, t, sigma, key=KEY)
    assert (out == release.round_to_output(n * privunit.grid(sigma)[1], "float16")).all()


def test_the_error_bound_is_needed():
    """With the bound in use level 1 accepts no wrong integer in 15 million; with a fiftieth of it, some."""
    rows = gaussian_rows(scaled(40_000, 400_000), 384, seed=8)
    truth = released(rows, 10.0, bound_factor=1e9)
    assert (released(rows, 10.0) == truth).all()
    assert (released(rows, 10.0, bound_factor=0.02) != truth).sum() >= 3


FORCED = """
import sys, numpy as np, hushvec as hv
from hushvec._native import _core
hv.set_num_threads(int(sys.argv[2]))
rows = np.random.default_rng(9).standard_normal((3000, int(sys.argv[1]))).astype(np.float32)
out = np.empty_like(rows)
_core.privunit(rows, *_core.privunit_law(10.0), 0.3, out, _core.Generator.unsafe_seeded(1), out_is_fresh=True)
sys.stdout.buffer.write(out.tobytes())
"""


def forced(backend, dimension, threads):
    environment = dict(os.environ, HUSHVEC_BACKEND=backend)
    arguments = [sys.executable, "-c", FORCED, str(dimension), str(threads)]
    return subprocess.run(arguments, capture_output=True, env=environment, check=True, timeout=120).stdout


@pytest.mark.parametrize("dimension", [256, 385])
def test_same_bits_on_every_backend_and_number_of_threads(dimension):
    assert len({forced(backend, dimension, threads) for backend in BACKENDS for threads in (1, 3)}) == 1


def arranged(rows, layout):
    if layout == "wide":
        return np.pad(rows, ((0, 0), (0, 5)))[:, : rows.shape[1]]
    if layout == "fortran":
        return np.asfortranarray(rows)
    return np.repeat(rows, 2, axis=1)[:, ::2]


@pytest.mark.parametrize("layout", ["wide", "fortran", "every_other_column"])
@pytest.mark.parametrize("dimension", [256, 100])
def test_strides_do_not_matter(layout, dimension):
    rows = gaussian_rows(50, dimension, seed=10)
    p, t = law(6.0)
    plain, out = np.empty_like(rows), arranged(np.empty_like(rows), layout)
    _core._testing.privunit(KEY, 0, 20, rows, p, t, 1.0, plain)
    _core._testing.privunit(KEY, 0, 20, arranged(rows, layout), p, t, 1.0, out)
    assert (plain == out).all()
    _core._testing.privunit(KEY, 0, 20, rows, p, t, 1.0, rows)  # in place
    assert (plain == rows).all()


def test_a_row_depends_on_nothing_but_its_number():
    rows = gaussian_rows(70, 384, seed=11)
    alone = np.zeros_like(rows)
    alone[37] = rows[37]
    assert (released(alone, 10.0)[37] == released(rows, 10.0)[37]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_nothing_is_written_for_rows_that_are_not_finite(bad, dtype):
    rows = gaussian_rows(40, 300).astype(dtype)
    rows[23, 7] = bad
    out = np.full_like(rows, 5.0)
    with pytest.raises(ValueError, match=r"x must be finite, got (nan|inf|-inf) in row 23"):
        _core.privunit(rows, *law(10.0), 0.3, out, _core.default_generator())
    assert (out == 5.0).all()


@pytest.mark.parametrize(
    "p, t, sigma, message",
    [
        (0.0, 1.0, 1.0, "cap_probability must be > 0 and < 1, got 0.0"),
        (1.0, 1.0, 1.0, "cap_probability must be > 0 and < 1, got 1.0"),
        (2.0**-60, 1.0, 1.0, "cap_probability must be a multiple of 2"),
        (float("nan"), 1.0, 1.0, "cap_probability must be > 0 and < 1"),
        (0.75, -0.5, 1.0, r"threshold must be in \[0, 128\], got -0.5"),
        (0.75, float("nan"), 1.0, r"threshold must be in \[0, 128\]"),
        (0.75, 1.0, 0.0, "sigma must be"),
    ],
)
def test_bad_laws(p, t, sigma, message):
    x = np.ones((2, 8), np.float32)
    with pytest.raises(ValueError, match=message):
        _core.privunit(x, p, t, sigma, np.empty_like(x), _core.default_generator())
