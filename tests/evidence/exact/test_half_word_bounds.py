"""What level 0 of version 3 accepts from half a word is decided, whatever the other half is: at the edge of its limit, on every
backend.

The truth of a word is a rectangle of radius and angle, and s Z is extreme at its corners. `X` is chosen so that the lane's X + s Z is
just inside or just outside the limit, on the side of the corner that is farthest from it.
"""

from functools import lru_cache

import numpy as np
import pytest

from evidence.reference import half
from evidence.reference.sizes import scaled

STREAM = (bytes(range(50, 82)), 5, 8)  # key, nonce, rounds
S = 12.8
HALVES = 1 << 16
ANGLES = 1 << 15
CORNERS = tuple((outer, end) for outer in (False, True) for end in (0, 1))
EXPONENTS = (*range(2, 18),)


@lru_cache
def ends():
    """(radii, cosines, sines) at the ends of intervals: of u from 0 on, of the angle from -1/2 half turns on."""
    with np.errstate(divide="ignore"):
        radii = np.sqrt(-2.0 * np.log(np.arange(HALVES + 1) / HALVES))
    v = np.pi * (np.arange(ANGLES + 1) / ANGLES - 0.5)
    return radii, np.cos(v), np.sin(v)


def corner_values(words, output):
    """float64[corners, words]: Z of one output at the corners of each word's rectangle."""
    radii, *circular = ends()
    place = ((words & 0x7FFF) + ANGLES // 2) % ANGLES
    sign = np.where(words & 0x8000, -1.0, 1.0)
    k = (words >> 16).astype(np.int64)
    return np.stack([sign * radii[k + (not outer)] * circular[output][place + end] for outer, end in CORNERS])


def refinement(corner, words):
    """The refinements that come closest to a corner."""
    outer, end = CORNERS[corner]
    return np.full(words.shape, (0 if outer else 0xFFFF0000) | (0xFFFF if end else 0), dtype=np.uint32)


def rounding(noise):
    """More than float32 rounds d by, of this s Z, and less than 1 % of any bound."""
    return 2.0**-22 * (1.0 + np.abs(noise))


class Edge:
    """Words, and X of both outputs that put the lane's value `factor` of the bound's width from a boundary that a corner is towards.

    The other output is far from every boundary.
    """

    def __init__(self, hooks, backend, words, s, output, factor):
        self.words, self.s = words, s
        zero = np.zeros(words.size)
        n_and_d = hooks.half_gaussian(backend, words, zero, zero, s)
        noise = [np.asarray(n, dtype=np.float64) + d for n, d in zip(n_and_d[:2], n_and_d[2:4], strict=True)]  # s Z as the lane has it
        self.width = 0.5 - np.asarray(n_and_d[4], dtype=np.float64)  # of the bound in use
        errors = s * corner_values(words, output) - noise[output]
        self.corner = np.abs(errors).argmax(axis=0)
        self.error = np.take_along_axis(errors, self.corner[None], axis=0)[0]
        self.share = np.abs(self.error) / self.width
        boundary = np.rint(noise[output]) + 0.5
        self.x = [np.rint(part) - part for part in noise]
        self.x[output] = boundary - np.sign(self.error) * (factor * self.width + rounding(noise[output])) - noise[output]

    def level_0(self, hooks, backend, factor):
        """(n cosine, n sine, open) where the bound is that factor of the one in use."""
        n_cosine, n_sine, *_, is_open = hooks.half_gaussian(backend, self.words, *self.x, self.s, bound_factor=factor)
        return np.asarray(n_cosine), np.asarray(n_sine), np.asarray(is_open).astype(bool)

    def wrong(self, hooks, backend, n_cosine, n_sine):
        """Which words have a refinement, among those at the corners, whose integers are not these."""
        found = np.zeros(self.words.size, dtype=bool)
        for corner in range(len(CORNERS)):
            a, b = half.gaussian_words(self.words, refinement(corner, self.words))
            exact = hooks.exact_gaussian(backend, *STREAM, 0, a, b, *self.x, self.s)
            found |= (exact[0] != n_cosine) | (exact[1] != n_sine)
        return found


def radii_of(exponent, exponents, bounds):
    """The upper halves of words inside the window whose u has this exponent."""
    k = np.arange(HALVES)
    inside = (k << 16 >= bounds["smallest_word"]) & (k << 16 <= bounds["largest_word"])
    return k[inside & (exponents == exponent)]


def scale_for(exponent, bounds):
    """12.8, or what leaves a limit where the radius' interval is wide."""
    return min(S, 0.3 / bounds["per_scale"][exponent % 16])


@lru_cache
def worst_words(hooks, backend, exponent, output):
    """The 50 words, of the radii that err most, whose corner takes the largest share of the bound in use."""
    bounds = hooks.error_bounds(backend)["half_gaussian"]
    all_radii = np.arange(HALVES, dtype=np.uint32) << np.uint32(16)
    computed, exponents, *_ = hooks.half_normals(backend, all_radii)
    mine = radii_of(exponent, np.asarray(exponents), bounds)
    computed = np.asarray(computed, dtype=np.float64)[mine]
    error = np.maximum(np.abs(computed - ends()[0][mine]), np.abs(computed - ends()[0][mine + 1]))
    by_share = (error + computed * bounds["per_radius"]) / (bounds["per_scale"][exponent % 16] + computed * bounds["per_radius"])
    measures = error, by_share, 0.7 * error + 4e-5 * computed
    chosen = np.unique(np.concatenate([mine[np.argsort(measure)[-3:]] for measure in measures]))
    words = (chosen.astype(np.uint32)[:, None] << np.uint32(16) | np.arange(HALVES, dtype=np.uint32)).reshape(-1)
    edge = Edge(hooks, backend, words, scale_for(exponent, bounds), output, 1.0)
    return words[np.argsort(edge.share)[-50:]]


@pytest.mark.parametrize("output", (0, 1), ids=("cosine", "sine"))
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_a_bound_that_is_too_small_accepts_what_a_refinement_changes(backend, hooks, exponent, output):
    """A bound of 0.99 of the largest share of the bound in use, found here, accepts such words; the bound in use leaves them open.

    Where u is smallest the share is above 0.99, so that a bound 1 % too small is caught as it is; elsewhere no word errs by the whole
    of the radius' error and of the angle's at once.
    """
    bounds = hooks.error_bounds(backend)["half_gaussian"]
    words, s = worst_words(hooks, backend, exponent, output), scale_for(exponent, bounds)
    share = Edge(hooks, backend, words, s, output, 1.0).share.max()
    assert (0.99 if exponent <= 3 and output == 0 else 0.5) < share <= 1.0
    too_small = 0.99 * share
    edge = Edge(hooks, backend, words, s, output, too_small)
    n_cosine, n_sine, is_open = edge.level_0(hooks, backend, too_small)
    decided_otherwise = edge.wrong(hooks, backend, n_cosine, n_sine)
    assert (decided_otherwise & ~is_open).any()
    assert edge.level_0(hooks, backend, 1.0)[2][decided_otherwise].all()


def random_words(hooks, backend, seed, count):
    """Words of every exponent in equal parts."""
    bounds = hooks.error_bounds(backend)["half_gaussian"]
    rng = np.random.default_rng(seed)
    all_radii = np.arange(HALVES, dtype=np.uint32) << np.uint32(16)
    exponents = np.asarray(hooks.half_normals(backend, all_radii)[1])
    for exponent in EXPONENTS:
        radii = rng.choice(radii_of(exponent, exponents, bounds), count).astype(np.uint32)
        yield exponent, radii << np.uint32(16) | rng.integers(0, HALVES, count, dtype=np.uint32)


@pytest.mark.parametrize("output", (0, 1), ids=("cosine", "sine"))
def test_nothing_that_is_accepted_changes_with_its_refinement(backend, hooks, output):
    """X puts 16 * 1,000 (20,000) random words just inside the limit, beside the worst corner of each."""
    bounds = hooks.error_bounds(backend)["half_gaussian"]
    accepted = 0
    for exponent, words in random_words(hooks, backend, 71, scaled(1_000, 20_000)):
        edge = Edge(hooks, backend, words, scale_for(exponent, bounds), output, 1.0)
        n_cosine, n_sine, is_open = edge.level_0(hooks, backend, 1.0)
        accepted += (~is_open).sum()
        assert not (edge.wrong(hooks, backend, n_cosine, n_sine) & ~is_open).any()
    assert accepted > 10 * scaled(1_000, 20_000)


def test_a_quarter_of_the_bound_is_caught(backend, hooks):
    bounds = hooks.error_bounds(backend)["half_gaussian"]
    for exponent, words in random_words(hooks, backend, 72, 1_000):
        edge = Edge(hooks, backend, words, scale_for(exponent, bounds), 0, 0.25)
        n_cosine, n_sine, is_open = edge.level_0(hooks, backend, 0.25)
        assert (edge.wrong(hooks, backend, n_cosine, n_sine) & ~is_open).sum() > 10, exponent


def test_words_outside_the_window_are_open(backend, hooks):
    k = np.array([0, HALVES - 80, HALVES - 79, HALVES - 1], dtype=np.uint32)
    words = (k[:, None] << np.uint32(16) | np.arange(0, HALVES, 97, dtype=np.uint32)).reshape(-1)
    zero = np.zeros(words.size)
    assert np.asarray(hooks.half_gaussian(backend, words, zero, zero, 0.01)[5]).all()
    inside = np.array([1 << 16, (HALVES - 81) << 16 | 0xFFFF], dtype=np.uint32)
    assert not np.asarray(hooks.half_gaussian(backend, inside, np.zeros(2), np.zeros(2), 0.01)[5]).any()
    assert np.asarray(hooks.half_laplace(backend, [0, 1, 2, 3], np.zeros(4), 0.01)[3]).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("sign", (0, 1))
@pytest.mark.parametrize("factor", (1.0, 0.98, 0.25))
def test_laplace_at_both_ends_of_every_half_word(backend, hooks, sign, factor):
    """All 2^15 half words of a sign, at the edge of the limit towards the worse end: those that are accepted keep their integer where
    the bound is the one in use; where it is 2 % too small, words of every exponent change theirs."""
    halves = np.arange(2 + sign, HALVES, 2, dtype=np.uint32)
    bounds = hooks.error_bounds(backend)["half_laplacian"]
    exponents = np.asarray(hooks.half_exponentials(backend, halves)[1])
    k = halves >> 1
    ends_of = [np.append(-np.log(np.arange(1, HALVES // 2) / (HALVES // 2)), 0.0)[k - 1 + end] for end in (0, 1)]
    changed = set()
    for exponent in np.unique(exponents):
        here = np.flatnonzero(exponents == exponent)
        s, words = min(S, 0.3 / bounds["per_scale"][exponent % 16]), halves[here]
        n, d, limit, _ = (np.asarray(part, dtype=np.float64) for part in hooks.half_laplace(backend, words, np.zeros(here.size), s))
        noise, side = n + d, 1 - 2 * sign
        errors = np.stack([side * s * end[here] - noise for end in ends_of])
        error = np.take_along_axis(errors, np.abs(errors).argmax(axis=0)[None], axis=0)[0]
        x = np.rint(noise) + 0.5 - np.sign(error) * (factor * (0.5 - limit) + rounding(noise)) - noise
        n, _, _, is_open = (np.asarray(part) for part in hooks.half_laplace(backend, words, x, s, bound_factor=factor))
        assert (is_open == 0).any()
        for more in (0, 0xFFFF):
            joined = half.laplace_words(words, np.full(words.shape, more))[1]
            wrong = (hooks.exact_laplace(backend, *STREAM, 0, joined, x, s) != n) & (is_open == 0)
            if wrong.any():
                changed.add(int(exponent))
    assert changed == (set() if factor == 1 else set(np.unique(exponents).tolist()))
