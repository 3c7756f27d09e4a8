"""Digests of every kernel under other floating-point modes: run as a program, in a separate process for each backend."""

import ctypes
import hashlib
import json
import platform
import sys

import numpy as np

import hushvec as hv
from evidence.reference.sizes import scaled
from hushvec._native import _core

SUBNORMAL = {"float32": 1e-42, "float64": 1e-312, "float16": 1e-7}
_LIBM = ctypes.CDLL("libm.so.6")

# fenv_t of glibc: on x86-64 MXCSR is the last of eight words, on AArch64 FPCR the first of two.
_WORDS, _CONTROL = (8, 7) if platform.machine() == "x86_64" else (2, 0)
_X86 = platform.machine() == "x86_64"
ROUNDINGS = {"down": 1, "up": 2, "to zero": 3} if _X86 else {"up": 1, "down": 2, "to zero": 3}
FIELDS = {"rounding": 13, "flush": (1 << 15) | (1 << 6)} if _X86 else {"rounding": 22, "flush": 1 << 24}
MODES = ("flush to zero", *ROUNDINGS)


def set_mode(mode):
    """The mode of this thread; "plain" for what a process begins with."""
    words = (ctypes.c_uint32 * _WORDS)()
    _LIBM.fegetenv(words)
    words[_CONTROL] &= ~((3 << FIELDS["rounding"]) | FIELDS["flush"]) & 0xFFFFFFFF
    if mode == "flush to zero":
        words[_CONTROL] |= FIELDS["flush"]
    elif mode != "plain":
        words[_CONTROL] |= ROUNDINGS[mode] << FIELDS["rounding"]
    _LIBM.fesetenv(words)


def bits_of_mode():
    """Which of the modes' bits are set in this thread."""
    words = (ctypes.c_uint32 * _WORDS)()
    _LIBM.fegetenv(words)
    return words[_CONTROL] & ((3 << FIELDS["rounding"]) | FIELDS["flush"])


def _rows(dtype, shape):
    rng = np.random.default_rng(5)
    x = rng.standard_normal(shape).astype(dtype)
    x[::5] *= np.array(SUBNORMAL[dtype], dtype)
    return x


def _generator(version=None):
    return hv.Generator.unsafe_seeded(3, rounds=8, format_version=version)


def _clipping(dtype, shape):
    x = _rows(dtype, shape)
    small = np.full(shape, 3 * SUBNORMAL[dtype], dtype)
    places = np.zeros((len(x), 40), np.uint8)
    integers, half_integers, directions = (np.empty(shape, np.int8) for _ in range(3))
    yield lambda: _core.clip_and_noise(x, 1.0, 0.3, integers, _generator(), "gaussian", True) and None, integers
    yield lambda: _core.privunit(x, 0.75, 1.5, 1.0, directions, _generator()), directions
    for law in ("gaussian", "laplacian", "l2_laplace"):
        for exact in (True, False):
            if law != "l2_laplace" or not exact:
                out = np.empty_like(x)
                yield lambda o=out, w=law, e=exact: _core.clip_and_noise(x, 1.0, 0.3, o, _generator(), w, e) and None, out
    yield lambda: _core.clip_and_noise(x, 1.0, 0.3, half_integers, _generator(3), "gaussian", True) and None, half_integers
    for law in ("gaussian", "laplacian"):
        out = np.empty_like(x)
        yield lambda o=out, w=law: _core.clip_and_noise(x, 1.0, 0.3, o, _generator(3), w, True) and None, out
    for rows in (x, small):
        out = np.empty_like(rows)
        yield lambda r=rows, o=out: _core.clip(r, 2.0**-100, o), out
        unit = np.empty_like(rows)
        yield lambda r=rows, o=unit: _core.unit_rows(r, o), unit
        push = np.empty_like(rows)
        yield lambda r=rows, o=push: _core.privunit(r, 0.75, 1.5, 1.0, o, _generator()), push
        for cipher in ("chacha20", "aes256"):
            keyed, keyed_push = np.empty_like(rows), np.empty_like(rows)
            row_keys = bytes(32), places, cipher
            yield lambda r=rows, o=keyed, k=row_keys: _core.clip_and_noise_keyed(r, 1.0, 0.3, o, *k, "gaussian"), keyed
            yield lambda r=rows, o=keyed_push, k=row_keys: _core.privunit_keyed(r, 0.75, 1.5, 1.0, o, *k), keyed_push
    if dtype != "float16":
        products = np.empty((len(x), len(x)), dtype)
        yield lambda o=products: _core.inner_products(x, x, o), products
    for fill in (_core.fill_gaussian, _core.fill_laplacian, _core.fill_l2_laplace):
        out = np.empty_like(x)
        yield lambda f=fill, o=out: f(o, 1e-3, _generator()), out


def _sum(dtype, clipping, columns):
    parts = [_rows(dtype, (20, columns))]
    out = [np.empty(columns, np.float32)]

    def run():
        total = _core.ClippedSum([columns], 0.7, 0.2, 100, clipping)
        total.add(parts)
        total.release(out, _generator())

    return run, out[0]


def _others():
    yield lambda: [
        *_core.privunit_law(3.0),
        _core.privunit_epsilon(0.75, 1.5),
        _core.privunit_mean(0.75, 1.5),
        *_core.exact_grid(0.3, 0.7),
        *_core.privunit_grid(0.3),
        *_core.int8_grid(0.3, 0.7),
        *_core.privunit_int8_grid(0.3, 5.0),
        _core.gaussian_sigma(1.0, 1e-5, 2.0),
        _core.gaussian_delta(1.0, 7.0, 2.0),
        _core.gaussian_epsilon(1e-300, 7.0, 2.0),
        _core.laplace_scale(0.7, 1.3),
        _core.gaussian_sigma_classical(0.5, 1e-5, 1.1),
        *_core.response_law(0.7, 5),
        _core.sum_unit(0.7),
    ]
    x = np.linspace(0.5, 3.0, 50)
    yield lambda: _core.gaussian_sigma(x, np.full(50, 1e-5), np.ones(50)).tolist()
    codes = np.arange(10_000) % 5
    yield lambda: _core.randomized_response(codes, 5, _core.response_law(0.7, 5), _generator()).tolist()
    scores = np.random.default_rng(2).standard_normal((3, 5_000))
    yield lambda: _core.gumbel_top_k(scores, 10, 0.1, 1.0, _generator())[0].tolist()
    yield lambda: _core.bit_reports(codes, 5, (2**63, 2**61), _generator()).tolist()


def _digest(content):
    return hashlib.sha256(content).hexdigest()[:16]


def digests(mode):
    """One digest for each call, made in this mode and looked at in the plain one."""
    found = []
    arrays = [(dtype, shape) for dtype in SUBNORMAL for shape in ((40, 300), (scaled(160, 600), 1024))]
    calls = [call for dtype, shape in arrays for call in _clipping(dtype, shape)]
    sums = (("exact", 700), ("exact", 2**18), ("estimated", 2**18))
    calls += [_sum(dtype, how, columns) for dtype in SUBNORMAL for how, columns in sums]
    for call, out in calls:
        set_mode(mode)
        wanted = bits_of_mode()
        call()
        kept = bits_of_mode()
        set_mode("plain")
        found.append(_digest(out.tobytes()) if kept == wanted else "the mode was not put back")
    for call in _others():
        set_mode(mode)
        result = call()
        set_mode("plain")
        found.append(_digest(json.dumps(result).encode()))
    return found


if __name__ == "__main__":
    hv.set_num_threads(2)  # helpers begin with the modes of the calling thread
    json.dump({mode: digests(mode) for mode in ("plain", *MODES)}, sys.stdout)
