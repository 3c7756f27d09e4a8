"""What a call on a few numbers takes, against its budget, and what a second thread costs. Prints JSON; exit code 1 where a budget is exceeded.

    python bench/python/small_calls.py
    python bench/python/small_calls.py --calls 5000 --turns 15

Microseconds are of one call from Python, the least of all turns: what the call itself needs on a machine that does other work beside.
Calls may use all cores, as they do unless told otherwise. "two_threads" is a Gaussian fill on one and on two threads, in turn, from the size on
from which two are used; "hand_off" is what the second adds to half of the time of one.
"""

import argparse
import json
import os
import platform
import sys
import time

import numpy as np

import hushvec as hv

BUDGET_US = 5.0
CIPHERS = ("aes256", "chacha20")
THREADED_SAMPLES = (6 << 16, 1 << 19, 1 << 20, 1 << 22)  # two threads work from the first on


def small_calls(cipher):
    """The calls that have a budget, by name."""
    generator = hv.Generator(cipher=cipher)
    row = np.random.default_rng(0).standard_normal((1, 384), dtype=np.float32)
    return {
        f"fill of 8, {cipher}": lambda: hv.gaussian_noise(8, generator=generator),
        f"clip-and-noise of a row of 384, {cipher}": lambda: hv.clip_and_noise(row, 1.0, 0.1, generator=generator),
    }


def least_us(call, calls, turns):
    call()
    taken = []
    for _ in range(turns):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        taken.append((time.perf_counter() - start) / calls)
    return round(min(taken) * 1e6, 2)


def over_budget(microseconds):
    """One line for each call that took longer than it may."""
    return [f"{name} must take at most {BUDGET_US} us, took {us}" for name, us in microseconds.items() if us > BUDGET_US]


def two_threads(samples, turns):
    out = np.empty(samples, np.float32)
    generator = hv.Generator()
    taken = {1: [], 2: []}
    for _ in range(turns):
        for threads, times in taken.items():
            hv.set_num_threads(threads)
            start = time.perf_counter()
            hv.gaussian_noise(samples, out=out, generator=generator)
            times.append(time.perf_counter() - start)
    hv.set_num_threads(0)
    one, two = (float(np.median(times)) * 1e6 for times in taken.values())
    return {"one_us": round(one, 1), "two_us": round(two, 1), "hand_off_us": round(two - one / 2, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="in a turn (default 2000)")
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    calls = {name: call for cipher in CIPHERS for name, call in small_calls(cipher).items()}
    microseconds = {name: least_us(call, options.calls, options.turns) for name, call in calls.items()}
    threads = {str(samples): two_threads(samples, 20 * options.turns) for samples in THREADED_SAMPLES}
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "backend": hv.backends()["active"]}
    print(json.dumps({"machine": machine, "budget_us": BUDGET_US, "microseconds": microseconds, "two_threads": threads}, indent=2))
    faults = over_budget(microseconds)
    for line in faults:
        print(line, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
