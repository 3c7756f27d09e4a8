"""PrivUnitG beside the exact Gaussian clip-and-noise, in turn on the same arrays, one thread. Prints JSON.

    python bench/python/privunit.py [--cipher aes256] [--turns 31]

ns are per element, the smallest of all turns; `ratio` is the median of the turns' own ratios.
"""

import argparse
import json
import statistics
import time

import numpy as np

import hushvec as hv
from hushvec._native import _core

SHAPES = [(10_000, 384), (10_000, 385), (10_000, 768), (10_000, 1024)]
EPSILONS = [1.0, 10.0, 16.0]


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(shape, epsilon, cipher, turns):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    out = np.empty_like(x)
    generator = hv.Generator(cipher=cipher)
    p, threshold = _core.privunit_law(epsilon)
    sigma = 1 / _core.privunit_mean(p, threshold)
    privunit, clip = [], []
    for _ in range(turns):
        clip.append(seconds(lambda: _core.clip_and_noise(x, 1.0, sigma, out, generator, "gaussian", True, out_is_fresh=True)))
        privunit.append(seconds(lambda: _core.privunit(x, p, threshold, sigma, out, generator, out_is_fresh=True)))
    return {
        "shape": list(shape),
        "epsilon": epsilon,
        "cipher": cipher,
        "privunit_ns": min(privunit) / x.size * 1e9,
        "clip_and_noise_ns": min(clip) / x.size * 1e9,
        "ratio": statistics.median(a / b for a, b in zip(privunit, clip)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cipher", default=hv.backends()["default_cipher"])
    parser.add_argument("--turns", type=int, default=31)
    options = parser.parse_args()
    hv.set_num_threads(1)
    results = [measure(shape, epsilon, options.cipher, options.turns) for shape in SHAPES for epsilon in EPSILONS]
    print(json.dumps({"backend": hv.backends()["active"], "results": results}, indent=2))


if __name__ == "__main__":
    main()
