"""A whole call: rows in, released values out. Puts the key stream, the clipped row and the exact rounding together."""

import functools

import numpy as np

from . import chacha, clip, exact, half, stream

LARGEST_FLOAT16 = 65504.0
LARGEST_BFLOAT16_BITS = 0x7F7F0000


def call_words(key, nonce, rounds, samples, domain=chacha.DOMAIN_MAIN):
    """uint32[groups * 256], read-only: the main words of a call of `samples` samples, its last group whole."""
    return _group_words(key, nonce, rounds, -(-samples // chacha.GROUP), domain)


# Kept: the tests ask for the same few streams for every backend, dtype and layout.
@functools.lru_cache(maxsize=64)
def _group_words(key, nonce, rounds, groups, domain):
    words = stream.words(key, nonce, rounds, 0, groups, domain)
    words.flags.writeable = False
    return words


def box_muller_words(words):
    """(A, B), each [groups * 128]: the radius and angle word of every pair, in pair order."""
    by_group = words.reshape(-1, 2, chacha.PAIRS_PER_GROUP)
    return by_group[:, 0].reshape(-1), by_group[:, 1].reshape(-1)


def in_sample_order(cosines, sines, samples):
    """Pair outputs [groups * 128] twice -> [samples]."""
    by_group = np.stack(
        [cosines.reshape(-1, chacha.PAIRS_PER_GROUP), sines.reshape(-1, chacha.PAIRS_PER_GROUP)], axis=1
    )
    return by_group.reshape(-1)[:samples]


def gaussian_noise(key, nonce, rounds, samples):
    """float64[samples]: standard Gaussian noise of a call, to about 1e-7 relative (middle of the words' intervals)."""
    a, b = box_muller_words(call_words(key, nonce, rounds, samples))
    return in_sample_order(*exact.gaussian_values(a, b), samples)


def laplacian_noise(key, nonce, rounds, samples):
    """float64[samples]: standard Laplace noise of a call, likewise."""
    return exact.laplace_values(call_words(key, nonce, rounds, samples))[:samples]


def integers(clipped, s, law, *, key, nonce, rounds, version=None):
    """int64, the shape of clipped: n of every element of X = clipped. version 3 reads half the key stream."""
    x = np.asarray(clipped, dtype=np.float64).reshape(-1)
    stream = dict(key=key, nonce=nonce, rounds=rounds)
    if version == 3:
        words_of = functools.partial(call_words, key, nonce, rounds)
        return integers_of_halves(clipped, s, law, *half.call_words(words_of, x.size), **stream)
    words = call_words(key, nonce, rounds, x.size)
    if law == "laplacian":
        n = exact.laplace(words[: x.size], x, s, samples=np.arange(x.size), use_filter=True, **stream)
        return n.reshape(clipped.shape)
    return _of_pairs(*box_muller_words(words), clipped, s, stream)


def integers_of_halves(clipped, s, law, words, more, *, key, nonce, rounds):
    """The same from the words of pairs and what is behind them (version 3)."""
    stream = dict(key=key, nonce=nonce, rounds=rounds)
    if law == "gaussian":
        return _of_pairs(*half.gaussian_words(words, more), clipped, s, stream)
    x = np.asarray(clipped, dtype=np.float64).reshape(-1)
    words = in_sample_order(*half.laplace_words(words, more), x.size)
    return exact.laplace(words, x, s, samples=np.arange(x.size), use_filter=True, **stream).reshape(clipped.shape)


def _of_pairs(a, b, clipped, s, stream):
    x = np.asarray(clipped, dtype=np.float64).reshape(-1)
    padded = np.zeros(2 * a.size)
    padded[: x.size] = x
    x_cosine, x_sine = box_muller_words(padded)
    n = exact.gaussian(a, b, x_cosine, x_sine, s, pairs=np.arange(a.size), use_filter=True, **stream)
    return in_sample_order(*n, x.size).reshape(clipped.shape)


def round_to_output(values, dtype):
    """float64 values that float32 holds exactly, in the output dtype ("bfloat16" comes back as float32)."""
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        magnitude = bits & np.uint32(0x7FFFFFFF)
        magnitude = magnitude + np.uint32(0x7FFF) + ((magnitude >> np.uint32(16)) & np.uint32(1))
        magnitude = np.minimum(magnitude & np.uint32(0xFFFF0000), np.uint32(LARGEST_BFLOAT16_BITS))
        return (magnitude | (bits & np.uint32(0x80000000))).view(np.float32)
    if dtype == "float16":
        return np.clip(values, -LARGEST_FLOAT16, LARGEST_FLOAT16).astype(np.float16)
    return values.astype(dtype)


def saturated(integers):
    return np.clip(integers, -127, 127).astype(np.int8)


def int8_values(rows, clip_norm, sigma, *, key, nonce=0, rounds=20, version=None):
    """The int8 release of rows [n, d], float32 or float64."""
    rows = np.atleast_2d(rows)
    sigma = clip.grid(sigma, clip_norm)[0]
    g = clip.int8_grid(sigma, clip_norm)
    stream = dict(key=key, nonce=nonce, rounds=rounds)
    return saturated(integers(clip.clipped_rows(rows, clip_norm, g), sigma / g, "gaussian", **stream, version=version))


def clip_and_noise(rows, clip_norm, sigma, *, key, nonce=0, rounds=20, law="gaussian", dtype=None, version=None):
    """The exact release of rows [n, d], float32 or float64; dtype names the output where rows are widened from it."""
    rows = np.atleast_2d(rows)
    sigma, g = clip.grid(sigma, clip_norm, half.GRID_BITS if version == 3 else clip.GRID_BITS)
    n = integers(clip.clipped_rows(rows, clip_norm, g), sigma / g, law, key=key, nonce=nonce, rounds=rounds, version=version)
    return round_to_output(n * g, dtype or rows.dtype.name)
