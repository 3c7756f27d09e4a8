"""The law of reports: the privacy it gives, in whole numbers; what is drawn, by chi-square; and that wrong laws are rejected."""

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from collect import collect_reference as reference
from evidence.reference.sizes import scaled
from hushvec._native import _core
from hushvec.collect import Vocabulary
from hushvec.collect.oracles import oracle_for
from mechanisms.discrete.discrete_reference import ball, ctx
from mechanisms.discrete.laws import ALPHA, p_value

GUIDE = Path(__file__).parents[2] / "docs/collect.md"
REPORTS = scaled(100_000, 5_000_000)


def vocabulary(k, epsilon, mechanism, **rest):
    return Vocabulary([str(i) for i in range(k)], epsilon, mechanism=mechanism, **rest)


@pytest.fixture(autouse=True)
def _many_bits():
    ctx.prec = 256


def seeded(seed):
    return hv.Generator.unsafe_seeded(seed)


# ---- exact laws, as fractions ----


def unary_law(oracle, word):
    """P of each of the 2^k reports."""
    q = Fraction(oracle.law[1], 2**64)
    law = {}
    for bits in itertools.product((0, 1), repeat=oracle.words):
        p = Fraction(1)
        for i, bit in enumerate(bits):
            one = Fraction(1, 2) if i == word else q
            p *= one if bit else 1 - one
        law[bits] = p
    return law


def hadamard_law(oracle, word):
    """P of each column of each block."""
    truth, other = oracle.law
    law = {}
    for block in range(oracle.blocks):
        for column in range(oracle.order):
            row = word // oracle.blocks + 1
            is_truth = block == word % oracle.blocks and bin(row & column).count("1") % 2 == 0
            law[block * oracle.order + column] = Fraction(truth if is_truth else other, 2**64 * (oracle.order // 2))
    return law


def k_rr_law(oracle, word):
    truth, other = oracle.law
    return {code: Fraction(truth if code == word else other, 2**64) for code in range(oracle.words)}


LAWS = {"unary": unary_law, "hadamard": hadamard_law, "k_rr": k_rr_law}


@pytest.mark.parametrize("mechanism", LAWS)
@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_reports_of_two_words_differ_by_their_total_variation(mechanism, k, epsilon):
    """By all reports, in fractions; the receipt of a report states hardly more than the largest over all pairs of words."""
    words = vocabulary(k, epsilon, mechanism)
    laws = [LAWS[mechanism](words.oracle, word) for word in range(k)]
    largest = max(sum(max(one[report] - other[report], 0) for report in one) for one in laws for other in laws)
    stated = Fraction(words.release("0").receipt.loss.total_variation)
    assert largest <= stated
    of_one_block = mechanism == "hadamard" and words.oracle.blocks == 1   # for which half would do
    assert stated <= largest * (1 + Fraction(1, 10**12)) * (2 if of_one_block else 1)


@pytest.mark.parametrize("mechanism", LAWS)
@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 2.0, 5.0, 44.0])
def test_no_report_tells_more_than_epsilon(mechanism, k, epsilon):
    """The largest ratio over all reports and pairs of words is T / M, at most e^epsilon, and true_epsilon bounds its logarithm."""
    oracle = vocabulary(k, epsilon, mechanism).oracle
    laws = [LAWS[mechanism](oracle, word) for word in range(k)]
    assert all(sum(law.values()) == 1 for law in laws)
    largest = max(one[report] / other[report] for one in laws for other in laws for report in one)
    assert largest == Fraction(*oracle.law)
    assert ball(largest).log() <= ball(oracle.true_epsilon)
    assert oracle.true_epsilon <= epsilon
    assert float(ball(largest).log()) == pytest.approx(oracle.true_epsilon, rel=1e-12)


def test_rounding_q_to_the_nearest_double_would_not_do():
    """Unary encoding with q from floating point exceeds epsilon for some of 200 epsilons; the whole numbers never do."""
    too_much = 0
    for epsilon in np.random.default_rng(0).uniform(0.1, 8, 200):
        q = Fraction(1 / (math.exp(epsilon) + 1))
        too_much += not ball((1 - q) / q).log() <= ball(float(epsilon))
        truth, other = _core.response_law(float(epsilon), 2)
        assert ball(Fraction(truth, other)).log() <= ball(float(epsilon))
    assert too_much > 20


def test_truth_or_a_word_of_the_dictionary_is_not_epsilon():
    """The rule "truth with e / (e + 1), else a uniform word" costs 10.2 at epsilon = 1 over 10,000 words; ours cost 1."""
    k, truth = 10_000, math.e / (math.e + 1)
    told = math.log((truth + (1 - truth) / k) / ((1 - truth) / k))
    assert told == pytest.approx(math.log(1 + k * math.e)) and told > 10.2
    for mechanism in LAWS:
        assert vocabulary(k, 1.0, mechanism).true_epsilon <= 1.0


@pytest.mark.parametrize("mechanism", LAWS)
@pytest.mark.parametrize("words_per_person", [1, 3, 7])
def test_all_words_of_a_person_together(mechanism, words_per_person):
    ours = vocabulary(50, 2.0, mechanism, words_per_person=words_per_person)
    assert words_per_person * Fraction(ours.report_epsilon) <= 2
    assert ball(Fraction(*ours.oracle.law)).log() * words_per_person <= ball(ours.true_epsilon)
    assert 1.999999 < ours.true_epsilon <= 2.0


# ---- what is drawn ----


@pytest.mark.parametrize(("k", "epsilon"), [(3, 1.0), (6, 2.5)])
@pytest.mark.parametrize("mechanism", LAWS)
def test_law_of_what_is_drawn(mechanism, k, epsilon):
    """Chi-square over all reports: 10^5 (5 * 10^6 in the full run) of one word, alpha = 1e-6. Reports expected less than 20 times
    are counted as one.
    """
    ours = vocabulary(k, epsilon, mechanism)
    counts, law = drawn(ours, k - 1, seed=1)
    assert grouped_p_value(counts, law) > ALPHA


@pytest.mark.parametrize("mechanism", LAWS)
def test_wrong_laws_are_rejected(mechanism):
    """The same test finds reports of another word, of an epsilon 10 % larger, and of an even law."""
    ours = vocabulary(6, 1.0, mechanism)
    for wrong, word in ((vocabulary(6, 1.0, mechanism), 0), (vocabulary(6, 1.1, mechanism), 5), (vocabulary(6, 1e-9, mechanism), 5)):
        counts, _ = drawn(wrong, word, seed=2, reports=400_000 if word == 5 else REPORTS)
        assert grouped_p_value(counts, LAWS[mechanism](ours.oracle, 5)) < ALPHA


def drawn(ours, word, seed, reports=REPORTS):
    """({report: count}, its law)."""
    rows = ours.oracle.draw(np.full(reports, word, np.int64), seeded(seed))
    law = LAWS[ours.mechanism](ours.oracle, word)
    if ours.mechanism != "unary":
        return dict(zip(law, np.bincount(rows, minlength=len(law)).tolist())), law
    values = np.bincount(rows[:, 0], minlength=2 ** ours.oracle.words)
    return {bits: int(values[sum(bit << i for i, bit in enumerate(bits))]) for bits in law}, law


def grouped_p_value(counts, law):
    total = sum(counts.values())
    often = [report for report in law if total * law[report] >= 20]
    observed, probabilities = [counts[report] for report in often], [float(law[report]) for report in often]
    if total * (1 - sum(probabilities)) >= 20:
        observed.append(total - sum(observed))
        probabilities.append(1 - sum(probabilities))
    else:
        probabilities = [p / sum(probabilities) for p in probabilities]
    return p_value(observed, probabilities)


def test_bits_of_long_unary_reports():
    """2,000 reports over 3,000 words: the ones of each bit are binomial (largest of 2,999 deviations below 6.2 standard errors, which
    normals exceed with 2e-6), and neighbouring bits agree as independent ones do (6 * 10^6 pairs, 5 standard errors).
    """
    ours, n = vocabulary(3000, 1.0, "unary"), 2000
    rows = ours.oracle.draw(np.full(n, 1234, np.int64), seeded(3))
    ones = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")[:, :3000]
    q = ours.oracle.law[1] / 2**64
    others = np.delete(ones, 1234, axis=1)
    z = (others.sum(axis=0) - n * q) / math.sqrt(n * q * (1 - q))
    assert np.abs(z).max() < 6.2
    assert stats.binomtest(int(ones[:, 1234].sum()), n, 0.5).pvalue > ALPHA
    for step in (1, 32, 512):
        both = (others[:, :-step] & others[:, step:]).sum()
        pairs = others[:, step:].size
        assert abs(both / pairs - q * q) < 5.5 * math.sqrt(q * q * (1 - q * q) * 2.5 / pairs)


def test_reports_of_one_call_differ():
    ours = vocabulary(2000, 1.0, "unary")
    rows = ours.oracle.draw(np.zeros(500, np.int64), seeded(4))
    assert len({row.tobytes() for row in rows}) == 500


@pytest.mark.parametrize("mechanism", LAWS)
def test_two_calls_never_draw_the_same(mechanism):
    ours = vocabulary(1000, 0.5, mechanism)
    first, second = (ours.report(["7"] * 200) for _ in range(2))
    assert (first != second).any()


def test_reference_and_core_agree_on_the_law():
    assert reference.response_law(1.0, 2) == _core.response_law(1.0, 2)


# ---- the choice of a mechanism ----


def of_subset_selection(k, epsilon):
    """Mean variance of one report that is a set of `size` words, which has the truth with weight e^epsilon, and the size: Ye and Barg
    (2018), "Optimal schemes for discrete distribution estimation under locally differential privacy", with the better size."""

    def variance(size):
        truth = size * math.exp(epsilon) / (size * math.exp(epsilon) + k - size)
        other = (truth * (size - 1) + (1 - truth) * size) / (k - 1)
        return (truth * (1 - truth) + (k - 1) * other * (1 - other)) / k / (truth - other) ** 2

    ideal = k / (math.exp(epsilon) + 1)
    return min((variance(size), size) for size in {max(1, math.floor(ideal)), math.ceil(ideal)})


def mean_variance(k, epsilon, mechanism):
    return oracle_for(mechanism, k, epsilon).mean_variance


def test_the_guide_compares_with_subset_selection():
    rows = re.findall(r"^\| (\d) \| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| (\d+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert len(rows) == 7
    for epsilon, auto, *ratios, size in rows:
        best, expected = of_subset_selection(1024, float(epsilon))
        assert oracle_for("auto", 1024, float(epsilon)).name == auto and int(size) == expected
        assert [f"{mean_variance(1024, float(epsilon), name) / best:.3f}" for name in ("k_rr", "unary", "hadamard")] == ratios


def test_auto_is_near_subset_selection():
    """From 16 words on, epsilon from 1/4 to 10: at most the factor of the guide, and never better."""
    ratios = [
        mean_variance(2**power, quarters / 4, "auto") / of_subset_selection(2**power, quarters / 4)[0]
        for power in range(4, 17)
        for quarters in range(1, 41)
    ]
    assert 1 - 1e-9 < min(ratios) < 1.001 and 1.29 < max(ratios) < 1.31   # docs/collect.md


@pytest.mark.parametrize(
    ("k", "epsilon", "chosen"),
    [(2, 1.0, "k_rr"), (5, 1.0, "k_rr"), (10_000, 0.3, "hadamard"), (10_000, 1.0, "unary"), (10_000, 4.0, "unary"), (50, 4.0, "k_rr")],
)
def test_auto(k, epsilon, chosen):
    assert vocabulary(k, epsilon, "auto").mechanism == chosen


@pytest.mark.parametrize("k", [2, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 6.0])
def test_auto_is_as_good_as_the_best(k, epsilon):
    best = min(vocabulary(k, epsilon, mechanism).root_mean_square_error(1) for mechanism in LAWS)
    auto = vocabulary(k, epsilon, "auto")
    assert auto.root_mean_square_error(1) <= math.sqrt(1.1) * best
    shorter = [m for m in LAWS if vocabulary(k, epsilon, m).report_bytes < auto.report_bytes]
    assert all(vocabulary(k, epsilon, m).root_mean_square_error(1) > math.sqrt(1.1) * best for m in shorter)
