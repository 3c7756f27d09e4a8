"""clip and clip_and_noise under jax.jit on the CPU: by XLA's foreign function interface and by a callback, in turn. Prints JSON.

    python bench/python/jax_calls.py [--turns 31]

`us` is the median time of one call; `ns` is that per element. "numpy" is the function of hushvec on the same rows, outside JAX.
"""

import argparse
import json
import statistics
import time

import jax
import numpy as np

import hushvec as hv
from hushvec._native import _core
from hushvec.integrations import jax as ours

SHAPES = [(1, 384), (8, 768), (1000, 384), (10_000, 384)]
SHORTEST_TURN = 0.02  # seconds


def compiled(call, platforms, x):
    """A program that has run on x; the core is called on these platforms, Python elsewhere."""
    ours._platforms = lambda _: platforms
    ours._clip_program.cache_clear()
    ours._noise_program.cache_clear()
    program = jax.jit(lambda x: call(ours, x))
    program(x).block_until_ready()
    return program


def seconds(call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


CALLS = {"clip": lambda where, x: where.clip(x, 1.0), "clip_and_noise": lambda where, x: where.clip_and_noise(x, 1.0, 0.6)}


def measure(name, shape, turns):
    rows = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x, call = jax.numpy.asarray(rows), CALLS[name]
    ours.clip(x, 1.0)  # registers the handlers
    by_ffi, by_callback = compiled(call, ("cpu",), x), compiled(call, (), x)
    ways = {
        "ffi": lambda: by_ffi(x).block_until_ready(),
        "callback": lambda: by_callback(x).block_until_ready(),
        "numpy": lambda: call(hv, rows),
    }
    counts = {way: max(1, int(SHORTEST_TURN / seconds(run, 3))) for way, run in ways.items()}
    times = {way: [] for way in ways}
    for _ in range(turns):
        for way, run in ways.items():
            times[way].append(seconds(run, counts[way]))
    medians = {way: statistics.median(found) for way, found in times.items()}
    return {
        "call": name,
        "shape": list(shape),
        **{way: {"us": round(median * 1e6, 1), "ns": round(median * 1e9 / rows.size, 2)} for way, median in medians.items()},
        "callback / ffi": round(statistics.median(a / b for a, b in zip(times["callback"], times["ffi"], strict=True)), 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=31)
    turns = parser.parse_args().turns
    print(json.dumps({"jax": jax.__version__, "threads": _core.get_num_threads()}))
    for name in CALLS:
        for shape in SHAPES:
            print(json.dumps(measure(name, shape, turns)))


if __name__ == "__main__":
    main()
