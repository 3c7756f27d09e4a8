"""Input rows for the tests of this folder."""

import functools

import numpy as np

from evidence.reference import chacha, clip, exact, half, release
from evidence.reference.stream import ROUNDS

MIDDLE = 0x80008000  # the refinement in the middle of what a half word leaves open


def representable(values, dtype):
    """The values rounded to dtype and widened to float32 or float64; overflow becomes the largest finite value."""
    if dtype == "bfloat16":
        bits = np.asarray(values, dtype=np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)
    info = np.finfo(dtype)
    narrowed = np.clip(values, float(info.min), float(info.max)).astype(dtype)
    return narrowed.astype(np.float32 if dtype == "float16" else dtype)


def around_the_ball(rng, count, dimension, clip_norm, dtype):
    """Rows with norms from clip_norm / 1000 to 10 * clip_norm, a zero row among them."""
    rows = rng.standard_normal((count, dimension))
    norms = clip_norm * 10.0 ** rng.uniform(-3, 1, (count, 1))
    rows *= norms / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[count // 2] = 0.0
    return representable(rows, dtype)


def between_integers(law, shape, clip_norm, sigma, *, seed, cipher, dtype="float32", spread=0.0):
    """Rows for one call of version 3 that no half word decides: X + s Z is half way between two integers where the refinement is in
    the middle, or up to `spread` away, in units of half of what the refinement moves it by. |X| is at most 1, so that no row is
    clipped where clip_norm is large."""
    sigma, g = clip.grid(sigma, clip_norm, half.GRID_BITS)
    words_of = functools.partial(release.call_words, chacha.seed_key(seed), 0, ROUNDS[cipher])
    size = shape[0] * shape[1]
    words, _ = half.call_words(words_of, size)
    first, middle, last = (sigma / g * _noise_refined_by(law, words, more)[:size] for more in (0, MIDDLE, 0xFFFFFFFF))
    shift = spread * 0.5 * (last - first) * np.random.default_rng(seed).uniform(-1.0, 1.0, size)
    return ((np.rint(middle) + 0.5 - middle + shift) * g).reshape(shape).astype(dtype)


def _noise_refined_by(law, words, more):
    more = np.full_like(words, more)
    if law == "gaussian":
        z = exact.gaussian_values(*half.gaussian_words(words, more))
    else:
        z = [exact.laplace_values(one) for one in half.laplace_words(words, more)]
    return release.in_sample_order(*z, 2 * words.size)
