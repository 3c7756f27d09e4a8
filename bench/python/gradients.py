"""Clipping, summing and noising per-sample gradients, beside Opacus's own on the same arrays in the same run. Prints JSON.

    python bench/python/gradients.py
    python bench/python/gradients.py --threads 1,2 --rounds 9
    python bench/python/gradients.py --lengths

Opacus is `DPOptimizer.clip_and_accumulate()` and `add_noise()` on fresh `grad_sample` views; hushvec is `ClippedSum.add` and `release`
into the same kind of tensor. "opacus secure_mode" is Opacus with the noise that it has against attacks on floating point, four normal
samples for each element, which hushvec's exact rounding is to be compared with; here, too, from torch's ordinary generator, as the secure
one that it asks for cannot be installed any more. Contestants take turns, of several steps where arrays are small; seconds are those of
one step, medians, with the least beside them, and the median of the seconds of processor time (all threads): on one thread of a machine
that does other work beside, that is the figure to compare. "read" is the time of one sum over the array (torch), what memory allows a
program that reads every gradient once. --lengths prints what the estimated scales leave of the length of a clipped row, and how many
rows had to be corrected.
"""

import argparse
import json
import os
import platform
import statistics
import time
import warnings

import numpy as np
import torch

import hushvec as hv
from hushvec.training.clipped_sums import ClippedSum

CLIP_NORM, SIGMA = 1.0, 1.0
SHORTEST = 0.002  # seconds of a turn: of small arrays it has several steps
PAUSE = 0.03  # seconds before a step on several threads: torch's idle ones spin for a while, and would take a core from whoever is next
TRANSFORMER_LAYER = [(768, 768)] * 4 + [(3072, 768), (768, 3072)] + [(768,)] * 9 + [(3072,)]
WORKLOADS = {
    "64 x 4194304": (64, [(4_194_304,)]),
    "4096 x 1000": (4096, [(1000,)]),
    "8 x a transformer layer in 16 parts": (8, TRANSFORMER_LAYER),
    "256 x 100000": (256, [(100_000,)]),
    "32 x a perceptron in 4 parts": (32, [(64, 20), (64,), (10, 64), (10,)]),
    "16 x 100": (16, [(100,)]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1", help="numbers of threads, separated by commas (default 1)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workloads", nargs="*", choices=list(WORKLOADS), default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--lengths", action="store_true", help="what estimated scales cost, in place of times")
    options = parser.parse_args()
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "backend": hv.backends()["active"], "torch": torch.__version__}
    if options.lengths:
        print(json.dumps({"machine": machine, "lengths": lengths()}, indent=2))
        return
    threads = [int(count) for count in options.threads.split(",")]
    seconds = {name: {f"{count} threads": measure(*WORKLOADS[name], count, options.rounds) for count in threads} for name in options.workloads}
    print(json.dumps({"machine": machine, "seconds": seconds}, indent=2))


# ---- times ----


def measure(rows, shapes, threads, rounds):
    torch.set_num_threads(threads)
    hv.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn((rows, *shape), generator=generator) for shape in shapes]
    contestants = {"read": lambda: [part.sum() for part in gradients]}
    contestants |= {f"hushvec {clipping}": our_step(gradients, shapes, clipping) for clipping in ("auto", "exact")}
    for name, secure_mode in (("opacus", False), ("opacus secure_mode", True)):
        if step := opacus_step(gradients, shapes, rows, secure_mode):
            contestants[name] = step
    taken = {name: [] for name in contestants}
    processor = {name: [] for name in contestants}
    steps = {}
    for name, step in contestants.items():
        step()
        start = time.perf_counter()
        step()
        steps[name] = 1 + int(SHORTEST / (time.perf_counter() - start))
    for _ in range(rounds):
        for name, step in contestants.items():
            if threads > 1:
                time.sleep(PAUSE)
            start, processor_start = time.perf_counter(), time.process_time()
            for _ in range(steps[name]):
                step()
            taken[name].append((time.perf_counter() - start) / steps[name])
            processor[name].append((time.process_time() - processor_start) / steps[name])
    result = {
        name: {
            "median": round(statistics.median(times), 7),
            "least": round(min(times), 7),
            "processor": round(statistics.median(processor[name]), 7),
        }
        for name, times in taken.items()
    }
    for peer in [name for name in result if name.startswith("opacus")]:
        result[f"{peer} / hushvec auto"] = {
            of: round(result[peer][of] / result["hushvec auto"][of], 2) for of in ("median", "least", "processor")
        }
    return result


def our_step(gradients, shapes, clipping):
    total = ClippedSum(shapes, clip_norm=CLIP_NORM, sigma=SIGMA, clipping=clipping)
    out = [torch.empty(shape) for shape in shapes]

    def step():
        total.add(gradients)
        total.release(out=out)

    return step


def opacus_step(gradients, shapes, rows, secure_mode):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from opacus.optimizers import DPOptimizer
    except ImportError:
        return None
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    optimizer = DPOptimizer(
        torch.optim.SGD(parameters, lr=0.1),
        noise_multiplier=SIGMA / CLIP_NORM,
        max_grad_norm=CLIP_NORM,
        expected_batch_size=rows,
        secure_mode=secure_mode,
    )

    def step():
        for parameter, part in zip(parameters, gradients, strict=True):
            parameter.grad_sample = part.view(part.shape)
            parameter.summed_grad = parameter.grad = None
        optimizer.clip_and_accumulate()
        optimizer.add_noise()

    return step


# ---- lengths ----


def lengths(rows=48):
    rng = np.random.default_rng(0)
    laws = {
        "normal": lambda size: rng.standard_normal(size, dtype=np.float32),
        "Student t, 4 degrees": lambda size: rng.standard_t(4, size).astype(np.float32),
        "Student t, 2.5 degrees": lambda size: rng.standard_t(2.5, size).astype(np.float32),
        "normal, scale drifting 1 to 10": lambda size: rng.standard_normal(size, dtype=np.float32) * np.linspace(1, 10, size, dtype=np.float32),
        "normal, 1 element in 1000": lambda size: rng.standard_normal(size, dtype=np.float32) * (rng.random(size) < 0.001),
    }
    return {law: {str(size): length(draw, size, rows) for size in (2**20, 2**22)} for law, draw in laws.items()}


def length(draw, size, rows):
    total = ClippedSum([(size,)], clip_norm=1.0, sigma=0.0, clipping="estimated")
    found, corrected = [], 0
    for _ in range(rows):
        total.add([10 * draw(size)[None]])
        corrected += total.corrected_rows
        found.append(float(np.linalg.norm(total.release()[0].astype(np.float64))))
    return {"mean": round(statistics.mean(found), 5), "least": round(min(found), 5), "corrected": corrected, "rows": rows}


if __name__ == "__main__":
    main()
