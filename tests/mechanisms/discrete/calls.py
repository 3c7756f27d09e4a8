"""Prints a digest of discrete answers: run in a process of its own, with one backend and one number of threads."""

import hashlib

import numpy as np

import hushvec as hv
from hushvec.mechanisms.randomized_response import RandomizedResponse
from hushvec.mechanisms.top_k import GumbelTopK


def digests():
    rng = np.random.default_rng(1)
    generator = hv.Generator.unsafe_seeded(99)
    codes = rng.integers(0, 200, 600_001)
    for dtype in (np.uint8, np.int64):
        yield RandomizedResponse(epsilon=2.5, k=200).respond(codes.astype(dtype), generator=generator).astype(np.int64)
    for shape, k in (((4001, 101), 7), ((3, 200_000), 50)):
        scores = rng.normal(size=shape)
        for dtype in (np.float32, np.float64):
            yield GumbelTopK(k=k, epsilon_per_pick=0.8, sensitivity=1.0).select(scores.astype(dtype), generator=generator)


if __name__ == "__main__":
    for array in digests():
        print(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
