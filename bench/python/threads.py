"""How the time falls with the number of threads, beside copies by as many, and where memory takes over.

    python bench/python/threads.py [--threads 1,2,4,8,16] [--cipher aes256] [--out bench/results/threads-NAME.json]

The model: an element takes max(compute / threads, copy), where compute is the time of one thread on data in cache and copy that of
as many threads that only copy. One after the other, without any overlap, they would take their sum.
"""

import single_thread  # noqa: F401  before numpy

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Sequence

import numpy as np

import hushvec_cases
import machine
import report
from contestant import Contestant
from hushvec_cases import HushvecClip, HushvecNoise, clip_name, noise_name
from rounds import Outcome, run_rounds
from run import round_count, thread_counts
from workloads import CACHED_EMBEDDINGS_SHAPE, Workload

SCHEMA = 1
COUNTS = (1, 2, 4, 8, 16)
ROUNDS = 31

# 128 MB and 123 MB for each array: past every L3 but the largest, and long beside the start of 16 threads (some 30 us each).
FILL = Workload("gaussian_fill", "Gaussian fill, 2^25 float32", "gaussian", (1 << 25,))
CLIP = Workload("clip_and_noise", "Exact clip-and-noise, 40,000 x 768 float32", "clip_and_noise", (40_000, 768))
# What stays in an L2 of 1 MB.
CACHED_SAMPLES = {FILL.name: 1 << 16, CLIP.name: CACHED_EMBEDDINGS_SHAPE[0] * CACHED_EMBEDDINGS_SHAPE[1]}
COPIED_BYTES = 8
# User data of an element over that of a copied one: what the copy's time is multiplied by.
SHARE_OF_COPY = {FILL.name: 0.5, CLIP.name: 1.0}


class ThreadedCopy(Contestant):
    """`numpy.copyto` of equal parts, which lets go of the interpreter, by as many threads."""

    def __init__(self, threads: int) -> None:
        self.name = copy_name(threads)
        self._threads = threads
        self._source = np.empty(0, dtype=np.float32)

    def open(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads)

    def close(self) -> None:
        self._pool.shutdown()

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        if self._source.size != out.size:
            self._source = np.ones(out.size, dtype=np.float32)
        return self.clip_and_noise(self._source, 1.0, sigma, out)

    def clip_and_noise(self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray) -> np.ndarray:
        parts = zip(np.array_split(out, self._threads), np.array_split(x, self._threads))
        done, _ = wait([self._pool.submit(np.copyto, *part) for part in parts])
        for copied in done:
            copied.result()
        return out

    def complaint(self, workload: Workload) -> str:
        released = self.bind(workload)()
        source = self._source if workload.operation == "gaussian" else workload.x
        return "" if np.array_equal(released, source) else "the copy differs from its source"

    def bytes_per_item(self, operation: str) -> int:
        return COPIED_BYTES


def copy_name(threads: int) -> str:
    return f"memcpy, {threads} threads"


def model(compute: float, copies: dict[int, float], share: float) -> dict[str, Any]:
    """ns per element by number of threads, and the number from which memory is the limit.

    Args:
        compute: ns per element of one thread on data in cache.
        copies: ns per element of a copy by each number of threads.
        share: of a copied element's bytes that one element of the operation has.

    Returns:
        {"ns": {threads: max(compute / threads, share * copy)}, "without_overlap_ns": {threads: their sum},
        "memory_takes_over_at": threads}; the last is compute over the share of the fastest copy, as if more threads than were
        measured copied no faster.
    """
    parts = {count: (compute / count, share * copy) for count, copy in copies.items()}
    return {
        "ns": {count: max(both) for count, both in parts.items()},
        "without_overlap_ns": {count: sum(both) for count, both in parts.items()},
        "memory_takes_over_at": compute / (share * min(copies.values())),
    }


def measure(counts: Sequence[int], cipher: str, rounds: int, progress: Any) -> dict[str, Any]:
    """Times of both operations and of the copy, per element, by number of threads."""
    kinds = {FILL.name: (lambda n: HushvecNoise(cipher, n), lambda n: noise_name(cipher, n)),
             CLIP.name: (lambda n: HushvecClip(True, cipher, n), lambda n: clip_name(True, cipher, n))}
    found = {}
    for workload in (CLIP, FILL):
        make, name = kinds[workload.name]
        cached = make(1)
        cached.name, cached.sample_limit = f"{name(1)}, in cache", CACHED_SAMPLES[workload.name]
        run = [cached, *map(make, counts), *map(ThreadedCopy, counts)]
        outcome = _timed(workload, run, rounds, progress)
        compute = outcome.series[cached.name].median
        copies = {count: outcome.series[copy_name(count)].median for count in counts}
        found[workload.name] = {
            "title": workload.title,
            "compute_ns": compute,
            "ns": {count: outcome.series[name(count)].median for count in counts},
            "speed_up": {count: outcome.ratio(name(1), name(count)) for count in counts},
            "spread": {count: outcome.series[name(count)].spread for count in counts},
            "copy_ns": copies,
            "model": model(compute, copies, SHARE_OF_COPY[workload.name]),
        }
    return {"operations": found}


def _timed(workload: Workload, run: Sequence[Contestant], rounds: int, progress: Any) -> Outcome:
    """All of `run`, of which none may be missing or wrong."""
    for contestant in run:
        available, reason = contestant.available()
        if not available:
            raise SystemExit(f"{contestant.name}: {reason}")
    try:
        outcome = run_rounds(workload, run, rounds, progress)
    finally:
        for contestant in run:
            contestant.close()
    if outcome.wrong:
        raise SystemExit(f"wrong output: {outcome.wrong}")
    return outcome


def table(result: dict[str, Any]) -> str:
    rows = [["operation", "threads", "ns/element", "speed-up", "spread", "model", "no overlap", "copy", "copy GB/s"]]
    for operation in result["operations"].values():
        for count, ns in operation["ns"].items():
            copy = operation["copy_ns"][count]
            rows.append([operation["title"], str(count), f"{ns:.3f}", f"{operation['speed_up'][count]:.2f}x",
                         f"{100 * operation['spread'][count]:.1f} %", f"{operation['model']['ns'][count]:.3f}",
                         f"{operation['model']['without_overlap_ns'][count]:.3f}", f"{copy:.3f}", f"{COPIED_BYTES / copy:.1f}"])
    lines = [report.align(rows)]
    for operation in result["operations"].values():
        lines.append(f"{operation['title']}: {operation['compute_ns']:.3f} ns in cache; memory takes over at "
                     f"{operation['model']['memory_takes_over_at']:.1f} threads")
    return "\n".join(lines)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=thread_counts, metavar="1,2,4",
                        default=tuple(count for count in COUNTS if count <= cores))
    parser.add_argument("--cipher", choices=hushvec_cases.CIPHERS, default="aes256")
    parser.add_argument("--rounds", type=round_count, default=ROUNDS)
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args(arguments)
    if options.threads[-1] > cores:
        parser.error(f"threads must be at most {cores}, the cores of this machine, got {options.threads[-1]}")
    return options


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    facts = machine.facts(hushvec_cases.backends())
    print(machine.heading(facts))
    result = measure(options.threads, options.cipher, options.rounds, lambda text: print(text, file=sys.stderr))
    print(table(result))
    if options.out:
        settings = {"cipher": options.cipher, "rounds": options.rounds}
        report.write_json({"schema": SCHEMA, **facts, "settings": settings, **result}, options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
