"""Releases by a public codebook: a correct one is not refuted, and mutants are; what only frequencies refute is said so.

Seeds are fixed. Every audit has confidence 1 - 1e-6; n is stated with each.
"""

import functools
import math

import numpy as np
import pytest

from audit import samplers
from audit.samplers import CONFIDENCE, seeds
from hushvec.audit import CodebookTarget, audit_mechanism, audit_pair
from hushvec.audit.targets import as_target
from hushvec.mechanisms import Gaussian, PublicCodebook

RNG = np.random.default_rng(0)
PUBLIC = RNG.standard_normal((40, 16)).astype(np.float32)
PRIVATE = RNG.standard_normal((3, 16)).astype(np.float32)


def book(codes):
    return PublicCodebook.of(PUBLIC[:codes])


def answering(mechanism, law):
    """The mechanism with answers of another law: law(code, k, rng) gives a code for each."""

    def answer(rows, generator):
        codes = law(mechanism.codebook.encode(rows), len(mechanism.codebook), samplers.numpy_generator(generator))
        return mechanism.table[codes]

    return answer


def never_a_lie(epsilon):
    """Lies are drawn from all codes but the last: K - 1 written for K. The last one then only ever means itself."""

    def law(codes, k, rng):
        truth = rng.random(len(codes)) < math.exp(epsilon) / (math.exp(epsilon) + k - 2)
        return np.where(truth, codes, rng.integers(0, k - 1, len(codes)))

    return law


def law_of_one_less(epsilon):
    """The truth as often as among K - 1 codes, a lie uniform over the K - 1 others: really epsilon + ln((K - 1) / (K - 2))."""

    def law(codes, k, rng):
        truth = rng.random(len(codes)) < math.exp(epsilon) / (math.exp(epsilon) + k - 2)
        return np.where(truth, codes, (codes + rng.integers(1, k, len(codes))) % k)

    return law


def codes_of_one_less(epsilon):
    """Randomized response over K - 1 codes, the last one taken for the first: epsilon holds, and a code never comes."""

    def law(codes, k, rng):
        taken = codes % (k - 1)
        truth = rng.random(len(codes)) < math.exp(epsilon) / (math.exp(epsilon) + k - 2)
        return np.where(truth, taken, (taken + rng.integers(1, k - 1, len(codes))) % (k - 1))

    return law


def pair(mechanism, answer, seed, samples, **settings):
    target = CodebookTarget(mechanism, answer, new_generator=seeds(seed), **settings)
    return audit_pair(target, samples=samples, confidence=CONFIDENCE)


@pytest.mark.parametrize(("epsilon", "codes"), [(1.0, 4), (4.0, 20)])
def test_the_real_one_is_not_flagged_and_nearly_all_is_seen(epsilon, codes):
    """n = 30,000, all three methods."""
    target = CodebookTarget(book(codes).mechanism(epsilon), new_generator=seeds(50))
    audit = audit_mechanism(target, samples=30_000, confidence=CONFIDENCE)
    assert not audit.flagged
    assert 0.75 * epsilon < audit.results[0].epsilon_lower <= epsilon


def test_with_keys_of_the_operating_system():
    """n = 20,000, keys from the system: a false alarm in one of a million runs."""
    audit = audit_mechanism(book(6).mechanism(2.0), samples=20_000, confidence=CONFIDENCE)
    assert not audit.flagged and audit.results[0].mechanism == "codebook"


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_a_code_that_is_never_a_lie(epsilon):
    """n = 20,000: whoever sees the last code knows."""
    mechanism = book(20).mechanism(epsilon)
    assert pair(mechanism, answering(mechanism, never_a_lie(epsilon)), 51, 20_000).flagged
    assert not pair(mechanism, None, 51, 20_000).flagged


@pytest.mark.parametrize(("codes", "samples"), [(3, 20_000), (4, 60_000)])
def test_the_law_of_one_code_less(codes, samples):
    """Claimed 1, really 1.69 for 3 codes and 1.41 for 4."""
    mechanism = book(codes).mechanism(1.0)
    found = pair(mechanism, answering(mechanism, law_of_one_less(1.0)), 52, samples)
    assert found.flagged and found.epsilon_lower <= 1 + math.log((codes - 1) / (codes - 2))
    assert not pair(mechanism, None, 52, samples).flagged


def test_a_code_that_never_comes_is_for_frequencies():
    """Its epsilon holds, so no audit of epsilon refutes it. n = 50,000 answers to the last code, by the distance of each frequency
    from T / 2^64 or M / 2^64 in standard errors: 5 reject it (alpha below 1e-5 for 6 codes) and not the real one."""
    mechanism, n = book(6).mechanism(1.0), 50_000
    wrong = answering(mechanism, codes_of_one_less(1.0))
    assert not pair(mechanism, wrong, 53, 60_000).flagged

    def off(answer):
        target = CodebookTarget(mechanism, answer, new_generator=seeds(53))
        counts = np.bincount(target.stream()(np.tile(target.pair[1], (n, 1)))[:, 0], minlength=6)
        wanted = np.full(6, mechanism.response.probability_of_each_other)
        wanted[5] = mechanism.response.probability_of_truth
        return (np.abs(counts / n - wanted) / np.sqrt(wanted * (1 - wanted) / n)).max()

    assert off(None) < 5 < off(wrong)


@pytest.mark.parametrize("epsilon", [0.1, 4.0])
def test_a_codebook_fitted_on_the_protected_rows(epsilon):
    """n = 4,000: data sets that differ in one row give different codebooks, so what comes out tells them apart with certainty."""
    public = PUBLIC[:7]
    published = PublicCodebook.of(np.concatenate([public, PRIVATE[:1]]))

    @functools.cache
    def fitted_with(row):
        own = np.frombuffer(row, np.float32)[None]
        return PublicCodebook.of(np.concatenate([public, own])).mechanism(epsilon)

    def fitted_on_them(rows, generator):
        """Each row is a data set of its own beside the public ones."""
        released = np.empty_like(rows)
        for row in np.unique(rows, axis=0):
            same = (rows == row).all(axis=1)
            released[same] = CodebookTarget(fitted_with(row.tobytes()))._released(rows[same], generator)
        return released

    neighbors = (PRIVATE[0], PRIVATE[1])
    wrong = pair(published.mechanism(epsilon), fitted_on_them, 54, 4000, pair=neighbors)
    assert wrong.flagged and wrong.statistic == "label frequency"
    assert wrong.epsilon_lower > 0.9 * wrong.epsilon_ceiling
    honest = PublicCodebook.of(public).mechanism(epsilon)
    assert not pair(honest, None, 54, 4000, pair=neighbors).flagged


def test_two_foreign_codebooks_are_told_apart():
    """Neither data set gives the published codebook: rows of both are labels of their own."""
    target = CodebookTarget(book(4).mechanism(1.0), lambda rows, generator: rows, pair=(PRIVATE[0], PRIVATE[1]))
    labels = target.stream()(np.stack([PRIVATE[0], PRIVATE[1], PRIVATE[0]]))[:, 0]
    assert labels.min() >= 4 and labels[0] == labels[2] != labels[1]


def test_a_noise_that_repeats():
    """n = 2,000 rows a release."""
    target = CodebookTarget(book(6).mechanism(1.0), new_generator=samplers.reused(55))
    assert audit_mechanism(target, samples=2000, confidence=CONFIDENCE, method="repeats").flagged
    target = CodebookTarget(book(6).mechanism(1.0), new_generator=seeds(55))
    assert not audit_mechanism(target, samples=2000, confidence=CONFIDENCE, method="repeats").flagged


def test_codes_that_are_released_alike_are_one_label():
    twice = PublicCodebook.of(np.repeat(PUBLIC[:3], 2, axis=0))
    target = CodebookTarget(twice.mechanism(3.0), new_generator=seeds(56))
    n = 20_000
    labels = target.stream()(np.tile(target.pair[0], (n, 1)))[:, 0]
    assert set(labels.tolist()) == {0, 2, 4}
    shares = np.bincount(labels) / n
    assert (shares**2).sum() < target.collision + 5 / math.sqrt(n)
    assert not audit_mechanism(target, samples=5000, confidence=CONFIDENCE).flagged


def test_a_share_of_several_rows_is_audited():
    target = as_target(book(5).mechanism(8.0, rows_per_person=4))
    assert isinstance(target, CodebookTarget) and target.epsilon == 2.0
    assert not audit_pair(target, samples=5000, confidence=CONFIDENCE).flagged


@pytest.mark.parametrize(
    "arguments, settings, error, text",
    [
        ((Gaussian(epsilon=1.0, dimension=4),), {}, TypeError, "mechanism must be a hushvec.mechanisms.CodebookResponse"),
        ((book(4).mechanism(1.0),), dict(pair=PRIVATE[:2]), TypeError, "pair must be a tuple of two rows"),
        ((book(4).mechanism(1.0),), dict(pair=(PRIVATE[0], PRIVATE[1, :5])), ValueError, "two rows of 16 elements"),
        ((book(4).mechanism(1.0),), dict(pair=(PRIVATE[0], PRIVATE[1] * np.nan)), ValueError, "pair must be finite"),
        ((PublicCodebook.of(PUBLIC[[0, 0]]).mechanism(1.0),), {}, ValueError, "at least two different rows"),
    ],
)
def test_bad_targets(arguments, settings, error, text):
    with pytest.raises(error, match=text):
        CodebookTarget(*arguments, **settings)
