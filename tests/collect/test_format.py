"""Reports, digests, hashes and sketches are what section 12 of docs/format.md says, bit for bit."""

import math

import numpy as np
import pytest

import hushvec as hv
from collect import collect_reference as reference
from evidence.reference import chacha, stream
from hushvec._native import _core
from hushvec.collect import BloomFilter, Memo, Vocabulary

SEED = 77
KEY = chacha.seed_key(SEED)
CIPHERS = pytest.mark.parametrize("cipher", ("aes256", "chacha20", "chacha12", "chacha8"))


def seeded(cipher="chacha20"):
    return hv.Generator.unsafe_seeded(SEED, cipher=cipher)


@pytest.mark.parametrize("k", [2, 31, 32, 33, 512, 513, 1100])
@CIPHERS
def test_unary_reports(k, cipher):
    codes = np.array([0, k - 1, k // 2])
    vocabulary = Vocabulary([str(i) for i in range(k)], 1.25, mechanism="unary")
    ours = vocabulary.report([str(code) for code in codes], generator=seeded(cipher))
    assert (ours == reference.unary_reports(KEY, 0, stream.ROUNDS[cipher], codes.tolist(), k, 1.25)).all()


def test_thresholds_that_need_every_digit():
    """Thresholds one above and one equal to a uniform that occurs: digits 17 to 64 decide, all of them."""
    uniforms = reference.unit_uniforms(KEY, 0, 20, 0)
    truth = np.zeros((1, 16), np.uint32)
    for place in (0, 37, 511):
        for threshold, expected in ((uniforms[place], 0), (uniforms[place] + 1, 1)):
            drawn = _core.perturb_bits(truth, 512, (1, threshold), seeded())
            assert drawn[0, place // 32] >> (place % 32) & 1 == expected
            assert (drawn == reference.packed([[int(u < threshold) for u in uniforms]])).all()


def test_perturbed_bits():
    rows = np.random.default_rng(3).integers(0, 2, (3, 700)).tolist()
    p1, p0 = 0xF000000000000001, 0x1234567890ABCDEF
    ours = _core.perturb_bits(reference.packed(rows), 700, (p1, p0), seeded())
    assert (ours == reference.packed(reference.drawn_bits(KEY, 0, 20, rows, p1, p0))).all()


@pytest.mark.parametrize(
    ("k", "epsilon", "blocks", "order"), [(2, 0.5, 1, 4), (1000, 1.0, 1, 1024), (100, 3.0, 8, 16), (5, 50.0, 8, 2)]
)
@CIPHERS
def test_hadamard_reports(k, epsilon, blocks, order, cipher):
    vocabulary = Vocabulary([str(i) for i in range(k)], epsilon, mechanism="hadamard")
    assert (vocabulary.oracle.blocks, vocabulary.oracle.order) == (blocks, order)
    codes = np.random.default_rng(4).integers(0, k, 600).tolist()
    ours = vocabulary.report([str(code) for code in codes], generator=seeded(cipher))
    assert ours.tolist() == reference.hadamard_reports(KEY, 0, stream.ROUNDS[cipher], codes, blocks, order, epsilon)


@pytest.mark.parametrize("k", [2, 3, 300, 10_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5, 5.0, 12.0, 40.0])
def test_number_of_hadamard_blocks(k, epsilon):
    oracle = Vocabulary([str(i) for i in range(k)], epsilon, mechanism="hadamard").oracle
    choices = [2**i for i in range(15) if 2 ** (i - 1) < k]
    assert oracle.blocks == min(choices, key=lambda b: 1 / b + 4 * b / math.expm1(epsilon) ** 2)
    assert oracle.order > -(-k // oracle.blocks) >= oracle.order // 2


@pytest.mark.parametrize("hashes", [1, 2, 8, 9, 17])
def test_hash_functions(hashes):
    filter_ = BloomFilter(1000, hashes, epsilon=2.0, cohorts=4, salt=b"pepper")
    places = filter_.positions(["", "na\u00efve"])
    for i, word in enumerate(["", "na\u00efve"]):
        for cohort in range(4):
            assert places[i, cohort].tolist() == reference.bloom_bits(word, cohort, 1000, hashes, b"pepper")


def test_memoised_reports():
    memo = Memo()
    vocabulary = Vocabulary([str(i) for i in range(40)], 1.0, mechanism="unary")
    key = reference.memo_key(memo._secret, vocabulary.digest, "7")
    ours = vocabulary.report("7", per="release", memo=memo)
    assert (ours == reference.unary_reports(key, 0, 20, [7], 40, 1.0)).all()

    filter_ = BloomFilter(64, 3, f=0.5, p=0, q=1, cohorts=7, salt=b"s")
    cohorts, bits = filter_.report("word", per="release", memo=memo)
    assert cohorts.tolist() == [reference.memo_cohort(memo._secret, filter_.digest, 7)]
    ones = reference.bloom_bits("word", int(cohorts[0]), 64, 3, b"s")
    key = reference.memo_key(memo._secret, filter_.digest, "word")
    row = [[int(i in ones) for i in range(64)]]
    assert (bits == reference.packed(reference.drawn_bits(key, 0, 20, row, 3 << 62, 1 << 62))).all()


def test_digest_and_bytes_of_a_vocabulary():
    words = ["a", "\u00e4", "", "c"]
    vocabulary = Vocabulary(words, 1.5, mechanism="k_rr", words_per_person=3)
    assert vocabulary.digest == reference.vocabulary_digest("k_rr", 0.5, 3, 4, words)
    sketch = vocabulary.sketch()
    sketch.add(np.array([0, 0, 2], np.uint8))
    assert sketch.to_bytes() == reference.sketch_bytes(1, vocabulary.digest, 3, [2, 0, 1, 0])


def test_bytes_of_a_bloom_sketch():
    filter_ = BloomFilter(3, 1, f=0.5, cohorts=2)
    sketch = filter_.sketch()
    sketch.add((np.array([1, 1, 0]), np.array([[5], [4], [2]], np.uint32)))
    assert sketch.to_bytes() == reference.sketch_bytes(2, filter_.digest, 3, [1, 2, 0, 1, 0, 1, 0, 2])
