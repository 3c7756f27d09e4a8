"""Version 3 of the format, which reads half the key stream: docs/format.md, section 16.

A pair of samples has one word W of domain 0 and, behind it, one word M of domain 29. Their halves make the two words that the rest of
the format reads; everything behind these two words is as in versions 1 and 2.
"""

import numpy as np

from . import chacha

DOMAIN_MORE = 29
GRID_BITS = 3   # s is in [8, 16) where sigma sets the grid


def gaussian_words(words, more):
    """(A, B) of pairs whose words these are."""
    w1, w0, m1, m0 = _halves(words, more)
    return _word(w1 << 16 | m1), _word(w0 << 16 | m0)


def laplace_words(words, more):
    """The words of the first and of the second sample of pairs whose words these are."""
    w1, w0, m1, m0 = _halves(words, more)
    return tuple(_word((w // 2 << 17) + 2 * m + w % 2) for w, m in ((w1, m1), (w0, m0)))


def pair_of_sample(samples):
    """The pair that each sample is of."""
    group, within = np.divmod(np.asarray(samples), chacha.GROUP)
    return group * chacha.PAIRS_PER_GROUP + within % chacha.PAIRS_PER_GROUP


def call_words(words_of, samples):
    """(words, more) of the pairs of a call, the last group of its samples whole; words_of(samples, domain) are words of a domain."""
    pairs = -(-samples // chacha.GROUP) * chacha.PAIRS_PER_GROUP
    # The pair p has the word in the place of sample p.
    return tuple(words_of(pairs, domain)[:pairs] for domain in (chacha.DOMAIN_MAIN, DOMAIN_MORE))


def _halves(words, more):
    words, more = np.asarray(words, dtype=np.uint64), np.asarray(more, dtype=np.uint64)
    low = np.uint64(0xFFFF)
    return words >> np.uint64(16), words & low, more >> np.uint64(16), more & low


def _word(values):
    return values.astype(np.uint32)
