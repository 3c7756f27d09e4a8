"""Section 15 of docs/format.md, written from that page alone: whole numbers, and ball arithmetic (Arb, through python-flint)."""

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cache
from itertools import accumulate

from flint import arb, ctx, fmpq

from . import chacha, stream

LOW, ATTEMPTS = 27, 28
HEIGHT_BITS = 1408
MOST_INT32 = 2**31 - 1


def settled(test):
    """The answer of a test that has one once ctx.prec is large enough; None before."""
    ctx.prec = 128
    while (answer := test()) is None:
        ctx.prec *= 2
    return answer


class Law:
    """The steps of a law with parameter `scale`."""

    def __init__(self, law, scale):
        self.law, self.scale = law, Fraction(scale)
        e = math.frexp(scale)[1]
        self.b = max(0, e - {"gaussian": 8, "laplacian": 7}[law])
        self.c = min(self.b, 13)
        self.h = math.floor({"gaussian": 5.0, "laplacian": 13.0}[law] * math.ldexp(scale, -self.b)) + 2
        self.m = next(m for m in range(42) if 2**m >= self.scale)
        steps = [i // 2 if i % 2 == 0 else -(i + 1) // 2 for i in range(2 * self.h)]
        ends = [sorted((q << self.b, ((q + 1) << self.b) - 1), key=abs) for q in steps]
        total = sum(self.floor(2**24, near) + 1 for near, _ in ends)
        self.C = ((2**32 - 2**16 - 2 * self.h * 2**self.c) << 24) // (total << self.c)
        self.steps = steps
        self.n = [self.floor(self.C, far) for _, far in ends]
        self.x = [self.floor(self.C, near) + 1 - n for (near, _), n in zip(ends, self.n)]
        self.ends = list(accumulate(count << self.c for count in self.n + self.x)) + [0]
        self.ends[-1] = self.ends[-2] + 2**16

    def weight(self, k):
        exponent = Fraction(k * k) / (2 * self.scale**2) if self.law == "gaussian" else Fraction(abs(k)) / self.scale
        return (-arb(fmpq(exponent.numerator, exponent.denominator))).exp()

    def floor(self, factor, k):
        return int(settled(lambda: (factor * self.weight(k)).floor().unique_fmpz()))

    def below(self, square, shift, k, draws):
        """square + V < C 2^shift w(k)?"""

        def test():
            bits = min(HEIGHT_BITS, ctx.prec)
            height = draws.height(bits)
            curve = self.C * arb(2) ** shift * self.weight(k) - square
            if curve >= arb((height + 1, -bits)):
                return True
            if curve <= arb((height, -bits)) or (bits == HEIGHT_BITS and ctx.prec > 4 * bits):
                return False
            return None

        return settled(test)


class Draws:
    """The blocks of one attempt at a sample."""

    def __init__(self, key, nonce, rounds, sample, attempt):
        self.first = (((sample >> 14 << 12) + attempt << 14) + sample % 2**14) << 2
        self.block = cache(lambda i: stream.lone_blocks(key, nonce, rounds, ATTEMPTS, [self.first + i])[0].tolist())

    def height(self, bits):
        words = self.block(0)[4:] if bits <= 384 else self.block(0)[4:] + self.block(2) + self.block(3)
        return integer(words) >> (32 * len(words) - bits)

    def leading_zeros(self):
        return 512 - integer(self.block(1)).bit_length()


def integer(words):
    total = 0
    for word in words:
        total = total << 32 | word
    return total


def judged(law, word, low, draws):
    """(accepted, k) of one attempt."""
    place = bisect_right(law.ends, word)
    if place < 4 * law.h:
        i = place % (2 * law.h)
        k = (law.steps[i] << law.b) + ((word % 2**law.c) << (law.b - law.c)) + (low >> (32 - law.b + law.c))
        if place < 2 * law.h:
            return True, k
        return law.below(law.n[i] + ((word - law.ends[place - 1]) >> law.c), 0, k, draws), k
    if place > 4 * law.h:
        return False, 0
    d = word - law.ends[place - 1]
    g = draws.leading_zeros()
    y = (law.h << law.b) + (g << law.m) + (integer(draws.block(0)[2:4]) >> (64 - law.m))
    k = -1 - y if d % 2 else y
    return law.below(d // 2, g + 1 + law.m - law.b + law.c, k, draws), k


def settle(law, key, nonce, rounds, sample, word, low):
    for attempt in range(2**12):
        draws = Draws(key, nonce, rounds, sample, attempt)
        accepted, k = judged(law, word, low, draws)
        if accepted:
            return k
        word, low = draws.block(0)[:2]
    return k


def samples(law, key, nonce, rounds, first_group, groups):
    """Samples of whole groups."""
    words = stream.words(key, nonce, rounds, first_group, groups).tolist()
    lows = stream.words(key, nonce, rounds, first_group, groups, domain=LOW).tolist() if law.b > law.c else [0] * len(words)
    first = first_group * chacha.GROUP
    return [settle(law, key, nonce, rounds, first + i, word, low) for i, (word, low) in enumerate(zip(words, lows))]
