"""Reports as releases: budgets, receipts, bad words. Everything is checked before anything is charged or drawn."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from collect.surveys import vocabulary
from hushvec._native import _core
from hushvec.accounting import PureDP, Shuffled, compose
from hushvec.collect import BloomFilter, Memo, Vocabulary
from hushvec.errors import PrivacyBudgetExhaustedError, ReceiptError
from hushvec.receipts.reports import ReportReceipt
from receipts.forgeries import SCRIPT, module_of

MECHANISMS = ("k_rr", "unary", "hadamard")


def next_nonce(generator):
    return _core._state_words(generator._reserve())[4]


def collections(words_per_person=1):
    yield from (vocabulary(30, 2.0, mechanism, words_per_person=words_per_person) for mechanism in MECHANISMS)
    yield BloomFilter(64, 2, epsilon=2.0, cohorts=4, words_per_person=words_per_person)
    yield BloomFilter(64, 2, epsilon=2.0, cohorts=4, p=0, q=1, words_per_person=words_per_person)


def name(ours):
    return getattr(ours, "mechanism", "bloom")


# ---- receipts ----


@pytest.mark.parametrize("ours", list(collections(3)), ids=name)
@pytest.mark.parametrize("memo", [False, True])
@pytest.mark.parametrize("words", [0, 1, 3])
def test_receipts_as_written_hold(ours, memo, words):
    memo = Memo() if memo else None
    receipt = ours.release([f"word{i}" for i in range(words)], per="release", memo=memo).receipt
    assert hv.verify_receipt(receipt).status == "holds"
    assert ReportReceipt.from_json(receipt.to_json()) == receipt
    assert receipt.reports == words and receipt.words_of_one == max(1, words) and receipt.dictionary_digest == ours.digest
    each = ours.word_epsilon if memo else ours.report_epsilon
    assert receipt.epsilon == pytest.approx(each * max(1, words), rel=1e-12)
    assert receipt.epsilon <= ours.epsilon if memo else receipt.epsilon <= 3 * ours.report_epsilon * (1 + 1e-15)
    assert compose([receipt.loss], delta=1e-6).epsilon > 0


@pytest.mark.parametrize("ours", list(collections()), ids=name)
def test_receipts_of_many_people_are_those_of_one(ours):
    receipt = ours.release(["word1"] * 500).receipt
    assert receipt.epsilon == ours.report_epsilon and receipt.words_of_one == 1 and receipt.reports == 500
    assert hv.verify_receipt(receipt).status == "holds"


def test_a_memos_receipts_add_up_to_its_words():
    ours, memo, budget = vocabulary(30, 4.0, "k_rr", words_per_person=4), Memo(), hv.PrivacyBudget(4.0)
    receipts = []
    for new, words in ((1, ["word1"]), (1, ["word2", "word1"]), (0, ["word1"] * 9), (2, ["word7", "word2", "word8"])):
        receipt = ours.release(words, per="release", memo=memo, budget=budget).receipt
        assert receipt.words_of_one == max(1, new) and receipt.epsilon == pytest.approx(max(1, new)) and receipt.memoised
        assert (receipt.charge is None) == (new == 0)
        assert hv.verify_receipt(receipt).status == "holds"
        receipts += [receipt] * (new > 0)
    assert compose([receipt.loss for receipt in receipts], delta=0.0).epsilon == pytest.approx(4.0)
    assert hv.verify_charges(receipts, budget.export()).status == "holds"
    assert any("which reports are of the same word, is treated as public" in note for note in receipt.notes)


RECEIPTS = {
    "unary": lambda: vocabulary(30, 2.0, "unary", words_per_person=2).release(["word1", "word2"], per="release").receipt,
    "bloom": lambda: BloomFilter(64, 2, epsilon=2.0).release("word1").receipt,
    "memo": lambda: BloomFilter(64, 2, epsilon=2.0).release("word1", per="release", memo=Memo()).receipt,
}


@pytest.mark.parametrize(
    ("which", "change", "reason"),
    [
        ("unary", {"epsilon": 1.99}, "the law gives epsilon = 2.0.* for 2 words of one person, more than the 1.99 stated"),
        ("unary", {"words_of_one": 3}, "the law gives epsilon = 3.0"),
        ("unary", {"words_of_one": 1}, "words_of_one must be at least the 2 reports of the person"),
        ("unary", {"per": "record"}, "words_of_one must be 1 where every report is another person's"),
        ("unary", {"delta": 1e-9}, "delta must be 0"),
        ("unary", {"truth_values": 2**63 + 1}, r"truth_values \+ 1 other_values must be 2\^64"),
        ("unary", {"cells": 2**24, "truth_values": 2**40, "other_values": 2**40}, "cells must be 2 for unary, got 16777216"),
        ("unary", {"mechanism": "hadamard", "cells": 6}, "cells must be 2 B, B a power of two for hadamard, got 6"),
        ("unary", {"truth_values": 2**62, "other_values": 3 * 2**62}, "truth_values must be >= other_values"),
        ("unary", {"hashes": 1}, "hashes, one_values and zero_values must be 0 for unary"),
        ("bloom", {"hashes": 3}, "the law gives epsilon = "),
        ("bloom", {"hashes": 0}, "hashes must be >= 1 for bloom"),
        ("bloom", {"cells": 3, "truth_values": 2**63, "other_values": 2**62}, "cells must be 2 for bloom"),
        ("bloom", {"one_values": 2**64 - 1}, "the law gives epsilon = "),
        ("bloom", {"one_values": 2**64, "zero_values": 0}, "the law gives epsilon = 2.0"),
        ("bloom", {"zero_values": 0}, "one_values must be > zero_values > 0, or"),
        ("bloom", {"memoised": True, "per": "release"}, "the law gives epsilon = 2.0"),
        ("memo", {"per": "record"}, "per must be 'release' where reports are memoised"),
        ("memo", {"epsilon": 1.0}, "the law gives epsilon = 2.0"),
        ("unary", {"key_source": "seed"}, "is_dp_claim must be false"),
    ],
)
def test_what_does_not_follow_does_not_hold(which, change, reason):
    import re

    found = hv.verify_receipt(dataclasses.replace(RECEIPTS[which](), **change))
    assert found.status == "does not hold"
    assert re.search(reason, found.reasons[0]), found.reasons


def test_a_seeded_key_claims_nothing():
    receipt = vocabulary(30, 2.0, "k_rr").release("word1", generator=hv.Generator.unsafe_seeded(1)).receipt
    assert not receipt.is_dp_claim and receipt.key_source == "seed"
    assert hv.verify_receipt(receipt).status == "not a DP claim"


@pytest.mark.parametrize(
    "change",
    [
        {"truth_values": 5}, {"truth_values": "05"}, {"one_values": "-1"}, {"mechanism": "rappor"}, {"per": "person"},
        {"epsilon": 0}, {"epsilon": "2"}, {"memoised": 1}, {"cells": 1}, {"words_of_one": 0}, {"reports": -1},
        {"dictionary_digest": "00"}, {"receipt_version": 2}, {"other_values": str(2**64)}, {"surprise": 1},
    ],
)  # fmt: skip
def test_receipts_that_cannot_be_read(change):
    fields = {**json.loads(RECEIPTS["bloom"]().to_json()), **change}
    with pytest.raises(ReceiptError):
        ReportReceipt.from_json(json.dumps(fields))


# ---- budgets ----


@pytest.mark.parametrize("ours", list(collections(2)), ids=name)
def test_charges(ours):
    budget = hv.PrivacyBudget(100.0)
    ours.report(["word1"] * 50, budget=budget)
    assert budget.consumed() == pytest.approx(ours.report_epsilon)
    release = ours.release(["word1", "word2"], per="release", budget=budget)
    assert budget.consumed() == pytest.approx(3 * ours.report_epsilon)
    assert release.receipt.charge is not None
    ours.report([], budget=budget)
    assert budget.consumed() == pytest.approx(3 * ours.report_epsilon)


def test_all_words_of_a_person_fit_into_their_epsilon():
    """words_per_person reports of epsilon / words_per_person, charged one by one or together, never exceed epsilon."""
    for epsilon, words in ((1.0, 3), (0.1, 7), (math.pi, 49), (2.0, 1000)):
        ours = vocabulary(2000, epsilon, "k_rr", words_per_person=words)
        budget = hv.PrivacyBudget(epsilon)
        ours.report([f"word{i}" for i in range(words)], per="release", memo=Memo(), budget=budget)
        assert words * Fraction(ours.report_epsilon) <= Fraction(epsilon)


@pytest.mark.parametrize("ours", list(collections()), ids=name)
def test_an_exhausted_budget_draws_nothing(ours):
    generator = hv.Generator()
    with pytest.raises(PrivacyBudgetExhaustedError):
        ours.report("word1", budget=hv.PrivacyBudget(0.01), generator=generator)
    assert next_nonce(generator) == 0


# ---- bad words ----

BAD = [
    ("nobody", {}, ValueError, "words must be among the 30 of the vocabulary, got 'nobody' at position 0; unknown='other' would"),
    (["word1", "Word2"], {}, ValueError, "got 'Word2' at position 1"),
    ([3], {}, TypeError, "words must be strings, got int at position 0"),
    ([None], {}, TypeError, "words must be strings, got NoneType"),
    (b"word1", {}, TypeError, "words must be a str or a sequence of str, got bytes"),
    ({"word1"}, {}, TypeError, "words must be a str or a sequence of str, got set"),
    ("\ud800", {}, ValueError, "words must be text that UTF-8 can hold"),
    (["word1"] * 2, {"per": "release"}, ValueError, "words must be at most 1, words_per_person, of one person, got 2"),
    ("word1", {"per": "person"}, ValueError, "per must be one of 'record', 'release', got 'person'"),
    ("word1", {"budget": 3}, TypeError, "budget must have a method consume"),
    ("word1", {"generator": 3}, TypeError, "generator must be a hushvec.Generator or None, got int"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("words", "rest", "error", "message"), BAD)
def test_bad_words_are_refused_before_anything_is_charged_or_drawn(mechanism, words, rest, error, message):
    generator, budget = hv.Generator(), hv.PrivacyBudget(10.0)
    with pytest.raises(error) as caught:
        vocabulary(30, 2.0, mechanism).report(words, **{"generator": generator, "budget": budget, **rest})
    assert message in str(caught.value)
    assert next_nonce(generator) == 0 and budget.consumed() == 0


def test_a_budget_with_a_seeded_generator_is_refused():
    budget = hv.PrivacyBudget(10.0)
    for ours in collections():
        with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
            ours.report("word1", budget=budget, generator=hv.Generator.unsafe_seeded(1))
    assert budget.consumed() == 0


@pytest.mark.parametrize(
    ("arguments", "rest", "error", "message"),
    [
        (("ab", 1.0), {}, TypeError, "words must be a sequence of strings, got str"),
        ((7, 1.0), {}, TypeError, "words must be a sequence of strings, got int"),
        ((["a", 1], 1.0), {}, TypeError, "words must be strings, got int at position 1"),
        ((["a", "b", "a"], 1.0), {}, ValueError, "words must be all different, got 'a' twice"),
        ((["a"], 1.0), {}, ValueError, r"words must be 2 to 2\^24, got 1"),
        (([], 1.0), {}, ValueError, r"words must be 2 to 2\^24, got 0"),
        ((["a", "\udfff"], 1.0), {}, ValueError, "words must be text that UTF-8 can hold"),
        ((["a", "<other>"], 1.0), {"unknown": "other"}, ValueError, "words must not hold '<other>'"),
        ((["a", "b"], 0.0), {}, ValueError, "epsilon must be > 0, got 0.0"),
        ((["a", "b"], math.inf), {}, ValueError, "epsilon must be finite, got inf"),
        ((["a", "b"], math.nan), {}, ValueError, "epsilon must be finite, got nan"),
        ((["a", "b"], True), {}, TypeError, "epsilon must be a number, got bool"),
        ((["a", "b"], 1e-300), {}, ValueError, "epsilon must be large enough to prefer the truth among 2 words"),
        ((["a", "b"], 1.0), {"mechanism": "rappor"}, ValueError, "mechanism must be one of 'auto', 'k_rr', 'unary', 'hadamard'"),
        ((["a", "b"], 1.0), {"words_per_person": 0}, ValueError, "words_per_person must be >= 1, got 0"),
        ((["a", "b"], 1.0), {"words_per_person": True}, TypeError, "words_per_person must be a whole number, got bool"),
        ((["a", "b"], 1.0), {"unknown": "ignore"}, ValueError, "unknown must be one of 'error', 'other', got 'ignore'"),
    ],
)
def test_bad_vocabularies_are_refused(arguments, rest, error, message):
    with pytest.raises(error, match=message):
        Vocabulary(*arguments, **rest)


def test_one_person_with_one_unknown_word_is_enough():
    assert len(Vocabulary(["a"], 1.0, unknown="other").words) == 2


def test_words_may_come_as_arrays():
    ours = vocabulary(30, 2.0, "k_rr")
    reports = [ours.report(w, generator=hv.Generator.unsafe_seeded(1)) for w in (["word1", "word2"], np.array(["word1", "word2"]))]
    assert (reports[0] == reports[1]).all() and len(ours.report("word1")) == 1 and len(ours.report([])) == 0


def test_shuffled_collections_cost_what_their_epsilon_does():
    """All words of a person together, whatever the mechanism: by the loss of hushvec.accounting."""
    for ours in collections(words_per_person=2):
        assert ours.shuffled(10_000) == Shuffled(PureDP(epsilon=ours.epsilon), 10_000)
        assert ours.shuffled(10_000).epsilon(1e-6) < 0.2 < ours.epsilon
    with pytest.raises(ValueError, match="n must be >= 1, got 0"):
        vocabulary(30, 2.0, "unary").shuffled(0)


def test_a_receipt_says_what_shuffling_adds_and_on_whom_it_relies():
    receipt = vocabulary(30, 8.0, "k_rr").release("word1", per="release").receipt
    noted = receipt.with_shuffling(1_000_000, 1e-6)
    stated = float(noted.notes[-1].split(",")[0].removeprefix("("))
    exact = Shuffled(receipt, 1_000_000).epsilon(1e-6)
    assert exact <= stated <= exact * (1 + 1e-5)
    assert all(part in noted.notes[-1] for part in ("1e-06", "1000000 people", "honest shuffler", "against the shuffler"))
    assert dataclasses.replace(noted, notes=receipt.notes) == receipt
    assert ReportReceipt.from_json(noted.to_json()) == noted
    assert hv.verify_receipt(noted) == hv.verify_receipt(receipt)
    assert module_of(SCRIPT.read_text()).check_receipt(json.loads(noted.to_json()))[0] == "holds"


@pytest.mark.parametrize(
    "n, delta, error, message",
    [
        (0, 1e-6, ValueError, "n must be >= 1, got 0"),
        (2.5, 1e-6, TypeError, "n must be a whole number, got float"),
        (100, 0.0, ValueError, "delta must be > 0 and < 1, got 0.0"),
        (100, 1.0, ValueError, "delta must be > 0 and < 1, got 1.0"),
        (100, "1e-6", TypeError, "delta must be a number, got str"),
    ],
)
def test_a_note_on_shuffling_needs_people_and_a_delta(n, delta, error, message):
    with pytest.raises(error, match=message):
        vocabulary(30, 8.0, "k_rr").release("word1").receipt.with_shuffling(n, delta)


def test_shuffling_adds_nothing_to_no_claim_and_is_not_stated_of_a_memo():
    ours = vocabulary(30, 8.0, "k_rr")
    with pytest.raises(ValueError, match="receipt must hold for a note on shuffling, got one that is found 'not a DP claim'"):
        ours.release("word1", generator=hv.Generator.unsafe_seeded(1)).receipt.with_shuffling(100, 1e-6)
    with pytest.raises(ValueError, match="receipt must hold for a note on shuffling, got one that is found 'does not hold'"):
        dataclasses.replace(ours.release("word1").receipt, epsilon=1.0).with_shuffling(100, 1e-6)
    with pytest.raises(ValueError, match=r"memoised must be False for a note on shuffling, .* got True"):
        ours.release("word1", per="release", memo=Memo()).receipt.with_shuffling(100, 1e-6)


@pytest.mark.parametrize(("words", "text"), [(5, "a report has 1 byte"), (300, "a report has 2 bytes"), (9, "a report has 1 byte")])
def test_the_length_of_a_report_is_told_in_words(words, text):
    vocabulary = Vocabulary([str(number) for number in range(words)], epsilon=2.0, mechanism="k_rr")
    assert vocabulary.describe()[1] == text
    assert vocabulary.report("1").nbytes == vocabulary.report_bytes
