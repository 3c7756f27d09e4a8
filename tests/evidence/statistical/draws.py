"""Samples for the statistical tests. Streams are seeded, so every test gives the same p-value on every run."""

import numpy as np
from scipy import special

from evidence.reference import checks
from evidence.reference.sizes import scaled
from hushvec._native import _core

ALPHA = 1e-6  # a test rejects below this; the seeds are fixed, so it either always passes or never

CDF = {"gaussian": special.ndtr, "laplacian": checks.laplace_cdf}
UPPER_TAIL = {"gaussian": lambda z: special.ndtr(-z), "laplacian": checks.laplace_upper_tail}
FILL = {"gaussian": _core.fill_gaussian, "laplacian": _core.fill_laplacian, "l2_laplace": _core.fill_l2_laplace}


# Eight rounds: of ChaCha's key streams the weakest is the one to test. All implementations of AES-256 give the same words. What the
# kernels make of words is the same code for both, so that a law is tested with one key stream; the words are tested with both.
KEY_STREAMS = ("chacha8", "aes256")
CIPHERS = scaled(KEY_STREAMS[:1], KEY_STREAMS)


def generator(seed, cipher="chacha8", version=None):
    return _core.Generator.unsafe_seeded(seed, cipher=cipher, format_version=version)


def noise(law, shape, *, scale=1.0, dtype="float32", stream=None, seed=1, cipher="chacha8"):
    """One call's noise; `stream` is a generator to go on with, else a fresh one from `seed`."""
    out = np.empty(shape, dtype=dtype)
    FILL[law](out, scale, generator(seed, cipher) if stream is None else stream)
    return out


def released_integers(law, x, clip_norm, sigma, *, seed=1, cipher="chacha8", version=None):
    """(n, X, s) of an exact release of rows x that lie well inside the ball, so that X = x / g exactly."""
    out = np.empty_like(x)
    g = _core.clip_and_noise(x, clip_norm, sigma, out, generator(seed, cipher, version), law, True)
    rounded_sigma, same_g = _core.exact_grid(sigma, clip_norm, half_words=version == 3)
    assert g == same_g
    n = out.astype(np.float64) / g
    assert np.array_equal(n, np.rint(n))
    return n.reshape(-1), x.astype(np.float64).reshape(-1) / g, rounded_sigma / g
