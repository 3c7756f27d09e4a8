"""Prints a digest of each kind of release under AES-256, of one seed; run as a process with one backend and one implementation."""

import hashlib
import sys

import numpy as np

import hushvec as hv
from hushvec._native import _core
from hushvec.jobs import NoiseJob, noise_batch
from hushvec.mechanisms.randomized_response import RandomizedResponse
from hushvec.mechanisms.top_k import GumbelTopK

SEED = 2**255 + 77


def releases():
    """(name, array) of calls with one generator after another's: each has a nonce of its own."""
    rng = np.random.default_rng(61)
    generator = hv.Generator.unsafe_seeded(SEED, cipher="aes256")
    rows = rng.standard_normal((700, 257))
    for dtype in ("float32", "float64", "float16"):
        for law in ("gaussian", "laplacian"):
            out = np.empty(rows.shape, dtype)
            _core.clip_and_noise(rows.astype(dtype), 2.0, 0.3, out, generator, law, True)
            yield f"{law} {dtype}", out
    for dtype in ("float32", "float64"):
        out = np.empty(rows.shape, dtype)
        _core.privunit(rows.astype(dtype), *_core.privunit_law(10.0), 0.3, out, generator)
        yield f"privunit {dtype}", out
    codes = rng.integers(0, 200, 100_001)
    yield "responses", RandomizedResponse(epsilon=2.5, k=200).respond(codes, generator=generator).astype(np.int64)
    top = GumbelTopK(k=7, epsilon_per_pick=0.8, sensitivity=1.0)
    yield "top-k", top.select(rng.integers(0, 99, (1001, 101)).astype(np.float32), generator=generator).astype(np.int64)
    law = _core.response_law(1.5, 2)
    yield "bits", _core.bit_reports(codes[:700], 2100, (1 << 63, law[1]), generator)
    yield "cells", _core.hadamard_reports(codes, 3000, 4, 1024, _core.response_law(1.5, 8), generator)
    for mechanism in ("gaussian", "laplacian", "privunit"):
        job = NoiseJob.unsafe_seeded(SEED, dimension=257, epsilon=6.0, mechanism=mechanism, cipher="aes256")
        yield f"job {mechanism}", noise_batch(rows[:100].astype(np.float32), job)
    for dtype in ("float32", "float64"):
        out = np.empty(rows.shape, np.int8)
        _core.clip_and_noise(rows.astype(dtype), 2.0, 0.3, out, generator, "gaussian", True)
        yield f"gaussian int8 of {dtype}", out
        out = np.empty(rows.shape, np.int8)
        _core.privunit(rows.astype(dtype), *_core.privunit_law(60.0), 0.3, out, generator)
        yield f"privunit int8 of {dtype}", out
    generator = hv.Generator.unsafe_seeded(SEED, cipher="aes256", format_version=3)
    for dtype, to in (("float32", "float32"), ("float64", "float64"), ("float16", "float16"), ("float32", "int8")):
        for law in ("gaussian", "laplacian"):
            if to != "int8" or law == "gaussian":
                out = np.empty(rows.shape, to)
                _core.clip_and_noise(rows.astype(dtype), 2.0, 0.3, out, generator, law, True)
                yield f"{law} {to}, version 3", out


if __name__ == "__main__":
    found, asked = _core.backends(), sys.argv[1:]
    if [found["active"], found["aes"]["active"]] != asked:
        raise SystemExit(f"asked for {asked}, got {found['active']} and {found['aes']['active']}")
    for name, array in releases():
        print(f"{name}: {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32]}")
