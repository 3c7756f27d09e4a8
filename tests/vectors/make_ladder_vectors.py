"""Writes ladder.csv and ladder_bits.csv: roundings n = round(X + s * Z) that are hard to decide, worked out by mpmath.

    python make_ladder_vectors.py [FOLDER]

Written from docs/format.md alone, with its own ChaCha; needs mpmath. The output is the same on every run.

ladder.csv      law,rounds,key,nonce,index,word_a,word_b,output,x,s,log2_distance,n
    The uniforms go on with the extension blocks of (key, nonce, rounds) at `index`. word_a is A, or W for Laplace; word_b is B.
    X + s * Z is 2^log2_distance (rounded down) from the nearest half-integer. x and s are hexadecimal doubles.
ladder_bits.csv law,output,radius_words,angle_words,x,s,steps,decided,n,truth
    The words of all 8 extension blocks are given, not drawn, most significant first. A sample's interval contains a
    half-integer up to and including the step before `steps`; at that step it is 32 of its own widths away from one,
    or (decided = 0) all 8 steps leave it open. truth is X + s * Z with zeros behind the given words, truncated,
    as sign, 8 hexadecimal digits, a point and the fraction.
"""

import math
import random
import struct
import sys
from pathlib import Path

from mpmath import mp, mpf

EXTENSION_STEPS = 8
SATURATION = 1 << 24
MAX_S = 128.0


# --- the key stream, section 1 -----------------------------------------------------------------------------------------

def rotate_left(x, r):
    return (x << r | x >> (32 - r)) & 0xFFFFFFFF


def quarter_round(s, a, b, c, d):
    s[a] = (s[a] + s[b]) & 0xFFFFFFFF
    s[d] = rotate_left(s[d] ^ s[a], 16)
    s[c] = (s[c] + s[d]) & 0xFFFFFFFF
    s[b] = rotate_left(s[b] ^ s[c], 12)
    s[a] = (s[a] + s[b]) & 0xFFFFFFFF
    s[d] = rotate_left(s[d] ^ s[a], 8)
    s[c] = (s[c] + s[d]) & 0xFFFFFFFF
    s[b] = rotate_left(s[b] ^ s[c], 7)


def chacha_block(key, nonce, rounds, counter):
    initial = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<QQ", counter, nonce)))
    state = initial[:]
    for _ in range(rounds // 2):
        for column in range(4):
            quarter_round(state, column, 4 + column, 8 + column, 12 + column)
        for diagonal in range(4):
            quarter_round(state, diagonal, 4 + (diagonal + 1) % 4, 8 + (diagonal + 2) % 4, 12 + (diagonal + 3) % 4)
    return [(a + b) & 0xFFFFFFFF for a, b in zip(state, initial)]


def extension_blocks(stream, index, steps=EXTENSION_STEPS):
    key, nonce, rounds = stream
    return [chacha_block(key, nonce, rounds, (step << 56) | index) for step in range(1, steps + 1)]


# --- the variates, section 3 -------------------------------------------------------------------------------------------

def joined(words):
    value = 0
    for word in words:
        value = value << 32 | word
    return value


def gaussian_variate(radius_words, angle_words, output):
    """Z for the given words followed by zeros, at the working precision."""
    u = mp.ldexp(mpf(joined(radius_words)), -32 * len(radius_words))
    first = angle_words[0]
    v = joined([first & 0x7FFFFFFF, *angle_words[1:]]) - ((first >> 30 & 1) << 32 * len(angle_words) - 1)
    angle = mp.pi * (mp.ldexp(mpf(v), 1 - 32 * len(angle_words)) + (first >> 31))
    return mp.sqrt(-2 * mp.log(u)) * (mp.sin(angle) if output == "sine" else mp.cos(angle))


def laplace_variate(words):
    u = mp.ldexp(mpf(joined([words[0] >> 1, *words[1:]])), 1 - 32 * len(words))
    return mp.log(u) if words[0] & 1 else -mp.log(u)


class Sample:
    """One sample with all its words: law, output, words of u, words of v."""

    def __init__(self, law, output, radius_words, angle_words=()):
        self.law, self.output = law, output
        self.radius_words, self.angle_words = list(radius_words), list(angle_words)

    def cut(self, count):
        return Sample(self.law, self.output, self.radius_words[:count], self.angle_words[:count])

    def variate(self):
        if self.law == "gaussian":
            return gaussian_variate(self.radius_words, self.angle_words, self.output)
        return laplace_variate(self.radius_words)


def drawn_sample(law, output, word_a, word_b, stream, index, steps):
    blocks = extension_blocks(stream, index, steps)
    if law == "gaussian":
        return Sample(law, output, [word_a, *(w for b in blocks for w in b[:8])], [word_b, *(w for b in blocks for w in b[8:])])
    return Sample(law, output, [word_a, *(w for b in blocks for w in b)])


# --- rounding, section 5 -----------------------------------------------------------------------------------------------

def exact_sum(x, s, z):
    return mpf(x) + mpf(s) * z


def rounded(t):
    return max(-SATURATION, min(SATURATION, int(mp.floor(t + mpf(1) / 2))))


def distance_from_tie(t):
    return abs(t - mp.floor(t) - mpf(1) / 2)


def nearest_half_integer(t):
    return mp.floor(t) + mpf(1) / 2


def log2_floor(value):
    return int(mp.floor(mp.log(value, 2)))


# --- ladder.csv --------------------------------------------------------------------------------------------------------

DRAWN_STEPS = 2            # 544 bits: far beyond any closeness a double X can be placed at
DRAWN_PRECISION = 900
MIN_LOG2_DISTANCE = -300   # what those bits certainly decide

SPECIAL_A = [0, 1, 2, 3, 1000, (1 << 18) - 1, 1 << 18, 0x55555555, 0x55555556, 1 << 31, (1 << 31) - 1, 0xAAAAAAAA, 0xAAAAAAAB,
             0xC0000000, (1 << 32) - (1 << 15), (1 << 32) - 2, (1 << 32) - 1]
SPECIAL_B = [0, 1, 2, (1 << 28) - 1, 1 << 28, (1 << 29) - 1, 1 << 29, (1 << 30) - 1, 1 << 30, (1 << 30) + 1, 3 << 29, (3 << 29) - 1,
             (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 5 << 29, 3 << 30, (1 << 32) - 1]
SPECIAL_W = [0, 1, 2, 3, 4, 5, 2000, 2001, (1 << 19) + 1, 1 << 31, (1 << 31) - 1, 0x55555555, 0x55555556, 0xAAAAAAAA, 0xAAAAAAAB,
             (1 << 32) - (1 << 15), (1 << 32) - 4, (1 << 32) - 3, (1 << 32) - 2, (1 << 32) - 1]
X_REACHES = [0.0, 1.0, 50.0, 2.0**10, 2.0**21]
TINY_S = 2.0**-9


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def random_s(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice([64.0, 128.0, 127.99999237060547, 1.0, TINY_S])
    if kind == 1:
        return float32(2.0 ** rng.uniform(-9, 6))
    return float32(rng.uniform(64, 128))


def placed_at(rng, z, s, reach, k):
    """A double X, |X| about `reach`, that puts X + s * z near 2^-k from a half-integer."""
    tie = nearest_half_integer(rng.uniform(-reach, reach) + mpf(s) * z)
    return float(tie + rng.choice((-1, 1)) * rng.uniform(1, 2) * mpf(2) ** -k - mpf(s) * z)


def tuned(rng, z, k):
    """(x, s) with s a double that brings s * z itself next to a half-integer, so that X is tiny and its ulp too; or None."""
    tie = nearest_half_integer(random_s(rng) * z)
    s = float(tie / z)
    if not 0 < s <= MAX_S:
        return None
    return float(tie + rng.choice((-1, 1)) * rng.uniform(1, 2) * mpf(2) ** -k - mpf(s) * z), s


def drawn_cases(rng):
    """(law, output, word_a, word_b, k, deep)."""
    word = lambda: rng.getrandbits(32)
    outputs = ("cosine", "sine")
    for k in range(5, 61):
        for output in outputs:
            for _ in range(6):
                yield "gaussian", output, word(), word(), k, False
        for _ in range(5):
            yield "laplace", "-", word(), 0, k, False
    for k in range(40, 97):
        for output in outputs:
            yield "gaussian", output, word(), word(), k, True
        yield "laplace", "-", word(), 0, k, True
    for a in SPECIAL_A:
        for b in SPECIAL_B:
            yield "gaussian", rng.choice(outputs), a, b, rng.randrange(5, 61), False
        for output in outputs:
            yield "gaussian", output, a, word(), rng.randrange(5, 61), False
            yield "gaussian", output, a, word(), rng.randrange(40, 97), True
    for b in SPECIAL_B:
        for output in outputs:
            yield "gaussian", output, word(), b, rng.randrange(5, 61), False
            yield "gaussian", output, word(), b, rng.randrange(40, 97), True
    for w in SPECIAL_W:
        for _ in range(5):
            yield "laplace", "-", w, 0, rng.randrange(5, 61), False
        yield "laplace", "-", w, 0, rng.randrange(40, 97), True


def drawn_rows(rng):
    mp.prec = DRAWN_PRECISION
    keys = [rng.randbytes(32) for _ in range(6)]
    for law, output, word_a, word_b, k, deep in drawn_cases(rng):
        stream = (rng.choice(keys), rng.getrandbits(rng.choice((4, 64))), rng.choice((8, 12, 20)))
        index = rng.getrandbits(rng.choice((3, 20, 56)))
        z = drawn_sample(law, output, word_a, word_b, stream, index, DRAWN_STEPS).variate()
        if deep:
            placement = tuned(rng, z, k)
            if placement is None:
                continue
            x, s = placement
        else:
            s = random_s(rng)
            x = placed_at(rng, z, s, rng.choice(X_REACHES), k)
        t = exact_sum(x, s, z)
        log2_distance = log2_floor(distance_from_tie(t))
        assert log2_distance > MIN_LOG2_DISTANCE
        key, nonce, rounds = stream
        yield law, rounds, key.hex(), nonce, index, word_a, word_b, output, x.hex(), s.hex(), log2_distance, rounded(t)


# --- ladder_bits.csv ---------------------------------------------------------------------------------------------------

WORDS_PER_STEP = {"gaussian": 8, "laplace": 16}
GUARD_WORDS = 3
REQUIRED_TIGHTNESS = 32


def words_of(fraction, count, first_bits):
    """`fraction` in [0, 1) as `count` words, the first of them `first_bits` long."""
    value = int(mp.floor(mp.ldexp(fraction, first_bits + 32 * (count - 1))))
    rest = [value >> 32 * place & 0xFFFFFFFF for place in reversed(range(count - 1))]
    return [value >> 32 * (count - 1), *rest]


def tie_sample(rng, law, output, s, count):
    """A sample whose s * Z is a half-integer as nearly as all its words allow."""
    while True:
        if law == "gaussian":
            angle_words = [rng.getrandbits(32) for _ in range(count)]
            radius_one = Sample(law, output, [1], angle_words)
            trigonometric = radius_one.variate() / mp.sqrt(64 * mp.log(2))   # u = 2^-32 has radius sqrt(64 ln 2)
            tie = nearest_half_integer(s * rng.uniform(0.3, 3.0) * trigonometric)
            u = mp.exp(-((tie / (s * trigonometric)) ** 2) / 2)
            if mpf(2) ** -60 < u < 1 - mpf(2) ** -40:
                return Sample(law, output, words_of(u, count, 32), angle_words)
        else:
            tie = nearest_half_integer(s * rng.uniform(0.0, 4.0))
            u = mp.exp(-tie / s)
            if mpf(2) ** -60 < u < 1 - mpf(2) ** -40:
                words = words_of(u, count, 31)
                return Sample(law, output, [words[0] * 2 + rng.getrandbits(1), *words[1:]])


def replace_tail(words, start, kind, rng):
    fill = {"random": lambda: rng.getrandbits(32), "zeros": lambda: 0, "ones": lambda: 0xFFFFFFFF}[kind]
    return [*words[:start], *(fill() for _ in words[start:])]


def interval_half_width(sample, s):
    """Half the change of s * Z over the interval of the known bits, at least: |dr| |c| + r |dc| as if both factors were 1."""
    bits = 32 * len(sample.radius_words)
    if sample.law == "laplace":
        prefix = joined([sample.radius_words[0] >> 1, *sample.radius_words[1:]])
        return s / (2 * mpf(prefix))
    prefix = joined(sample.radius_words)
    radius = mp.sqrt(-2 * mp.log(mp.ldexp(mpf(2 * prefix + 1), -bits - 1)))
    return s * (1 / (2 * mpf(prefix) * radius) + radius * mp.pi * mpf(2) ** -bits)


def corner_sums(sample, x, s):
    """X + s * Z at every end of the intervals of the known bits."""
    bits = 32 * len(sample.radius_words)
    if sample.law == "laplace":
        prefix = joined([sample.radius_words[0] >> 1, *sample.radius_words[1:]])
        sign = -1 if sample.radius_words[0] & 1 else 1
        return [exact_sum(x, s, -sign * mp.log(mp.ldexp(mpf(p), 1 - bits))) for p in (prefix, prefix + 1)]
    prefix = joined(sample.radius_words)
    first = sample.angle_words[0]
    v = joined([first & 0x7FFFFFFF, *sample.angle_words[1:]]) - ((first >> 30 & 1) << bits - 1)
    circular = mp.sin if sample.output == "sine" else mp.cos
    return [exact_sum(x, s, mp.sqrt(-2 * mp.log(mp.ldexp(mpf(p), -bits)))
                      * circular(mp.pi * (mp.ldexp(mpf(q), 1 - bits) + (first >> 31))))
            for p in (prefix, prefix + 1) for q in (v, v + 1)]


def expected_steps(sample, x, s):
    """(steps, decided), or None where a step is neither clearly open nor clearly decided."""
    t = exact_sum(x, s, sample.variate())
    for step in range(1, EXTENSION_STEPS + 1):
        known = sample.cut(1 + step * WORDS_PER_STEP[sample.law])
        corners = corner_sums(known, x, s)
        if distance_from_tie(t) > REQUIRED_TIGHTNESS * interval_half_width(known, s):
            return step, True
        tie = nearest_half_integer(t)
        if not min(corners) < tie < max(corners):
            return None
    return EXTENSION_STEPS, False


def midpoint(sample):
    """The sample at the midpoints of its uniforms' intervals: a half word behind its words."""
    half = [0x80000000]
    return Sample(sample.law, sample.output, sample.radius_words + half, sample.angle_words and sample.angle_words + half)


def fixed_point_text(t, fraction_words):
    digits = 8 * fraction_words
    value = int(mp.floor(mp.ldexp(abs(t), 32 * fraction_words)))
    text = f"{value:0{digits + 8}x}"
    return f"{'-' if t < 0 else '+'}{text[:8]}.{text[8:]}"


def bits_cases(rng):
    """(sample, x, s)."""
    kinds = ("random", "zeros", "ones")
    for law, outputs in (("gaussian", ("cosine", "sine")), ("laplace", ("-",))):
        per_step = WORDS_PER_STEP[law]
        count = 1 + EXTENSION_STEPS * per_step
        for output in outputs:
            # Words equal to those of a tie up to some step, then free: decided at the step after, or never.
            for step in range(EXTENSION_STEPS + 1):
                for tail in kinds:
                    s = random_s(rng)
                    sample = tie_sample(rng, law, output, s, count)
                    start = 1 + step * per_step
                    sample.radius_words = replace_tail(sample.radius_words, start, tail, rng)
                    yield sample, 0.0, s
            # Ties moved by a tiny X, to either side.
            for k in (150, 200, 250, 300, 500, 900):
                for side in (-1, 1):
                    s = random_s(rng)
                    yield tie_sample(rng, law, output, s, count), side * rng.uniform(1, 2) * 2.0**-k, s
            # Ends of the range: words that begin with many zeros or many ones, u and v.
            for zeros in (1, 2, 3, 8, 9, 40):
                for fill in (0, 0xFFFFFFFF):
                    radius_words = [fill] * zeros + [rng.getrandbits(32) for _ in range(count - zeros)]
                    angle_words = [rng.getrandbits(32) for _ in range(count)]
                    sample = Sample(law, output, radius_words, angle_words if law == "gaussian" else ())
                    yield sample, rng.uniform(-4, 4), random_s(rng)
            if law == "gaussian":
                for first in SPECIAL_B:
                    fill = rng.choice((0, 0xFFFFFFFF))
                    zeros = rng.choice((1, 3, 9, 40))
                    angle_words = [first] + [fill] * zeros + [rng.getrandbits(32) for _ in range(count - zeros - 1)]
                    sample = Sample(law, output, [rng.getrandbits(32) for _ in range(count)], angle_words)
                    yield sample, rng.choice((0.0, 0.5, -0.5, 0.25)), random_s(rng)


def bits_rows(rng):
    mp.prec = 9000
    hexadecimal = lambda words: "".join(f"{w:08x}" for w in words) or "-"
    for sample, x, s in bits_cases(rng):
        expected = expected_steps(sample, x, s) if any(sample.cut(1 + WORDS_PER_STEP[sample.law]).radius_words) else None
        steps, decided = expected or (0, False)
        t = exact_sum(x, s, sample.variate())
        n = rounded(t if decided else exact_sum(x, s, midpoint(sample).variate()))
        yield (sample.law, sample.output, hexadecimal(sample.radius_words), hexadecimal(sample.angle_words), x.hex(), s.hex(),
               steps, int(decided), n, fixed_point_text(t, len(sample.radius_words) + GUARD_WORDS))


def write(path, header, rows):
    rows = list(rows)
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    print(f"{path.name}: {len(rows)} rows")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    write(folder / "ladder.csv", "law,rounds,key,nonce,index,word_a,word_b,output,x,s,log2_distance,n",
          drawn_rows(random.Random(20)))
    write(folder / "ladder_bits.csv", "law,output,radius_words,angle_words,x,s,steps,decided,n,truth",
          bits_rows(random.Random(21)))


if __name__ == "__main__":
    main()
