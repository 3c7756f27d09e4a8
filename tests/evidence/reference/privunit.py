"""A whole PrivUnitG release in ball arithmetic: docs/format.md, section 8.

Every real number is an Arb ball at PRECISION bits, far beyond the 224 bits of a uniform. A comparison or rounding that the ball
leaves open raises Undecided instead of guessing.
"""

import math

import numpy as np
from flint import arb, ctx

from . import chacha, clip, stream
from .exact import Undecided, integer_of
from .release import saturated

PRECISION = 420
UNIFORM_BITS = 224
UNIT = 2.0**21
SMALLEST_NORM = 2.0**-100
SIGMA_BITS = 3


def uniform(words):
    """The midpoint of the 224 bits of 7 words, in (0, 1)."""
    return arb((2 * integer_of(words) + 1, -UNIFORM_BITS - 1))


def half_turns(words):
    """The angle in units of pi: v in (-1/2, 1/2) at the midpoint of its 223 bits, and the half turn."""
    low = integer_of(words) & ((1 << (UNIFORM_BITS - 1)) - 1)
    if low >> (UNIFORM_BITS - 2):
        low -= 1 << (UNIFORM_BITS - 1)
    return arb((2 * low + 1, -UNIFORM_BITS)) + (int(words[0]) >> 31)


def polar(radius_words, angle_words):
    """(cosine, sine) values of a Box-Muller pair."""
    radius = (uniform(radius_words).log() * -2).sqrt()
    sine, cosine = half_turns(angle_words).sin_cos_pi()
    return radius * cosine, radius * sine


def less(a, b):
    """a < b, proved."""
    if a < b:
        return True
    if a >= b:
        return False
    raise Undecided("a comparison needs more than 224 bits")


def rounded(t):
    n = (t + 0.5).floor().unique_fmpz()
    if n is None:
        raise Undecided("a rounding needs more than 224 bits")
    return int(n)


def directions(rows):
    """X [n, d] as float64 integers, for rows float32 (16-bit ones widened) or float64."""
    narrow = rows.dtype == np.float32
    squares = clip.sum_of_squares(rows)
    result = np.zeros(rows.shape)
    for i, row in enumerate(rows):
        norm = math.sqrt(squares[i])
        if math.isinf(norm):
            row = np.ldexp(row, -np.frexp(np.abs(row).max())[1])
            norm = math.sqrt(clip.sum_of_squares(row[None])[0])
        if norm >= SMALLEST_NORM:
            factor = UNIT / norm
            result[i] = np.rint(row * np.float32(factor)) if narrow else np.rint(row * factor)
    return result


def normals(first, count, *, key, nonce, rounds):
    """Balls of Z for samples first to first + count - 1."""
    first_group = first // chacha.GROUP
    groups = (first + count - 1) // chacha.GROUP - first_group + 1
    main, low = (
        stream.words(key, nonce, rounds, first_group, groups, domain).reshape(groups, 2, -1).tolist()
        for domain in (chacha.DOMAIN_MAIN, chacha.DOMAIN_LOW_WORDS)
    )
    places = [divmod(sample, chacha.PAIRS_PER_GROUP) for sample in range(first, first + count)]   # half of a group, pair within it
    pairs = [half // 2 * chacha.PAIRS_PER_GROUP + pair for half, pair in places]
    extensions = stream.extension(key, nonce, rounds, 1, pairs).tolist()
    result = []
    for (half, pair), extension in zip(places, extensions, strict=True):
        (radius, angle), (radius_low, angle_low) = ([halves[pair] for halves in of[half // 2 - first_group]] for of in (main, low))
        radius_words = [radius, radius_low, *extension[0:5]]
        angle_words = [angle, angle_low, *extension[8:13]]
        result.append(polar(radius_words, angle_words)[half % 2])
    return result


def component(row, cap_probability, threshold, *, key, nonce, rounds):
    """(alpha, whether the row is in the cap)."""
    t = arb(threshold)
    rate = 0.5 * (threshold + math.sqrt(threshold * threshold + 4.0))
    in_cap = None
    for attempt in range(1 << 16):
        words = stream.attempt_lane(key, nonce, rounds, attempt, row)
        if attempt == 0:
            in_cap = (words[0] << 32 | words[1]) >> 11 < int(cap_probability * 2.0**53)
        if in_cap:
            a = t - uniform(words[2:9]).log() / rate
            if not less(uniform(words[9:16]).log() * -2, (a - rate) ** 2):
                return a, True
        else:
            a = polar(words[2:9], words[9:16])[0]
            if less(a, t):
                return a, False
    raise Undecided("no attempt was accepted")


def grid(sigma):
    """(s, g)"""
    sigma = float(clip.round_up_to_float32(sigma))
    g = 2.0 ** (math.frexp(sigma)[1] - 1 - SIGMA_BITS)
    return sigma / g, g


def int8_values(rows, cap_probability, threshold, sigma, *, key, nonce=0, rounds=20):
    """The int8 release of rows [n, d]."""
    sigma = float(clip.round_up_to_float32(sigma))
    s = sigma / int8_grid(sigma, threshold)
    return saturated(integers(rows, cap_probability, threshold, sigma, s=s, key=key, nonce=nonce, rounds=rounds))


def int8_grid(sigma, threshold):
    """g of int8 values, for a float32 sigma: docs/format.md, section 14."""
    bits = next(bits for bits in (3, 2, 1, 0) if threshold * 2.0 ** (bits + 1) <= 64)
    return 2.0 ** (math.frexp(sigma)[1] - 1 - bits)


def integers(rows, cap_probability, threshold, sigma, *, key, nonce=0, rounds=20, s=None):
    """int64 n, the shape of rows [n, d]; s = sigma / g is that of `grid` if None."""
    ctx.prec = PRECISION
    rows = np.atleast_2d(rows)
    address = dict(key=key, nonce=nonce, rounds=rounds)
    s = arb(grid(sigma)[0] if s is None else s)
    result = np.zeros(rows.shape, np.int64)
    dimension = rows.shape[1]
    for i, x in enumerate(directions(rows)):
        z = normals(i * dimension, dimension, **address)
        squares = arb(int((x * x).sum()))
        push = arb(0)
        if squares > 0:
            alpha, _ = component(i, cap_probability, threshold, **address)
            product = sum((arb(int(element)) * value for element, value in zip(x, z, strict=True)), arb(0))
            push = alpha / squares.sqrt() - product / squares
        result[i] = [rounded(s * (value + push * int(element))) for element, value in zip(x, z, strict=True)]
    return result
