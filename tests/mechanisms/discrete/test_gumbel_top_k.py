"""One-shot Gumbel top-k: the law, the exact order, near-ties, bad input."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import ctx

import hushvec as hv
from evidence.reference import chacha, stream
from evidence.reference.sizes import scaled
from hushvec._native import _core
from hushvec.mechanisms import top_k
from hushvec.mechanisms.top_k import GumbelTopK
from mechanisms.discrete import discrete_reference as reference
from mechanisms.discrete.laws import ALPHA, p_value

ROWS = scaled(300_000, 5_000_000)


def next_nonce(generator):
    return _core._state_words(generator._reserve())[4]


def select(scores, k, eps0, sensitivity=1.0, seed=1, cipher="chacha20"):
    mechanism = GumbelTopK(k=k, epsilon_per_pick=eps0, sensitivity=sensitivity)
    return mechanism.select(scores, generator=hv.Generator.unsafe_seeded(seed, cipher=cipher))


def undecided_rows(scores, k, eps0, sensitivity=1.0, seed=1, **options):
    """(row, candidates) of the rows that float64 leaves open."""
    generator = hv.Generator.unsafe_seeded(seed)
    return _core.gumbel_top_k(np.asarray(scores, dtype=float), k, eps0, sensitivity, generator, **options)[1]


# ---- the law ----


def peeling(exponents, k):
    """Probabilities of all ordered k-tuples: an exponential mechanism on the candidates left, k times."""
    law = {}
    for outcome in itertools.permutations(range(len(exponents)), k):
        left, probability = dict(enumerate(exponents)), 1.0
        for pick in outcome:
            probability *= math.exp(left[pick]) / sum(map(math.exp, left.values()))
            del left[pick]
        law[outcome] = probability
    return law


SCORES = [0.0, 1.0, 2.5, 3.0, 0.5]


def outcomes(k, eps0, sensitivity, seed):
    chosen = select(np.tile(SCORES, (ROWS, 1)), k, eps0, sensitivity, seed)
    return np.ravel_multi_index(tuple(chosen.T), (len(SCORES),) * k)


def probabilities(k, factor):
    law = peeling([factor * s for s in SCORES], k)
    flat = np.zeros(len(SCORES) ** k)
    for outcome, probability in law.items():
        flat[np.ravel_multi_index(outcome, (len(SCORES),) * k)] = probability
    return flat


@pytest.mark.parametrize(("k", "eps0", "sensitivity"), [(1, 1.0, 1.0), (2, 1.0, 1.0), (2, 3.0, 2.0), (3, 0.7, 0.5)])
def test_law_is_that_of_peeling_exponential_mechanisms(k, eps0, sensitivity):
    """Chi-square on the ordered outcomes, 5!/(5-k)! - 1 degrees of freedom, 3 * 10^5 rows (5 * 10^6 in the full run), alpha = 1e-6."""
    counts = np.bincount(outcomes(k, eps0, sensitivity, seed=1), minlength=len(SCORES) ** k)
    law = probabilities(k, eps0 / (2 * sensitivity))
    assert (counts[law == 0] == 0).all()
    assert p_value(counts[law > 0], law[law > 0]) > ALPHA


@pytest.mark.parametrize(
    ("name", "factor"),
    [("factor 2 dropped", 1.0), ("factor 2 twice", 0.25), ("3 % more", 0.515), ("sensitivity ignored", 0.5 * 3)],
)
def test_wrong_factors_are_rejected(name, factor):
    law = probabilities(2, factor)
    counts = np.bincount(outcomes(2, 1.0, 1.0, seed=2), minlength=len(law))
    assert p_value(counts[law > 0], law[law > 0]) < ALPHA


def test_wrong_noise_is_rejected():
    """Laplace noise, Gumbel noise 3 % too small, one noise for all, and picks with fresh noise on unordered sets."""
    rng, law = np.random.default_rng(3), probabilities(2, 0.5)
    signal = 0.5 * np.tile(SCORES, (ROWS, 1))
    shape = signal.shape
    wrong = {
        "laplace": signal + rng.laplace(size=shape),
        "scaled": signal + 0.97 * rng.gumbel(size=shape),
        "normal": signal + math.pi / math.sqrt(6) * rng.normal(size=shape),
    }
    right = signal + rng.gumbel(size=shape)
    for name, noisy in {**wrong, "right": right}.items():
        best = np.argsort(-noisy, axis=1)[:, :2]
        counts = np.bincount(np.ravel_multi_index(tuple(best.T), (5, 5)), minlength=25)
        assert (p_value(counts[law > 0], law[law > 0]) > ALPHA) == (name == "right"), name


def test_equal_scores_share_a_place_evenly():
    """Chi-square with 7 degrees of freedom on the first of 8 equal scores; and on a ranking of 3, with 5."""
    first = select(np.full((ROWS, 8), 0.1), 1, 1.0, seed=4)[:, 0]
    assert p_value(np.bincount(first, minlength=8), np.full(8, 1 / 8)) > ALPHA
    ranking = select(np.zeros((ROWS, 3)), 3, 1.0, seed=5)
    assert (np.sort(ranking, axis=1) == np.arange(3)).all()
    counts = np.bincount(ranking @ [9, 3, 1], minlength=27)
    assert p_value(counts[counts > 0], np.full(6, 1 / 6)) > ALPHA


# ---- brackets ----


def exact_gumbel(prefix, bits=64):
    with mpmath.workdps(60):
        return -mpmath.log(-mpmath.log(mpmath.mpf(prefix) / mpmath.mpf(2) ** bits))


def prefixes():
    rng = np.random.default_rng(6)
    near_ends = [1 << b for b in range(64)] + [(1 << b) + 1 for b in range(1, 64)] + [2**64 - (1 << b) for b in range(64)]
    near_one = [int(2**64 * math.exp(-math.exp(-g))) for g in np.linspace(-3.5, 27, 300)]
    return np.array(sorted({*near_ends, *near_one, *rng.integers(0, 2**64, 3000, dtype=np.uint64).tolist()}), dtype=np.uint64)


def test_float64_brackets_hold_at_both_ends(hooks):
    """The whole interval of a prefix, both ends exact to 60 digits, lies in the bracket; and brackets are narrow."""
    chosen = prefixes()
    values, errors = hooks.gumbel_brackets(chosen)
    known = np.isfinite(errors)
    assert (chosen[known] > 2**20).all() and known.sum() > 3000
    needed = []
    for prefix, value, error in zip(chosen[known].tolist(), values[known].tolist(), errors[known].tolist()):
        off = max(abs(exact_gumbel(prefix) - value), abs(exact_gumbel(prefix + 1) - value))
        assert off <= error
        needed.append(float(off / error))
    assert max(needed) > 0.02  # the bound is a bound, not a shot in the dark
    ordinary = (chosen > 2**50) & (chosen < 2**64 - 2**50)
    assert errors[ordinary].max() < 1e-13


def test_unknown_brackets_are_at_the_ends_only(hooks):
    _, errors = hooks.gumbel_brackets(np.array([0, 1, 2**10, 2**64 - 1, 2**64 - 2**10], dtype=np.uint64))
    assert np.isinf(errors).all()
    _, errors = hooks.gumbel_brackets(np.array([2**26, 2**64 - 2**27], dtype=np.uint64))
    assert np.isfinite(errors).all()


def test_caps_are_above_all_continuations(hooks):
    words = np.array(sorted({*range(300), *(2**32 - 1 - w for w in range(300)), *range(0, 2**32, 10_000_019)}), dtype=np.uint32)
    caps = hooks.gumbel_caps(words)
    assert np.isinf(caps[words == 2**32 - 1]).all()
    for word, cap in zip(words.tolist(), caps.tolist()):
        if word < 2**32 - 1:
            assert exact_gumbel(word + 1, 32) <= mpmath.mpf(cap) * (1 + mpmath.mpf(2) ** -52)


@pytest.mark.parametrize("bits", [64, 576, 1088])
def test_settling_brackets_hold(bits):
    """Decimal against mpmath with other arithmetic: both ends inside, the width that of the unknown bits."""
    rng = np.random.default_rng(7)
    for prefix in [1, 2, 2**bits - 2, *(int.from_bytes(rng.bytes(bits // 8), "big") for _ in range(6))]:
        low, high = top_k.noisy_bracket(Fraction(3, 7), prefix, bits)
        with mpmath.workdps(bits + 80):
            for end in (prefix, prefix + 1):
                value = mpmath.mpf(3) / 7 + (-mpmath.log(-mpmath.log(mpmath.mpf(end) / mpmath.mpf(2) ** bits)))
                assert mpmath.mpf(low.numerator) / low.denominator <= value <= mpmath.mpf(high.numerator) / high.denominator
    assert top_k.noisy_bracket(Fraction(0), 0, bits).low == -math.inf
    assert top_k.noisy_bracket(Fraction(0), 2**bits - 1, bits).high == math.inf


# ---- known answers ----


@pytest.mark.parametrize("cipher", ["aes256", "chacha20", "chacha8"])
@pytest.mark.parametrize(("rows", "n", "k"), [(1, 1, 1), (3, 2, 2), (7, 17, 5), (4, 300, 4), (1, 257, 50)])
def test_selections_are_those_of_the_reference(cipher, rows, n, k):
    scores = np.random.default_rng(8).normal(size=(rows, n))
    got = select(scores, k, 1.3, 0.7, seed=2**250 + 3, cipher=cipher)
    for row in range(rows):
        expected, _ = reference.ranking(scores.tolist(), row, chacha.seed_key(2**250 + 3), 0, stream.ROUNDS[cipher], 1.3, 0.7, k)
        assert got[row].tolist() == expected


def test_a_row_alone_and_a_list_select_the_same():
    scores = [0.5, 2.0, -1.0, 3.5, 0.25]
    expected = select(np.array([scores]), 2, 1.0, seed=9)[0].tolist()
    assert select(scores, 2, 1.0, seed=9).tolist() == expected
    assert select(tuple(scores), 2, 1.0, seed=9).tolist() == expected


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint16", ">f4"])
def test_dtypes_hold_the_same_numbers(dtype):
    scores = np.random.default_rng(10).integers(0, 100, size=(50, 40))
    assert (select(scores.astype(dtype), 3, 0.2, seed=10) == select(scores.astype(float), 3, 0.2, seed=10)).all()


def test_layouts_select_the_same():
    scores = np.random.default_rng(11).normal(size=(30, 50)).astype(np.float32)
    expected = select(scores, 4, 1.0, seed=11)
    for arranged in (np.asfortranarray(scores), np.repeat(scores, 2, axis=1)[:, ::2], scores[::-1].copy()[::-1]):
        assert (select(arranged, 4, 1.0, seed=11) == expected).all()


def test_rows_and_candidates_may_be_none():
    assert select(np.empty((0, 5)), 2, 1.0).shape == (0, 2)


# ---- near-ties: what float64 cannot decide ----


def noises(count, seed):
    """Exact noise of the first samples of a seeded call, as balls, with 1,000 bits of precision, and their uniforms."""
    firsts = reference.uniforms(chacha.seed_key(seed), 0, 20, count, reference.GUMBEL_HIGH, reference.GUMBEL_LOW)
    return [float(reference.gumbel(first, 64, 200)) for first in firsts], firsts


def near_ties(rows, n, seed):
    """Rows whose first two candidates have noisy scores as close as a double allows; eps0 = 2, D = 1, so the factor is 1."""
    scores = np.full((rows, n), -1000.0)
    _, firsts = noises(rows * n, seed)
    ctx.prec = 200
    for row in range(rows):
        a, b = (reference.gumbel(firsts[row * n + i], 64, 200) for i in (0, 1))
        scores[row, 0] = 0.0
        scores[row, 1] = float((a - b).mid())
    return scores


@pytest.fixture(scope="module")
def tied_scores():
    return near_ties(300, 3, seed=12)


def expected_order(scores, row, seed, k):
    return reference.ranking(scores.tolist(), row, chacha.seed_key(seed), 0, 20, 2.0, 1.0, k)


def test_near_ties_are_left_open_and_settled_right(tied_scores):
    open_rows = undecided_rows(tied_scores, 1, 2.0, seed=12)
    assert [row for row, _ in open_rows] == list(range(300))
    assert all(candidates == [0, 1] for _, candidates in open_rows)
    got = select(tied_scores, 1, 2.0, seed=12)[:, 0]
    expected = [expected_order(tied_scores, row, 12, 1)[0][0] for row in range(300)]
    assert got.tolist() == expected
    assert 50 < sum(expected) < 250


def test_near_ties_inside_the_ranking_count_too(tied_scores):
    """The same rows with k = 2: the set is certain, its order is not. With k = 3 likewise."""
    for k in (2, 3):
        assert len(undecided_rows(tied_scores, k, 2.0, seed=12)) == 300
        got = select(tied_scores, k, 2.0, seed=12)
        for row in range(0, 300, 10):
            assert got[row].tolist() == expected_order(tied_scores, row, 12, k)[0]


def test_without_the_bound_selections_go_wrong(tied_scores):
    generator = hv.Generator.unsafe_seeded(12)
    plain, open_rows, _ = _core.gumbel_top_k(tied_scores, 1, 2.0, 1.0, generator, 0.0)
    assert len(open_rows) < 150
    settled = select(tied_scores, 1, 2.0, seed=12)
    assert (plain != settled).sum() > 20


def test_ties_beyond_64_bits_draw_extension_words():
    """Two of 3,000 noises are within 1e-5 of each other, so the score between them resolves 1e-21: beyond the first 64 bits."""
    n, seed = 3000, 13
    values, firsts = noises(n, seed)
    order = np.argsort(values)
    gaps = np.diff(np.array(values)[order])
    deepest = 0
    for place in np.argsort(gaps)[:8]:
        i, j = sorted((int(order[place]), int(order[place + 1])))
        ctx.prec = 200
        difference = reference.gumbel(firsts[i], 64, 200) - reference.gumbel(firsts[j], 64, 200)
        scores = np.full((1, n), -1000.0)
        scores[0, i], scores[0, j] = 0.0, float(difference.mid())
        assert undecided_rows(scores, 1, 2.0, seed=seed) == [(0, [i, j])]
        signals = [(Fraction(scores[0, c]), reference.Uniform(chacha.seed_key(seed), 0, 20, c, firsts[c])) for c in (i, j)]
        expected = i if reference.beats(*signals) else j
        deepest = max(deepest, signals[0][1].step)
        assert select(scores, 1, 2.0, seed=seed).tolist() == [[expected]]
    assert deepest > 0


def test_known_bits_are_those_of_the_key_stream():
    seed, sample, domains = 23, 1100, (reference.GUMBEL_HIGH, reference.GUMBEL_LOW)
    first = reference.uniforms(chacha.seed_key(seed), 0, 20, sample + 1, *domains)[sample]
    uniform, drawn = reference.Uniform(chacha.seed_key(seed), 0, 20, sample, first), hv.Generator.unsafe_seeded(seed)._reserve()
    for step in range(3):
        assert top_k._known_bits(drawn, sample, step) == uniform.prefix
        uniform.extend()


@pytest.mark.parametrize("cipher", ["aes256", "chacha20", "chacha8"])
def test_open_rows_are_settled_by_the_words_that_the_kernels_read(cipher):
    scores = np.random.default_rng(19).normal(size=(40, 50))
    mechanism = GumbelTopK(k=3, epsilon_per_pick=2.0, sensitivity=1.0)
    arguments = scores, 3, 2.0, 1.0
    decided, open_rows, _ = _core.gumbel_top_k(*arguments, hv.Generator.unsafe_seeded(19, cipher=cipher))
    assert open_rows == []
    _, open_rows, stream = _core.gumbel_top_k(*arguments, hv.Generator.unsafe_seeded(19, cipher=cipher), 1e14)
    assert [row for row, _ in open_rows] == list(range(40))
    for row, candidates in open_rows:
        assert mechanism._settled(scores, row, candidates, stream) == decided[row].tolist()


def test_aes_has_extension_blocks_for_fewer_scores():
    scores = np.broadcast_to(np.float32(0), (2**20, 2**18 + 1))
    generator = hv.Generator.unsafe_seeded(17, cipher="aes256")
    with pytest.raises(ValueError) as caught:
        GumbelTopK(k=2, epsilon=1.0, sensitivity=1.0).select(scores, generator=generator)
    assert str(caught.value) == "scores must be at most 2^38 for aes256, got 274878955520"
    with pytest.raises(ValueError) as caught:
        _core.stream_block(generator._reserve(), 24, 2**54)
    assert str(caught.value) == "index must be below 2^54, got 18014398509481984"


def test_an_order_that_64_bits_leave_open_is_not_taken():
    lows = {0: 5 << 500, 1: 9 << 500}

    def known_bits(candidate, step):
        return (2**63 << 512 | lows[candidate]) >> 512 * (1 - step)

    assert top_k.best({0: Fraction(1), 1: Fraction(1)}, 2, known_bits) == [1, 0]


def test_settling_takes_as_many_steps_as_it_needs():
    """Uniforms that agree in 64 + 512 bits, equal signals."""
    common = int.from_bytes(np.random.default_rng(14).bytes(8 + 64), "big")
    ends = {0: 5, 1: 9}
    asked = []

    def known_bits(candidate, step):
        asked.append(step)
        whole = common << 512 | ends[candidate] << 500
        return whole >> 512 * (2 - step)

    assert top_k.best({0: Fraction(1), 1: Fraction(1)}, 2, known_bits) == [1, 0]
    assert max(asked) == 2


def test_uniforms_at_both_ends_are_settled():
    """First words of zeros or ones only: unbounded until a later bit differs."""
    bits = {0: 0, 1: 2**64 - 1, 2: 2**63}

    def known_bits(candidate, step):
        return bits[candidate] << 512 * step | (1 << 512 * step) // 3

    assert top_k.best(dict.fromkeys(bits, Fraction(0)), 3, known_bits) == [1, 2, 0]


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e8, 1e17, 1e300, 1.7e308])
def test_extreme_scores_are_exact_numbers(scale):
    """Whatever float64 cannot hold in the product or the difference goes to rational arithmetic."""
    rng = np.random.default_rng(15)
    scores = scale * rng.choice([-1.0, -0.5, 0.5, 1.0, np.nextafter(1.0, 0)], size=(20, 6))
    got = select(scores, 3, 2.0, seed=15)
    for row in range(20):
        assert got[row].tolist() == expected_order(scores, row, 15, 3)[0]


def test_large_scores_that_differ_by_one_unit_are_told_apart():
    """At 1e17 doubles are 16 apart: 8 in the exponent for a factor of 1/2, decided by exp(8) to 1."""
    top = np.nextafter(1e17, math.inf)
    chosen = select(np.tile([1e17, top], (4000, 1)), 1, 1.0, seed=16)[:, 0]
    lost = (chosen == 0).sum()
    assert abs(lost - 4000 / (1 + math.exp(8))) < 8


# ---- price ----


@pytest.mark.parametrize("k", [1, 3, 7, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.3])
def test_epsilon_is_split_downwards_and_priced_upwards(k, epsilon):
    mechanism = GumbelTopK(k=k, epsilon=epsilon, sensitivity=1.0)
    per_pick = Fraction(mechanism.epsilon_per_pick)
    assert mechanism.cost == (epsilon, 0.0)
    assert k * per_pick <= Fraction(epsilon)
    assert k * Fraction(math.nextafter(mechanism.epsilon_per_pick, math.inf)) > Fraction(epsilon)
    assert Fraction(mechanism.rho) >= k * per_pick**2 / 8
    assert mechanism.rho == pytest.approx(epsilon**2 / k / 8, rel=1e-14)
    again = GumbelTopK(k=k, epsilon_per_pick=mechanism.epsilon_per_pick, sensitivity=1.0)
    assert Fraction(again.cost[0]) >= k * per_pick
    assert again.cost[0] <= epsilon


def test_worst_case_pair_stays_within_the_price():
    """All ordered outcomes of the peeling law on scores that move by D, against each other: the log-ratio of every outcome is at most
    k eps0, and the spread of a pick at most eps0; with the factor 2 dropped it is not."""
    eps0, k, sensitivity = 1.0, 2, 3.0
    x, y = np.array([0.0, 1.0, 5.0, 2.0]), np.array([3.0, -2.0, 2.0, 5.0])
    assert np.abs(x - y).max() == sensitivity
    for factor, fine in ((eps0 / (2 * sensitivity), True), (eps0 / sensitivity, False)):
        p, q = peeling(factor * x, k), peeling(factor * y, k)
        worst = max(abs(math.log(p[o] / q[o])) for o in p)
        first_p, first_q = peeling(factor * x, 1), peeling(factor * y, 1)
        losses = [math.log(first_p[o] / first_q[o]) for o in first_p]
        assert (max(losses) - min(losses) <= eps0 * (1 + 1e-12)) == fine
        assert worst <= 2 * k * eps0
        assert (worst <= k * eps0) or not fine


def test_description_and_noise():
    mechanism = GumbelTopK(k=5, epsilon=2.0, sensitivity=0.25)
    assert mechanism.noise_deviation == pytest.approx(math.pi / math.sqrt(6) * 0.5 / 0.4)
    text = " ".join(mechanism.describe())
    assert "epsilon = 2" in text and "rho = 0.1" in text and f"{mechanism.noise_deviation:.3g}" in text


def test_loss_in_the_accounting_currency():
    accounting = pytest.importorskip("hushvec.accounting")
    mechanism = GumbelTopK(k=3, epsilon_per_pick=0.5, sensitivity=1.0)
    assert mechanism.loss == (accounting.BoundedRangeDP(epsilon=0.5),) * 3
    assert sum(loss.rho for loss in mechanism.loss) == pytest.approx(mechanism.rho, rel=1e-12)


# ---- bad input: one clear error, nothing drawn ----


@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        ([1.0, math.nan, 2.0], ValueError, "scores must be finite, got nan for candidate 1 of row 0"),
        ([[1.0, 2.0], [3.0, math.inf]], ValueError, "scores must be finite, got inf for candidate 1 of row 1"),
        ([1.0, -math.inf], ValueError, "scores must be finite, got -inf for candidate 1 of row 0"),
        ([1.0], ValueError, "k must be at most the number of candidates, 1, got 2"),
        ([], ValueError, "k must be at most the number of candidates, 0, got 2"),
        (np.zeros((2, 2, 2)), ValueError, "scores must have one or two dimensions, got 3"),
        (1.0, ValueError, "scores must have one or two dimensions, got 0"),
        (["a", "b"], TypeError, "scores must be floats of at most 64 bits or integers, got <U1"),
        ([True, False], TypeError, "scores must be floats of at most 64 bits or integers, got bool"),
        (np.zeros(2, dtype=np.longdouble), TypeError, "scores must be floats of at most 64 bits or integers"),
        (np.zeros(2, dtype=complex), TypeError, "scores must be floats of at most 64 bits or integers"),
        ([0, 2**53 + 1], ValueError, "scores of an integer dtype must be at most 2^53"),
        (np.broadcast_to(np.float32(0), (2**21, 2**20)), ValueError, "scores must be at most 2^40 for chacha20, got 2199023255552"),
    ],
)
def test_bad_scores_are_refused_before_anything_is_drawn(scores, error, message):
    generator = hv.Generator.unsafe_seeded(17)
    with pytest.raises(error) as caught:
        GumbelTopK(k=2, epsilon=1.0, sensitivity=1.0).select(scores, generator=generator)
    assert message in str(caught.value)
    assert next_nonce(generator) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (dict(k=0, epsilon=1.0, sensitivity=1.0), ValueError),
        (dict(k=-1, epsilon=1.0, sensitivity=1.0), ValueError),
        (dict(k=1.5, epsilon=1.0, sensitivity=1.0), TypeError),
        (dict(k=True, epsilon=1.0, sensitivity=1.0), TypeError),
        (dict(k=1, epsilon=0.0, sensitivity=1.0), ValueError),
        (dict(k=1, epsilon=-1.0, sensitivity=1.0), ValueError),
        (dict(k=1, epsilon=math.nan, sensitivity=1.0), ValueError),
        (dict(k=1, epsilon=math.inf, sensitivity=1.0), ValueError),
        (dict(k=1, epsilon=1e-40, sensitivity=1.0), ValueError),
        (dict(k=1, epsilon_per_pick=1e40, sensitivity=1.0), ValueError),
        (dict(k=1, epsilon=1.0, sensitivity=0.0), ValueError),
        (dict(k=1, epsilon=1.0, sensitivity=math.nan), ValueError),
        (dict(k=1, epsilon=1.0, sensitivity=1e40), ValueError),
        (dict(k=1, epsilon=1.0, sensitivity=True), TypeError),
        (dict(k=1, sensitivity=1.0), TypeError),
        (dict(k=1, epsilon=1.0, epsilon_per_pick=1.0, sensitivity=1.0), TypeError),
    ],
)
def test_bad_parameters_are_refused(arguments, error):
    with pytest.raises(error):
        GumbelTopK(**arguments)


def test_the_core_checks_for_itself():
    generator = hv.Generator.unsafe_seeded(18)
    for arguments, error in (
        ((np.zeros((2, 3), dtype=np.int64), 1, 1.0, 1.0), TypeError),
        ((np.zeros(3), 1, 1.0, 1.0), ValueError),
        ((np.zeros((2, 3)), 0, 1.0, 1.0), ValueError),
        ((np.zeros((2, 3)), 4, 1.0, 1.0), ValueError),
        ((np.zeros((2, 3)), 1, 0.0, 1.0), ValueError),
        ((np.zeros((2, 3)), 1, 1.0, math.nan), ValueError),
    ):
        with pytest.raises(error):
            _core.gumbel_top_k(*arguments, generator)
    assert next_nonce(generator) == 0
