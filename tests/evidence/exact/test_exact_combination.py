"""Noise of several streams in one release: the integer that is nearest to the real number, for every sample.

The reference settles round(X + s (c_1 Z_1 + ... + c_p Z_p)) in ball arithmetic, from the words of every stream.
"""

import numpy as np
import pytest
from flint import arb
from scipy import stats

import hushvec as hv
from evidence.reference import chacha, clip, exact, stream
from evidence.reference import clipped_sum as sums
from evidence.reference.sizes import scaled
from hushvec._native import _core

SEED = 17
ALPHA = 1e-6
COEFFICIENTS = (1.0, -0.5, -0.125, -0.0625, -0.0390625)
CIPHERS = ("aes256", "chacha20", "chacha8")


def streams_of(cipher, count):
    """As many streams as a seeded generator hands out, newest first, and what the reference calls them."""
    generator = hv.Generator.unsafe_seeded(SEED, cipher=cipher)
    reserved = [generator._reserve() for _ in range(count)]
    named = [(chacha.seed_key(SEED), nonce, stream.ROUNDS[cipher]) for nonce in range(count)]
    return reserved[::-1], named[::-1]


def released(rows, lengths, sigma, coefficients, reserved, clip_norm=1.0):
    """[part][length] of one sum, and its exact elements in grids."""
    total = _core.ClippedSum(list(lengths), clip_norm, sigma, 2**20, "exact")
    total.add([rows[:, first : first + n] for first, n in zip(np.cumsum([0, *lengths[:-1]]), lengths, strict=True)])
    grid = clip.grid(sigma, clip_norm)[1]
    x = [units * (sums.unit(clip_norm) / grid) for units in total._units()]
    out = [np.empty(n, np.float32) for n in lengths]
    total.release_correlated(out, reserved, coefficients)
    return [part.astype(np.float64) / grid for part in out], x


def combined(x, s, coefficients, named, first_group):
    """The integer of each element of a part that begins at this group."""
    words = [stream.words(*one, first_group, -(-len(x) // chacha.GROUP)) for one in named]
    found = np.empty(len(x), np.int64)
    for i, element in enumerate(x):
        group, place = divmod(i, chacha.GROUP)
        half = chacha.GROUP // 2
        sine, place = divmod(place, half)
        pair, at = (first_group + group) * half + place, group * chacha.GROUP + place
        draws = [exact.GaussianPair(of[at], of[at + half]) for of in words]
        for step in range(chacha.EXTENSIONS + 1):
            if step:
                for draw, one in zip(draws, named, strict=True):
                    draw.extend(stream.extension(*one, step, [pair])[0])
            balls = [draw.outputs() for draw in draws]
            if any(ball is None for ball in balls):
                continue
            noise = sum((arb(float(c)) * ball[sine] for c, ball in zip(coefficients, balls, strict=True)), arb(0))
            n = exact.nearest_integer(arb(float(element)) + arb(float(s)) * noise)
            if n is not None:
                found[i] = n
                break
        else:
            raise exact.Undecided(f"element {i}")
    return found


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize(("sigma", "rows"), [(0.7, 5), (2.0**-12, 3000)])   # the second: sums beyond 2^21 grids
def test_every_sample_is_rounded_as_the_real_number(cipher, sigma, rows):
    rng = np.random.default_rng(1)
    lengths = (300, 7, scaled(600, 60_000))
    given = np.zeros((rows, sum(lengths)), np.float32)
    given[:, :400] = rng.standard_normal((1, 400)) * (1 if rows == 5 else 0.05)
    reserved, named = streams_of(cipher, len(COEFFICIENTS))
    parts, x = released(given, lengths, sigma, COEFFICIENTS, reserved)
    s = clip.grid(sigma, 1.0)[0] / clip.grid(sigma, 1.0)[1]
    if rows > 5:
        assert max(np.abs(part).max() for part in x) > 2**21
    group = 0
    for part, elements in zip(parts, x, strict=True):
        whole = np.where(np.abs(elements) > 2**20, np.rint(elements), 0.0)   # saturation is beyond these
        expected = whole + combined(elements - whole, s, COEFFICIENTS, named, group)
        np.testing.assert_array_equal(part, expected.astype(np.float32))   # grids are powers of two
        group += -(-len(part) // chacha.GROUP)


@pytest.mark.parametrize("coefficients", [(1.0,), (1.0, 0.0), (1.0, -1.0, 1.0, -1.0)])
def test_other_coefficients(coefficients):
    reserved, named = streams_of("chacha20", len(coefficients))
    parts, x = released(np.ones((1, 512), np.float32), (512,), 1.0, coefficients, reserved)
    s = clip.grid(1.0, 1.0)[0] / clip.grid(1.0, 1.0)[1]
    np.testing.assert_array_equal(parts[0], combined(x[0], s, coefficients, named, 0))


def test_one_stream_gives_the_bits_of_an_ordinary_release():
    rows = np.random.default_rng(2).standard_normal((4, 1000)).astype(np.float32)
    reserved, _ = streams_of("aes256", 1)
    (part,), _ = released(rows, (1000,), 0.5, (1.0,), reserved)
    total = _core.ClippedSum([1000], 1.0, 0.5, 2**20, "exact")
    total.add([rows])
    out = np.empty(1000, np.float32)
    total.release([out], hv.Generator.unsafe_seeded(SEED, cipher="aes256"))
    np.testing.assert_array_equal(part * clip.grid(0.5, 1.0)[1], out)


def test_the_noise_has_the_law_of_the_combination():
    """Kolmogorov-Smirnov against N(0, sum of squares), n = 2^18, and the correlation of two steps that share a stream."""
    n, coefficients = 2**18, (1.0, -0.5)
    reserved, _ = streams_of("aes256", 3)
    zeros = np.zeros((1, n), np.float32)
    (newer,), _ = released(zeros, (n,), 1.0, coefficients, reserved[:2])
    (older,), _ = released(zeros, (n,), 1.0, coefficients, reserved[1:])
    s = clip.grid(1.0, 1.0)[0] / clip.grid(1.0, 1.0)[1]
    deviation = s * np.sqrt(1.25)
    assert stats.kstest((newer + np.random.default_rng(3).uniform(-0.5, 0.5, n)) / deviation, "norm").pvalue > ALPHA
    assert stats.kstest(newer / s, "norm").pvalue < ALPHA
    z = float(np.corrcoef(newer, older)[0, 1] + 0.5 / 1.25) * np.sqrt(n)
    assert abs(z) < 6 and abs(np.corrcoef(newer, older)[0, 1]) > 0.39   # independent noise: 0 +- 0.002


@pytest.mark.parametrize(
    ("sigma", "coefficients", "message"),
    [
        (0.0, (1.0,), "sigma must be > 0"),
        (1.0, (1.5,), r"coefficients must be in \[-1, 1\]"),
        (1.0, (float("nan"),), r"coefficients must be in \[-1, 1\]"),
        (1.0, (0.0,), "more than 0"),
        (1.0, (1.0,) * 17, "at most 16"),
    ],
)
def test_what_it_refuses(sigma, coefficients, message):
    reserved, _ = streams_of("chacha8", len(coefficients))
    total = _core.ClippedSum([10], 1.0, sigma, 2**20, "exact")
    with pytest.raises(ValueError, match=message):
        total.release_correlated([np.empty(10, np.float32)], reserved, coefficients)
