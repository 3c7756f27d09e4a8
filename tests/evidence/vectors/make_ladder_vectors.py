"""Writes ladder.csv: roundings n = round(X + s * Z) that are hard to decide, worked out by mpmath.

    python make_ladder_vectors.py [FOLDER]

Written from docs/format.md alone, with its own ChaCha; needs mpmath. The output is the same on every run.

ladder.csv      law,rounds,key,nonce,index,word_a,word_b,output,x,s,log2_distance,n
    The uniforms go on with the extension blocks of (key, nonce, rounds) at `index`. word_a is A, or W for Laplace; word_b is B.
    X + s * Z is 2^log2_distance (rounded down) from the nearest half-integer. x and s are hexadecimal doubles.
"""

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


def write(path, header, rows):
    rows = list(rows)
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    print(f"{path.name}: {len(rows)} rows")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    write(folder / "ladder.csv", "law,rounds,key,nonce,index,word_a,word_b,output,x,s,log2_distance,n",
          drawn_rows(random.Random(20)))


if __name__ == "__main__":
    main()
