"""The release of one step with correlated noise: drawn again from key streams, beside stored copies, in the same run. Prints JSON.

    python bench/python/correlated.py
    python bench/python/correlated.py --parameters 7000000 --threads 1,2 --rounds 9

"one release" is `ClippedSum.release` with independent noise. "drawn again" has the noise of p steps in it, from p key streams and without
any state, rounded once as a real number. "stored" is what other libraries do: p vectors of noise of the model's size in memory, of which
one is drawn anew (hushvec's float fill), and a product of the coefficients with all of them (torch), which is added to the sum in float32.
--training times a whole step of `DPOptimizer` instead, in processor time of one thread, with the fastest of all rounds.
Contestants take turns; nanoseconds an element are of the fastest round, ratios are medians of the ratios within rounds.
"""

import argparse
import json
import os
import platform
import statistics
import time

import numpy as np
import torch

import hushvec as hv
from hushvec._native import _core
from hushvec.training import CorrelatedNoise, DPOptimizer, per_example_gradients
from hushvec.training.clipped_sums import ClippedSum, EarlierNoise

ONE = "one release"
BANDS = (2, 4, 8, 16, 32)


class Stored:
    """The last p vectors of noise in memory."""

    def __init__(self, coefficients, count):
        self.coefficients = torch.tensor(coefficients)
        self.noise = torch.zeros(len(coefficients), count)
        self.step = 0

    def release(self, total):
        place = self.step % len(self.noise)
        _core.fill_gaussian(self.noise[place].numpy(), 1.0, _core.default_generator())
        weights = self.coefficients[(place - torch.arange(len(self.noise))) % len(self.noise)]
        self.step += 1
        return total + weights @ self.noise


def contestants(count):
    total = ClippedSum([(count,)], clip_norm=1.0, sigma=1.0)
    total.add([np.random.default_rng(1).standard_normal((1, count), np.float32)])
    out = np.empty(count, np.float32)
    units = total.units(out)
    given = torch.zeros(count)

    def drawn(earlier):
        def call():
            total.release(out=[out], earlier=earlier)

        return call

    found = {ONE: drawn(None)}
    for bands in BANDS:
        noise = CorrelatedNoise.bisr(bands=bands, steps=1024, min_separation=256)
        earlier, stored = EarlierNoise(noise.coefficients), Stored(noise.coefficients, count)
        found[f"{bands} drawn again"] = drawn(earlier)
        found[f"{bands} stored"] = lambda stored=stored: stored.release(given)
        for _ in range(bands):
            earlier.with_next(_core.default_generator())
    return found, lambda: total.replace(units, 1)


def measure(count, threads, rounds):
    _core.set_num_threads(threads)
    torch.set_num_threads(threads)
    calls, fill = contestants(count)
    seconds = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            fill()
            time.sleep(0.03)   # torch's idle threads spin for a while
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    seconds = {name: taken[1:] for name, taken in seconds.items()}
    ratios = {name: [one / base for one, base in zip(taken, seconds[ONE], strict=True)] for name, taken in seconds.items()}
    return {
        name: {"ns": round(1e9 * min(taken) / count, 3), "times one release": round(statistics.median(ratios[name]), 2)}
        for name, taken in seconds.items()
    }


def training(rounds):
    """Steps of a perceptron, 64 examples each, by bands; 1 is independent noise."""
    _core.set_num_threads(1)
    torch.set_num_threads(1)
    rows, classes = torch.randn(64, 384), torch.randint(0, 77, (64,))
    optimizers, seconds = {}, {}
    for bands in (1, *BANDS):
        layers = torch.nn.Linear(384, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512), torch.nn.ReLU(), torch.nn.Linear(512, 77)
        model, noise = torch.nn.Sequential(*layers), CorrelatedNoise.bisr(bands=bands, steps=1024, min_separation=16)
        optimizers[bands] = model, DPOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=1.0, noise_multiplier=2.0, expected_batch_size=64, noise=noise,
            delta=1e-5, model=model,
        )  # fmt: skip
    for step in range(max(BANDS) + rounds):   # all bands are in the noise of the last rounds
        for bands, (model, optimizer) in optimizers.items():
            begin = time.process_time()
            per_example_gradients(model, lambda predict, x, y: torch.nn.functional.cross_entropy(predict(x), y), rows, classes)
            optimizer.step()
            if step >= max(BANDS):
                seconds.setdefault(bands, []).append(time.process_time() - begin)
    return {
        f"{bands} bands": {"ms": round(1e3 * min(taken), 1), "times one step": round(min(taken) / min(seconds[1]), 2)}
        for bands, taken in seconds.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=7_000_000)
    parser.add_argument("--threads", default="1,2", help="numbers of threads, separated by commas (default 1,2)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--training", action="store_true", help="time training steps")
    options = parser.parse_args()
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "backend": hv.backends()["active"], "torch": torch.__version__}
    if options.training:
        print(json.dumps({"machine": machine, "seconds": training(options.rounds)}, indent=2))
        return
    found = {f"{one} threads": measure(options.parameters, int(one), options.rounds) for one in options.threads.split(",")}
    print(json.dumps({"machine": machine, "parameters": options.parameters, "seconds": found}, indent=2))


if __name__ == "__main__":
    main()
