"""Edges of the peers' own code: sizes that do not fill a block, signs, and the input left alone."""

import numpy as np
import pytest

import laws
import peers
from peers.aes_ctr import BLOCK, KeyStream, numpy_recipe
from peers.numpy_blocks import BLOCK_ROWS
from peers.numpy_generators import flip_signs

SIZES = (1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1)


def opened(contestant):
    available, reason = contestant.available()
    if not available:
        pytest.skip(reason)
    return contestant


@pytest.mark.parametrize("operation", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", SIZES)
def test_aes_recipe_writes_every_sample_and_nothing_else(operation, size):
    recipe = opened(numpy_recipe())
    guarded = np.full(size + 2, np.nan, dtype=np.float32)
    getattr(recipe, operation)(guarded[1:-1], 1.0)
    assert np.isfinite(guarded[1:-1]).all()
    assert np.isnan(guarded[[0, -1]]).all()


@pytest.mark.parametrize("mode", ["CTR", "GCM"])
def test_key_stream_goes_on_from_call_to_call(mode):
    pytest.importorskip("cryptography")
    stream = KeyStream(mode)
    first, second = np.zeros((2, 64), dtype=np.uint32)
    stream.fill(first)
    stream.fill(second)
    # 128 random words of 32 bits: one collision in 500,000 runs, five in none.
    assert np.unique(np.concatenate((first, second))).size > 123


def test_key_stream_takes_a_new_key_at_the_end_of_the_old_one():
    pytest.importorskip("cryptography")
    stream = KeyStream("GCM")
    words = np.zeros(4, dtype=np.uint32)
    stream.fill(words)
    used = stream._encryptor
    stream._left = words.nbytes - 1
    stream.fill(words)
    assert stream._encryptor is not used


@pytest.mark.parametrize("size", [1, 7, 8, 9])
def test_flip_signs_uses_one_bit_a_value(size):
    values = np.ones(size, dtype=np.float32)
    flip_signs(values, bytes([0b10110001] * 2))
    assert values.tolist() == [-1, 1, -1, -1, 1, 1, 1, -1, -1][:size]


@pytest.mark.parametrize(
    "contestant",
    [pytest.param(c, id=c.name) for c in peers.all_peers((1, 2)) if c.offers("clip_and_noise")],
)
def test_clip_and_noise_without_noise_is_the_clip(contestant):
    if contestant.name.startswith("memcpy"):
        pytest.skip("a copy clips nothing")
    opened(contestant)
    rng = np.random.Generator(np.random.PCG64(3))
    x = rng.standard_normal((BLOCK_ROWS + 1, 24), dtype=np.float32)
    x[::2] *= np.float32(0.01)
    before = x.copy()
    tiny_sigma = 1e-20
    out = contestant.clip_and_noise(x, 2.0, tiny_sigma, np.empty_like(x))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(out, laws.clipped(x, 2.0), rtol=1e-6)
    contestant.close()
