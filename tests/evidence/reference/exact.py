"""The released integer of one sample, n = round(X + s * Z) over the reals: docs/format.md, sections 3 and 5.

The uniforms are intervals that shrink as bits are drawn. Every operation on them is ball arithmetic (Arb, through
python-flint), so that a returned n is proved: the whole interval of X + s * Z rounds to it, whatever the bits not yet
drawn are. While it does not, the next extension block is drawn, exactly as long as the format allows.

For volume `use_filter` lets numpy settle what is far from a boundary. It evaluates both ends of the word's interval in
float64 and accepts only if the result stays FILTER_MARGIN away from the nearest half-integer. |X + s * Z| is below 2^22
there, so float64 functions would have to be wrong by more than 2^20 units in the last place for it to accept falsely.
"""

import math

import numpy as np
from flint import arb, ctx

from . import chacha
from . import stream as key_stream

SATURATION = 1 << 24
GUARD_BITS = 96  # working precision beyond the bits of the uniform
FILTER_MARGIN = 2.0**-10
FILTER_LIMIT = 2.0**22

GAUSSIAN_STEP_BITS = 256
LAPLACE_STEP_BITS = 512


class Undecided(ArithmeticError):
    """All the bits the format allows did not settle a sample; happens with probability below 2^-2000."""


def integer_of(extension_words):
    """The words as one integer, the most significant first."""
    value = 0
    for word in extension_words:
        value = value << 32 | int(word)
    return value


def radius_interval(k, bits):
    """A ball holding sqrt(-2 ln u) for every u in [k, k + 1] / 2^bits; None where it is unbounded (k = 0)."""
    if k == 0:
        return None
    upper = (arb((k, -bits)).log() * -2).sqrt()
    if k + 1 == 1 << bits:
        return arb(0).union(upper)
    return (arb((k + 1, -bits)).log() * -2).sqrt().union(upper)


def exponential_interval(k, bits):
    """A ball holding -ln u for every u in [k, k + 1] / 2^bits; None where it is unbounded (k = 0)."""
    if k == 0:
        return None
    upper = -arb((k, -bits)).log()
    if k + 1 == 1 << bits:
        return arb(0).union(upper)
    return (-arb((k + 1, -bits)).log()).union(upper)


def angle_interval(k, bits, half_turn):
    """A ball holding v + half_turn for every v in [k, k + 1] / 2^bits; k may be negative."""
    centre = 2 * k + 1 + (half_turn << (bits + 1))
    return arb((centre, -bits - 1), (1, -bits - 1))


def nearest_integer(t):
    """The integer that every number of the ball rounds to, or None; saturated."""
    n = (t + 0.5).floor().unique_fmpz()
    return None if n is None else max(-SATURATION, min(SATURATION, int(n)))


class GaussianPair:
    """Radius and angle of one Box-Muller pair, known to 32 + 256 * step bits."""

    def __init__(self, a, b):
        a, b = int(a), int(b)
        self.u, self.u_bits = a, 32
        low = b & 0x7FFFFFFF
        self.v, self.v_bits = low - ((low >> 30) << 31), 31
        self.half_turn = b >> 31

    def extend(self, extension_words):
        self.u = self.u << GAUSSIAN_STEP_BITS | integer_of(extension_words[:8])
        self.v = (self.v << GAUSSIAN_STEP_BITS) + integer_of(extension_words[8:])
        self.u_bits += GAUSSIAN_STEP_BITS
        self.v_bits += GAUSSIAN_STEP_BITS

    def outputs(self):
        """Balls of radius * cos(angle) and radius * sin(angle), or None where the radius is unbounded."""
        ctx.prec = self.u_bits + GUARD_BITS
        radius = radius_interval(self.u, self.u_bits)
        if radius is None:
            return None
        sine, cosine = angle_interval(self.v, self.v_bits, self.half_turn).sin_cos_pi()
        return radius * cosine, radius * sine


class LaplaceSample:
    """One Laplace draw, known to 31 + 512 * step bits."""

    def __init__(self, word):
        word = int(word)
        self.u, self.u_bits = word >> 1, 31
        self.negative = word & 1

    def extend(self, extension_words):
        self.u = self.u << LAPLACE_STEP_BITS | integer_of(extension_words)
        self.u_bits += LAPLACE_STEP_BITS

    def outputs(self):
        """A ball of Z, as a tuple of one, or None where it is unbounded."""
        ctx.prec = self.u_bits + GUARD_BITS
        magnitude = exponential_interval(self.u, self.u_bits)
        if magnitude is None:
            return None
        return (-magnitude if self.negative else magnitude,)


def _settle(draws, indices, inputs, wanted, s, stream):
    """Integers of each draw, shape [len(draws), len(inputs)]; an output with wanted false stays 0.

    draws are GaussianPair or LaplaceSample, indices their addresses in the extension domains, inputs the X of each
    output, stream the (key, nonce, rounds).
    """
    result = np.zeros((len(draws), len(inputs)), dtype=np.int64)
    scale = arb(float(s))
    pending = range(len(draws))
    steps_used = 0
    while True:
        undecided = []
        for row in pending:
            balls = draws[row].outputs()
            for column, x in enumerate(inputs):
                if not wanted[column][row]:
                    continue
                n = None if balls is None else nearest_integer(arb(float(x[row])) + scale * balls[column])
                if n is None:
                    undecided.append(row)
                    break
                result[row, column] = n
        if not undecided:
            return result
        steps_used += 1
        if steps_used > chacha.EXTENSIONS:
            raise Undecided(f"pair or sample {indices[undecided[0]]}")
        extensions = key_stream.extension(*stream, steps_used, [indices[row] for row in undecided])
        for row, words in zip(undecided, extensions, strict=True):
            draws[row].extend(words)
        pending = undecided


def _accepts(low, high):
    """n and whether both ends of [low, high] round to it with FILTER_MARGIN to spare."""
    room = 0.5 - FILTER_MARGIN
    with np.errstate(invalid="ignore"):  # an unbounded end is never safe
        n = np.rint(0.5 * (low + high))
        safe = (np.abs(low - n) < room) & (np.abs(high - n) < room) & (np.abs(n) < FILTER_LIMIT)
    return np.where(safe, n, 0).astype(np.int64), safe


def _product_range(low, high, other_low, other_high):
    products = (low * other_low, low * other_high, high * other_low, high * other_high)
    return np.minimum.reduce(products), np.maximum.reduce(products)


def _filter_gaussian(a, b, inputs, s):
    a = a.astype(np.float64)
    with np.errstate(divide="ignore"):
        radius_high = np.sqrt(-2.0 * np.log(a / 2.0**32))
        radius_low = np.sqrt(np.maximum(0.0, -2.0 * np.log((a + 1.0) / 2.0**32)))
    low31 = (b & np.uint32(0x7FFFFFFF)).astype(np.int64)
    v = (low31 - ((low31 >> 30) << 31) + ((b >> np.uint32(31)).astype(np.int64) << 31) + 0.5) / 2.0**31
    half_width = math.pi * 2.0**-31  # above the change of sine and cosine over half the word's interval
    accepted = []
    for x, circular in zip(inputs, (np.cos(math.pi * v), np.sin(math.pi * v)), strict=True):
        with np.errstate(invalid="ignore"):
            low, high = _product_range(s * radius_low, s * radius_high, circular - half_width, circular + half_width)
        accepted.append(_accepts(x + low, x + high))
    return accepted


def _filter_laplace(word, inputs, s):
    k = (word >> np.uint32(1)).astype(np.float64)
    with np.errstate(divide="ignore"):
        high = -np.log(k / 2.0**31)
        low = np.maximum(0.0, -np.log((k + 1.0) / 2.0**31))
    sign = np.where(word & np.uint32(1), -1.0, 1.0)
    ends = (sign * s * low, sign * s * high)
    return [_accepts(inputs[0] + np.minimum(*ends), inputs[0] + np.maximum(*ends))]


def _decide(kind, words, inputs, s, stream, indices, accepted):
    """Integers [n, outputs]; accepted is what a filter has settled, (n, safe) for each output, or nothing."""
    count = len(indices)
    result = np.zeros((count, len(inputs)), dtype=np.int64)
    wanted = np.ones((len(inputs), count), dtype=bool)
    for column, (n, safe) in enumerate(accepted):
        result[:, column] = n
        wanted[column] = ~safe
    rows = np.flatnonzero(wanted.any(axis=0))
    draws = [kind(*(w[row] for w in words)) for row in rows]
    proved = _settle(draws, [int(indices[row]) for row in rows], [x[rows] for x in inputs], wanted[:, rows], s, stream)
    for column in range(len(inputs)):
        slow = wanted[column, rows]
        result[rows[slow], column] = proved[slow, column]
    return result


def gaussian(a, b, x_cosine, x_sine, s, *, key, nonce, rounds, pairs, use_filter=False):
    """int64 arrays (n of the cosine outputs, n of the sine outputs) for radius words a and angle words b.

    pairs are the pair indices that address the extension blocks; X is taken as the real number each float holds.
    """
    a, b = np.asarray(a, dtype=np.uint32), np.asarray(b, dtype=np.uint32)
    inputs = [np.asarray(x, dtype=np.float64) for x in (x_cosine, x_sine)]
    accepted = _filter_gaussian(a, b, inputs, float(s)) if use_filter else ()
    result = _decide(GaussianPair, (a, b), inputs, s, (key, nonce, rounds), pairs, accepted)
    return result[:, 0], result[:, 1]


def laplace(words, x, s, *, key, nonce, rounds, samples, use_filter=False):
    """int64 array of n for the sample words; `samples` are the sample indices that address the extension blocks."""
    words = np.asarray(words, dtype=np.uint32)
    inputs = [np.asarray(x, dtype=np.float64)]
    accepted = _filter_laplace(words, inputs, float(s)) if use_filter else ()
    return _decide(LaplaceSample, (words,), inputs, s, (key, nonce, rounds), samples, accepted)[:, 0]


def gaussian_values(a, b):
    """float64 (radius * cos, radius * sin) at the middle of the words' intervals; for tests with a float tolerance."""
    u = (np.asarray(a, dtype=np.float64) + 0.5) / 2.0**32
    b = np.asarray(b, dtype=np.uint32)
    low31 = (b & np.uint32(0x7FFFFFFF)).astype(np.int64)
    turn = low31 - ((low31 >> 30) << 31) + ((b >> np.uint32(31)).astype(np.int64) << 31)
    angle = math.pi * (turn + 0.5) / 2.0**31
    radius = np.sqrt(-2.0 * np.log(u))
    return radius * np.cos(angle), radius * np.sin(angle)


def laplace_values(words):
    """float64 Z at the middle of the words' intervals."""
    words = np.asarray(words, dtype=np.uint32)
    magnitude = -np.log(((words >> np.uint32(1)).astype(np.float64) + 0.5) / 2.0**31)
    return np.where(words & np.uint32(1), -magnitude, magnitude)


def _minus_log(k, bits):
    """-ln((k + 1/2) / 2^bits) for uint64 k, bits 63 or 64, to a few units in the last place at both ends."""
    complement = np.uint64((1 << bits) - 1) - k  # 1 - u = (complement + 1/2) / 2^bits
    small = k.astype(np.float64) + 0.5
    near_one = complement.astype(np.float64) + 0.5
    size = 2.0**bits
    with np.errstate(divide="ignore"):  # the branch not taken
        return np.where(near_one < 0.5 * size, -np.log1p(-near_one / size), -np.log(small / size))


def gaussian_values_64(a, b, a_low, b_low):
    """float64 (radius * cos, radius * sin) from 64 bits of u and 63 of v, to about 1e-15."""
    a, b, a_low, b_low = (np.asarray(w).astype(np.uint64) for w in (a, b, a_low, b_low))
    radius = np.sqrt(2.0 * _minus_log(a << np.uint64(32) | a_low, 64))
    k = ((b & np.uint64(0x7FFFFFFF)) << np.uint64(32) | b_low).astype(np.int64)
    v = np.where(k >> 62, (k - (1 << 62)) - (1 << 62), k).astype(np.float64) / 2.0**63
    sign = np.where(b >> np.uint64(31), -1.0, 1.0)
    return radius * sign * np.cos(math.pi * v), radius * sign * np.sin(math.pi * v)


def laplace_values_64(words, low_words):
    """float64 Z from 63 bits of u."""
    words, low_words = (np.asarray(w).astype(np.uint64) for w in (words, low_words))
    magnitude = _minus_log((words >> np.uint64(1)) << np.uint64(32) | low_words, 63)
    return np.where(words & np.uint64(1), -magnitude, magnitude)
