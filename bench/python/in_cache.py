"""Exact clip-and-noise, clipping and the float grade on arrays that stay in the cache, one thread. Prints JSON.

    python bench/python/in_cache.py [--repetitions 1500]

Each call draws from a fresh nonce, and the fastest of all counts, in ns an element. Inputs and outputs begin 16 bytes behind a cache line,
as numpy's do. To compare two builds, run both in turn, several times: processes differ by some per cent.
"""

import single_thread  # noqa: F401  before numpy

import argparse
import json
import time

import numpy as np

import hushvec as hv

CASES = {   # shape, new array or `out=`, what is called
    "exact, 128 x 768, out=": ((128, 768), True, lambda x, out: hv.clip_and_noise(x, 1.0, 0.6, out=out)),
    "exact, 128 x 768, new array": ((128, 768), False, lambda x: hv.clip_and_noise(x, 1.0, 0.6)),
    "exact, 64 x 384, new array": ((64, 384), False, lambda x: hv.clip_and_noise(x, 1.0, 0.6)),
    "exact, 8 x 768, new array": ((8, 768), False, lambda x: hv.clip_and_noise(x, 1.0, 0.6)),
    "Laplacian, 128 x 768, new array": ((128, 768), False, lambda x: hv.clip_and_noise(x, 1.0, scale=0.6)),
    "float grade, 128 x 768, out=": ((128, 768), True, lambda x, out: hv.clip_and_noise(x, 1.0, 0.6, exact=False, out=out)),
    "clip, 127 x 768, out=": ((127, 768), True, lambda x, out: hv.clip(x, 1.0, out=out)),
}


def array_like_numpys(shape):
    size = int(np.prod(shape)) * 4
    memory = np.empty(size + 8192, np.uint8)
    start = -memory.ctypes.data % 4096 + 16
    return memory[start : start + size].view(np.float32).reshape(shape)


def fastest(call, repetitions):
    least = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter_ns()
        call()
        least = min(least, time.perf_counter_ns() - start)
    return least


def measure(repetitions):
    found = {}
    for name, (shape, given, call) in CASES.items():
        x, out = array_like_numpys(shape), array_like_numpys(shape)
        x[:] = np.random.default_rng(0).standard_normal(shape)
        found[name] = round(fastest((lambda: call(x, out)) if given else (lambda: call(x)), repetitions) / x.size, 4)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1500)
    options = parser.parse_args()
    hv.set_num_threads(1)
    backends = hv.backends()
    found = {"backend": backends["active"], "aes": backends["aes"]["active"], "repetitions": options.repetitions,
             "ns_per_element": measure(options.repetitions)}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
