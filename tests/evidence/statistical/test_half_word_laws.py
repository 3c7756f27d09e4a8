"""Exact releases of version 3 follow the ideal law on their grid: together, and apart by the level that decides them.

alpha = 1e-6 each. s is in [8, 16), or less where clip_norm sets the grid, so every law is that of the rounded integer.
- Together: the two statistics of test_release_laws.py, n = 4 * 10^6 (4 * 10^7) samples.
- Level 0 decides n if the half word leaves nothing open. Chi-square of the integers so decided, and of "open" as one more cell, at
  one X: Laplace, n = 4 * 10^6 samples, against the cells' probabilities by enumeration of all half words; Gaussian, n = 2 * 10^6
  pairs, either output, against those of the ideal law without what is open there, which 1.7 * 10^7 other words estimate (their
  variance is added). About 130 cells.
- Level 1 and below: given its half word, an integer has the law of X + s Z over what that word leaves open. Dithered by that law it is
  uniform: Kolmogorov-Smirnov (two) on n = 2 * 10^5 pairs, either output, and 4 * 10^5 Laplace samples, whose X leave all of them open.
"""

from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from evidence.exact.rows import MIDDLE, between_integers
from evidence.reference import chacha, checks, exact, half, release
from evidence.reference.sizes import scaled
from evidence.reference.stream import ROUNDS
from evidence.statistical.draws import ALPHA, CDF, CIPHERS, UPPER_TAIL, noise, released_integers
from hushvec._native import _core

LAWS = pytest.mark.parametrize("law", ("gaussian", "laplacian"))
SHAPE = (scaled(4_000, 40_000), 1_000)
SEED = 501
BACKEND = _core.backends()["active"]
HOOKS = _core._testing


# ---- together ----


def rows_inside_the_ball(dtype="float32"):
    return np.random.default_rng(401).uniform(-0.03, 0.03, SHAPE).astype(dtype)


def dithered_p_value(law, n, x, s):
    return checks.uniformity(checks.dithered_uniforms(n, x, s, CDF[law], np.random.default_rng(402)))


@LAWS
@pytest.mark.parametrize("sigma", (0.8, 1.0, 2.0**-19))  # s = 12.8, 8, and 4 where clip_norm sets the grid
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("cipher", CIPHERS)
def test_dithered_releases_are_uniform(law, sigma, dtype, cipher):
    n, x, s = released_integers(law, rows_inside_the_ball(dtype), 1.0, sigma, seed=403, cipher=cipher, version=3)
    assert dithered_p_value(law, n, x, s) > ALPHA


@LAWS
@pytest.mark.parametrize("offset", (0.0, 0.25, 0.5, -3.375))
@pytest.mark.parametrize("cipher", CIPHERS)
def test_cells(law, offset, cipher):
    n, s = constant_release(law, offset, cipher)
    assert checks.cells(n, offset, s, CDF[law], UPPER_TAIL[law]) > ALPHA
    mutants = {
        "scale 1 % too large": np.rint(offset + 1.01 * s * noise(law, n.size, dtype="float64", seed=404)),
        "one cell never drawn": np.where(n == 7, 8, n),
        "rounded down": np.floor(offset + s * noise(law, n.size, dtype="float64", seed=404)),
    }
    for name, mutant in mutants.items():
        assert checks.cells(mutant, offset, s, CDF[law], UPPER_TAIL[law]) < ALPHA, name


@lru_cache
def constant_release(law, offset, cipher="chacha8", sigma=0.8):
    """(n, s) of a release whose X is the same everywhere."""
    g = _core.exact_grid(sigma, 100.0, half_words=True)[1]
    x = np.full(SHAPE, offset * g, dtype=np.float32)
    n, in_grid_units, s = released_integers(law, x, 100.0, sigma, seed=SEED, cipher=cipher, version=3)
    assert in_grid_units[0] == offset
    return n, s


# ---- by level ----


def pair_words(size, cipher="chacha8"):
    """The words of the main domain that a release of SEED reads."""
    groups = -(-size // (2 * chacha.GROUP))
    words = np.asarray(HOOKS.keystream(BACKEND, chacha.seed_key(SEED), 0, ROUNDS[cipher], 0, 0, groups))
    return words[: -(-size // chacha.GROUP) * chacha.PAIRS_PER_GROUP]


def by_pair(values, pairs):
    """Values of samples as [2, pairs]: the first and the second samples."""
    padded = np.zeros(2 * pairs)
    padded[: values.size] = values
    return np.stack(release.box_muller_words(padded))


def chi_square(observed, expected, variance, least_expected=25.0):
    """p-value for counts whose expectations are known up to this variance; thin cells are joined."""
    order = np.argsort(expected)
    thin = order[np.cumsum(expected[order]) < least_expected]
    cells = np.ones(expected.size, dtype=bool)
    cells[thin] = False
    joined = [np.append(values[cells], values[thin].sum()) for values in (observed, expected, variance)]
    used = joined[1] > 0
    statistic = np.sum((joined[0][used] - joined[1][used]) ** 2 / (joined[1][used] + joined[2][used]))
    return float(stats.chi2.sf(statistic, used.sum() - 1))


REACH = 130  # integers beyond are cut off there: of s = 12.8 less than 1 in 10^22 (Gaussian), 4 in 10^5 (Laplace)


def counts_of(n, is_open):
    """Of each integer that level 0 decides, and of what it leaves open."""
    decided = np.clip(n[~is_open], -REACH, REACH).astype(np.int64) + REACH
    return np.append(np.bincount(decided, minlength=2 * REACH + 1), is_open.sum()).astype(np.float64)


def ideal_cells(law, offset, s):
    values = np.arange(-REACH, REACH + 1, dtype=np.float64)
    cells = checks.cell_probabilities(values, offset, s, CDF[law], UPPER_TAIL[law])
    cells[0], cells[-1] = CDF[law]((values[0] + 0.5 - offset) / s), UPPER_TAIL[law]((values[-1] - 0.5 - offset) / s)
    return cells


@lru_cache
def gaussian_shares(offset, s):
    """(probabilities, variances) of the cells of counts_of for either output: the ideal law without what is open, which words of
    another generator estimate."""
    words_at_once, rounds = 1 << 22, 4
    rng = np.random.default_rng(405)
    x = np.full(words_at_once, offset)
    found = np.zeros((2, 2 * REACH + 1))
    for _ in range(rounds):
        words = rng.integers(0, 1 << 32, words_at_once, dtype=np.uint32)
        opened = words[np.asarray(HOOKS.half_gaussian(BACKEND, words, x, x, s)[5]).astype(bool)]
        for output, z in enumerate(refined(opened, seed=rng.integers(1 << 32))):
            found[output] += counts_of(np.rint(offset + s * z), np.zeros(z.size, dtype=bool))[:-1]
    total = words_at_once * rounds
    shares = found / total
    ideal = ideal_cells("gaussian", offset, s)
    return [(np.append(ideal - share, share.sum()), np.append(share, share.sum()) / total) for share in shares]


def laplace_shares(offset, s):
    """The same of one Laplace sample, by enumeration of the half words: without variance."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    n, _, _, is_open = (np.asarray(part) for part in HOOKS.half_laplace(BACKEND, halves, np.full(halves.size, offset), s))
    return counts_of(n, is_open.astype(bool)) / halves.size


@pytest.mark.parametrize("offset", (0.0, 0.25, 0.5))
@pytest.mark.parametrize("output", (0, 1), ids=("cosine", "sine"))
@pytest.mark.parametrize("cipher", CIPHERS)
def test_gaussian_integers_that_level_0_decides(offset, output, cipher):
    n, s = constant_release("gaussian", offset, cipher)
    words = pair_words(n.size, cipher)
    x = np.full(words.size, offset)
    is_open = np.asarray(HOOKS.half_gaussian(BACKEND, words, x, x, s)[5]).astype(bool)
    n = by_pair(n, words.size)[output]
    whole = slice(0, n.size - chacha.PAIRS_PER_GROUP)  # without the last group, which may be short
    shares, variances = gaussian_shares(offset, s)[output]
    p_value = lambda n, is_open: chi_square(  # noqa: E731
        counts_of(n[whole], is_open[whole]), n[whole].size * shares, n[whole].size ** 2 * variances
    )
    assert p_value(n, is_open) > ALPHA
    z = noise("gaussian", n.size, dtype="float64", seed=406)
    mutants = {
        "scale 1 % too large": (np.rint(offset + 1.01 * s * z), is_open),
        "rounded down": (np.floor(offset + s * z), is_open),
        "one cell never drawn": (np.where(n == 7, 8, n), is_open),
        "as open as by chance": (np.rint(offset + s * z), np.random.default_rng(407).random(n.size) < is_open.mean()),
        "nothing left open": (n, np.zeros_like(is_open)),
    }
    for name, mutant in mutants.items():
        assert p_value(*mutant) < ALPHA, name


@pytest.mark.parametrize("offset", (0.0, 0.25, 0.5))
@pytest.mark.parametrize("cipher", CIPHERS)
def test_laplace_integers_that_level_0_decides(offset, cipher):
    n, s = constant_release("laplacian", offset, cipher)
    words = pair_words(n.size, cipher)
    halves = release.in_sample_order(words >> np.uint32(16), words & np.uint32(0xFFFF), n.size)
    is_open = np.asarray(HOOKS.half_laplace(BACKEND, halves, np.full(n.size, offset), s)[3]).astype(bool)
    expected = n.size * laplace_shares(offset, s)
    p_value = lambda n, is_open: chi_square(counts_of(n, is_open), expected, np.zeros_like(expected))  # noqa: E731
    assert p_value(n, is_open) > ALPHA
    z = noise("laplacian", n.size, dtype="float64", seed=408)
    mutants = {
        "scale 1 % too large": (np.rint(offset + 1.01 * s * z), is_open),
        "rounded down": (np.floor(offset + s * z), is_open),
        "one cell never drawn": (np.where(n == 7, 8, n), is_open),
        "nothing left open": (n, np.zeros_like(is_open)),
    }
    for name, mutant in mutants.items():
        assert p_value(*mutant) < ALPHA, name


def gaussian_cdf_given_words(words, output, t, nodes=16):
    """P(R cos <= t) (output 1: sin) over what each word leaves open: exact in the radius; in the angle the mean of evenly spaced ones,
    the first at random, so that over many words nothing is left of the spacing but its square, 3 in 10^4."""
    start = np.random.default_rng(413).random(words.size)
    low15 = (words & np.uint32(0x7FFF)).astype(np.int64)
    turn = (low15 - (low15 >> 14 << 15)).astype(np.float64)
    sign = np.where(words & np.uint32(0x8000), -1.0, 1.0)
    u = (words >> np.uint32(16)).astype(np.float64)
    total = np.zeros(words.size)
    for node in range(nodes):
        angle = np.pi * (turn + (node + start) / nodes) / 2.0**15
        unit = sign * (np.cos(angle) if output == 0 else np.sin(angle))
        radius = np.maximum(t / unit, 0.0)
        below = np.clip(2.0**16 * np.exp(-0.5 * radius * radius) - u, 0.0, 1.0)  # share of u whose radius is above
        total += np.where(unit > 0, np.where(t > 0, 1.0 - below, 0.0), np.where(t > 0, 1.0, below))
    return total / nodes


def laplace_cdf_given_halves(halves, t):
    """P(Z <= t) over what each half word leaves open."""
    k = (halves >> np.uint32(1)).astype(np.float64)
    above = np.clip(2.0**15 * np.exp(-np.abs(t)) - k, 0.0, 1.0)  # share of u whose magnitude is above |t|
    positive = np.where(t > 0, 1.0 - above, 0.0)
    negative = np.where(t > 0, 1.0, above)
    return np.where(halves & np.uint32(1), negative, positive)


def refined(words, seed):
    """Z of both outputs, by refinements of another generator."""
    more = np.random.default_rng(seed).integers(0, 1 << 32, words.size, dtype=np.uint32)
    return exact.gaussian_values(*half.gaussian_words(words, more))


def given_words_p_value(cdf, negative, n, x, s):
    """Of integers dithered by the law given their words; also counted from 0 outward, by the sign that the word holds."""
    low, high = cdf((n - 0.5 - x) / s), cdf((n + 0.5 - x) / s)
    u = low + np.random.default_rng(409).random(n.size) * (high - low)
    return min(1.0, 2 * min(checks.uniformity(u), checks.uniformity(np.where(negative, 1.0 - u, u))))


def undecided_release(law, cipher):
    """(n, X, s, words) of 4 * 10^5 samples that no half word decides."""
    sigma, clip_norm, shape = 0.8, 1000.0, (400, 1024)
    x = between_integers(law, shape, clip_norm, sigma, seed=SEED, cipher=cipher, spread=0.7)
    n, x, s = released_integers(law, x, clip_norm, sigma, seed=SEED, cipher=cipher, version=3)
    return n, x, s, pair_words(n.size, cipher)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_gaussian_integers_that_level_0_leaves_open(cipher):
    n, x, s, words = undecided_release("gaussian", cipher)
    n, x = by_pair(n, words.size), by_pair(x, words.size)
    made = [np.asarray(part) for part in HOOKS.half_gaussian(BACKEND, words, *x, s)]
    assert (made[5] == 1).all()
    z = refined(words, seed=410)  # by another refinement
    middle = exact.gaussian_values(*half.gaussian_words(words, np.full_like(words, MIDDLE)))
    for output in (0, 1):
        cdf = lambda t, output=output: gaussian_cdf_given_words(words, output, t)  # noqa: E731
        p_value = lambda n, output=output, cdf=cdf: given_words_p_value(cdf, middle[output] < 0, n, x[output], s)  # noqa: E731
        assert p_value(n[output]) > ALPHA
        assert p_value(np.rint(x[output] + s * z[output])) > ALPHA  # the mutants differ from this by one thing each
        mutants = {
            "as level 0 had it": made[output].astype(np.float64),
            "rounded down": np.floor(x[output] + s * z[output]),
            "scale 1 in 10^4 too large": np.rint(x[output] + 1.0001 * s * z[output]),
        }
        for name, mutant in mutants.items():
            assert p_value(mutant) < ALPHA, name


@pytest.mark.parametrize("cipher", CIPHERS)
def test_laplace_integers_that_level_0_leaves_open(cipher):
    n, x, s, words = undecided_release("laplacian", cipher)
    halves = release.in_sample_order(words >> np.uint32(16), words & np.uint32(0xFFFF), n.size)
    at_level_0, _, _, is_open = (np.asarray(part) for part in HOOKS.half_laplace(BACKEND, halves, x, s))
    assert (is_open == 1).all()
    both = half.laplace_words(words, np.random.default_rng(411).integers(0, 1 << 32, words.size, dtype=np.uint32))
    z = exact.laplace_values(release.in_sample_order(*both, n.size))
    cdf = lambda t: laplace_cdf_given_halves(halves, t)  # noqa: E731
    p_value = lambda n: given_words_p_value(cdf, halves & np.uint32(1), n, x, s)  # noqa: E731
    assert p_value(n) > ALPHA
    assert p_value(np.rint(x + s * z)) > ALPHA
    mutants = {
        "as level 0 had it": at_level_0.astype(np.float64),
        "rounded down": np.floor(x + s * z),
        "scale 1 in 10^4 too large": np.rint(x + 1.0001 * s * z),
    }
    for name, mutant in mutants.items():
        assert p_value(mutant) < ALPHA, name


@pytest.mark.parametrize("word", (0x80008000, 0x12345678, 0xFF00C001, 0x00030002))
def test_the_law_given_a_word_is_the_one_of_its_refinements(word):
    """The conditional law that is tested against, itself tested: binomial counts below five points, n = 10^5."""
    words = np.full(200_000, word, dtype=np.uint32)
    for output, z in enumerate(refined(words, seed=412)):
        for t in np.quantile(z[:100_000], (0.1, 0.3, 0.5, 0.7, 0.9)):
            below, probability = int((z[100_000:] <= t).sum()), gaussian_cdf_given_words(words[:1], output, t, nodes=4096)[0]
            assert checks.count(below, 100_000, probability) > ALPHA, (output, t)
            assert checks.count(below, 100_000, 0.9 * probability) < ALPHA
