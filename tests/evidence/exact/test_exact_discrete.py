"""Discrete noise is what section 15 of docs/format.md says: bit for bit, on every backend, for words at every edge of the steps."""

import numpy as np
import pytest

import hushvec as hv
from evidence.reference import chacha, discrete, stream
from evidence.reference.sizes import scaled

CIPHERS = ("chacha20", "aes256")
SEED = 7
SHARE = scaled(2, 20)
SCALES = (2.0**-6, 0.3, 1.0, 3.7, 127.9, 300.1, 3.2e5, 2.0**21 * 1.1, 2.0**40)
DRAW = {"gaussian": hv.discrete_gaussian, "laplacian": hv.discrete_laplacian}
LAWS = tuple(DRAW)
laws = pytest.fixture(scope="module", params=[(law, scale) for law in LAWS for scale in SCALES], ids=str)


@laws
def law(request):
    return discrete.Law(*request.param)


def generator(cipher):
    return hv.Generator.unsafe_seeded(SEED, cipher=cipher)


def key_of(cipher):
    return chacha.seed_key(SEED), 0, stream.ROUNDS[cipher]


@pytest.mark.parametrize("cipher", CIPHERS)
def test_samples_are_those_of_the_format(law, cipher):
    groups = scaled(4, 400)
    got = DRAW[law.law](groups * chacha.GROUP, float(law.scale), generator=generator(cipher))
    np.testing.assert_array_equal(got, discrete.samples(law, *key_of(cipher), 0, groups))


@pytest.mark.parametrize("cipher", CIPHERS)
def test_samples_of_a_long_call(cipher):
    """Around numbers 2^14 and 2^20, where further attempts come from other blocks and keys."""
    law = discrete.Law("laplacian", 3.2e5)
    got = hv.discrete_laplacian(4100 * chacha.GROUP, 3.2e5, generator=generator(cipher)).reshape(4100, chacha.GROUP)
    for group in (62, 4094):
        np.testing.assert_array_equal(got[group : group + 6].ravel(), discrete.samples(law, *key_of(cipher), group, 6))


def edge_words(law, rng):
    """At the ends of the steps, in the upper squares, in those of them that the curve crosses, in the tail and in what is left."""
    ends = np.array([0, *law.ends, 2**32])
    near_ends = (rng.choice(ends, 15 * SHARE)[:, None] + np.arange(-2, 3)).ravel()
    lower, upper, tail = law.ends[2 * law.h - 1], law.ends[4 * law.h - 1], law.ends[-1]
    crossed = []
    for i in rng.integers(0, 2 * law.h, 10 * SHARE).tolist():
        cell = int(rng.integers(0, 2**law.c))
        k = (law.steps[i] << law.b) + (cell << (law.b - law.c))
        square = min(max(law.floor(law.C, k) - law.n[i], 0), law.x[i] - 1)
        crossed.append(law.ends[2 * law.h + i - 1] + (square << law.c) + cell)
    words = np.concatenate(
        [
            crossed,
            rng.integers(upper, tail, 5 * SHARE),
            rng.integers(lower, upper, 10 * SHARE),
            near_ends,
            rng.integers(tail, 2**32, SHARE),
            [0, 2**32 - 1],
        ]
    )
    words = words[(words >= 0) & (words < 2**32)].astype(np.uint32)
    return np.resize(words, -(-words.size // 16) * 16)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_words_at_every_edge(law, cipher, hooks, core):
    """In float64 and in fixed point."""
    rng = np.random.default_rng(11)
    words = edge_words(law, rng)
    lows = rng.integers(0, 2**32, words.size, dtype=np.uint32) if law.b > law.c else np.zeros(words.size, np.uint32)
    expected = [
        discrete.settle(law, *key_of(cipher), i, word, low) for i, (word, low) in enumerate(zip(words.tolist(), lows.tolist()))
    ]
    for backend in core.backends()["available"]:
        for exactly, count in ((False, words.size), (True, 16 * SHARE)):
            got = hooks.discrete_of_words(
                backend, law.law == "laplacian", float(law.scale), generator(cipher), words[:count], lows[:count], exactly
            )
            np.testing.assert_array_equal(got, expected[:count], err_msg=f"{backend} {exactly}")


def test_a_reference_that_never_rejects_differs(monkeypatch):
    """What the comparisons decide is seen."""
    law = discrete.Law("gaussian", 3.2e5)
    key = key_of("chacha20")
    words = edge_words(law, np.random.default_rng(11)).tolist()
    right = [discrete.settle(law, *key, i, word, 0) for i, word in enumerate(words)]
    monkeypatch.setattr(discrete.Law, "below", lambda *_: True)
    assert sum(discrete.settle(law, *key, i, word, 0) != k for i, (word, k) in enumerate(zip(words, right))) > 5 * SHARE


@pytest.mark.parametrize("name", LAWS)
def test_the_curve_is_below_the_envelope(name):
    """The steps fit into the words and the tail below its envelope; at least nine attempts in ten accept, whatever the scale."""
    rng = np.random.default_rng(13)
    powers = rng.integers(-6, 41, 4 * SHARE).tolist()
    for scale in [2.0**-6, 1.0, 2.0**40, *(2.0**power for power in powers), *np.exp2(rng.uniform(-6, 40, 4 * SHARE)).tolist()]:
        law = discrete.Law(name, scale)
        assert law.ends[-1] <= 2**32
        discrete.ctx.prec = 100
        for stretch in range(20):
            first = (law.h << law.b) + (stretch << law.m)
            assert law.C * law.weight(first) * 2 ** (stretch + 1 + law.m) < 2 ** (15 + law.b - law.c)
        k = np.arange(-30, 31) if scale < 2 else np.linspace(-40 * scale, 40 * scale, 100_001)
        exponent = (k / scale) ** 2 / 2 if name == "gaussian" else np.abs(k) / scale
        assert law.C * np.exp(-exponent).sum() * (k[1] - k[0]) > 0.9 * 2.0 ** (32 + law.b - law.c)


def test_weights_are_bracketed(law, hooks):
    """In float64, to 2^-40 of themselves; below 2^-1000 from an exponent of 700 on."""
    rng = np.random.default_rng(12)
    reach = float(law.scale) * np.exp(rng.uniform(-8, 7, 100)) + rng.integers(0, 3, 100)
    integers = np.concatenate([[0], np.minimum(reach, 2.0**51).astype(np.int64)])
    low, high = hooks.decay_brackets(law.law == "laplacian", float(law.scale), integers)
    discrete.ctx.prec = 200
    for k, below, above in zip(integers.tolist(), low.tolist(), high.tolist()):
        weight = law.weight(k)
        assert weight > below or (k == 0 and below <= 1)
        assert weight < above
        assert above - below <= 2.0**-40 * above or (below == 0 and above < 2.0**-999)
