"""The float64 variates are within BOUND of the ideal value at the centre of their 64 bits, relatively, on every backend.

Relative to the value itself, however close to zero: u next to 1, angles next to multiples of a quarter turn. The ideal
values come from ball arithmetic (Arb, through python-flint) on exact dyadic arguments.
"""

from functools import lru_cache

import numpy as np
from flint import arb, ctx

from evidence.reference import adversarial
from evidence.reference.sizes import scaled

BOUND = 2.0**-50  # 8 e for e = 2^-53, half a unit in the last place of 1: 4 to 8 units in the last place
WORKING_BITS = 200
SAMPLES_PER_KIND = scaled(10_000, 300_000)


def reduction_edges():
    """Words where a logarithm may change its power of two, or hand over to another function."""
    thirds = [(1 << k) * j // 3 for k in range(34) for j in (1, 2, 4)]
    return [edge for edge in thirds + adversarial.window_edges() if edge <= 1 << 32]


def hard_words(rng, centres):
    """(word, low word): random ones, ends, words at and beside the centres with any low word and with an extreme one."""
    extremes = np.array([0, 1, 2, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1], dtype=np.uint32)
    powers = adversarial.words_near(rng, SAMPLES_PER_KIND, adversarial.window_edges(), reach=1)
    words = [
        adversarial.random_words(rng, SAMPLES_PER_KIND),
        adversarial.random_words(rng, SAMPLES_PER_KIND) >> rng.integers(0, 32, SAMPLES_PER_KIND, dtype=np.uint32),
        adversarial.end_words(rng, SAMPLES_PER_KIND, reach=20),
        adversarial.words_near(rng, SAMPLES_PER_KIND, centres),
        adversarial.words_near(rng, SAMPLES_PER_KIND, centres, reach=1),
        rng.choice(extremes, SAMPLES_PER_KIND),
    ]
    low = [
        adversarial.random_words(rng, SAMPLES_PER_KIND),
        adversarial.random_words(rng, SAMPLES_PER_KIND),
        powers,
        adversarial.random_words(rng, SAMPLES_PER_KIND),
        rng.choice(extremes, SAMPLES_PER_KIND),
        rng.choice(extremes, SAMPLES_PER_KIND),
    ]
    return np.concatenate(words), np.concatenate(low)


def exponential(k, bits):
    """-ln u at the centre of [k, k + 1] / 2^bits."""
    return -arb((2 * k + 1, -bits - 1)).log()


def normal_pair(radius_bits, angle_bits):
    """(cosine, sine) from 64 bits each: docs/format.md, section 3."""
    radius = (2 * exponential(radius_bits, 64)).sqrt()
    half_turn, v = angle_bits >> 63, angle_bits & ((1 << 63) - 1)
    if v >> 62:
        v -= 1 << 63
    angle = arb((2 * v + 1, -64)) + half_turn
    return radius * angle.cos_pi(), radius * angle.sin_pi()


def laplace(bits):
    """Z from the word (bit 0 the sign) and the low word."""
    word, low = bits >> 32, bits & 0xFFFFFFFF
    magnitude = exponential((word >> 1) << 32 | low, 63)
    return -magnitude if word & 1 else magnitude


def in_two_parts(balls):
    """Each value as an unevaluated sum of two float64 in the last axis: 100 bits of it."""
    first = [float(ball.mid()) for ball in balls]
    return np.array([(high, float((ball - high).mid())) for ball, high in zip(balls, first, strict=True)])


def joined(words, low):
    return [int(word) << 32 | int(rest) for word, rest in zip(words, low, strict=True)]


@lru_cache(maxsize=1)
def gaussian_set():
    """(A, A low, B, B low), (ideal cosine outputs, ideal sine outputs)"""
    rng = np.random.default_rng(41)
    radius, radius_low = hard_words(rng, reduction_edges())
    angle, angle_low = hard_words(rng, np.arange(16) << 28)
    mixed = rng.permutation(angle.size)  # every kind of radius beside every kind of angle
    angle, angle_low = angle[mixed], angle_low[mixed]
    ctx.prec = WORKING_BITS
    pairs = [normal_pair(*bits) for bits in zip(joined(radius, radius_low), joined(angle, angle_low), strict=True)]
    return (radius, radius_low, angle, angle_low), tuple(in_two_parts(values) for values in zip(*pairs, strict=True))


@lru_cache(maxsize=1)
def laplace_set():
    """(word, low word), ideal values"""
    words, low = hard_words(np.random.default_rng(42), reduction_edges())
    words[::2] ^= np.uint32(1)  # both signs of every kind
    ctx.prec = WORKING_BITS
    return (words, low), in_two_parts([laplace(bits) for bits in joined(words, low)])


def relative_errors(got, ideal):
    return np.abs((got - ideal[:, 0]) - ideal[:, 1]) / np.abs(ideal[:, 0])


def report(name, errors, words):
    worst = errors.argmax()
    print(f"{name}: at most {errors[worst] * 2**53:.2f} e, words {[hex(word[worst]) for word in words]}")


def test_normals_are_within_the_bound(backend, hooks):
    words, ideal = gaussian_set()
    got = hooks.normals_f64(backend, *words)
    for name, values, exact in zip(("cosine", "sine"), got, ideal, strict=True):
        errors = relative_errors(values, exact)
        report(f"{backend} {name}", errors, words)
        assert errors.max() < BOUND


def test_laplaces_are_within_the_bound(backend, hooks):
    words, ideal = laplace_set()
    errors = relative_errors(hooks.laplaces_f64(backend, *words), ideal)
    report(f"{backend} Laplace", errors, words)
    assert errors.max() < BOUND


def is_rejected(got, ideal):
    return relative_errors(got, ideal).max() > BOUND


def test_wrong_normals_are_rejected(backend, hooks):
    (radius, radius_low, angle, angle_low), (ideal_cosine, ideal_sine) = gaussian_set()
    cosine, sine = hooks.normals_f64(backend, radius, radius_low, angle, angle_low)
    zeros = np.zeros_like(radius)
    mutants = {
        "places changed": (sine, cosine),
        "a quarter turn further": (-sine, cosine),
        "radius of the first word alone": hooks.normals_f64(backend, radius, zeros, angle, angle_low),
        "angle of the first word alone": hooks.normals_f64(backend, radius, radius_low, angle, zeros),
        "the last bit of u": hooks.normals_f64(backend, radius, radius_low ^ np.uint32(1), angle, angle_low),
        "the last bit of v": hooks.normals_f64(backend, radius, radius_low, angle, angle_low ^ np.uint32(1)),
        "16 e too large": (cosine * (1 + 2.0**-49), sine * (1 + 2.0**-49)),
    }
    for name, (wrong_cosine, wrong_sine) in mutants.items():
        assert is_rejected(wrong_cosine, ideal_cosine), name
        assert is_rejected(wrong_sine, ideal_sine), name


def test_wrong_laplaces_are_rejected(backend, hooks):
    (words, low), ideal = laplace_set()
    z = hooks.laplaces_f64(backend, words, low)
    mutants = {
        "the other sign": -z,
        "the first word alone": hooks.laplaces_f64(backend, words, np.zeros_like(low)),
        "the last bit": hooks.laplaces_f64(backend, words, low ^ np.uint32(1)),
        "16 e too large": z * (1 + 2.0**-49),
    }
    for name, mutant in mutants.items():
        assert is_rejected(mutant, ideal), name
