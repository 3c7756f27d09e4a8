"""The words of the key stream are uniform and independent.

Statistics on n = 2^21 words (2^26) of one call, alpha = 1e-6 each: exact binomial tests of every bit; chi-square of the bytes (255
degrees of freedom) at each of the four places in a word; chi-square of the two halves of a word (65,535); the share of different
bits between words a lag apart, and between calls whose keys are derived from neighbouring nonces. All backends give the same
words (known_answers), so one is enough.
"""

import numpy as np
import pytest
from scipy import stats

from evidence.reference import checks
from evidence.reference.sizes import scaled
from evidence.reference.stream import ROUNDS
from evidence.statistical.draws import ALPHA, KEY_STREAMS

WORDS = scaled(1 << 21, 1 << 26)
KEY = bytes(range(60, 92))
ONES = np.array([number.bit_count() for number in range(256)])
LAGS = (1, 4, 16, 64, 128, 256, 1 << 16)  # 4: the next AES block; 256: the next group


def words_of(hooks, cipher, nonce=5, domain=0):
    return np.asarray(hooks.keystream("portable", KEY, nonce, ROUNDS[cipher], domain, 0, WORDS // 256))


def even_p_value(values, cells):
    counts = np.bincount(values, minlength=cells)
    return float(stats.chisquare(counts).pvalue)


def smallest_p_value(words):
    """Of all tests within one stream, times their number."""
    found = [checks.count(int((words >> np.uint32(bit) & np.uint32(1)).sum()), words.size, 0.5) for bit in range(32)]
    by_place = words.view(np.uint8).reshape(-1, 4)
    found += [even_p_value(by_place[:, place], 256) for place in range(4)]
    found += [even_p_value(words & np.uint32(0xFFFF), 1 << 16), even_p_value(words >> np.uint32(16), 1 << 16)]
    found += [alike_p_value(words[:-lag], words[lag:]) for lag in LAGS]
    return len(found) * min(found)


def alike_p_value(first, second):
    """Rejects words that differ in more or fewer bits than half."""
    return checks.count(int(ONES[(first ^ second).view(np.uint8)].sum()), 32 * first.size, 0.5)


@pytest.mark.parametrize("cipher", KEY_STREAMS)
def test_words_are_uniform(hooks, cipher):
    assert smallest_p_value(words_of(hooks, cipher)) > ALPHA


@pytest.mark.parametrize("cipher", KEY_STREAMS)
def test_calls_and_domains_share_no_bits(hooks, cipher):
    words = words_of(hooks, cipher)
    for change in (dict(nonce=4), dict(nonce=6), dict(nonce=5 + (1 << 40)), dict(domain=1), dict(domain=16)):
        assert alike_p_value(words, words_of(hooks, cipher, **change)) > ALPHA, change


def test_wrong_words_are_rejected(hooks):
    words = words_of(hooks, "aes256")
    blocks = words.reshape(-1, 4)
    rng = np.random.default_rng(601)
    rare = rng.random(words.size) < 0.01
    mutants = {
        "one word in a hundred has bit 7 set": np.where(rare, words | np.uint32(1 << 7), words),
        "one byte in five hundred is 0": np.where(rng.random(words.size) < 0.002, words & np.uint32(0xFFFFFF00), words),
        "every 64th block is that before it": np.where(np.arange(len(blocks))[:, None] % 64 == 1, np.roll(blocks, 1, axis=0), blocks),
        "one word in a hundred is the last group's": np.where(rare, np.roll(words, 256), words),
    }
    for name, mutant in mutants.items():
        assert smallest_p_value(mutant.reshape(-1)) < ALPHA, name
    assert alike_p_value(words, words) < ALPHA
    assert alike_p_value(words, np.where(rare, words, words_of(hooks, "aes256", nonce=6))) < ALPHA
