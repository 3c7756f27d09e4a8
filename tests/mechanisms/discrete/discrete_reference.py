"""Section 9 of docs/format.md, written from that page alone: whole numbers, and ball arithmetic (Arb, through python-flint)."""

from fractions import Fraction

from flint import arb, ctx, fmpq

from evidence.reference import chacha, stream

RESPONSE_HIGH, RESPONSE_LOW, GUMBEL_HIGH, GUMBEL_LOW, GUMBEL_EXTENSION = 20, 21, 22, 23, 24


def ball(x):
    """A real number given as a double or a fraction."""
    exact = Fraction(x)
    return arb(fmpq(exact.numerator, exact.denominator))


def response_law(epsilon, k):
    """(truth, other) in units of 2^-64."""
    ctx.prec = 256
    while True:
        ceiling = (arb(2) ** 64 / (ball(epsilon).exp() + k - 1)).ceil().unique_fmpz()
        if ceiling is not None:
            return 2**64 - (k - 1) * int(ceiling), int(ceiling)
        ctx.prec *= 2


def uniforms(key, nonce, rounds, count, high, low):
    """The first 64 bits of each uniform."""
    groups = -(-count // chacha.GROUP)
    halves = [stream.words(key, nonce, rounds, 0, groups, domain=domain)[:count].tolist() for domain in (high, low)]
    return [first << 32 | second for first, second in zip(*halves)]


def responses(key, nonce, rounds, codes, k, epsilon):
    """The answers to a flat list of codes."""
    truth, other = response_law(epsilon, k)
    answers = []
    for code, u in zip(codes, uniforms(key, nonce, rounds, len(codes), RESPONSE_HIGH, RESPONSE_LOW)):
        j = 0 if u < truth else 1 + (u - truth) // other
        answers.append((code + j) % k)
    return answers


def gumbel(prefix, bits, precision):
    """A ball that holds -ln(-ln u) for every u in [prefix, prefix + 1] / 2^bits; None where it is unbounded."""
    if prefix == 0 or prefix + 1 == 1 << bits:
        return None
    ctx.prec = precision
    return (-(-arb((prefix, -bits)).log()).log()).union(-(-arb((prefix + 1, -bits)).log()).log())


class Uniform:
    """A uniform whose bits are drawn as they are needed."""

    def __init__(self, key, nonce, rounds, sample, first_64_bits):
        self.stream, self.sample = (key, nonce, rounds), sample
        self.prefix, self.bits, self.step = first_64_bits, 64, 0

    def extend(self):
        key, nonce, rounds = self.stream
        index = (self.sample << 16) + self.step
        for word in stream.lone_blocks(key, nonce, rounds, GUMBEL_EXTENSION, [index])[0].tolist():
            self.prefix = self.prefix << 32 | word
        self.bits += 512
        self.step += 1


def beats(a, b):
    """Whether signal + noise of a is above that of b, each (exact signal, Uniform)."""
    while True:
        balls = []
        for signal, uniform in (a, b):
            noise = gumbel(uniform.prefix, uniform.bits, uniform.bits + 1500)
            balls.append(None if noise is None else ball(signal) + noise)
        if None not in balls:
            if balls[0] > balls[1]:
                return True
            if balls[0] < balls[1]:
                return False
        a[1].extend()
        b[1].extend()


def ranking(scores, row, key, nonce, rounds, eps0, sensitivity, picks):
    """The `picks` best candidates of one row, and how many extension steps the deepest uniform took.

    scores is the whole list of rows: sample numbers run over all of them.
    """
    n = len(scores[0])
    firsts = uniforms(key, nonce, rounds, n * (row + 1), GUMBEL_HIGH, GUMBEL_LOW)
    factor = Fraction(eps0) / (2 * Fraction(sensitivity))
    contest = {
        i: (factor * Fraction(scores[row][i]), Uniform(key, nonce, rounds, n * row + i, firsts[n * row + i])) for i in range(n)
    }
    chosen = []
    for _ in range(picks):
        best = None
        for i in contest:
            if best is None or beats(contest[i], contest[best]):
                best = i
        chosen.append((best, contest.pop(best)[1].step))
    return [i for i, _ in chosen], max(step for _, step in chosen)
