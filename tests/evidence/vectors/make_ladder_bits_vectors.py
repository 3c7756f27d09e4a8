"""Writes ladder_bits.csv: uniforms whose own bits bring X + s * Z next to a half-integer, worked out in ball arithmetic.

    python make_ladder_bits_vectors.py [FOLDER]

A double X places X + s * Z no closer to a tie than its last bit allows, and 96 bits of the uniforms then decide. Here the words are
solved for: X, s and all other bits are fixed, the uniform at which X + s * Z is a half-integer exactly is worked out, and
the sample's words follow it up to a chosen word of the extension, where they leave it upwards or downwards.
Written from docs/format.md alone; needs python-flint. The output is the same on every run.

ladder_bits.csv    law,output,x,s,radius_words,angle_words,steps,decided,first_step,n
    radius_words    A, E1[0..7], E2[0..7], ... (Laplace: W, E1[0..15], ...) in hexadecimal, 8 digits a word, to the last step's end
    angle_words     B, E1[8..15], E2[8..15], ... ; - for Laplace
    steps           extension blocks that decide: with fewer the known bits allow both integers; with these the answer stays the
                    same when the intervals of the uniforms are widened REQUIRED_TIGHTNESS times
    decided         0: the words agree with the tie to the end of the last block, and n is the integer nearest to the midpoint
    first_step      1: the first 8 words of E1 for each uniform decide
"""

import random
import struct
import sys
from pathlib import Path

from flint import arb, ctx, fmpq

EXTENSION_STEPS = 8
SATURATION = 1 << 24
WORD = 1 << 32
WORDS_PER_STEP = {"gaussian": 8, "laplace": 16}
FIRST_STEP_WORDS = 8
REQUIRED_TIGHTNESS = 32
MAX_ATTEMPTS = 300
HALF = fmpq(1, 2)

ctx.prec = 5000   # a Laplace uniform has 4127 bits


# --- the variates, section 3 -------------------------------------------------------------------------------------------

def rational(x):
    return fmpq(*float(x).as_integer_ratio())


def exact(q):
    return arb(q.p) / arb(q.q)


def interval(low, high):
    """The ball around [low, high]."""
    return arb(exact((low + high) / 2), exact((high - low) / 2))


def gaussian_variate(u, v, half_turn, output):
    angle = arb.pi() * (v + half_turn)
    return (-2 * u.log()).sqrt() * (angle.sin() if output == "sine" else angle.cos())


def laplace_variate(u, negative):
    return u.log() if negative else -u.log()


# A uniform's words are one integer: u = integer / 2^bits, v = the same as a signed number.
def uniform_bits(law, words):
    return 32 * words - (law == "laplace")


def joined(words):
    value = 0
    for word in words:
        value = value << 32 | word
    return value


def split(value, count):
    return [value >> 32 * i & (WORD - 1) for i in reversed(range(count))]


class Sample:
    """All words of both uniforms, the flag bit of the word that carries one taken out: a half turn, or the sign."""

    def __init__(self, law, output, flag, radius, angle, words):
        self.law, self.output, self.flag = law, output, flag
        self.radius, self.angle, self.words = radius, angle, words   # integers; angle is signed, 0 for Laplace

    def cut(self, words):
        drop = 32 * (self.words - words)
        return Sample(self.law, self.output, self.flag, self.radius >> drop, self.angle >> drop, words)

    def variate(self, low, high):
        """The ball of Z where each uniform lies between its integer + low and its integer + high."""
        u = interval(*((self.radius + e) / fmpq(1 << uniform_bits(self.law, self.words)) for e in (low, high)))
        if self.law == "laplace":
            return laplace_variate(u, self.flag)
        v = interval(*((self.angle + e) / fmpq(1 << 32 * self.words - 1) for e in (low, high)))
        return gaussian_variate(u, v, self.flag, self.output)

    def words_of_radius(self):
        if self.law == "gaussian":
            return split(self.radius, self.words)
        first, *rest = split(self.radius, self.words)
        return [first << 1 | self.flag, *rest]

    def words_of_angle(self):
        first, *rest = split(self.angle % (1 << 32 * self.words - 1), self.words)
        return [self.flag << 31 | first, *rest]


# --- rounding, section 5 -----------------------------------------------------------------------------------------------

def rounded(x, s, z):
    """n, or None where the ball of z allows two."""
    n = (exact(rational(x) + HALF) + exact(rational(s)) * z).floor().unique_fmpz()
    return None if n is None else max(-SATURATION, min(SATURATION, int(n)))


# --- solving for the words at a tie ------------------------------------------------------------------------------------

def placed(rng, z, s, reach):
    """(tie, X): a half-integer and the double X, |X| about `reach`, that brings X + s * z next to it."""
    scaled = float(s) * float(z.mid())
    tie = int(rng.uniform(-reach, reach) + scaled) + HALF
    return tie, float((exact(tie) - arb(s) * z).mid())


def floored(value):
    return int(value.floor().unique_fmpz())


def at_tie(rng, start, solve, s, reach):
    """`start` with one uniform moved to where X + s * Z is a half-integer, cut off after its last word, and X; or None."""
    z = start.variate(HALF, HALF)
    tie, x = placed(rng, z, s, reach)
    target = exact((tie - rational(x)) / rational(s))   # of Z
    bits = uniform_bits(start.law, start.words)
    if start.law == "laplace":
        magnitude = -target if start.flag else target
        if not magnitude > 0:
            return None
        return x, Sample("laplace", "-", start.flag, floored((-magnitude).exp() * (1 << bits)), 0, start.words)

    u = (2 * start.radius + 1) / fmpq(2 << bits)
    v = (2 * start.angle + 1) / fmpq(1 << bits)
    if solve == "radius":
        radius = target / gaussian_variate((arb(-1) / 2).exp(), exact(v), start.flag, start.output)   # Z / Z at radius 1
        if not radius > 0:
            return None
        solved = floored((-radius * radius / 2).exp() * (1 << bits))
        return x, Sample("gaussian", start.output, start.flag, solved, start.angle, start.words)

    cosine = target / (-2 * exact(u).log()).sqrt() * (-1 if start.flag else 1)
    if not abs(cosine) < 1 or (start.output == "cosine" and not cosine > 0):
        return None
    turns = (cosine.asin() if start.output == "sine" else cosine.acos()) / arb.pi()
    if start.output == "cosine" and start.angle < 0:
        turns = -turns
    return x, Sample("gaussian", start.output, start.flag, start.radius, floored(turns * (1 << bits - 1)), start.words)


def left_tie(rng, value, total_words, word, upwards, tail):
    """`value` up to extension word number `word`, from there on above or below; None where that word leaves no room."""
    below = 32 * (total_words - 1 - word)
    old = value >> below & (WORD - 1)
    room = WORD - 1 - old if upwards else old
    if room < 2:
        return None
    change = {"near": 2, "far": room, "random": rng.randint(2, room)}[tail]
    new = old + change if upwards else old - change
    lower = {"near": 0, "far": (1 << below) - 1 if upwards else 0, "random": rng.getrandbits(below)}[tail]
    return (value >> below + 32 << 32 | new) << below | lower


# --- ladder_bits.csv ---------------------------------------------------------------------------------------------------

A_STARTS = [None, None, None, 0x80000003, 0xFFFFFFFE, 0x00000001, 0x55555555]
B_STARTS = [None, None, None, 0x00000100, 0x3FFFFF00, 0x40000100, 0x20000001, 0x7FFFFF00]   # v near 0, 1/2, -1/2, 1/4, 0
# No known bit of u is 1 after a step: -ln u is unbounded, and with a small s nothing else would stop a decision.
SMALL_S = 2.0**-6
SMALL_REACH = 50.0
REACHES = [0.0, 50.0, 2.0**10, 2.0**21]


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def random_s(rng):
    return rng.choice([64.0, 128.0, float32(rng.uniform(64, 128)), float32(rng.uniform(64, 128)), float32(2.0 ** rng.uniform(-9, 6))])


def random_start(rng, law, output, leading_zero_words=0):
    words = 1 + EXTENSION_STEPS * WORDS_PER_STEP[law]
    radius_words = [rng.getrandbits(32) for _ in range(words)]
    angle_words = [rng.getrandbits(32) for _ in range(words)]
    first = rng.choice(A_STARTS)
    radius_words[0] = radius_words[0] if first is None else first
    radius_words[:leading_zero_words] = [0] * leading_zero_words
    bits = uniform_bits(law, words)
    radius = joined(radius_words) >> (32 * words - bits)
    first = rng.choice(B_STARTS)
    angle_words[0] = angle_words[0] if first is None else first
    if law == "laplace":
        return Sample(law, output, rng.getrandbits(1), radius, 0, words)
    angle = joined(angle_words) % (1 << bits - 1)
    return Sample(law, output, rng.getrandbits(1), radius, angle - (angle >> bits - 2 << bits - 1), words)


def row(x, s, sample, steps, decided, first_step, n):
    hexadecimal = lambda words: "".join(f"{word:08x}" for word in words)
    cut = sample.cut(1 + steps * WORDS_PER_STEP[sample.law])
    radius = hexadecimal(cut.words_of_radius())
    angle = hexadecimal(cut.words_of_angle()) if sample.law == "gaussian" else "-"
    return sample.law, sample.output, x.hex(), s.hex(), radius, angle, steps, int(decided), int(first_step), n


def certain(x, s, sample, words):
    """n from the first `words` words of each uniform, their intervals widened; None where that does not decide."""
    return rounded(x, s, sample.cut(words).variate(fmpq(-REQUIRED_TIGHTNESS), fmpq(1 + REQUIRED_TIGHTNESS)))


def decided_row(rng, case, word, upwards, tail, leading_zero_words=0):
    law, output, solve = case
    start = random_start(rng, law, output, leading_zero_words)
    s = SMALL_S if leading_zero_words else random_s(rng)
    reach = SMALL_REACH if leading_zero_words else rng.choice(REACHES)
    solved = at_tie(rng, start, solve, s, reach)
    if solved is None:
        return None
    x, tie = solved
    radius, angle = tie.radius, tie.angle
    if solve == "radius":
        radius = left_tie(rng, radius, tie.words, word, upwards, tail)
    else:
        angle = left_tie(rng, angle, tie.words, word, upwards, tail)
    if radius is None or angle is None:
        return None
    sample = Sample(tie.law, tie.output, tie.flag, radius, angle, tie.words)
    per_step = WORDS_PER_STEP[tie.law]
    steps = (word + per_step - 1) // per_step
    n = certain(x, s, sample, 1 + steps * per_step)
    if n is None:   # the other uniform is still too coarse
        return None
    first_step = word <= FIRST_STEP_WORDS
    if first_step and certain(x, s, sample, 1 + FIRST_STEP_WORDS) is None:
        return None
    # The words before `word` are those of the tie, so that all they allow includes it.
    assert sample.cut(word).radius == tie.cut(word).radius and sample.cut(word).angle == tie.cut(word).angle
    return row(x, s, sample, steps, True, first_step, n)


def undecided_row(rng, case, reach):
    law, output, solve = case
    start = random_start(rng, law, output)
    s = random_s(rng)
    solved = at_tie(rng, start, solve, s, reach)
    if solved is None:
        return None
    x, sample = solved
    n = rounded(x, s, sample.variate(HALF, HALF))
    return None if n is None else row(x, s, sample, EXTENSION_STEPS, False, False, n)


def first_that_works(attempt, *arguments):
    for _ in range(MAX_ATTEMPTS):
        found = attempt(*arguments)
        if found is not None:
            return found
    raise RuntimeError("no vector found")


def cases():
    """(law, output, solve), the kinds of words that can be solved for."""
    yield "laplace", "-", "radius"
    for output in ("cosine", "sine"):
        for solve in ("radius", "angle"):
            yield "gaussian", output, solve


def bits_rows(rng):
    for case in cases():
        law, _, solve = case
        per_step = WORDS_PER_STEP[law]
        words = [rng.randint(first, last) + step * per_step for step in range(1, EXTENSION_STEPS)
                 for first, last in ((1, 1), (2, per_step - 2), (per_step - 1, per_step - 1))]
        words += [3, 5, *range(FIRST_STEP_WORDS + 1, per_step - 1, 3)]   # the first step; Laplace: its second half too
        for word in words:
            for upwards in (True, False):
                yield first_that_works(decided_row, rng, case, word, upwards, rng.choice(("near", "far", "random")))
        if solve == "radius":
            for zeros in (per_step + 1, 2 * per_step + 1):
                for upwards in (True, False):
                    yield first_that_works(decided_row, rng, case, zeros + 3, upwards, "random", zeros)
        for reach in (50.0, 50.0, 2.0**21, 2.0**21):
            yield first_that_works(undecided_row, rng, case, reach)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    rows = list(bits_rows(random.Random(21)))
    header = "law,output,x,s,radius_words,angle_words,steps,decided,first_step,n"
    (folder / "ladder_bits.csv").write_text("\n".join([header, *(",".join(map(str, r)) for r in rows)]) + "\n")
    print(f"ladder_bits.csv: {len(rows)} rows")


if __name__ == "__main__":
    main()
