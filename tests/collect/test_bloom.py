"""RAPPOR: what it costs by the paper's formulas, the law of its bits, and what decoding makes of many reports."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from collect.surveys import zipf_counts
from evidence.reference.sizes import scaled
from hushvec.collect import BloomFilter, Memo
from hushvec.collect.bloom_decoding import _inverse
from mechanisms.discrete.discrete_reference import ball, ctx
from mechanisms.discrete.laws import ALPHA
from receipts.forgeries import SCRIPT, module_of

WORDS = [f"word{i}" for i in range(12)]


@pytest.fixture(autouse=True)
def _many_bits():
    ctx.prec = 256


def reported(filter_, counts, seed):
    """A sketch of everybody's fresh report."""
    sketch = filter_.sketch()
    words = np.repeat([f"word{i}" for i in range(len(counts))], counts)
    sketch.add(filter_.report(words.tolist(), generator=hv.Generator.unsafe_seeded(seed)))
    return sketch


# ---- what it costs ----


@pytest.mark.parametrize(("f", "p", "q", "hashes"), [(0.5, 0.5, 0.75, 2), (0.25, 0.35, 0.65, 1), (0.75, 0.1, 0.9, 4)])
def test_epsilons_are_those_of_the_paper(f, p, q, hashes):
    """Theorems 1 and 2; for f = 1/2, h = 2 the first is 4 ln 3."""
    ours = BloomFilter(128, hashes, f=f, p=p, q=q)
    permanent = 2 * hashes * math.log((1 - f / 2) / (f / 2))
    q_star, p_star = f * (p + q) / 2 + (1 - f) * q, f * (p + q) / 2 + (1 - f) * p
    one_report = hashes * math.log(q_star * (1 - p_star) / (p_star * (1 - q_star)))
    assert ours.epsilon == ours.word_epsilon == pytest.approx(permanent, rel=1e-12) and ours.f == f
    assert ours.report_epsilon == pytest.approx(one_report, rel=1e-12)
    assert BloomFilter(128, 2, f=0.5).epsilon == pytest.approx(4 * math.log(3), rel=1e-14)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 30.0])
@pytest.mark.parametrize(("hashes", "words_per_person"), [(1, 1), (2, 1), (3, 5)])
def test_f_follows_from_epsilon(epsilon, hashes, words_per_person):
    ours = BloomFilter(64, hashes, epsilon=epsilon, words_per_person=words_per_person)
    exact = ball(Fraction(*ours.permanent_law)).log() * 2 * hashes * words_per_person
    assert exact <= ball(ours.true_epsilon) and ours.true_epsilon <= epsilon
    assert float(exact) == pytest.approx(epsilon, rel=1e-12)
    assert sum(ours.permanent_law) == 2**64
    assert words_per_person * Fraction(ours.word_epsilon) <= Fraction(epsilon)


def test_without_an_instantaneous_response_one_report_costs_the_word():
    ours = BloomFilter(64, 2, f=0.5, p=0, q=1)
    assert ours.report_epsilon == ours.word_epsilon


@pytest.mark.parametrize(("p", "q"), [(0, 1), (0.5, 0.75), (0.2, 0.9)])
def test_no_report_tells_more(p, q):
    """All 2^4 reports of a filter of 4 bits and 2 hashes, exactly: the largest ratio over all pairs of true filters that words can
    have (1 or 2 bits) is within the stated epsilon, and the one over disjoint pairs is the stated one.
    """
    ours = BloomFilter(4, 2, f=0.5, p=p, q=q)
    kept, flipped = (Fraction(v, 2**64) for v in ours.permanent_law)
    one, zero = (Fraction(v, 2**64) for v in ours.instantaneous_law)
    ones = {1: kept * one + flipped * zero, 0: flipped * one + kept * zero}
    filters = [bits for bits in itertools.product((0, 1), repeat=4) if 1 <= sum(bits) <= 2]
    laws = [
        {r: math.prod(ones[b] if x else 1 - ones[b] for b, x in zip(bits, r)) for r in itertools.product((0, 1), repeat=4)}
        for bits in filters
    ]
    largest = max(a[r] / b[r] for a in laws for b in laws for r in a)
    assert ball(largest).log() <= ball(ours.report_epsilon)
    assert float(ball(largest).log()) == pytest.approx(ours.report_epsilon, rel=1e-12)


def test_forgetting_half_of_the_bits_would_be_noticed():
    """With h in place of 2 h the stated epsilon is below the exact ratio of test_no_report_tells_more."""
    ours = BloomFilter(4, 2, f=0.5, p=0, q=1)
    kept, flipped = ours.permanent_law
    assert ball(Fraction(kept, flipped) ** 4).log() > ball(ours.epsilon / 2)
    assert Decimal(ours.epsilon) / 4 >= (Decimal(kept) / Decimal(flipped)).ln()


def test_a_description_states_both():
    text = " ".join(BloomFilter(128, 2, f=0.5).describe())
    assert "epsilon = 4.39445 for 1 word, with a memo" in text
    assert "one report alone: epsilon = 1.07" in text


# ---- what is drawn ----


def test_law_of_the_bits():
    """20,000 reports of one word: each bit binomial with q* or p*, each of the 64 p-values above 1e-6 / 64."""
    ours, n = BloomFilter(64, 2, f=0.5, p=0.25, q=0.75, cohorts=1), 20_000
    reports = ours.report(["insulin"] * n, generator=hv.Generator.unsafe_seeded(1))
    ones = np.unpackbits(reports.bits.view(np.uint8), axis=1, bitorder="little").sum(axis=0)
    true = set(ours.positions(["insulin"])[0, 0].tolist())
    q_star, p_star = 0.75 * 0.75 + 0.25 * 0.25, 0.75 * 0.25 + 0.25 * 0.75
    p_values = [stats.binomtest(int(count), n, q_star if i in true else p_star).pvalue for i, count in enumerate(ones)]
    assert min(p_values) > ALPHA / 64
    # a permanent response with f = 0.55 would not pass
    off = 0.725 * 0.25 + 0.275 * 0.75
    assert stats.binomtest(int(np.delete(ones, list(true)).sum()), n * (64 - len(true)), off).pvalue < ALPHA


@pytest.mark.parametrize("cohorts", [2, 7, 64])
def test_cohorts_are_even(cohorts):
    ours = BloomFilter(8, 1, f=0.5, cohorts=cohorts)
    fresh = ours.report(["w"] * 20_000, generator=hv.Generator.unsafe_seeded(2)).cohorts
    assert stats.chisquare(np.bincount(fresh, minlength=cohorts)).pvalue > ALPHA
    of_memos = [int(ours.report("w", per="release", memo=Memo()).cohorts[0]) for _ in range(500)]
    assert stats.chisquare(np.bincount(of_memos, minlength=cohorts)).pvalue > ALPHA


def test_a_person_stays_in_one_cohort():
    memo, ours = Memo(), BloomFilter(64, 2, epsilon=8.0, words_per_person=10)
    cohorts = {int(c) for i in range(10) for c in ours.report(f"w{i}", per="release", memo=memo).cohorts}
    assert len(cohorts) == 1


def test_hashes_spread_evenly():
    places = BloomFilter(100, 3, f=0.5, cohorts=10).positions([f"w{i}" for i in range(2000)])
    assert places.min() >= 0 and places.max() < 100
    assert stats.chisquare(np.bincount(places.ravel(), minlength=100)).pvalue > ALPHA
    assert (BloomFilter(100, 3, f=0.5, cohorts=10, salt=b"x").positions(["w0"]) != places[:1]).any()


# ---- decoding ----


@pytest.mark.parametrize("unknown", [False, True])
def test_decoded_frequencies_are_unbiased_and_their_errors_are_right(unknown):
    """Surveys of 1,000 people over 12 words: 60 (2,000 in the full run). Means within 5.5 standard errors, variances within 5.5 of
    theirs. The random cohorts are part of the stated error, for people drawn anew each time; here they are the same
    people, so that a slightly smaller variance would do.
    """
    surveys = scaled(60, 2000)
    ours, counts = BloomFilter(32, 2, epsilon=6.0, cohorts=4), zipf_counts(12, 1000)
    estimates = [reported(ours, counts, seed=seed).decode(WORDS, unknown=unknown) for seed in range(surveys)]
    frequencies = np.array([e.frequencies for e in estimates])
    stated = np.sqrt(np.mean([e.standard_errors**2 for e in estimates], axis=0))
    assert (np.abs(frequencies.mean(axis=0) - counts / 1000) < 5.5 * stated / math.sqrt(surveys)).all()
    ratio = frequencies.var(axis=0, ddof=1) / stated**2
    assert (ratio < 1 + 5.5 * math.sqrt(2 / surveys)).all() and (ratio > 1 - 0.1 - 5.5 * math.sqrt(2 / surveys)).all()
    assert (estimates[0].unknown is None) != unknown


def test_wrong_decoders_are_noticed():
    """Estimates that forget the permanent response are too small by a factor 1 - f, far outside the stated errors."""
    ours = BloomFilter(32, 2, f=0.5, p=0.25, q=0.75, cohorts=4)
    forgetful = BloomFilter(32, 2, f=1e-9, p=0.25, q=0.75, cohorts=4)
    sketch, wrong = reported(ours, [30_000, 10_000], seed=3), forgetful.sketch()
    wrong.ones, wrong.reports_of_cohorts = sketch.ones, sketch.reports_of_cohorts
    right, off = (s.decode(WORDS[:2], unknown=False) for s in (sketch, wrong))
    assert abs(right.frequencies[0] - 0.75) < 5 * right.standard_errors[0]
    assert abs(off.frequencies[0] - 0.75) > 10 * right.standard_errors[0]


def test_words_outside_the_list_become_the_constant():
    """A third of the people report words that are on no list: without the constant the candidates' estimates would grow."""
    ours = BloomFilter(64, 2, epsilon=8.0, cohorts=16)
    sketch = ours.sketch()
    words = ["word0"] * 20_000 + ["word1"] * 20_000 + [f"strange{i % 500}" for i in range(20_000)]
    sketch.add(ours.report(words, generator=hv.Generator.unsafe_seeded(4)))
    estimate = sketch.decode(WORDS)
    assert estimate.unknown == pytest.approx(1 / 3, abs=0.05)
    assert set(estimate.present()) == {"word0", "word1"}
    assert np.abs(estimate.frequencies[:2] - 1 / 3).max() < 0.02
    without = sketch.decode(WORDS, unknown=False)
    assert without.unknown is None and without.frequencies[2:].mean() > estimate.frequencies[2:].mean() + 0.005


def test_lasso_takes_more_candidates_than_bits():
    ours = BloomFilter(32, 2, epsilon=8.0, cohorts=8)
    sketch = reported(ours, [20_000, 10_000, 5_000], seed=5)
    candidates = [f"word{i}" for i in range(600)]
    with pytest.raises(ValueError, match="candidates must be fewer than the 256 bits of all cohorts"):
        sketch.decode(candidates)
    estimate = sketch.decode(candidates, method="lasso")
    assert estimate.present()[:2] == ["word0", "word1"]
    assert len(estimate.words) < 100
    chosen = {word: i for i, word in enumerate(estimate.words)}
    for word, share in (("word0", 20 / 35), ("word1", 10 / 35)):
        i = chosen[word]
        assert abs(estimate.frequencies[i] - share) < 5 * estimate.standard_errors[i]


def test_lasso_that_chooses_nothing():
    ours = BloomFilter(32, 2, epsilon=0.1, cohorts=8)
    estimate = reported(ours, [50], seed=6).decode(WORDS, method="lasso", unknown=False)
    assert estimate.present() == [] and len(estimate.words) < 12


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("word1",), TypeError, "candidates must be a sequence of strings, got str"),
        (([],), ValueError, "candidates must be at least one and all different, got 0"),
        ((["a", "a"],), ValueError, "candidates must be at least one and all different, got 2, 1 different"),
        (([b"a"],), TypeError, "candidates must be strings, got bytes at position 0"),
        ((["a"], "magic"), ValueError, "method must be one of 'least_squares', 'lasso'"),
    ],
)
def test_bad_candidates(arguments, error, message):
    sketch = reported(BloomFilter(32, 2, epsilon=8.0, cohorts=2), [10], seed=7)
    with pytest.raises(error, match=message):
        sketch.decode(arguments[0], **({"method": arguments[1]} if len(arguments) > 1 else {}))


def test_words_that_look_the_same_are_refused():
    """Of three words over two bits, two set the same bit."""
    ours = BloomFilter(2, 1, epsilon=8.0, cohorts=1)
    sketch = reported(ours, [50, 50], seed=8)
    place = ours.positions(WORDS)[:, 0, 0]
    alike = [WORDS[i] for i in np.flatnonzero(place == place[0])[:2]]
    with pytest.raises(ValueError, match="some of these cannot be told apart"):
        sketch.decode(alike, unknown=False)
    with pytest.raises(ValueError, match="sketch must hold at least one report, got 0"):
        ours.sketch().decode(["word0"])


# ---- bad input ----


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ({"bits": 1}, ValueError, "bits must be >= 2, got 1"),
        ({"bits": 2**20 + 1}, ValueError, "bits must be <= 1048576"),
        ({"bits": 8.0}, TypeError, "bits must be a whole number, got float"),
        ({"hashes": 0}, ValueError, "hashes must be >= 1, got 0"),
        ({"hashes": 33}, ValueError, "hashes must be <= 32, got 33"),
        ({"cohorts": 0}, ValueError, "cohorts must be >= 1, got 0"),
        ({"cohorts": 2**16 + 1}, ValueError, "cohorts must be <= 65536"),
        ({"words_per_person": 0}, ValueError, "words_per_person must be >= 1, got 0"),
        ({"salt": "x"}, TypeError, "salt must be bytes, got str"),
        ({"salt": bytes(17)}, ValueError, "salt must have at most 16 bytes, got 17"),
        ({"epsilon": None}, TypeError, "give epsilon or f, and not both"),
        ({"f": 0.5}, TypeError, "give epsilon or f, and not both"),
        ({"epsilon": 0}, ValueError, "epsilon must be > 0, got 0.0"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be finite, got nan"),
        ({"epsilon": 1e-300}, ValueError, "epsilon must leave reports that carry something"),
        ({"epsilon": None, "f": -0.1}, ValueError, "f must be >= 0 and < 1"),
        ({"epsilon": None, "f": 1}, ValueError, "f must be >= 0 and < 1, got 1"),
        ({"epsilon": None, "f": True}, TypeError, "f must be a number, got bool"),
        ({"p": 0.75, "q": 0.5}, ValueError, "p and q must hold 0 < p < q < 1, or be 0 and 1, got 0.75 and 0.5"),
        ({"p": 0, "q": 0.5}, ValueError, "p and q must hold"),
        ({"p": 0.5, "q": 1}, ValueError, "p and q must hold"),
        ({"p": 1e-30}, ValueError, r"p and q must differ from each other, from 0 and from 1 by more than 2\^-64"),
        ({"p": math.nan}, ValueError, "p must be finite, got nan"),
    ],
)
def test_bad_filters_are_refused(setting, error, message):
    with pytest.raises(error, match=message):
        BloomFilter(**{"bits": 64, "hashes": 2, "epsilon": 2.0, **setting})


@pytest.mark.parametrize("smallest, told_apart", [(1.2e-9, True), (0.9e-9, False)])
def test_candidates_are_told_apart_down_to_the_smallest_eigenvalue(smallest, told_apart):
    """Two pairs of nearly the same candidates: the inverse's norm alone, sqrt(2) / smallest, says nothing about either."""
    pair = np.array([[1.0, 1 - smallest], [1 - smallest, 1.0]])
    gram = np.kron(np.eye(2), 9.0 * pair)
    if not told_apart:
        with pytest.raises(ValueError, match="some of these cannot be told apart"):
            _inverse(gram)
        return
    assert np.allclose(_inverse(gram) @ gram, np.eye(4), atol=1e-5)


# ---- f = 0: no permanent response ----


@pytest.mark.parametrize(("p", "q", "hashes"), [(0.5, 0.75, 2), (0.1, 0.2, 1), (0.25, 0.9, 4)])
def test_without_a_permanent_response_epsilon_is_of_single_reports(p, q, hashes):
    ours = BloomFilter(128, hashes, f=0, p=p, q=q, words_per_person=3)
    one_report = hashes * math.log(q * (1 - p) / (p * (1 - q)))
    assert ours.f == 0 and ours.is_instantaneous and ours.word_epsilon == math.inf
    assert ours.report_epsilon == pytest.approx(one_report, rel=1e-12)
    assert ours.epsilon == ours.true_epsilon == pytest.approx(3 * one_report, rel=1e-12)


def test_no_report_without_a_permanent_response_tells_more():
    """All reports of a filter of 4 bits and 2 hashes, exactly: the largest ratio is within the stated epsilon, and reaches it. That of
    two reports of one word is its square: they cost anew."""
    ours = BloomFilter(4, 2, f=0, p=0.2, q=0.75)
    one, zero = (Fraction(v, 2**64) for v in ours.instantaneous_law)
    filters = [bits for bits in itertools.product((0, 1), repeat=4) if 1 <= sum(bits) <= 2]
    chance = {1: one, 0: zero}
    laws = [
        {r: math.prod(chance[b] if x else 1 - chance[b] for b, x in zip(bits, r)) for r in itertools.product((0, 1), repeat=4)}
        for bits in filters
    ]
    largest = max(a[r] / b[r] for a in laws for b in laws for r in a)
    assert ball(largest).log() <= ball(ours.report_epsilon)
    assert float(ball(largest).log()) == pytest.approx(ours.report_epsilon, rel=1e-12)
    two = ours.release(["w"], per="release").receipt.epsilon * 2
    assert float(ball(largest**2).log()) == pytest.approx(two, rel=1e-12)


def test_law_of_the_bits_without_a_permanent_response():
    """20,000 reports of one word: each bit binomial with q or p, each of the 64 p-values above 1e-6 / 64."""
    ours, n = BloomFilter(64, 2, f=0, p=0.25, q=0.75, cohorts=1), 20_000
    reports = ours.report(["insulin"] * n, generator=hv.Generator.unsafe_seeded(1))
    ones = np.unpackbits(reports.bits.view(np.uint8), axis=1, bitorder="little").sum(axis=0)
    true = set(ours.positions(["insulin"])[0, 0].tolist())
    p_values = [stats.binomtest(int(count), n, 0.75 if i in true else 0.25).pvalue for i, count in enumerate(ones)]
    assert min(p_values) > ALPHA / 64
    # neither the true filter nor one with a permanent response of f = 0.1 would pass
    others = int(np.delete(ones, list(true)).sum())
    assert stats.binomtest(others, n * (64 - len(true)), 0.95 * 0.25 + 0.05 * 0.75).pvalue < ALPHA
    assert stats.binomtest(0, n * (64 - len(true)), 0.25).pvalue < ALPHA


def test_its_receipt_says_what_it_protects():
    ours = BloomFilter(64, 2, f=0, p=0.5, q=0.75, words_per_person=2)
    budget = hv.PrivacyBudget(max_epsilon=10.0)
    receipt = ours.release(["a", "a"], per="release", budget=budget).receipt
    assert (receipt.truth_values, receipt.other_values, receipt.memoised) == (2**64, 0, False)
    assert receipt.epsilon == pytest.approx(2 * ours.report_epsilon) and budget.consumed() == pytest.approx(receipt.epsilon)
    assert any(note.startswith("no permanent response: epsilon is of these reports alone") for note in receipt.notes)
    assert hv.verify_receipt(receipt).status == "holds"
    assert not any("no permanent" in note for note in BloomFilter(64, 2, f=0.5).release("a").receipt.notes)
    text = " ".join(ours.describe())
    assert "no permanent response (f = 0)" in text and "n times that" in text and "memo" not in text


def test_a_memo_is_refused_and_so_is_no_response_at_all():
    memo = Memo()
    with pytest.raises(ValueError, match="memo must be None with f = 0"):
        BloomFilter(64, 2, f=0).release("a", per="release", memo=memo)
    assert BloomFilter(64, 2, f=0.5).release("a", per="release", memo=memo).receipt.words_of_one == 1, "nothing was noted"
    with pytest.raises(ValueError, match="0 < p < q < 1 with f = 0, which leaves no other response"):
        BloomFilter(64, 2, f=0, p=0, q=1)


FORGED = [
    {"memoised": True},
    {"one_values": 2**64, "zero_values": 0},
    {"epsilon": 2.0},
    {"mechanism": "unary", "hashes": 0, "one_values": 0, "zero_values": 0},
    {"other_values": 1},
]


@pytest.mark.parametrize("changed", FORGED, ids=str)
def test_forged_receipts_without_a_permanent_response(changed):
    check = module_of(SCRIPT.read_text("utf-8")).check_receipt   # the checker that shares no code with the library
    good = BloomFilter(64, 2, f=0, p=0.5, q=0.75).release("a", per="release").receipt.to_dict()
    assert hv.verify_receipt(good).status == "holds"
    forged = {**good, **{name: str(value) if name.endswith("_values") else value for name, value in changed.items()}}
    assert hv.verify_receipt(forged).status == "does not hold"
    assert [check(one)[0] for one in (good, forged)] == ["holds", "does not hold"]


def test_decoding_without_a_permanent_response():
    """20,000 people over 3 words: every estimate within 5.5 of its stated standard errors."""
    ours, counts = BloomFilter(32, 2, f=0, p=0.3, q=0.7, cohorts=4), np.array([12_000, 6_000, 2_000])
    found = reported(ours, counts, seed=5).decode([f"word{i}" for i in range(3)])
    assert (np.abs(found.frequencies - counts / counts.sum()) < 5.5 * found.standard_errors).all()
