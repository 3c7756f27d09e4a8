"""Samples placed next to a rounding boundary: X + s * Z as far from a half-integer as a float32 evaluation may err.

Random inputs come that close once in thousands of samples and cannot show that a bound is wrong.
"""

import numpy as np

from . import exact

ANGLE_STEP = 1 << 28  # 1/8 in v: its multiples are the angles 0, +-pi/8, +-pi/4, ...


def gaussian_bound(s, radius):
    """A typical float32 bound: constant, per s and per scaled radius. Distances are taken relative to it."""
    return 1.25e-7 + 6.3e-8 * s + 4.85e-7 * s * radius


def laplace_bound(s, magnitude):
    return 1.25e-7 + 6.3e-8 * s + 2.5e-7 * s * magnitude


def _beside_a_boundary(rng, noise, bound, reach, dtype, factors):
    """X of the dtype with X + noise at a distance of factor * bound from a half-integer, |X| up to `reach`.

    Where the spacing of the dtype at X is wider than that, X is the nearest there is; `closeness` tells them apart.
    """
    low, high = factors
    distance = bound * np.exp(rng.uniform(np.log(low), np.log(high), noise.size))
    side = rng.choice((-1.0, 1.0), noise.size)
    boundary = np.rint(rng.uniform(-reach, reach, noise.size) + noise) + 0.5
    return (boundary + side * distance - noise).astype(dtype).astype(np.float64)


def across_a_boundary(rng, noise, error, dtype):
    """X of the dtype, small, with X + noise on one side of a half-integer and X + noise + error on the other."""
    boundary = np.rint(noise) + 0.5
    return (boundary - rng.uniform(0.0, 1.0, noise.size) * error - noise).astype(dtype).astype(np.float64)


def closeness(x, noise, bound):
    """Distance of x + noise from the nearest half-integer, in units of the bound."""
    t = x + noise
    return np.abs(np.abs(t - np.rint(t)) - 0.5) / bound


def gaussian(rng, count, s, *, reach, dtype, factors=(0.2, 1.2), words=None):
    """(A, B, X cosine, X sine): `count` pairs or, with words = (A, B), one for each."""
    if words is None:
        words = random_words(rng, count), random_words(rng, count)
    a, b = words
    radius = np.sqrt(-2.0 * np.log((a + 0.5) / 2.0**32))
    bound = gaussian_bound(s, radius)
    inputs = [_beside_a_boundary(rng, s * z, bound, reach, dtype, factors) for z in exact.gaussian_values(a, b)]
    return a, b, *inputs


def laplace(rng, count, s, *, reach, dtype, factors=(0.2, 1.2), words=None):
    """(word, X)."""
    if words is None:
        words = random_words(rng, count)
    z = exact.laplace_values(words)
    return words, _beside_a_boundary(rng, s * z, laplace_bound(s, np.abs(z)), reach, dtype, factors)


def random_words(rng, count):
    return rng.integers(0, 1 << 32, count, dtype=np.uint32)


def end_words(rng, count, reach=3000):
    """Words among the first and the last `reach` + 1 of the 2^32."""
    small = rng.integers(0, reach + 1, count, dtype=np.uint32)
    return np.where(rng.random(count) < 0.5, small, np.uint32(0xFFFFFFFF) - small)


def words_near(rng, count, centres, reach=8):
    """Words within `reach` of one of the centres, around 2^32."""
    centre = rng.choice(np.asarray(centres, dtype=np.int64), count)
    return ((centre + rng.integers(-reach, reach + 1, count)) % (1 << 32)).astype(np.uint32)


def words_inside(rng, count, window):
    """Words just inside an accept window {"smallest_word", "largest_word"}: within 2^15 of either edge."""
    smallest, largest = int(window["smallest_word"]), int(window["largest_word"])
    offset = rng.integers(0, 1 << 15, count)
    return np.where(rng.random(count) < 0.5, smallest + offset, largest - offset).astype(np.uint32)


def special_angles(rng, count):
    """Angle words at and beside multiples of 2^28."""
    return words_near(rng, count, np.arange(16) * ANGLE_STEP)


def window_edges():
    """Powers of two and their complements: where an accept window on the radius word may begin or end."""
    powers = [1 << k for k in range(33)]
    return powers + [(1 << 32) - p for p in powers]
