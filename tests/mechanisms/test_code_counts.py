"""How many codes a codebook gets: the measure that decides, and that it decides."""

import math

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import PublicCodebook
from hushvec.mechanisms.codebook import Tried, best, counts_up_to, found_share, gains, tried_until_past

pytest.importorskip("faiss")


def topics(count, *, seed, around=60, spread=0.25, dimension=16):
    centers = np.random.default_rng(99).standard_normal((around, dimension))
    rng = np.random.default_rng(seed)
    return (centers[rng.integers(around, size=count)] + spread * rng.standard_normal((count, dimension))).astype(np.float32)


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def by_definition(rows, queries, stored):
    def best_others(own, given, among):
        return sorted(set(range(len(rows))) - {own}, key=lambda i: -(among[i] @ given[own]))[:10]

    total = 0.0
    for own in range(len(rows)):
        wanted, found = best_others(own, rows, rows), best_others(own, queries, stored)
        total += sum(1 / math.log2(rank + 2) for rank, one in enumerate(found) if one in wanted)
    return total / len(rows) / sum(1 / math.log2(rank + 2) for rank in range(10))


@pytest.mark.ranks
def test_the_share_found_is_what_it_says():
    rows = unit(topics(60, seed=1))
    noisy = unit(rows + 0.3 * topics(60, seed=2, spread=1.0))
    assert found_share(rows, rows, rows) == pytest.approx(1.0)
    assert found_share(rows, rows, noisy) == pytest.approx(by_definition(rows, rows, noisy))
    assert found_share(rows, noisy, rows) == pytest.approx(by_definition(rows, noisy, rows))
    assert 0.1 < found_share(rows, rows, noisy) < 0.9


@pytest.mark.ranks
def test_search_takes_more_codes_than_the_cosine_and_finds_more():
    """Releases of 1,000 private rows, searched by the clean ones. The codebook for search must find at least a tenth more."""
    public, private = topics(2000, seed=3), unit(topics(1000, seed=4))
    codebooks = [PublicCodebook.fit(public, epsilon=8.0, purpose=purpose) for purpose in ("cosine", "search")]
    assert len(codebooks[0]) < len(codebooks[1])
    seeded = hv.Generator.unsafe_seeded(5)
    releases = [hv.privatize(private, mechanism=book.mechanism(8.0), generator=seeded).values for book in codebooks]
    found = [found_share(private, private, released) for released in releases]
    assert found[1] > 1.1 * found[0]


def test_purposes_and_rows_that_cannot_be():
    with pytest.raises(ValueError, match="purpose must be"):
        PublicCodebook.fit(topics(100, seed=5), epsilon=8.0, purpose="retrieval")
    with pytest.raises(ValueError, match="public_rows must be at least 32"):
        PublicCodebook.fit(topics(31, seed=5), epsilon=8.0, purpose="search")
    assert len(PublicCodebook.fit(topics(32, seed=5), epsilon=8.0, purpose="search")) >= 2


def test_numbers_that_are_tried():
    assert counts_up_to(50) == [8, 16, 32, 50] and counts_up_to(8) == [8]
    scores = {8: 0.1, 16: 0.5, 32: 0.4, 64: 0.2, 128: 0.9}
    tried = tried_until_past(scores, scores.__getitem__)
    assert tried == [Tried(count, scores[count]) for count in (8, 16, 32, 64)] and best(tried).codes == 16
    assert gains(3).sum() == pytest.approx(1) and gains(3)[0] > gains(3)[1] > gains(3)[2]
