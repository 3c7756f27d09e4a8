"""Poisson sampling: the words of the key stream against a threshold, the law, the ends, refusals."""

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from evidence.reference import chacha
from hushvec._native import _core

ALPHA = 1e-6
SEED = 77


def sampled(count, threshold, nonce=0):
    generator = hv.Generator.unsafe_seeded(SEED)
    for _ in range(nonce):
        generator._reserve()
    return _core.poisson_sample(count, threshold, generator)


def uniforms(count, nonce=0):
    """docs/format.md section 11, by the reference's own ChaCha."""
    groups = -(-count // 256)
    high, low = (
        chacha.words(chacha.seed_key(SEED), nonce, 20, 0, groups, domain).astype(object).reshape(-1)[:count]
        for domain in (25, 26)
    )
    return high * 2**32 + low


@pytest.mark.parametrize("threshold", [1, 2**40, 2**62, 2**63 + 12345, 2**64 - 1])
def test_kept_are_the_indices_whose_word_is_below_the_threshold(threshold):
    expected = np.flatnonzero(np.array([u < threshold for u in uniforms(3000)]))
    kept = sampled(3000, threshold)
    assert kept.dtype == np.int64 and np.array_equal(kept, expected)


def test_the_threshold_itself_is_not_kept():
    words = uniforms(300)
    smallest = min(words)
    assert sampled(300, smallest).size == 0
    assert sampled(300, smallest + 1).tolist() == [words.tolist().index(smallest)]


def test_the_ends():
    assert sampled(1000, 0).size == 0
    assert sampled(1000, 2**64).tolist() == list(range(1000))
    assert sampled(0, 2**63).size == 0


def test_indices_are_kept_independently():
    """200 samples of 2000 at 0.01: sizes are binomial (chi-square of the variance), places uniform, neighbours uncorrelated."""
    generator = hv.Generator.unsafe_seeded(SEED)
    probability, count, draws = 0.01, 2000, 200
    threshold = int(probability * 2**64)
    kept = np.zeros((draws, count), bool)
    for draw in range(draws):
        kept[draw, _core.poisson_sample(count, threshold, generator)] = True
    assert ALPHA / 2 < stats.binom.cdf(kept.sum(), draws * count, probability) < 1 - ALPHA / 2
    spread = ((kept.sum(1) - count * probability) ** 2).sum() / (count * probability * (1 - probability))
    assert ALPHA / 2 < stats.chi2.cdf(spread, draws) < 1 - ALPHA / 2
    both = (kept[:, 1:] & kept[:, :-1]).sum()
    assert ALPHA / 2 < stats.binom.cdf(both, draws * (count - 1), probability**2) < 1 - ALPHA / 2
    fixed_size = np.full(draws, 20)  # what a sampler of fixed batches would give is seen
    assert (
        stats.chi2.cdf(((fixed_size - count * probability) ** 2).sum() / (count * probability * (1 - probability)), draws) < ALPHA
    )


@pytest.mark.parametrize(
    ("count", "threshold", "kind", "text"),
    [
        (10, -1, ValueError, "threshold must be in"),
        (10, 2**64 + 1, ValueError, "threshold must be in"),
        (2**41, 1, ValueError, r"count must be <= 2\^40"),
        (-1, 1, TypeError, "poisson_sample"),
        (10, 0.5, TypeError, "poisson_sample"),
    ],
)
def test_bad_arguments(count, threshold, kind, text):
    with pytest.raises(kind, match=text):
        _core.poisson_sample(count, threshold, hv.Generator.unsafe_seeded(1))


def test_samples_differ_from_call_to_call():
    assert not np.array_equal(sampled(1000, 2**63), sampled(1000, 2**63, nonce=1))
    assert np.array_equal(sampled(1000, 2**63, nonce=1), np.flatnonzero(np.array([u < 2**63 for u in uniforms(1000, 1)])))
